"""Lowering from the NVVM and LLVM dialects to code that reads its work-item."""
