"""AMD GPUs: one gpu.module to an AMD code object."""
