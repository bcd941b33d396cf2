"""What a target is, and the facts of each vendor: chips, features, file suffixes."""
