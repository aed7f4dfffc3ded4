"""How many MXNet symbols open again and compute what MXNet computed: the table of the corpus.

    CORPORA=path/to/corpora/mxnet regraft sweep benchmarks/suites/mxnet.toml -o out/mxnet [--only REGEX]
    python benchmarks/suites/corpus_mxnet.py out/mxnet/rows.jsonl

The corpus is a checkout of its own: a loader, and cases with their parameters, their inputs and what MXNet
1.9.1 computed for them. A case is equal when every output is there, with its shape, its type and its values
within the case's tolerance; a file of parameters, when its arrays are those that MXNet reads; a training
step, when loss, gradients and states are MXNet's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from corpus_torch import mindspore_module, module_name, run_emitted
from verdicts import answer, corpora_folder, imported, print_failures, read_rows, wrong

BARS = {
    "zoo": {"onnx": 54, "mindspore": 54, "torch": 54},
    "op, upstream": {"onnx": 815, "mindspore": 795, "torch": 812},
    "op, own": {"onnx": 370, "mindspore": 360, "torch": 373},
    "op, random": {"onnx": 0, "mindspore": 0, "torch": 0},
    "net": {"onnx": 26, "mindspore": 26, "torch": 26},
    "legacy": {"onnx": 28, "mindspore": 28, "torch": 28},
    "params": {"files": 29},
    "train": {"mindspore": 6, "torch": 6},
}
"""Row of the table -> how many cases are aimed at in each column; 0 where the bar is all."""

COUNTED_IN = {"op, random": "op, upstream"}
"""Row whose cases another counts too: of random operators MXNet's tests compare shapes alone."""

OWN_COLUMNS = {"params": ("files",), "train": ("mindspore", "torch")}
"""Kind of cases that do not run in every target -> their columns."""

TARGETS = ("onnx", "mindspore", "torch")


def row_of(case: Any) -> str:
    """The row of the table that counts a case."""
    if case.kind != "op":
        return str(case.kind)
    if case.meta.get("compare") == "shape":
        return "op, random"
    return "op, own" if case.meta.get("source") == "own" else "op, upstream"


def problems(case: Any, target: str, folder: Path) -> list[str]:
    """Convert a case, run it, and return what differs from MXNet's outputs."""
    import regraft

    if case.kind == "params":
        return file_problems(case)
    prefix = folder / "case"
    case.write(str(prefix))
    inputs = case.inputs()
    if case.kind == "train":
        return step_problems(case, target, folder)
    graph = regraft.rewrite(regraft.load(f"{prefix}-symbol.json", inputs)).graph
    got = _onnx(graph, inputs, folder) if target == "onnx" else run_emitted(graph, folder, target)
    want = [o["dtype"] for o in case.meta["outputs"]]
    types = [
        f"output {n}: {a.dtype}, not {dtype}"
        for n, (a, dtype) in enumerate(zip(got, want, strict=False))
        if str(a.dtype) != dtype
    ]
    differing = case.check(got)
    return [*differing, *types, *(reordered(case, got) if differing else [])]


def reordered(case: Any, got: list[Any]) -> list[str]:
    """Whether boxes that differ are the same ones in another order, as scores equal but for rounding give.

    That is a remark: the case stays different. Rows that MXNet's values are stored of are looked for among
    all of ours.
    """
    if not any("MultiBoxDetection" in op or "box_nms" in op for op in case.ops):
        return []
    found: list[str] = []
    for number, spec in enumerate(case.meta["outputs"]):
        values, where = case.expected(number)
        width = spec["shape"][-1] if spec["shape"] else 0
        if width != 6 or list(np.shape(got[number])) != spec["shape"]:
            continue
        whole = next((n for n, at in enumerate(where) if n != at), len(where)) // width
        ours, apart = got[number].reshape(-1, width), 0.0
        for row in values[: whole * width].reshape(-1, width):
            near = np.isclose(ours, row, rtol=case.rtol, atol=max(case.atol, 1e-5)).all(axis=1)
            if not near.any():
                return found
            apart = max(apart, float(abs(ours[near, 1] - row[1]).min()))
        found.append(f"its first {whole} rows are ours in another order, scores up to {apart:.1e} apart")
    return found


