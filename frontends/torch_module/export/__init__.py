"""From a live module to an exported program: how torch.export is made to take it."""
