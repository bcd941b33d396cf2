"""Find the operation on which a compile step fails."""
