"""Image formats: `files.py` opens their files, and `write.py` writes them."""
