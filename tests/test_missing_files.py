"""A file that is not there is one error, whatever was to be read, with the name that may be meant."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner

import regraft
from regraft.cli import invoke, main
from regraft.ir import ModelError, missing_file
from regraft.verification.runners.emitted_folder import import_model


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "none.onnx"],
        ["check", "none.py"],
        ["fix", "none.py:Net"],
        ["diff", "none.pth", "net.pth"],
        ["verify", "none.onnx", "none.onnx"],
        ["show", "net.onnx", "--data", "none.npz"],
        ["sweep", "none.toml", "-o", "out"],
        ["--config", "none.toml", "show", "net.onnx"],
    ],
    ids=lambda words: words[0],
)
def test_commands_say_that_there_is_no_such_file(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "E101 no such file: `none." in done.stderr
    assert f"hint: the working folder is `{tmp_path}`" in done.stderr


def test_the_hint_names_a_similar_file_or_the_folder_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("resnet.py", "resnet.onnx"):
        (tmp_path / name).touch()
    assert missing_file("resnt.py").hint == "did you mean `resnet.py`?"
    assert missing_file(tmp_path / "resnet.pt").hint.startswith("did you mean `")
    assert (
        missing_file("models/net.py").hint
        == f"there is no folder `models` in the working folder, `{tmp_path}`"
    )
    assert missing_file("resnet.py/net.py").hint == f"the working folder is `{tmp_path}`"
    done = CliRunner().invoke(main, ["check", "resnet"])
    assert (
        "E001 expected a model, got `resnet`, which is no file or folder\nhint: did you mean" in done.stderr
    )


def test_the_hints_of_two_usual_slips_say_what_to_type() -> None:
    with pytest.raises(ModelError, match="give whole numbers where the model looks up by them"):
        regraft.load(torch.nn.Embedding(5, 3), ["2x7"])
    done = CliRunner().invoke(main, ["explain", "RP999"])
    assert "hint: `regraft explain` lists all codes" in done.stderr


def test_a_folder_of_mxnet_files_is_told_by_the_name_of_its_symbol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    encoder = str(Path(__file__).parents[1] / "examples" / "encoder.onnx")
    folder = tmp_path / "written"
    folder.mkdir()
    (folder / "net-symbol.json").touch()
    (folder / "net-0000.params").touch()
    for arguments in (["show", "written"], ["verify", encoder, "written"]):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2
        assert "hint: name the file: written/net-symbol.json" in done.stderr


def test_a_written_folder_whose_framework_is_missing_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("import torch\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModelError, match=r"E105 expected `torch` to be installed") as raised:
        import_model(tmp_path / "model.py", lambda *_: AssertionError())
    assert raised.value.hint == 'pip install "regraft[torch]"'


def test_no_command_prints_the_help_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text, err: told.append(text) if err else None)
    assert invoke([]) == 2
    (text,) = told
    assert text.startswith("Usage: regraft")


def test_inputs_of_a_diff_ask_for_the_net_of_a_written_folder(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    encoder = str(Path(__file__).parents[1] / "examples" / "encoder.onnx")
    done = CliRunner().invoke(main, ["diff", encoder, str(tmp_path), "--input", "1x8:int64"])
    assert done.exit_code == 2
    assert f"hint: name the net of the folder: `{tmp_path / 'model.py'}:build`" in done.stderr
