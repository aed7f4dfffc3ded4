"""Analyses of a graph: its layer table, where its functions bend, what depends on which inputs."""
