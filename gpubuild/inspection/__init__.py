"""Reading what builds produce: executables, cubins, hsacos, containers, ``.binary.mlir``."""
