"""Traces code that goes on by data: by numbers of elements, and by truth values."""
