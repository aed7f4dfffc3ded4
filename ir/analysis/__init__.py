"""What is told from a graph: its layers, where its functions bend, what depends on which inputs."""
