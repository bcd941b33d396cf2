"""Finding, fingerprinting and running external tools: the only subprocess calls."""
