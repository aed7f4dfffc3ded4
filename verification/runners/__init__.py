"""The runtimes: each runs a model of one framework and records every module call."""
