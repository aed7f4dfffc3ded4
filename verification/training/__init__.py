"""One training step on both sides, compared: gradients, running statistics, values after the step."""
