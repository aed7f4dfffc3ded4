"""The duplicate-name net: `insert_child_to_cell` adds no prefix, so both groups' parameters share names.

`DuplicateNames` calls its groups itself. `NeverRun` inserts the same groups into a SequentialCell, whose
`construct` knows only the Cells it was made with: they are registered, trained by no gradient, and never run.
"""

from mindspore import nn


class Residual(nn.Cell):
    """Two convolutions around a shortcut."""

    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()

    def construct(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + x)


def group(width, blocks=2):
    """Residual blocks in a row."""
    return nn.SequentialCell(*[Residual(width) for _ in range(blocks)])


class DuplicateNames(nn.Cell):
    """A stem, two residual groups and a head on (N, 3, H, W) images."""

    def __init__(self, width=8, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 2)
        for number in (1, 2):
            self.insert_child_to_cell(f"group{number}", group(width))
        self.head = nn.Dense(width, classes)

    def construct(self, x):
        x = self.stem(x)
        x = self.group1(x)
        x = self.group2(x)
        return self.head(x.mean((2, 3)))


class NeverRun(nn.Cell):
    """The same groups, inserted into a SequentialCell that goes on running only its first Cell."""

    def __init__(self, width=8, classes=10):
        super().__init__()
        self.body = nn.SequentialCell(nn.Conv2d(3, width, 3, 2))
        self.body.insert_child_to_cell("group1", group(width))
        self.body.insert_child_to_cell("group2", group(width))
        self.head = nn.Dense(width, classes)

    def construct(self, x):
        return self.head(self.body(x).mean((2, 3)))
