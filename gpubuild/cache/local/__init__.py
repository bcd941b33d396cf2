"""The local cache: one folder with an index and content-addressed files."""
