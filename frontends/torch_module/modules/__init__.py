"""The modules of a net: their tree, and the initial distributions of their parameters."""
