"""Runs a source in another Python process, if its framework is not installed here."""
