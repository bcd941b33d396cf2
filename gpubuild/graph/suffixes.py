"""Suffixes: what the name of a source says about it."""

from __future__ import annotations

MLIR_SUFFIXES = frozenset({".mlir"})
C_SUFFIXES = frozenset({".c"})
CXX_SUFFIXES = frozenset({".cpp", ".cc", ".cxx"})
LLVM_SUFFIXES = frozenset({".ll", ".bc"})
OBJECT_SUFFIXES = frozenset({".o"})
ARCHIVE_SUFFIXES = frozenset({".a"})
