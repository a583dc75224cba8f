"""One input: prepared, read, pooled and written."""
