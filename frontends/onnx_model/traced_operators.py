"""Operators of torch that its exporter writes as several of ONNX's, and a file's traced lines name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx

from ...ir import TensorData, Value
from ...ir.table import Table
from .call import Call
from .fused_quantised import Rule

TRACED = "regraft.traced"
"""Domain of the operators of this file, in graphs that `undo_optimisations` makes."""

RULES = Table[Rule]()
"""Operator -> what it becomes."""

_TARGET = re.compile(r"\[target=torch\.ops\.([\w.]+)\]")
_REFERENCE = re.compile(r"%(\w+)")
_FLOAT = re.compile(r"(?<![\w.%])-?\d+(?:\.\d*)?(?:e-?\d+)?(?![\w.])")
_LINE = "pkg.torch.onnx.fx_node"
_LONGEST = 1 << 16
_MASKED = -1e30  # a score below it has no share in a sum


@dataclass(frozen=True, slots=True)
class Line:
    """The line of the traced program that nodes come from.

    Attributes:
        target: the operator, ``aten.linear.default``.
        name: of the value that the line gives.
        arguments: as the line writes them.
    """

    target: str
    name: str
    arguments: str

    @property
    def reads(self) -> list[str]:
        """Names of the values that it reads, in order."""
        return _REFERENCE.findall(self.arguments)

    @property
    def numbers(self) -> list[float]:
        """Numbers among the arguments without names, in order."""
        return [float(number) for number in _FLOAT.findall(self.arguments.partition("), kwargs")[0])]


def line_of(node: onnx.NodeProto) -> Line | None:
    """Return the line of the traced program that a node comes from; None where none is stated."""
    text = next((p.value for p in node.metadata_props if p.key == _LINE), "")
    head, _, rest = text.partition(" : ")
    target = _TARGET.search(rest)
    if target is None or not head.startswith("%") or len(text) > _LONGEST or node.domain:
        return None
    return Line(target.group(1), head[1:], rest[target.end() :])


@RULES.op("Linear")
def linear(call: Call) -> Value:
    """Return a dense layer, whose weight is stored (out, in)."""
    return call.op("regraft.Linear", *call.operands)


@RULES.op("ScaledDotProductAttention")
def scaled_dot_product_attention(call: Call) -> Value:
    """Return attention; its keys may be given transposed."""
    if call.take("is_turned", 0):
        axes = list(range(call.rank(1)))
        call.operands[1] = call.op("Transpose", call.value(1), perm=[*axes[:-2], axes[-1], axes[-2]])
    scale, width = float(call.take("scale")), (call.type(0).shape or ())[-1:]
    usual = bool(width) and isinstance(width[0], int) and math.isclose(scale, width[0] ** -0.5, rel_tol=1e-5)
    how = {"is_causal": bool(call.take("is_causal", 0)), "scale": None if usual else scale}
    return call.op("regraft.ScaledDotProductAttention", *call.operands, **how)


@RULES.op("Swish")
def swish(call: Call) -> Value:
    """Return the product of a value and its sigmoid."""
    return call.op("regraft.Swish", call.value(0))


@RULES.op("Flatten")
def flatten(call: Call) -> Value:
    """Return all axes but the first as one, where that is what the sizes state."""
    shape, sizes = call.type(0).shape, call.array(1)
    if shape is not None and sizes is not None and len(shape) > 1 and sizes.size == 2:
        inner = [size for size in shape[1:] if isinstance(size, int)]
        width = math.prod(inner) if len(inner) == len(shape) - 1 else None
        if sizes[1] == width and sizes[0] in (-1, 0, shape[0]):
            return call.op("Flatten", call.value(0), axis=1)
    return call.op("Reshape", *call.operands)


@RULES.op("AdaptiveAvgPool2d")
def adaptive_average(call: Call) -> Value:
    """Return the mean of the last two axes."""
    if call.rank() == 4:
        return call.op("GlobalAveragePool", call.value(0))
    return call.op("ReduceMean", call.value(0), call.ints([-1, -2]), keepdims=1)


@RULES.op("GroupNorm")
def group_norm(call: Call) -> Value:
    """Return a normalisation of groups of channels; its parts where the channels are not axis 1."""
    groups, epsilon, rank = int(call.take("num_groups")), float(call.take("epsilon")), int(call.take("rank"))
    x = call.value(0)
    sizes = call.array(3) if len(call.operands) > 3 else None
    given = call.type(0).shape
    if given is not None and len(given) == rank and (sizes is None or tuple(sizes.tolist()) == given):
        how = {"num_groups": groups, "epsilon": epsilon}
        return call.op("GroupNormalization", x, call.value(1), call.value(2), **how)
    apart = call.op("Reshape", x, call.ints([0, groups, -1]))
    ones, zeros = (call.b.constant(np.full(groups, n), call.dtype()) for n in (1, 0))
    normal = call.op("InstanceNormalization", apart, ones, zeros, epsilon=epsilon)
    normal = call.op("Reshape", normal, call.op("Shape", x) if sizes is None else call.value(3))
    wide = call.ints([-1, *[1] * (rank - 2)])
    scale, shift = (call.op("Reshape", call.value(slot), wide) for slot in (1, 2))
    return call.op("Add", call.op("Mul", normal, scale), shift)


class Group:
    """The nodes of one line.

    Args:
        nodes: in the order of the file.
        stored: the initializers.
        masks: masks that attention of any line makes; equal ones are one in a file.
    """

    def __init__(
        self,
        nodes: Sequence[onnx.NodeProto],
        stored: Mapping[str, TensorData],
        masks: Mapping[str, onnx.NodeProto] | None = None,
    ) -> None:
        self.nodes, self.stored, self.masks = nodes, stored, masks or {}
        self.producers = {name: node for node in nodes for name in node.output}

    def number(self, name: str) -> float | None:
        """Return the number that a constant of one element is; None for any other value."""
        data = self.stored.get(name)
        return None if data is None or int(np.prod(data.shape)) != 1 else float(np.ravel(data.numpy())[0])

    def sizes(self, name: str, of: str) -> list[object]:
        """Return the sizes that a value states: numbers, and the bounds of slices of a value's shape."""
        data, node = self.stored.get(name), self.producers.get(name)
        if data is not None:
            return [int(size) for size in np.ravel(data.numpy())] if len(data.shape) == 1 else []
        if node is None:
            return []
        if node.op_type == "Concat":
            parts = [self.sizes(part, of) for part in node.input]
            return [size for part in parts for size in part] if all(parts) else []
        shape = self.producers.get(node.input[0])
        if node.op_type != "Slice" or len(node.input) != 3 or shape is None or shape.op_type != "Shape":
            return []
        if shape.input[0] != of or any(a.i for a in shape.attribute):
            return []
        return [tuple(self.number(bound) for bound in node.input[1:])]

    def is_zero(self, name: str) -> bool:
        """Whether nodes of the group make a value of one zero."""
        while (node := self.producers.get(name)) is not None and node.op_type in ("Expand", "CastLike"):
            name = node.input[0]
        return self.number(name) == 0

    def is_full(self, name: str, number: float) -> bool:
        """Whether every element of a constant is a number."""
        data = self.stored.get(name)
        return data is not None and bool((data.numpy() == number).all())

    def only(self, *operators: str) -> onnx.NodeProto | None:
        """Return the node of one of these operators; None unless there is one."""
        found = [node for node in self.nodes if node.op_type in operators]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class Product:
    """The operands of a dense layer.

    Attributes:
        data: what it reads.
        weight: name of its weight in the file.
        turned: whether that is stored (in, out).
        bias: name of its bias in the file; empty without one.
    """

    data: str
    weight: str
    turned: bool
    bias: str


