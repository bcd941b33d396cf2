"""The command line: text in, text out. Nothing here is imported before its command is known."""
