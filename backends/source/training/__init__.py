"""What the training scripts beside every kind of source share: groups, rates, loss, comments."""
