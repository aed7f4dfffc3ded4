"""Finds modules in a flat graph, by names and by repeated structure."""
