"""What is wrong with the names of parameters, and which registration is the cause."""
