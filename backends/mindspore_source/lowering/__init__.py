"""Rewrites of the graph for MindSpore, before anything is written."""
