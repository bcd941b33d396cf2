"""Reductions over workgroups, recognised and vectorised."""
