"""Compares models larger than memory: both sides run in pieces, with the weights of one piece at a time."""
