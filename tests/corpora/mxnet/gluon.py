"""Small symbols with the node names that Gluon gives them, for families whose structure is to be recovered."""

import json
from pathlib import Path

import numpy as np

from .cases import save_params, uniform


class Symbol:
    """A symbol under construction; every method adds nodes and returns the index of the last.

    Args:
        prefix: what every name begins with.
        channels: of the input.
    """

    def __init__(self, prefix: str, channels: int = 3) -> None:
        self.prefix, self.nodes, self.shapes = prefix, [], {}
        self.channels = {self.add("null", "data"): channels}
        self.counts: dict[str, int] = {}

    def add(self, op: str, name: str, inputs=(), **attrs) -> int:
        node = {"op": op, "name": name, "inputs": [[i, 0, 0] for i in inputs]}
        if attrs:
            node["attrs"] = {k: str(v) for k, v in attrs.items()}
        self.nodes.append(node)
        return len(self.nodes) - 1

    def name(self, kind: str, scope: str) -> str:
        """``net0_stage1_conv3``: numbered by kind in each scope."""
        base = f"{self.prefix}_{scope}{kind}"
        self.counts[base] = self.counts.get(base, -1) + 1
        return f"{base}{self.counts[base]}"

    def parameter(self, name: str, shape: tuple[int, ...], auxiliary: bool = False) -> int:
        self.shapes[name] = (shape, auxiliary)
        return self.add("null", name, __storage_type__=0)

    def conv(self, x: int, out: int, kernel: int, scope="", stride=1, pad=0, group=1, bias=False) -> int:
        name, channels = self.name("conv", scope), self.channels[x]
        inputs = [x, self.parameter(f"{name}_weight", (out, channels // group, kernel, kernel))]
        inputs += [self.parameter(f"{name}_bias", (out,))] if bias else []
        pair = lambda n: (n, n)  # noqa: E731
        node = self.add(
            "Convolution", f"{name}_fwd", inputs, kernel=pair(kernel), stride=pair(stride), pad=pair(pad),
            num_filter=out, num_group=group, no_bias=not bias, dilate=(1, 1), layout="NCHW",
        )  # fmt: skip
        self.channels[node] = out
        return node

    def norm(self, x: int, scope="") -> int:
        name, channels = self.name("batchnorm", scope), self.channels[x]
        stored = [("gamma", False), ("beta", False), ("running_mean", True), ("running_var", True)]
        inputs = [x, *(self.parameter(f"{name}_{n}", (channels,), aux) for n, aux in stored)]
        return self.same("BatchNorm", f"{name}_fwd", inputs, eps=1e-5, momentum=0.9, fix_gamma=False)

    def same(self, op: str, name: str, inputs: list[int], **attrs) -> int:
        """A node with as many channels as its first input."""
        node = self.add(op, name, inputs, **attrs)
        self.channels[node] = self.channels[inputs[0]]
        return node

    def relu(self, x: int, scope="") -> int:
        return self.same("Activation", f"{self.name('relu', scope)}_fwd", [x], act_type="relu")

    def conv_norm(self, x: int, out: int, kernel: int, scope="", relu=True, **options) -> int:
        x = self.norm(self.conv(x, out, kernel, scope, **options), scope)
        return self.relu(x, scope) if relu else x

    def pool(self, x: int, kernel=2, stride=2, pad=0, kind="max", scope="") -> int:
        pair = lambda n: (n, n)  # noqa: E731
        attrs = {"kernel": pair(kernel), "stride": pair(stride), "pad": pair(pad), "pool_type": kind}
        return self.same("Pooling", f"{self.name('pool', scope)}_fwd", [x], **attrs)

    def plus(self, a: int, b: int, scope="") -> int:
        return self.same("elemwise_add", self.name("_plus", scope), [a, b])

    def concat(self, *values: int, scope="") -> int:
        node = self.add("Concat", self.name("concat", scope), values, dim=1, num_args=len(values))
        self.channels[node] = sum(self.channels[v] for v in values)
        return node

    def head(self, x: int, classes: int) -> int:
        """Global average pooling, and a dense layer."""
        channels = self.channels[x]
        attrs = {"kernel": (1, 1), "global_pool": True, "pool_type": "avg"}
        x = self.same("Pooling", f"{self.name('pool', '')}_fwd", [x], **attrs)
        x = self.same("Flatten", f"{self.name('flatten', '')}_flatten0", [x])
        name = self.name("dense", "")
        weights = self.parameter(f"{name}_weight", (classes, channels)), self.parameter(f"{name}_bias", (classes,))
        return self.add("FullyConnected", f"{name}_fwd", [x, *weights], num_hidden=classes, flatten=True)

    def write(self, folder: Path, name: str) -> Path:
        """Write ``name-symbol.json`` and its parameters; returns the symbol's path."""
        arguments = [i for i, n in enumerate(self.nodes) if n["op"] == "null"]
        document = {
            "nodes": self.nodes,
            "arg_nodes": arguments,
            "node_row_ptr": list(range(len(self.nodes) + 1)),
            "heads": [[len(self.nodes) - 1, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10901]},
        }
        path = folder / f"{name}-symbol.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        stored = {f"{'aux' if a else 'arg'}:{n}": values(n, s) for n, (s, a) in self.shapes.items()}
        save_params(folder / f"{name}-0000.params", stored)
        return path


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """What a parameter of that name may be worth."""
    if name.endswith(("gamma", "var")):
        low, high = 0.5, 1.5
    else:
        high = 0.5 if len(shape) < 2 else (3 / np.prod(shape[1:])) ** 0.5
        low = -high
    return uniform(0, name, shape, low, high).astype(np.float32)


def resnet_v1(units: list[int], *, bottleneck: bool, width: int = 4, widening: float = 4) -> Symbol:
    """Gluon's ResNet v1, whose 1x1 convolutions have a bias; `width` is 64 in the real ones.

    A `widening` of 1/4 instead of 4 is ResNeXt's: the convolutions inside are the wide ones.
    """
    net = Symbol("resnetv10")
    x = net.conv_norm(0, width, 7, stride=2, pad=3)
    x = net.pool(x, 3, 2, 1)
    for stage, count in enumerate(units, 1):
        scope = f"stage{stage}_"
        for unit in range(count):
            stride = 2 if stage > 1 and unit == 0 else 1
            inner = width * 2 ** (stage - 1)
            outer = int(inner * widening) if bottleneck else inner
            if bottleneck:
                y = net.conv_norm(x, inner, 1, scope, stride=stride, bias=True)
                y = net.conv_norm(y, inner, 3, scope, pad=1)
                y = net.conv_norm(y, outer, 1, scope, relu=False, bias=True)
            else:
                y = net.conv_norm(x, inner, 3, scope, stride=stride, pad=1)
                y = net.conv_norm(y, inner, 3, scope, relu=False, pad=1)
            if unit == 0 and net.channels[x] != outer:
                x = net.conv_norm(x, outer, 1, scope, relu=False, stride=stride)
            x = net.relu(net.plus(y, x, scope), scope)
    net.head(x, 10)
    return net


def mobilenet(width: int = 4) -> Symbol:
    """MobileNet v1, whose names tell no structure at all."""
    net = Symbol("mobilenet0")
    x = net.conv_norm(0, width, 3, stride=2, pad=1)
    for out, stride in [(2, 1), (4, 2), (4, 1), (8, 2), *[(8, 1)] * 4]:
        channels = net.channels[x]
        x = net.conv_norm(x, channels, 3, stride=stride, pad=1, group=channels)
        x = net.conv_norm(x, out * width, 1)
    net.head(x, 10)
    return net


def densenet(layers: list[int], growth: int = 4) -> Symbol:
    """DenseNet with its transitions between the stages."""
    net = Symbol("densenet0")
    x = net.pool(net.conv_norm(0, 2 * growth, 3, pad=1))
    for stage, count in enumerate(layers, 1):
        scope = f"stage{stage}_"
        for _ in range(count):
            y = net.conv(net.relu(net.norm(x, scope), scope), 2 * growth, 1, scope)
            y = net.conv(net.relu(net.norm(y, scope), scope), growth, 3, scope, pad=1)
            x = net.concat(x, y, scope=scope)
        if stage < len(layers):
            x = net.conv(net.relu(net.norm(x)), net.channels[x] // 2, 1)
            x = net.pool(x, kind="avg")
    net.head(net.relu(net.norm(x)), 10)
    return net


def inception(blocks: int = 3) -> Symbol:
    """Blocks of four ways, as in Inception v3."""
    net = Symbol("inception30")
    x = net.pool(net.conv_norm(0, 8, 3, stride=2, bias=False))
    for block in range(1, blocks + 1):
        scope = f"A{block}_"
        a = net.conv_norm(x, 8, 1, scope)
        b = net.conv_norm(net.conv_norm(x, 4, 1, scope), 8, 5, scope, pad=2)
        c = net.conv_norm(x, 4, 1, scope)
        c = net.conv_norm(net.conv_norm(c, 6, 3, scope, pad=1), 6, 3, scope, pad=1)
        d = net.conv_norm(net.pool(x, 3, 1, 1, "avg", scope), 4 * block, 1, scope)
        x = net.concat(a, b, c, d, scope=scope)
    net.head(x, 10)
    return net