def file_problems(case: Any) -> list[str]:
    """Read a ``.params`` file, and return what differs from what MXNet reads; a damaged one is an error."""
    from regraft.formats.params_file import read_params
    from regraft.ir import ModelError

    expect = case.meta["expect"]
    try:
        arrays = [(a.name, a.data, a.data.numpy()) for a in read_params(Path(case.params_file))]
    except ModelError as error:
        return [] if expect == "error" else [str(error)]
    if expect == "error":
        return ["expected an error"]
    if len(arrays) != len(expect["arrays"]):
        return [f"{len(arrays)} arrays, not {len(expect['arrays'])}"]
    found: list[str] = []
    for (name, data, values), spec in zip(arrays, expect["arrays"], strict=True):
        stated = (spec.get("name", ""), spec["dtype"], tuple(spec["shape"]))
        if (name, str(values.dtype), values.shape) != stated or data.shape != values.shape:
            found.append(f"{name} {values.dtype}{values.shape}, not {stated}")
        elif not np.array_equal(values.ravel(), _stated_values(spec), equal_nan=values.dtype.kind == "f"):
            found.append(f"{name}: values differ")
    return found


def _stated_values(spec: dict[str, Any]) -> np.ndarray:
    """The values that a case states of an array, those of a sparse one in their places."""
    if spec["stype"] == "default":
        return np.array(spec["values"], spec["dtype"])
    dense = np.zeros(spec["shape"], spec["dtype"])
    rows = np.array(spec["indices"], np.int64)
    if spec["stype"] == "csr":
        dense[np.repeat(np.arange(len(dense)), np.diff(spec["indptr"])), rows] = spec["data"]
        return dense.ravel()
    dense[rows] = np.array(spec["data"], spec["dtype"]).reshape(len(rows), *spec["shape"][1:])
    return dense.ravel()


def step_problems(case: Any, target: str, folder: Path) -> list[str]:
    """Train one step of the emitted net, and return what differs from MXNet's loss, gradients and states.

    The running variances of MindSpore and PyTorch take n / (n - 1) of a batch's, of n numbers a channel,
    where MXNet's takes the batch's own: that factor is allowed for, for any n that a layer may see.
    """
    import regraft

    inputs = case.inputs()
    heads = [] if "MakeLoss" in case.ops else case.meta["labels"]
    label = inputs[case.meta["labels"][0]]
    given = {name: array for name, array in inputs.items() if name not in heads}
    graph = regraft.rewrite(regraft.load(f"{folder}/case-symbol.json", given)).graph
    regraft.save(graph, folder / "emitted", to=target)
    arrays = [graph.origin.inputs[n.name] for n in graph.input_nodes()]
    step = _torch_step if target == "torch" else _mindspore_step
    loss, found, moved = step(folder / "emitted" / "model.py", arrays, partial(_loss, case, label))
    rows = json.loads((folder / "emitted" / "renames.json").read_text())["parameters"]
    where = {row["source"]: row for row in rows}
    wrong = [] if np.isclose(loss, case.meta["loss"]["value"], rtol=1e-4) else [f"loss {loss}"]
    for name, (values, places) in case.grads().items():
        row = where[name]
        if row["target"] not in found:  # gamma that is fixed: MXNet's gradients are zeros
            wrong += [f"{name} has no gradient"] if values.any() else []
            continue
        mine = found[row["target"]]
        if row["transform"].startswith("transpose:"):
            mine = mine.transpose(np.argsort([int(a) for a in row["transform"][10:].split(",")]))
        near = np.isclose(mine.ravel()[places], values, rtol=1e-3, atol=1e-4 * abs(mine).max() + 1e-6)
        wrong += [] if near.all() else [f"{name}: {(~near).sum()} of {near.size} gradients differ"]
    before = case.params()
    for name, values in case.aux_after().items():
        mine = moved[where[name]["target"]]
        if name.endswith("moving_var"):
            old = before[name] * np.float32(0.9)
            step = (mine - old) / np.maximum(values - old, 1e-6)
            near = (step > 1 - 1e-3) & (step < 2 + 1e-3) & (abs(step - np.median(step)) < 1e-2)
        else:
            near = np.isclose(mine, values, rtol=1e-3, atol=1e-5)
        wrong += [] if near.all() else [f"{name}: {(~near).sum()} of {near.size} states differ"]
    return wrong


