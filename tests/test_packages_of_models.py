"""A file of a package is a model too: its relative imports work, and those by the name of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

import regraft

LAYER = """from torch import nn


class Layer(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)
"""
NET = "from {} import Layer\n\n\nclass Net(Layer):\n    pass\n"


@pytest.mark.parametrize("marked", [True, False], ids=["__init__.py", "a plain folder"])
@pytest.mark.parametrize("imported", [".layers", "..zoo.layers", "zoo.layers"])
def test_file_of_a_package(
    imported: str, marked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"zoo_{marked}_{len(imported)}"  # the process keeps imported packages
    folder = tmp_path / f"models_{name}" / name
    folder.mkdir(parents=True)
    (folder / "layers.py").write_text(LAYER)
    (folder / "net.py").write_text(NET.format(imported.replace("zoo", name)))
    if marked:
        (folder / "__init__.py").touch()
    monkeypatch.chdir(folder.parent if imported[0] != "." and not marked else tmp_path)
    graph = regraft.load(f"{folder / 'net.py'}:Net", ["2x4"])
    assert [parameter.declared for parameter in graph.parameters()] == ["weight", "bias"]
