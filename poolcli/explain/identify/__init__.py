"""Finds the pooling that turns one array into another."""
