"""Host code: lowering, async tokens, gpu.binary, the container of images."""
