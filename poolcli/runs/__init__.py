"""Many inputs: which files, to which outputs, and the run of each."""
