"""What a step does: MLIR passes, LLVM code generation, assembling and linking. Runs in workers only."""
