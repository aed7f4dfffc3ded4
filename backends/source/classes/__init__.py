"""Turns definitions into classes: those of one structure share a class, with arguments where they differ."""
