"""Passes that make products of matrices the layers and primitives that compute them."""
