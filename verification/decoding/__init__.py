"""Compares a decoder's steps, each fed the cache of the step before, with one pass over all tokens."""
