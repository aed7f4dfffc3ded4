"""Scripts as their authors run them, broken and whole, as text that a test writes into a file."""

RESIDUAL = '''"""A net that is put together in the file, group by group."""

from mindspore import nn


class Residual(nn.Cell):
    def __init__(self, before, width, project=False, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride=stride, pad_mode="same")
        self.conv2 = nn.Conv2d(width, width, 3, pad_mode="same")
        self.conv3 = nn.Conv2d(before, width, 1, stride=stride) if project else None
        self.bn1 = nn.BatchNorm2d(width)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()

    def FORWARD(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.conv3 is not None:
            x = self.conv3(x)
        return self.relu(y + x)


def group(before, width, blocks, first=False):
    """Blocks in a row."""
    made = []
    for i in range(blocks):
        if i == 0 and not first:
            STRAY
            made.append(Residual(before, width, project=True, stride=2))
        else:
            made.append(Residual(width, width))
    return nn.SequentialCell(*made)


net = nn.SequentialCell(
    nn.Conv2d(1, 4, 7, stride=2, pad_mode="same"),
    nn.BatchNorm2d(4),
    nn.ReLU(),
)
'''

OPTIMIZER = "optimizer = nn.Adam(net.trainable_params(), learning_rate=1e-3)\n"

INSERTED = """net.insert_child_to_cell("group1", group(4, 4, 2, first=True))
net.insert_child_to_cell("group2", group(4, 8, 2))
"""

LISTED = "net.groups = nn.CellList([group(4, 4, 2, first=True), group(4, 8, 2)])\n"

APPENDED = """net.append(group(4, 4, 2, first=True))
net.append(group(4, 8, 2))
"""

PARENT = """stem = net


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.stem = stem
        REGISTER1
        REGISTER2

    def construct(self, x):
        return self.group2(self.group1(self.stem(x)))


net = Net()
"""


def script(tail: str, *, forward: str = "construct", stray: str = "pass") -> str:
    """The residual net's file with an end of its own."""
    return RESIDUAL.replace("FORWARD", forward).replace("STRAY", stray) + tail + OPTIMIZER


def parent(*, inserted: bool) -> str:
    """The same with a Cell around the groups, which calls both."""
    made = ("group(4, 4, 2, first=True)", "group(4, 8, 2)")
    text = PARENT
    for number, cell in enumerate(made, 1):
        line = (
            f'self.insert_child_to_cell("group{number}", {cell})'
            if inserted
            else f"self.group{number} = {cell}"
        )
        text = text.replace(f"REGISTER{number}", line)
    return script(text)


POSTED = script(INSERTED, forward="forward", stray="nn.Conv2d(before, width, 1)")
"""As posted: `forward`, a stray layer, groups that are inserted, and an optimizer that raises."""
