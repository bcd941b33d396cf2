"""Which work-items of a workgroup reach which of the operations that they must reach together."""
