"""Groups, rates, losses and comments of the training scripts beside every kind of source."""
