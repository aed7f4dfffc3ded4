"""What a comparison of numbers does not show: which weights are one, and what acts in training only."""
