"""What the engine finds out about a source before any target is known."""
