"""The command line: options, thin commands and one boundary for errors."""
