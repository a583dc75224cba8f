"""Subprocesses, limits, signals, lazy imports and lists on disk."""
