"""Functions of C's mathematics as LLVM IR, for CPUs and AMD GPUs."""
