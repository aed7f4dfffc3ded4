"""What a checkpoint and a net lack of each other comes with the map that leaves it out or pairs it."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regraft import ModelError, convert_checkpoint

NET = """
from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.Dense(4, 6)
        self.{name} = nn.Dense(6, {classes})

    def construct(self, x):
        return self.{name}(self.body(x))
"""


@pytest.mark.parametrize(
    ("name", "classes", "hint"),
    [
        ("fc", 3, 'with --map FILE: {"fc": null}'),
        ("head", 5, None),
        ("head", 3, 'pair a layer of one net with a layer of the other with --map FILE: {"fc": "head"}'),
    ],
    ids=["another size", "another name", "another name and size"],
)
def test_the_hint_has_the_map(name: str, classes: int, hint: str | None, tmp_path: Path) -> None:
    source = nn.ModuleDict({"body": nn.Linear(4, 6), "fc": nn.Linear(6, 5)})
    torch.save(source.state_dict(), tmp_path / "net.pth")
    (tmp_path / "port.py").write_text(NET.format(name=name, classes=classes))
    arguments = (tmp_path / "net.pth", tmp_path / "net.ckpt")
    if hint is None:
        convert_checkpoint(*arguments, like=f"{tmp_path / 'port.py'}:Net")
        return
    with pytest.raises(ModelError) as raised:
        convert_checkpoint(*arguments, like=f"{tmp_path / 'port.py'}:Net")
    assert raised.value.code == "E801"
    assert raised.value.hint.endswith(hint)
