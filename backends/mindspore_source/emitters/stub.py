"""The class of stubs in an emitted file, which a person replaces by Cells."""

STUB = '''class Unsupported(nn.Cell):
    """STUB: an operator that regraft cannot write. Replace each one by a Cell that computes it.

    Args:
        source: the call in the source; x0, x1, … are the inputs of `construct`, in order.
        outputs: types and shapes of the results that the net uses.
        reason: why it is a stub.
    """

    def __init__(self, source, outputs, reason):
        super().__init__()
        self.source, self.outputs, self.reason = source, outputs, reason

    def construct(self, *inputs):
        raise NotImplementedError(f"{self.source} -> {self.outputs}: {self.reason}")
'''
"""The class of stubs in an emitted file."""
