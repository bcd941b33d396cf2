"""SCons: the tool that makes ``env.GpuProgram`` of a targets.yaml. The only package that imports SCons."""
