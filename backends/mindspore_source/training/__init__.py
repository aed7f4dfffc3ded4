"""Writes train.py beside an emitted net: loss, groups, optimizer, learning rates and one step."""
