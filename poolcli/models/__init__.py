"""Pooling layers found in model files, and whether their declared shapes are the computed ones."""
