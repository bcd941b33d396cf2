"""Functions of C's mathematics as LLVM IR of our own, for CPUs and AMD GPUs."""
