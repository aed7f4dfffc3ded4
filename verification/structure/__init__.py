"""Compares what numbers do not show: which weights are shared, and what acts in training only."""
