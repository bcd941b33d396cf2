"""CPUs: one gpu.module to a shared object whose kernels loop over work-items."""
