"""Branches of a net that share their parameters: made, and found where they came apart."""
