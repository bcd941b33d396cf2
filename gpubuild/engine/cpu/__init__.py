"""The CPU back end: gpu.module to a shared object of x86-64 or AArch64 kernels."""
