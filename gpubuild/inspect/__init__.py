"""What an executable, object file or device image carries: modules, targets, kernels, resources."""
