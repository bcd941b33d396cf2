"""Executors: where steps run."""
