"""The step graph: planning and ordering. The only package that imports networkx."""
