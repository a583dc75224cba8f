"""Integers and words: windows, layouts, types, errors. Nothing here knows of any operator or file."""
