"""Values of type `!gpu.async.token`: which stream each one stands for."""
