"""The SCons tool, which provides ``env.GpuProgram``. The only package that imports SCons."""
