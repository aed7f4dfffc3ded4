"""Prints classes as Python text."""
