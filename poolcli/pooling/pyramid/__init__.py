"""One array to an OME-Zarr store of it and of smaller levels."""
