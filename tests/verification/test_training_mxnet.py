"""Gradients of nets emitted from MXNet symbols, against those that MXNet 1.9.1 computed."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import mindspore as ms
import numpy as np
import pytest
import torch

import regraft

CORPUS = Path(__file__).parents[1] / "corpora" / "mxnet" / "cases.py"


def imported(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


corpus = imported("training_mxnet_cases", CORPUS)
CASES = corpus.cases("train")


def loss(name: str, outputs: list, label: np.ndarray, tensor: Callable):
    """What the heads of these symbols mean, written out: MXNet's own gradients follow from it."""
    first = outputs[0]
    if name == "siamese":
        return first.sum()  # MakeLoss
    if name == "matrix_factorization":
        return ((first - tensor(label.reshape(first.shape))) ** 2).sum() / 2
    chosen = tensor(np.eye(first.shape[1], dtype=np.float32)[label.astype(int)])
    return -(first.log() * chosen).sum()  # SoftmaxOutput: a cross-entropy, summed over the batch


def step_in_mindspore(module: ModuleType, name: str, given: list, label):
    """Return the loss, the gradients and the values of the emitted net after one forward pass in training."""
    net = module.build().set_train(True)
    weights = net.trainable_params()
    tensors = [ms.Tensor(x) for x in given]

    def forward():
        result = net(*tensors)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        return loss(name, outputs, label, ms.Tensor)

    value, gradients = ms.value_and_grad(forward, None, weights)()
    found = {p.name: gradient.asnumpy() for p, gradient in zip(weights, gradients, strict=True)}
    return float(value), found, {p.name: p.asnumpy() for p in net.get_parameters()}


def step_in_torch(module: ModuleType, name: str, given: list, label):
    """Return the same of an emitted PyTorch module."""
    net = module.build().train()
    result = net(*map(torch.from_numpy, given))
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    value = loss(name, outputs, label, torch.from_numpy)
    value.backward()
    found = {n: p.grad.numpy() for n, p in net.named_parameters() if p.requires_grad and p.grad is not None}
    return float(value.detach()), found, {n: v.numpy() for n, v in net.state_dict().items()}


STEPS = {"mindspore": step_in_mindspore, "torch": step_in_torch}


@pytest.fixture(autouse=True)
def pynative():
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=mode)


@pytest.mark.parametrize("target", STEPS)
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_gradients_are_those_of_mxnet(case, target, tmp_path: Path) -> None:
    assert case.checksum() == case.record["checksum"]
    values = case.inputs()
    label = values[case.record["labels"][0]]
    symbol = case.write(tmp_path)
    heads = [] if case.name == "siamese" else case.record["labels"]
    inputs = {name: value for name, value in values.items() if name not in heads}
    graph = regraft.load(symbol, inputs)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out", target)
    module = imported(f"trained_{target}_{case.name}", tmp_path / "out" / "model.py")
    given = [inputs[node.name] for node in graph.input_nodes()]
    value, found, moved = STEPS[target](module, case.name, given, label)
    assert value == pytest.approx(case.record["loss"]["value"], rel=1e-4)
    rows = json.loads((tmp_path / "out" / "renames.json").read_text())["parameters"]
    where = {row["source"]: row for row in rows}
    for name in case.record.get("aux_after", []):
        if name.endswith(
            "moving_mean"
        ):  # MXNet's running variance is that of the batch, MindSpore's unbiased
            mean = case.stored(f"aux_after/{name}").ravel()
            np.testing.assert_allclose(moved[where[name]["target"]], mean, rtol=1e-3, atol=1e-5, err_msg=name)
    compared = 0
    for spec in case.record["grads"]:
        want = case.stored(f"grad/{spec['name']}").ravel()
        row = where[spec["name"]]
        if row["target"] not in found:  # fix_gamma: MXNet records zeros
            assert not want.any(), spec["name"]
            continue
        mine = found[row["target"]]
        if row["transform"].startswith("transpose:"):
            mine = mine.transpose(np.argsort([int(a) for a in row["transform"][10:].split(",")]))
        mine = mine.ravel()
        scale = np.abs(mine).max()
        if mine.size > want.size:  # of large ones the first values are stored, and some with a stride
            half = want.size // 2
            mine = np.concatenate([mine[:half], mine[:: mine.size // half][:half]])
        np.testing.assert_allclose(mine, want, rtol=1e-3, atol=1e-4 * scale + 1e-6, err_msg=spec["name"])
        compared += 1
    assert compared >= len(case.record["grads"]) // 2
