"""NVIDIA GPUs: one gpu.module to PTX and a cubin."""
