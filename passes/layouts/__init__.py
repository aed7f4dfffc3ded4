"""The order of a value's axes: what computes the same in another, and what is a view in another."""
