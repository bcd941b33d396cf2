"""Small things every layer uses: frozen records, text, file stamps."""
