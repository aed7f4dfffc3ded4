"""Finds faults in the names of parameters, and the registration that causes each."""
