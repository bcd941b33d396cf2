"""From the NVVM and LLVM dialects to code that asks its work-item."""
