"""Vectors on GPUs and CPUs."""

from vectors.kernels import saxpy

__all__ = ["saxpy"]
