"""What users may rely on, compared with a stored list: a removal fails, an addition asks to be recorded.

`public.json` has a line for each name, parameter, option and code, and for each key of `--json` and of files.
A line that is gone is a new major version; `pytest tests/stability --update-goldens` records new ones.
"""

import inspect
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file, save_file

import regraft
from regraft.api.explanations.lookup import known_codes
from regraft.cli import main
from regraft.frontends.training_script import Script
from regraft.verification.certificate import recheck

HERE = Path(__file__).resolve().parent
STORED = HERE / "public.json"
OLD = HERE / "written_by_1.0"


def public_names() -> Iterator[str]:
    """Every name of `import regraft`, with parameters of functions, and fields and methods of classes."""
    for name in sorted(regraft.__all__):
        value = getattr(regraft, name)
        if inspect.isclass(value):
            yield f"{name} class"
            public = {key for key in dir(value) if not key.startswith("_")} | set(_fields(value))
            if issubclass(value, Exception):
                public -= set(dir(Exception))
            for key in sorted(public):
                yield f"{name}.{key}"
                if inspect.isfunction(getattr(value, key, None)):
                    yield from _parameters(f"{name}.{key}", getattr(value, key))
        elif callable(value):
            yield f"{name} function"
            yield from _parameters(name, value)


def _fields(value: type) -> Iterable[str]:
    return [key for key in getattr(value, "__dataclass_fields__", {}) if not key.startswith("_")]


def _parameters(name: str, function: object) -> Iterator[str]:
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.name == "self":
            continue
        by_name = parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        takes_many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        needed = "required" if parameter.default is parameter.empty and not takes_many else "optional"
        yield f"{name}({parameter.name}) {'by name' if by_name else f'place {place}'}, {needed}"


def commands() -> Iterator[str]:
    """Every command with its arguments, options and what an option may be."""
    assert isinstance(main, click.Group)
    for name, command in {"regraft": main, **main.commands}.items():
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                yield f"{name} {parameter.human_readable_name}"
            elif not getattr(parameter, "hidden", False):
                for option in (*parameter.opts, *parameter.secondary_opts):
                    yield f"{name} {option}{'' if parameter.is_flag else '='}"  # type: ignore[attr-defined]
                    if isinstance(parameter.type, click.Choice):
                        yield from (f"{name} {option}={choice}" for choice in parameter.type.choices)


def codes() -> Iterator[str]:
    """Every code of an error or a finding."""
    for meanings in known_codes().values():
        yield from meanings


MAPS = (
    *("attributes", "axioms", "calls", "constants", "counts", "misfits"),
    *("models", "modules", "skipped", "slots", "tensors"),
)
"""Keys of objects whose own keys are names of a model, of passes, or of what is counted."""

DETAILS = tuple(
    f"{report}.{part}"
    for report in ("verify", "rewrite.verified")
    for part in ("laws", "nets", "recipes", "structure")
)
"""Objects whose keys are not promised: they say what was found for single causes."""


def keys(value: object, path: str) -> Iterator[str]:
    """Yield `path.key type` for all that a document holds; null is no type."""
    if isinstance(value, dict):
        yield f"{path} object"
        if path in DETAILS:
            return
        is_map = path.rsplit(".", 1)[-1] in MAPS
        for key, held in value.items():
            yield from keys(held, f"{path}.{'*' if is_map else key}")
    elif isinstance(value, list):
        yield f"{path} list"
        for held in value:
            yield from keys(held, f"{path}[]")
    else:
        kinds = {bool: "bool", int: "number", float: "number", str: "text", type(None): "any"}
        yield f"{path} {kinds[type(value)]}"


def save(path: Path, bias: float = 0.0) -> None:
    """Write a net of two layers."""
    draw = np.random.default_rng(0)
    held = {
        "conv.weight": draw.normal(size=(4, 3, 3, 3), scale=0.3),
        "conv.bias": draw.normal(size=4),
        "head.weight": draw.normal(size=(2, 4), scale=0.5),
        "head.bias": draw.normal(size=2) + bias,
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "head.weight", "head.bias"], ["y"], transB=1),
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [2, 3, 4, 4]), ("y", [2, 2]))
    ]
    weights = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in held.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2, bias={bias})

    def forward(self, x):
        return torch.relu(self.head(x))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x))


