"""Opens programs of `torch.export.save` as data: nothing that a file holds is executed or imported."""
