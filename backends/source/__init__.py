"""Writes Python classes: the part of a source backend that every target shares."""
