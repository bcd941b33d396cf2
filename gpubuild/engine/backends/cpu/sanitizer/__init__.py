"""Instrumentation for `sanitize:`: bounds, races, barriers, uninitialised memory."""
