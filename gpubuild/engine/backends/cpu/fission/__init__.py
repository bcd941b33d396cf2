"""Kernels with barriers as loops over work-items between the barriers."""