def find_product(group: Group) -> Product | None:
    """Return the operands of the dense layer that a line of ``aten.linear`` is; None for any other form."""
    node = group.only("MatMul", "Gemm")
    if node is None or any(n.op_type not in ("MatMul", "Gemm", "Add", "Transpose") for n in group.nodes):
        return None
    how = {a.name: a for a in node.attribute}
    if any(how[n].f != 1 for n in ("alpha", "beta") if n in how) or ("transA" in how and how["transA"].i):
        return None
    weight, turned = node.input[1], not ("transB" in how and how["transB"].i)
    if weight in group.producers:
        turn = group.producers[weight]
        if turn.op_type != "Transpose" or [list(a.ints) for a in turn.attribute] not in ([], [[1, 0]]):
            return None
        weight, turned = turn.input[0], not turned
    bias = node.input[2] if len(node.input) > 2 else ""
    add, last = group.only("Add"), node
    if add is not None:
        others = [name for name in add.input if name != node.output[0]]
        if bias or len(others) != 1:
            return None
        bias, last = others[0], add
    if last is not group.nodes[-1] or node.input[0] in group.producers:
        return None
    fits = weight in group.stored and (not bias or bias in group.stored)
    return Product(node.input[0], weight, turned, bias) if fits else None


def join_attention(group: Group, line: Line) -> onnx.NodeProto | None:
    """Return one operator for the nodes of a line of attention; None where they are of no known form.

    Its operands are those that the nodes read, whatever the line states.
    """
    softmax, products = group.only("Softmax"), [n for n in group.nodes if n.op_type == "MatMul"]
    if softmax is None or len(products) != 2 or any(a.i != -1 for a in softmax.attribute):
        return None
    scores, last = products
    if last is not group.nodes[-1] or not _are_chances(group, last.input[0], softmax):
        return None
    query, one = _unscaled(group, scores.input[0])
    turned, other = _unscaled(group, scores.input[1])
    if query in group.producers or last.input[1] in group.producers:
        return None
    key = _unturned(group, turned)
    key = key if key in line.reads[1:2] else ""  # a file's nodes may make more axes into three
    operands = [query, key or turned, last.input[1]]
    how: dict[str, float] = {"scale": one * other}
    if not key:
        how["is_turned"] = 1
    if softmax.input[0] != scores.output[0]:
        mask = _mask(group, softmax.input[0], scores.output[0])
        if _is_causal(line):
            if not _is_triangle(group.stored.get(mask)):
                return None
            how["is_causal"] = 1
        elif not mask:
            return None
        else:
            is_guarded = last.input[0] != softmax.output[0]
            operands.append((is_guarded and _condition(group, mask)) or mask)
    elif _is_causal(line):
        return None
    joined = onnx.helper.make_node(
        "ScaledDotProductAttention", operands, [last.output[0]], last.name, domain=TRACED
    )
    joined.attribute.extend(onnx.helper.make_attribute(name, number) for name, number in how.items())
    joined.metadata_props.extend(last.metadata_props)
    return joined


