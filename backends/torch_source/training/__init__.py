"""Writes train.py beside an emitted module: loss, groups, optimizer, learning rates and one step."""