def batches():
    return [{{"x": torch.ones(2, 4)}}]


def shifted():
    return [{{"x": torch.ones(2, 4) + 1}}]
"""

RUNS = (
    ("check", 0, "check net.onnx"),
    ("check", 1, "check torch_net.py:Twice --input 2x4"),
    ("check", 1, "check torch_net.py"),
    ("error", 2, "check absent.onnx"),
    ("verify", 0, "verify net.onnx again.onnx"),
    ("verify", 1, "verify torch_net.py:Net torch_port.py:Net --input 2x4 --train"),
    ("verify", 0, "verify torch_net.py:Net torch_net.py:Net --input 2x4 --train"),
    ("diff models", 1, "diff net.onnx other.onnx"),
    ("diff --weights", 1, "diff net.onnx other.onnx --weights"),
    ("certify", 0, "certify net.onnx again.onnx -o certificate.json"),
    ("convert-checkpoint", 0, "convert-checkpoint old.safetensors new.safetensors --map renames.json"),
    ("compare-data", 0, "compare-data torch_net.py:batches torch_port.py:batches"),
    ("compare-data", 1, "compare-data torch_net.py:batches torch_net.py:shifted"),
    ("diff MODEL FILE", 1, "diff torch_net.py:Net old.safetensors"),
    ("diff runs", 1, "diff run_a run_b"),
    ("explain CODE", 0, "explain RP101"),
    ("explain PASS", 0, "explain move-transposes"),
    ("fix", 0, "fix torch_net.py:Net --input 2x4"),
    ("passes", 0, "passes"),
    ("show", 0, "show net.onnx"),
    ("rewrite", 0, "rewrite net.onnx -o written.onnx --to onnx"),
    ("repair-checkpoint", 0, "repair-checkpoint torch_net.py:Net head.safetensors -o repaired.safetensors"),
    ("repair-checkpoint", 1, "repair-checkpoint torch_net.py:Net old.safetensors -o part.safetensors"),
    ("sweep", 0, "sweep suite.toml -o swept"),
)
"""(document, exit code, command): runs whose keys together are those of a command's document."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stable")
    save(made / "net.onnx")
    save(made / "other.onnx", 0.25)
    for name, bias in (("torch_net.py", True), ("torch_port.py", False)):
        (made / name).write_text(NET.format(bias=bias))
    for path in OLD.glob("*"):
        shutil.copy(path, made)
    shutil.copy(OLD / "weights.safetensors", made / "old.safetensors")
    head = {"head.weight": np.ones((2, 4), np.float32), "head.bias": np.ones(2, np.float32)}
    save_file(head, made / "head.safetensors")
    for run, factor in (("run_a", 1.0), ("run_b", 2.0)):
        (made / run).mkdir()
        for epoch in (1, 2):
            values = {name: value * (1 + factor * epoch) for name, value in head.items()}
            save_file(values, made / run / f"epoch_{epoch}.safetensors")
    (made / "suite.toml").write_text('to = ["onnx"]\n[[models]]\nmodel = "net.onnx"\n')
    return made


@pytest.fixture(scope="module")
def documents(folder: Path) -> dict[str, list[object]]:
    """Document -> list of what each of its runs printed, and of what was written."""
    found: dict[str, list[object]] = {}
    runner = CliRunner()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        written = ["rewrite", "net.onnx", "-o", "again.onnx", "--to", "onnx"]
        assert runner.invoke(main, written).exit_code == 0
        for name, code, command in RUNS:
            done = runner.invoke(main, [*command.split(), "--json"])
            assert done.exit_code == code, (command, done.output)
            found.setdefault(name, []).append(json.loads(done.stdout))
    for name, file in (("renames.json", "again.renames.json"), ("certificate.json", "certificate.json")):
        found[name] = [json.loads((folder / file).read_text())]
    return found


