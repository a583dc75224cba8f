"""Runs over many inputs: which files, to which outputs, the manifest, and where jobs run."""
