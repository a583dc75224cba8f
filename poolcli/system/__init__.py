"""Subprocesses, limits, signals and lazy imports."""
