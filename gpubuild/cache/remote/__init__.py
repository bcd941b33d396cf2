"""Shared caches over HTTP."""
