"""Frozen values every layer speaks in: targets, projects, steps, digests, results."""
