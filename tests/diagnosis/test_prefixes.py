"""A Cell that leaves its path out of its parts' names is named at its line, and fixed there."""

from __future__ import annotations

from pathlib import Path

import pytest

import regraft

NET = """from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        {}
        self.head = nn.Dense(4, 2)
        self.tail = nn.Dense(2, 2)

    def construct(self, x):
        return self.tail(self.head(x))
"""


@pytest.mark.parametrize(
    ("call", "fixed"),
    [
        ("super().__init__(auto_prefix=False)", "super().__init__(auto_prefix=True)"),
        ("super(Net, self).__init__(False)", "super(Net, self).__init__(True)"),
    ],
)
def test_names_that_clash_by_auto_prefix(call: str, fixed: str, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(NET.format(call))
    finding = next(f for f in regraft.check(f"{file}:Net") if f.code == "RP101")
    assert finding.advice.startswith("auto_prefix=True at net.py:6, or ")
    ported = regraft.check(f"{file}:Net", ported_from="torch")
    assert "net.py:6" in [f.place for f in ported if f.code == "PT120"]
    regraft.fix(f"{file}:Net", "2x4", write=True)
    assert file.read_text() == NET.format(fixed)
    assert not [f for f in regraft.check(f"{file}:Net") if f.code == "RP101"]
