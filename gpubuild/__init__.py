"""gpubuild: build multi-target GPU programs written in MLIR's gpu dialect.

Importing this package imports nothing heavy; see ``docs/design/architecture.md`` for the layers.
"""

__version__ = "0.1.0.dev0"