Stepped = tuple[float, dict[str, np.ndarray], dict[str, np.ndarray]]
"""Loss, gradient of each parameter that is trained, and every state after the step."""


def _mindspore_step(path: Path, arrays: list[Any], loss_of: Callable[..., Any]) -> Stepped:
    net = mindspore_module(path).build().set_train(True)
    import mindspore as ms

    weights: list[Any] = net.trainable_params()

    def forward() -> Any:
        return loss_of(net(*(ms.Tensor(a) for a in arrays)), ms.Tensor)

    step: Any = ms.value_and_grad(forward, None, weights)  # pyright: ignore[reportArgumentType]
    loss, gradients = step()
    found = {p.name: g.asnumpy() for p, g in zip(weights, gradients, strict=True)}
    return float(loss), found, {p.name: p.asnumpy() for p in net.get_parameters()}


def _torch_step(path: Path, arrays: list[Any], loss_of: Callable[..., Any]) -> Stepped:
    net = imported(module_name(), path).build().train()
    import torch

    loss = loss_of(net(*map(torch.from_numpy, arrays)), torch.from_numpy)
    loss.backward()
    found = {name: p.grad.numpy() for name, p in net.named_parameters() if p.grad is not None}
    return float(loss), found, {name: t.numpy() for name, t in net.state_dict().items()}


def _loss(case: Any, label: np.ndarray, result: Any, as_tensor: Callable[[np.ndarray], Any]) -> Any:
    """What the head of a symbol means, written out."""
    output = result[0] if isinstance(result, (tuple, list)) else result
    if "MakeLoss" in case.ops:
        return output.sum()
    if "LinearRegressionOutput" in case.ops:
        return ((output - as_tensor(label.reshape(output.shape))) ** 2).sum() / 2
    chosen = np.eye(output.shape[1], dtype=np.float32)[label.astype(int)]
    return -(output.log() * as_tensor(chosen)).sum()


def _onnx(graph: Any, inputs: dict[str, Any], folder: Path) -> list[Any]:
    import onnxruntime

    import regraft

    regraft.save(graph, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    fed = {i.name: graph.origin.inputs.get(i.name, inputs.get(i.name)) for i in session.get_inputs()}
    return list(session.run(None, fed))


def judge(corpora: Path, name: str, target: str) -> list[str]:
    """What is wrong with a case of the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        return problems(corpus(corpora).case(name), target, Path(folder))


@cache
def corpus(corpora: Path) -> Any:
    """The cases of a checkout."""
    return imported("mxnet_corpus", corpora / "corpus.py").Corpus(str(corpora))


def cases() -> Iterator[dict[str, str]]:
    """The cases for a sweep: those of one target after each other, since they share processes."""
    corpora = corpora_folder("corpus.py")
    for target in (*TARGETS, "files"):
        for case in corpus(corpora).cases():
            if target in OWN_COLUMNS.get(case.kind, TARGETS):
                yield {"name": case.id, "step": target, "group": row_of(case), "corpora": str(corpora)}


def judge_case(case: dict[str, str]) -> dict[str, Any]:
    """The verdict on a case for a sweep."""
    return answer(lambda: judge(Path(case["corpora"]), case["name"], case["step"]))


def main() -> None:
    """Print every case that fails with the reason, then the table, of the rows of a sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    rows = list(read_rows(parser.parse_args().rows))
    print_failures(rows)
    counts: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        for name in {row["group"], COUNTED_IN.get(row["group"], row["group"])}:
            count = counts.setdefault((name, row["step"]), [0, 0])
            count[0] += not wrong(row)
            count[1] += 1
    for name, bars in BARS.items():
        cells = [
            f"{target} {counts[name, target][0]:4}/{counts[name, target][1]:<4} (bar {bar or 'all'})"
            for target, bar in bars.items()
            if (name, target) in counts
        ]
        if cells:
            print(f"{name:14}  " + "  ".join(cells))


if __name__ == "__main__":
    main()
