"""Plain records that the layers exchange: project, step, job, result."""
