"""C and C++ sources, the runtime library, linking."""
