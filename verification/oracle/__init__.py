"""Runs a source whose framework is not at hand in another Python that has it, in a process of its own."""
