"""Knows where functions jump: draws inputs there, and tells where rounding decides from where it does not."""