def _is_causal(line: Line) -> bool:
    positional, _, named = line.arguments.partition("), kwargs = ")
    return positional.rstrip(")").endswith(", True") or "is_causal: True" in named


def _are_chances(group: Group, name: str, softmax: onnx.NodeProto) -> bool:
    """Whether a value is the softmax, or that with zeros for rows without a number."""
    own, node = softmax.output[0], group.producers.get(name)
    if node is None or node is softmax:
        return node is softmax
    test = group.producers.get(node.input[0]) if node.op_type == "Where" else None
    if test is None or test.op_type != "IsNaN" or test.input[0] != own or node.input[2] != own:
        return False
    return group.number(node.input[1]) == 0


def _unscaled(group: Group, name: str) -> tuple[str, float]:
    """Return the value that a factor was multiplied with, and the factor."""
    node = group.producers.get(name)
    factor = group.number(node.input[1]) if node is not None and node.op_type == "Mul" else None
    return (name, 1.0) if node is None or factor is None else (node.input[0], factor)


def _unturned(group: Group, name: str) -> str:
    """Return the value whose last two axes nodes swap; empty for any other form.

    The exporter makes three axes of all, swaps the last two and makes all the axes again.
    """
    chain: list[onnx.NodeProto] = []
    for operator in ("Reshape", "Transpose", "Reshape"):
        node = group.producers.get(name)
        if node is None or node.op_type != operator:
            return ""
        chain.append(node)
        name = node.input[0]
    perm = next((list(a.ints) for a in chain[1].attribute if a.name == "perm"), [])
    if name in group.producers or perm != [0, 2, 1]:
        return ""
    before, after = group.sizes(chain[2].input[1], name), group.sizes(chain[0].input[1], name)
    fits = len(before) == 3 and len(after) > 2 and before[1:] == after[:-3:-1]
    return name if fits else ""


def _mask(group: Group, name: str, scores: str) -> str:
    """Return what a sum adds to scores; empty for any other form."""
    node = group.producers.get(name)
    if node is None or node.op_type != "Add" or scores not in node.input:
        return ""
    mask = next((n for n in node.input if n != scores), "")
    made = group.producers.get(mask)
    is_alone = made is None or (made.op_type == "Where" and made.input[0] not in group.producers)
    return mask if is_alone else ""


def _condition(group: Group, mask: str) -> str:
    """Return the condition that a mask of 0 and -inf stands for; empty for other masks.

    A finite number in the place of -inf gives rows without a key the mean of all.
    """
    made = group.producers.get(mask, group.masks.get(mask))
    if made is None or made.op_type != "Where" or group.number(made.input[1]) != 0:
        return ""
    return made.input[0] if group.number(made.input[2]) == -math.inf else ""


