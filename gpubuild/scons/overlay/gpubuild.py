"""Installed as ``SCons/Tool/gpubuild.py``, where SCons finds tools by name."""

from gpubuild.scons.tool import exists, generate

__all__ = ["exists", "generate"]
