"""What a cache raises. Its own faults it only reports."""


class DestinationError(Exception):
    """The file to copy a blob to cannot be written: the build folder's fault, not the cache's."""
