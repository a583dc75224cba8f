"""The engine whose loops numba compiles."""
