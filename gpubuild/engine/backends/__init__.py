"""Back ends: one folder for each vendor."""
