"""Operators whose settings a run computes: axes, sizes and bounds that are tensors."""