def document_keys(documents: dict[str, list[object]]) -> Iterator[str]:
    for name, values in documents.items():
        found = {line for value in values for line in keys(value, name)}
        typed = {line.rpartition(" ")[0] for line in found if not line.endswith(" any")}
        yield from (line for line in found if not line.endswith(" any") or line[:-4] not in typed)


def compare(part: str, lines: Iterable[str], update: bool) -> None:
    """Compare lines with those that are stored."""
    held = json.loads(STORED.read_text()) if STORED.exists() else {}
    found, stored = set(lines), set(held.get(part, ()))
    if update:
        held[part] = sorted(found | stored)
        STORED.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    gone, new = sorted(stored - found), sorted(found - stored)
    assert not gone, f"gone, which is a new major version: {gone}"
    known = {line.partition("(")[0].partition(" ")[0] for line in stored}
    asked = [line for line in new if line.endswith("required") and line.partition("(")[0] in known]
    assert not asked or not stored, f"newly required, which is a new major version: {asked}"
    assert update or not new, f"new, to be recorded (pytest tests/stability --update-goldens): {new}"


def test_a_comparison_tells_removals_from_additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "STORED", tmp_path / "public.json")
    first = ["check(model) place 0, required", "check(dtype) by name, optional"]
    compare("python", first, update=True)
    compare("python", first, update=False)
    with pytest.raises(AssertionError, match="gone, which is a new major version"):
        compare("python", first[:1], update=False)
    with pytest.raises(AssertionError, match="gone"):
        compare("python", first[:1], update=True)  # records nothing that hides it
    with pytest.raises(AssertionError, match="newly required"):
        compare("python", [*first, "check(target) place 1, required"], update=False)
    with pytest.raises(AssertionError, match="to be recorded"):
        compare("python", [*first, "check(depth) by name, optional"], update=False)


def test_names_and_parameters(update_goldens: bool) -> None:
    compare("python", public_names(), update_goldens)


def test_commands_and_options(update_goldens: bool) -> None:
    compare("commands", commands(), update_goldens)


def test_keys_of_recipes(update_goldens: bool) -> None:
    compare("recipes", (field.name for field in fields(Script)), update_goldens)


def test_codes(update_goldens: bool) -> None:
    compare("codes", codes(), update_goldens)


def test_keys_of_documents(documents: dict[str, list[object]], update_goldens: bool) -> None:
    compare("documents", document_keys(documents), update_goldens)


def test_a_map_of_1_0_converts_weights(tmp_path: Path) -> None:
    given = [OLD / "weights.safetensors", tmp_path / "new.safetensors", "--map", OLD / "renames.json"]
    done = CliRunner().invoke(main, ["convert-checkpoint", *map(str, given)])
    assert done.exit_code == 0, done.output
    before, after = load_file(given[0]), load_file(given[1])
    assert sorted(after) == sorted(
        ["conv.weight", "conv.bias", "head.weight", "head.bias"]
        + [f"norm.{name}" for name in ("gamma", "beta", "moving_mean", "moving_variance")]
    )
    assert after["conv.weight"].shape == (2, 3, 1, 2)
    assert np.array_equal(after["conv.weight"].ravel(), before["conv.weight"].ravel())
    assert np.array_equal(after["norm.moving_variance"], before["norm.running_var"])


@pytest.mark.parametrize("changed", [False, True])
def test_a_certificate_of_1_0_is_checked_again(tmp_path: Path, changed: bool) -> None:
    document = json.loads((OLD / "old.certificate.json").read_text())
    if changed:
        (product,) = [node for node in document["target"]["nodes"] if node["op"] == "Gemm"]
        product["attributes"]["alpha"] = 2.0
    path = tmp_path / "old.certificate.json"
    path.write_text(json.dumps(document))
    for tensors in OLD.glob("old.certificate*.safetensors"):
        shutil.copy(tensors, tmp_path)
    assert (recheck.main([str(path)]) != 0) == changed
