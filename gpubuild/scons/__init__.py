"""The SCons tool: ``env.GpuProgram``."""
