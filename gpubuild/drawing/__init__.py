"""Pictures of a build's steps: SVG, Graphviz, Mermaid, JSON."""