def _is_triangle(data: TensorData | None) -> bool:
    """Whether a mask hides all places behind a row's own."""
    if data is None or len(data.shape) < 2 or "float" not in data.dtype:
        return False
    array = np.asarray(data.numpy(), np.float64)
    behind = np.triu(np.ones(array.shape[-2:], bool), 1)
    return bool((array[..., behind] < _MASKED).all() and (array[..., ~behind] == 0).all())


def is_global_pool(node: onnx.NodeProto, kind: str, stored: Mapping[str, TensorData]) -> bool:
    """Whether a node is all of torch's AdaptiveAvgPool2d, to one element."""
    if node.op_type != "ReduceMean" or kind != "torch.nn.modules.pooling.AdaptiveAvgPool2d":
        return False
    axes = stored.get(node.input[1]) if len(node.input) > 1 else None
    keeps = all(a.i == 1 for a in node.attribute if a.name == "keepdims")
    return axes is not None and keeps and sorted(np.ravel(axes.numpy()).tolist()) == [-2, -1]


def replaced(node: onnx.NodeProto, operator: str, operands: Sequence[str]) -> onnx.NodeProto:
    """Return a node of this file's domain in the place of another, with its results and metadata."""
    made = onnx.helper.make_node(operator, operands, node.output, node.name, domain=TRACED)
    made.metadata_props.extend(node.metadata_props)
    return made


def join_swish(group: Group, line: Line) -> onnx.NodeProto | None:  # noqa: ARG001 - which states no form
    """Return one operator for a product with the sigmoid of the same value; None for any other form."""
    sigmoid, product = group.only("Sigmoid"), group.only("Mul")
    if sigmoid is None or product is None or group.nodes != [sigmoid, product]:
        return None
    if sorted(product.input) != sorted([sigmoid.input[0], sigmoid.output[0]]):
        return None
    return replaced(product, "Swish", sigmoid.input)


@dataclass(frozen=True, slots=True)
class GroupNorm:
    """The parts of a normalisation of groups of channels.

    Attributes:
        data: what it reads.
        scale: name of the factors in the file, of shape (channels, 1, …).
        shift: name of what is added in the file, of that shape.
        sizes: name of the sizes of the result; empty where they are those of the data.
        settings: number of groups, epsilon, and number of axes.
    """

    data: str
    scale: str
    shift: str
    sizes: str
    settings: dict[str, float]


def find_group_norm(group: Group) -> GroupNorm | None:
    """Return the parts of a line of ``aten.group_norm``; None where its nodes are of another form."""
    nodes = [node for node in group.nodes if node.op_type != "Shape"]
    if [n.op_type for n in nodes] != ["Reshape", "InstanceNormalization", "Reshape", "Mul", "Add"]:
        return None
    first, normal, last, product, added = nodes
    if any(after.input[0] != before.output[0] for before, after in pairwise(nodes)):
        return None
    x, scale, shift = first.input[0], product.input[1], added.input[1]
    shapes = [data.shape for n in (scale, shift) if (data := group.stored.get(n)) is not None]
    if len(shapes) != 2 or shapes[0] != shapes[1] or not shapes[0] or any(n != 1 for n in shapes[0][1:]):
        return None
    groups = group.sizes(first.input[1], x)[1:2]
    plain = group.is_full(normal.input[1], 1) and group.is_full(normal.input[2], 0)
    if not plain or group.sizes(first.input[1], x) != [0, *groups, -1] or not isinstance(groups[0], int):
        return None
    sizes, shape = last.input[1], group.producers.get(last.input[1])
    if shape is not None and (shape.op_type, list(shape.input)) == ("Shape", [x]):
        sizes = ""
    elif sizes not in group.stored:
        return None
    epsilon = next((a.f for a in normal.attribute if a.name == "epsilon"), 1e-5)
    settings = {"num_groups": groups[0], "epsilon": epsilon, "rank": len(shapes[0]) + 1}
    return GroupNorm(x, scale, shift, sizes, settings)


ATTENTION, GROUP_NORM = "aten.scaled_dot_product_attention", "aten.group_norm"
FLATTEN = "torch.nn.modules.flatten.Flatten"

JOINED = {ATTENTION: join_attention, "aten.silu": join_swish}
"""Operator of torch -> what makes one operator of the nodes that the exporter writes for it."""
