"""Rewrites of what upstream's conversions lack or get wrong."""
