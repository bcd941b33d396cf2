"""Helpers for MLIR and LLVM IR: contexts, builders, queries, locations, dumps."""
