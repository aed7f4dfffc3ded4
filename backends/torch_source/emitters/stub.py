"""The class of stubs in an emitted file, which a person replaces by modules."""

STUB = '''class Unsupported(nn.Module):
    """STUB: an operator that regraft cannot write. Replace each one by a module that computes it.

    Args:
        source: the call in the source; x0, x1, … are the arguments of `forward`, in order.
        outputs: types and shapes of the results that the net uses.
        reason: why it is a stub.
    """

    def __init__(self, source, outputs, reason):
        super().__init__()
        self.source, self.outputs, self.reason = source, outputs, reason

    def forward(self, *inputs):
        raise NotImplementedError(f"{self.source} -> {self.outputs}: {self.reason}")
'''
"""The class of stubs in an emitted file."""
