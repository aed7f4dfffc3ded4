"""How much of ONNX's own test suite is read and written again: node tests, converted cases, light models.

    regraft sweep benchmarks/suites/conformance.toml -o out/conformance [--only REGEX]
    python benchmarks/suites/conformance.py out/conformance/rows.jsonl

Cases and expected outputs are those of the `onnx` package. A case is right when every output has the
suite's shape, type and values, within the case's own tolerance. `onnx` writes what was read, `rewritten` what
the default passes made of it, `mindspore` and `torch` emit source and run it; beside them `onnx2torch`, where
that package is installed, runs its own module. Operators of the domain `ai.onnx` are judged: in the first two
modes what ONNX Runtime computes rightly from the original file, in the others those whose types the framework
has and whose results are not drawn at random.

The suite gives axes, shapes and counts as inputs of the model, where models have constants. A case that is
refused for them is tried again, as `fixed`: settings given as inputs are taken as constants. What is right
only so is counted apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
import tempfile
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from corpus_torch import run_emitted
from verdicts import LEFT_OUT, answer, read_rows, wrong

PEER = "onnx2torch"
"""A converter of others, on the cases of `torch`."""
MODES = ("onnx", "rewritten", "mindspore", "torch", PEER)
FIXED = "fixed"
"""What becomes of a case that `mindspore` refuses, once settings given as inputs are constants."""
KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
_OTHER = re.compile("float8|float4|int4|int2|e8m0|bfloat16", re.IGNORECASE)
_RANDOM = re.compile("bernoulli|training_dropout(?!_zero)")
"""Cases whose expected outputs are one draw of many."""
_LIGHT = {"rtol": 1e-3, "atol": 1e-5}
_ARITHMETIC = (
    *(
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Mod",
        "Neg",
        "Abs",
        "Min",
        "Max",
        "Ceil",
        "Floor",
        "Relu",
        "Equal",
        "Where",
    ),
    *(
        "Cast",
        "CastLike",
        "Concat",
        "Gather",
        "Identity",
        "If",
        "Pad",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
    ),
    "Unsqueeze",
)
"""What computes settings from others."""
_MOST = 64  # elements of a setting


@cache
def suite() -> dict[str, Any]:
    """Every case by its kind and name, with its model and its data sets; light models without expectation."""
    import onnx.backend.test.loader as stored
    from onnx.backend.test.case.node import collect_testcases

    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for case in collect_testcases(None):
        found[f"node/{case.name}"] = case
    for kind in KINDS[1:]:
        if kind != "light":
            for case in stored.load_model_tests(kind=kind):
                found[f"{kind}/{case.name}"] = case
    folder = Path(os.fspath(stored.__file__)).parent.parent / "data" / "light"
    for path in sorted(folder.glob("*.onnx")):
        found[f"light/{path.stem}"] = path
    return found


def load_case(name: str) -> tuple[Any, list[tuple[list[Any], list[Any]]], dict[str, float]]:
    """(model, [(inputs, expected outputs)], tolerance) of a case."""
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    case = suite()[name]
    if isinstance(case, Path):
        model = onnx.load(case)
        draw = np.random.default_rng(0)
        names = {t.name for t in model.graph.initializer}
        shapes = [
            [d.dim_value for d in i.type.tensor_type.shape.dim]
            for i in model.graph.input
            if i.name not in names
        ]
        inputs = [draw.random(shape, np.float32) for shape in shapes]
        session = onnxruntime.InferenceSession(str(case), providers=["CPUExecutionProvider"])
        outputs = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), inputs, strict=True)})
        return model, [(inputs, list(outputs))], _LIGHT
    model = case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")
    sets: list[Any] = list(case.data_sets or ())
    if not sets:
        for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
            both: list[list[Any]] = []
            for what, infos in (("input", model.graph.input), ("output", model.graph.output)):
                files = sorted(folder.glob(f"{what}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
                both.append([_read(p, info, numpy_helper) for p, info in zip(files, infos, strict=False)])
            sets.append(tuple(both))
    return model, [(list(a), list(b)) for a, b in sets], {"rtol": case.rtol, "atol": case.atol}


def _read(path: Path, info: Any, helper: Any) -> Any:
    import onnx

    if info.type.HasField("sequence_type"):
        return helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    return helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def differences(got: list[Any], want: list[Any], tolerance: dict[str, float]) -> list[str]:
    """What differs from the suite's outputs."""
    found = [] if len(got) == len(want) else [f"{len(got)} outputs, not {len(want)}"]
    for number, (a, b) in enumerate(zip(got, want, strict=False)):
        if not isinstance(b, (np.ndarray, np.generic)):
            found.append(f"output {number}: no tensor is expected")
            continue
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype and not (a.dtype.kind in "OUS" and b.dtype.kind in "OUS"):
            found.append(f"output {number}: {a.dtype}, not {b.dtype}")
        elif a.shape != b.shape:
            found.append(f"output {number}: {a.shape}, not {b.shape}")
        elif b.dtype.kind in "OUSbiu":
            if not (a.astype(str) == b.astype(str)).all():
                found.append(f"output {number}: other values")
        else:
            wide = np.complex128 if b.dtype.kind == "c" else np.float64
            close = np.isclose(a.astype(wide), b.astype(wide), **tolerance, equal_nan=True)
            if not close.all():
                apart = np.abs(a.astype(wide) - b.astype(wide))[~close]
                found.append(f"output {number}: {(~close).sum()} values apart, up to {np.nanmax(apart):.2g}")
    return found


