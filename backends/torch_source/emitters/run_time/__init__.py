"""Operators whose settings a run computes, and functions of an emitted file's own that compute them."""
