"""Finds the modules of a flat graph, by names and by repeated structure."""
