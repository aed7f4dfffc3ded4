"""Passes that write subscripts, slices and indices in the forms that MindSpore has."""
