"""The engine to be read beside the specification."""
