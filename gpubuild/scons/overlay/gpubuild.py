"""Installed as ``SCons/Tool/gpubuild.py``, where SCons looks for tools by name."""

from gpubuild.scons.tool import exists, generate

__all__ = ["exists", "generate"]
