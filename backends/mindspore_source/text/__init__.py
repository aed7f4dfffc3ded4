"""From classes to Python text."""
