"""The build core: plan, cache, executor and engine, joined by one builder."""
