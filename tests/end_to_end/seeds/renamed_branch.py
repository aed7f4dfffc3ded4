"""Writes a siamese symbol as people made it: the nodes of one branch again under names with `sha-` before."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np


def write_siamese(folder: Path) -> Path:
    """Write the symbol and its parameters, and give the symbol's path."""
    nodes: list[dict[str, object]] = []

    def add(operator: str, name: str, inputs: tuple[int, ...] = (), **attributes: str) -> int:
        nodes.append(
            {"op": operator, "name": name, "inputs": [[i, 0, 0] for i in inputs], "attrs": attributes}
        )
        return len(nodes) - 1

    def branch(prefix: str) -> int:
        x = add("null", f"{prefix}data")
        weights = [add("null", f"{prefix}conv_{n}") for n in ("weight", "bias")]
        x = add("Convolution", f"{prefix}conv", (x, *weights), kernel="(3, 3)", num_filter="4", pad="(1, 1)")
        state = [add("null", f"{prefix}bn_{n}") for n in ("gamma", "beta", "moving_mean", "moving_var")]
        x = add("BatchNorm", f"{prefix}bn", (x, *state), fix_gamma="False", eps="0.001")
        x = add("Activation", f"{prefix}relu", (x,), act_type="relu")
        x = add("Pooling", f"{prefix}pool", (x,), kernel="(2, 2)", stride="(2, 2)", pool_type="max")
        weights = [add("null", f"{prefix}fc_{n}") for n in ("weight", "bias")]
        return add("FullyConnected", f"{prefix}fc", (x, *weights), num_hidden="6")

    difference = add("elemwise_sub", "difference", (branch(""), branch("sha-")))
    head = add("sum", "distance", (add("square", "square", (difference,)),), axis="1")
    symbol = {
        "nodes": nodes,
        "arg_nodes": [i for i, node in enumerate(nodes) if node["op"] == "null"],
        "node_row_ptr": list(range(len(nodes) + 1)),
        "heads": [[head, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10900]},
    }
    path = folder / "siamese-symbol.json"
    path.write_text(json.dumps(symbol))
    (folder / "siamese-0000.params").write_bytes(_params())
    return path


def _params() -> bytes:
    """The parameters of both branches, equal, as MXNet writes them."""
    draw = np.random.default_rng(0)
    shapes = {"conv_weight": (4, 1, 3, 3), "conv_bias": (4,), "fc_weight": (6, 64), "fc_bias": (6,)}
    shapes |= {f"bn_{n}": (4,) for n in ("gamma", "beta", "moving_mean", "moving_var")}
    one = {name: draw.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in shapes.items()}
    both = {f"{'aux' if 'moving' in n else 'arg'}:{p}{n}": v for p in ("", "sha-") for n, v in one.items()}
    data = struct.pack("<QQQ", 0x112, 0, len(both))
    for value in both.values():
        data += struct.pack(f"<IiI{value.ndim}q", 0xF993FAC9, 0, value.ndim, *value.shape)
        data += struct.pack("<iii", 1, 0, 0) + value.tobytes()
    data += struct.pack("<Q", len(both))
    return data + b"".join(struct.pack("<Q", len(name)) + name.encode() for name in both)
