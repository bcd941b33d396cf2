"""From a project to the graph of its steps."""
