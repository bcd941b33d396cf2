"""The report of a project's builds: one HTML file that needs nothing else."""