def run_onnx(model: Any, inputs: list[Any]) -> list[Any]:
    """A model in ONNX Runtime on its inputs in order."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    given = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return list(session.run(None, dict(zip(names, inputs, strict=False))))


def run_peer(model: Any, inputs: list[Any]) -> list[Any]:
    """What onnx2torch's module of a model gives.

    It imports three operators of torchvision, of which no build for the CPU is on PyPI. Stand-ins make its
    conversions of NonMaxSuppression and RoiAlign fail when they run, and no other.
    """
    if "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is None:
        operators: Any = types.ModuleType("torchvision.ops")
        operators.nms = operators.roi_align = operators.box_convert = None
        whole: Any = types.ModuleType("torchvision")
        whole.ops = operators
        sys.modules |= {"torchvision": whole, "torchvision.ops": operators}
    import onnx2torch  # pyright: ignore[reportMissingImports]
    import torch
    from torch.utils import _pytree as pytree

    net = onnx2torch.convert(model).eval()
    with torch.no_grad():
        results = net(*[torch.from_numpy(np.array(a)) for a in inputs])
    return [t.numpy() for t in pytree.tree_leaves(results)]


def judge(name: str, mode: str) -> list[str]:
    """What is wrong with a case in a mode; `original` is ONNX Runtime on the file as it is."""
    model, sets, tolerance = load_case(name)
    if mode == "original":
        return [d for inputs, want in sets for d in differences(run_onnx(model, inputs), want, tolerance)]
    if mode == PEER:
        return [d for inputs, want in sets for d in differences(run_peer(model, inputs), want, tolerance)]
    import regraft

    found: list[str] = []
    for inputs, want in sets:
        stored = {t.name for t in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in stored]
        given = dict(zip(names, inputs, strict=False))
        if mode == FIXED:
            model = with_constants(model, given)
        graph = regraft.load(model, given)
        if mode != "onnx":
            graph = regraft.rewrite(graph).graph
        with tempfile.TemporaryDirectory() as folder:
            if mode in ("mindspore", "torch", FIXED):
                got = run_emitted(graph, Path(folder), "mindspore" if mode == FIXED else mode)
            else:
                path = Path(folder) / "model.onnx"
                regraft.save(graph, path)
                given = [graph.origin.inputs[n.name] for n in graph.input_nodes()]
                got = run_onnx(str(path), given)
        found += differences(got, want, tolerance)
    return found


def settings(model: Any, given: dict[str, Any]) -> set[str]:
    """The inputs of a model that say how it computes: axes, shapes, counts, and what these come from."""
    from regraft.ir.analysis.settings import SETTINGS

    nodes = list(_nodes(model.graph))
    makers = {output: node for node in nodes for output in node.output}
    wanted = [
        node.input[slot]
        for node in nodes
        for slot in SETTINGS.get(node.op_type, ())
        if slot < len(node.input)
    ]
    found: set[str] = set()
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in given and np.asarray(given[name]).ndim < 2 and np.asarray(given[name]).size <= _MOST:
            found.add(name)
        elif name in makers and name not in seen and makers[name].op_type in _ARITHMETIC:
            wanted += makers[name].input
            at = list(makers[name].output).index(name)
            wanted += [a.g.output[at].name for a in makers[name].attribute if a.HasField("g")]
        seen.add(name)
    return found


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def with_constants(model: Any, given: dict[str, Any]) -> Any:
    """A model with its settings stored in it; their arrays are taken away from those given."""
    import onnx

    names = settings(model, given)
    if not names:
        raise ValueError("no setting is an input")
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    kept = [i for i in fixed.graph.input if i.name not in names]
    del fixed.graph.input[:]
    fixed.graph.input.extend(kept)
    for name in sorted(names):
        fixed.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(given.pop(name)), name))
    return fixed


def has_types(name: str) -> bool:
    """Whether a case is of numbers of 8 bits or more and bools, which both frameworks have; none is drawn."""
    _, sets, _ = load_case(name)
    arrays = [a for pair in sets for side in pair for a in side]
    if _OTHER.search(name) or _RANDOM.search(name):
        return False
    if any(not isinstance(a, (np.ndarray, np.generic)) for a in arrays):
        return False
    if any(np.asarray(a).dtype.kind not in "fiub" or np.asarray(a).dtype.name == "bfloat16" for a in arrays):
        return False
    return is_standard(name)


def is_standard(name: str) -> bool:
    """Whether all operators of a case are of the domain `ai.onnx`."""
    return all(node.domain in ("", "ai.onnx") for node in load_case(name)[0].graph.node)


def cases() -> Iterator[dict[str, str]]:
    """The cases for a sweep, those of one mode after each other; `fixed` beside what it is another try of."""
    peers = [(PEER,)] if importlib.util.find_spec(PEER) else []
    for modes in (("onnx",), ("rewritten",), ("mindspore", FIXED), ("torch",), *peers):
        for name in suite():
            for mode in modes:
                yield {"name": name, "step": mode, "group": name.split("/")[0]}


def judge_case(case: dict[str, str]) -> dict[str, Any]:
    """The verdict on a case for a sweep, where the case counts in its mode."""
    name, mode = case["name"], case["step"]
    if mode in ("mindspore", "torch", PEER, FIXED):
        counts = has_types(name) and (
            mode != FIXED or is_refused(verdict(name, "mindspore")["data"]["found"])
        )
    else:
        counts = is_standard(name) and not verdict(name, "original")["data"]["found"]
    return verdict(name, mode) if counts else LEFT_OUT


@lru_cache(maxsize=2)  # `fixed` comes after `mindspore`
def verdict(name: str, mode: str) -> dict[str, Any]:
    """The verdict on a case in a mode, counted or not."""
    return answer(lambda: judge(name, mode))


def is_refused(found: list[str]) -> bool:
    """Whether a case ended with a refusal, and not with other values or an error of a framework."""
    return bool(found) and found[0].startswith("UnsupportedError")


def main() -> None:
    """Print every case that fails with the reason, then the table, of the rows of a sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    rows = list(read_rows(parser.parse_args().rows))
    fixed = {row["name"]: wrong(row) for row in rows if row["step"] == FIXED}
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        kind, mode, found = row["group"], row["step"], wrong(row)
        counts[kind, mode, "judged"] += 1
        counts[kind, mode, "right"] += not found
        if mode == "mindspore" and row["name"] in fixed:
            again = fixed[row["name"]]
            found = again and (found if "no setting" in again[0] else again)
        if found and mode not in (FIXED, PEER):
            print(f"{row['name']} {mode}: {' '.join('; '.join(found).split())[:240]}")
    for kind in KINDS:
        cells = [
            f"{mode} {counts[kind, mode, 'right']:4} of {counts[kind, mode, 'judged']:<4}"
            for mode in MODES
            if counts[kind, mode, "judged"]
        ]
        if counts[kind, FIXED, "right"]:
            cells.append(f"{counts[kind, FIXED, 'right']:4} more with settings given as inputs as constants")
        if cells:
            print(f"{kind:18}  " + "  ".join(cells))


if __name__ == "__main__":
    main()
