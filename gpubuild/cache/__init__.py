"""Result caches: local, remote, or none."""
