"""SPIR-V: one gpu.module to a SPIR-V module for OpenCL."""
