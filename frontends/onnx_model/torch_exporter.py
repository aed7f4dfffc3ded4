"""Undoes the exporter's optimisations in a file of ``torch.onnx.export(dynamo=True)``.

The exporter folds normalisations into the layers before them, transposes weights, stores equal tensors once
and leaves out biases of zeros. It writes beside every node the line of the traced program that it comes from,
and beside the graph the names of the parameters: from both follow the layers and the names of the module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx

from ...ir import TensorData, numpy_dtype
from .initializers import stored_tensor
from .scopes import CLASSES, SCOPES, classes_of, listed
from .traced_operators import (
    ATTENTION,
    FLATTEN,
    GROUP_NORM,
    JOINED,
    TRACED,
    Group,
    Line,
    Product,
    find_group_norm,
    find_product,
    is_global_pool,
    line_of,
    replaced,
)

_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_ROW = re.compile(r"^(\w+): (PARAMETER|BUFFER) target='([^'\n]*)'( persistent=True)?", re.MULTILINE)
_PATH = re.compile(r"[^.\\/\s'\"]+(\.[^.\\/\s'\"]+)*")
_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
_LAYERS = ("Conv", "ConvTranspose", "Gemm")
"""Operators into which the exporter folds a normalisation, and whose bias of zeros it leaves out."""

_NORMS = ("aten._native_batch_norm_legit_no_training", "aten.batch_norm", "aten.native_batch_norm")
_BIASED = ("aten.conv", "aten.addmm")
_BIAS = 2
_COUNTER = "num_batches_tracked"
_LARGEST_EPSILON = 0.1
_STATISTICS = 4  # gamma, beta, mean and variance: what a normalisation with all of them reads


@dataclass(slots=True)
class Traced:
    """The graph as it was traced.

    Attributes:
        model: the model without its initializers.
        stored: every initializer by name: those of the file, and those under the names that modules have.
        made: values that the file does not have.
        weights: names of the parameters and buffers; None where the file does not state them all.
        aliases: name of a parameter -> the one that it is; a module has it under both names.
        computed: parameters of which the file has only what the exporter computed with them.
        buffers: names of the buffers in the checkpoints of the original, without counters of batches.
        notes: on the optimisations that were undone.
    """

    model: onnx.ModelProto
    stored: dict[str, TensorData]
    made: set[str] = field(default_factory=set[str])
    weights: set[str] | None = None
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    computed: list[str] = field(default_factory=list[str])
    buffers: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def undo_optimisations(proto: onnx.ModelProto, stored: Mapping[str, TensorData]) -> Traced | None:
    """Return the graph that torch's exporter traced; None for a file of any other exporter."""
    text = next((p.value for p in proto.graph.metadata_props if p.key == _SIGNATURE), "")
    rows = _ROW.findall(text)
    names = {placeholder: target for placeholder, _, target, _ in rows}
    parameters = [target for _, kind, target, _ in rows if kind == "PARAMETER"]
    buffers = [target for _, kind, target, kept in rows if kind == "BUFFER" and kept]
    plain = all(_PATH.fullmatch(target) for target in names.values())
    nested = any(a.type in _GRAPHS for node in proto.graph.node for a in node.attribute)
    if not names or not plain or nested:  # graphs within nodes may read any value
        return None
    traced = _Undoing(proto, stored, names, parameters).run()
    traced.buffers = [name for name in buffers if name.rpartition(".")[2] != _COUNTER]
    return traced


class _Undoing:
    """Builds the nodes of the traced graph.

    Args:
        proto: the model.
        stored: its initializers.
        names: placeholder of the traced program -> name of the parameter or buffer.
        parameters: names of the parameters, in order.
    """

    def __init__(
        self,
        proto: onnx.ModelProto,
        stored: Mapping[str, TensorData],
        names: Mapping[str, str],
        parameters: Sequence[str],
    ) -> None:
        self.proto, self.names, self.parameters = proto, names, parameters
        self.named = set(names.values())
        held = dict(_constants(proto.graph.node))
        self.file_nodes = [node for node in proto.graph.node if not set(node.output) & held.keys()]
        self.stored = {**stored, **held}
        self.lines = [line_of(node) for node in self.file_nodes]
        self.groups: dict[str, list[int]] = {}
        for number, line in enumerate(self.lines):
            if line is not None:
                self.groups.setdefault(line.name, []).append(number)
        self.missing = {name: self._find_missing(name) for name in self.groups}
        self.classes = dict(classes_of(self.file_nodes))
        self.traced = Traced(_without_weights(proto), dict(self.stored))
        self.values = {name for node in proto.graph.node for name in node.output} | set(stored)
        self.values |= {given.name for given in proto.graph.input}
        self.masks = {
            node.output[0]: node
            for node, line in zip(self.file_nodes, self.lines, strict=True)
            if node.op_type == "Where" and line is not None and line.target.startswith(ATTENTION)
        }
        self.products = dict(self._find_products())
        self.nodes: list[onnx.NodeProto] = []
        self.folded: list[str] = []
        self.lost: list[str] = []
        self.replaced: set[str] = set()

    def run(self) -> Traced:
        """Return the graph."""
        for number, node in enumerate(self.file_nodes):
            line = self.lines[number]
            if line is None:
                self.nodes.append(_copied(node))
            elif line.name in self.products:
                if self.groups[line.name][-1] == number:
                    self._add_product(node, line)
            else:
                self._restore(_copied(node), line, number)
        self._remove_replaced()
        self._find_aliases()
        self._find_folded_parameters()
        self._find_transposed()
        self._state_notes()
        self.traced.weights = {*self.named, *self._find_results()} if self.lost else self.named
        self.traced.computed += self.lost
        self.traced.model.graph.node.extend(self.nodes)
        return self.traced

    # -- nodes -----------------------------------------------------------------------------------

    def _restore(self, node: onnx.NodeProto, line: Line, number: int) -> None:
        """Add a node as it was traced, and what the exporter folded into it."""
        is_folded = node.op_type in _LAYERS and line.target.startswith(_NORMS)
        if is_folded and self._unfold_norm(node, line):
            return
        own, missing = self._own(line), self.missing[line.name]
        for slot, name in enumerate(node.input):
            if not missing or name not in self.stored or name in own:
                continue
            data = self.stored[name]
            if name not in self.named and not self._is_index(node, line, slot):
                continue
            found = next((m for m in missing if self._store(m, name, data)), None)
            if found is not None:  # equal tensors are stored once
                node.input[slot] = found
                missing.remove(found)
        if len(own) == 1 and self._has_no_bias(node, line):
            del node.input[_BIAS:]
        if missing and node.op_type in _LAYERS and line.target.startswith(_BIASED):
            self._add_bias(node, line, own, missing)
        is_last = self.groups[line.name][-1] == number
        joined = self._join(node, line) if is_last else None
        self.nodes.append(node if joined is None else joined)

    def _is_index(self, node: onnx.NodeProto, line: Line, slot: int) -> bool:
        """Whether an operand is the indices of a Gather alone on its line; the exporter casts buffers."""
        return node.op_type == "Gather" and slot == 1 and len(self.groups[line.name]) == 1

    def _has_no_bias(self, node: onnx.NodeProto, line: Line) -> bool:
        """Whether the bias of a layer is one of zeros that a file without optimisations computes."""
        is_layer = node.op_type in _LAYERS and len(node.input) > _BIAS
        return is_layer and self._group(line.name).is_zero(node.input[_BIAS])

    def _join(self, node: onnx.NodeProto, line: Line) -> onnx.NodeProto | None:
        """Return one operator for the nodes of a line, of which this is the last; None for most lines."""
        if line.target.startswith(GROUP_NORM):
            return self._join_group_norm(node, line)
        join = JOINED.get(line.target.partition(".default")[0])
        if join is not None:
            joined = join(self._group(line.name), line)
            if joined is not None:
                own = {n for i in self.groups[line.name][:-1] for n in self.file_nodes[i].output}
                self.replaced |= own
                self._give_masks(joined, own)
            return joined
        kind = next(reversed(listed(node, CLASSES)[:-1]), "")
        if is_global_pool(node, kind, self.stored):
            return replaced(node, "AdaptiveAvgPool2d", node.input[:1])
        if node.op_type == "Reshape" and kind == FLATTEN:
            return replaced(node, "Flatten", node.input)
        return None

    def _join_group_norm(self, node: onnx.NodeProto, line: Line) -> onnx.NodeProto | None:
        """Return one operator for a normalisation of groups of channels, which reads one number a channel."""
        found, own = find_group_norm(self._group(line.name)), self._own(line)
        if found is None or len(own) not in (0, 2):
            return None
        names = own or [self._new_name(f"{node.output[0]}/{part}") for part in ("scale", "shift")]
        for name, source in zip(names, (found.scale, found.shift), strict=True):
            data = self.stored[source]
            if not self._store(name, source, data.reshaped((int(np.prod(data.shape)),))):
                return None
        self.replaced |= {n for i in self.groups[line.name][:-1] for n in self.file_nodes[i].output}
        operands = [found.data, *names, *([found.sizes] if found.sizes else [])]
        joined = replaced(node, "GroupNorm", operands)
        joined.attribute.extend(onnx.helper.make_attribute(*setting) for setting in found.settings.items())
        return joined

    def _give_masks(self, attention: onnx.NodeProto, own: Container[str]) -> None:
        """Give attention a mask of its own where the exporter made equal masks of several one."""
        for slot, name in enumerate(attention.input):
            if name in self.masks and name not in own:
                made = _copied(self.masks[name])
                made.output[0] = attention.input[slot] = self._new_name(f"{attention.output[0]}/mask")
                del made.metadata_props[:]
                made.metadata_props.extend(attention.metadata_props)
                self.nodes.append(made)

    def _group(self, name: str) -> Group:
        return Group([self.file_nodes[number] for number in self.groups[name]], self.stored, self.masks)

    def _remove_replaced(self) -> None:
        """Remove nodes of lines that one operator replaces, where nothing else reads their results."""
        read = {output.name for output in self.proto.graph.output}
        kept: list[onnx.NodeProto] = []
        for node in reversed(self.nodes):
            if all(name in self.replaced and name not in read for name in node.output):
                continue
            kept.append(node)
            read.update(node.input)
        self.nodes = kept[::-1]

    # -- dense layers ----------------------------------------------------------------------------

    def _find_products(self) -> Iterator[tuple[str, Product]]:
        """Yield the lines that are dense layers, whose parameters have names, and their operands."""
        users = Counter(name for node in self.file_nodes for name in node.input)
        users.update(output.name for output in self.proto.graph.output)
        for name, numbers in self.groups.items():
            line = self.lines[numbers[0]]
            if line is None or not line.target.startswith("aten.linear"):
                continue
            inner = [n for number in numbers[:-1] for n in self.file_nodes[number].output]
            product = find_product(self._group(name))
            own = self._own(line)
            if product is None or not 1 <= len(own) <= 2 or any(users[n] != 1 for n in inner):
                continue
            shape = self.stored[product.weight].shape
            shape = shape[::-1] if product.turned else shape
            bias = self.stored.get(product.bias)
            if len(shape) != 2 or (bias is not None and (len(own) != 2 or bias.shape != shape[:1])):
                continue
            if self._store_product(product, own):
                yield name, product

    def _store_product(self, product: Product, own: Sequence[str]) -> bool:
        """Store the parameters of a dense layer; a bias that the exporter left out is of zeros."""
        weight = self.stored[product.weight]
        weight = weight.transposed() if product.turned else weight
        if not self._store(own[0], product.weight, weight):
            return False
        if len(own) < 2:
            return True
        if product.bias:
            return self._store(own[1], product.bias, self.stored[product.bias])
        return self._store_full(own[1], weight.shape[0], 0, weight.dtype)

    def _add_product(self, node: onnx.NodeProto, line: Line) -> None:
        """Add a dense layer."""
        product, own = self.products[line.name], self._own(line)
        layer = onnx.helper.make_node("Linear", [product.data, *own], node.output, node.name, domain=TRACED)
        layer.metadata_props.extend(node.metadata_props)
        self.nodes.append(layer)

    def _own(self, line: Line) -> list[str]:
        """Return the names of the parameters that a line reads, in order."""
        return list(dict.fromkeys(self.names[r] for r in line.reads if r in self.names))

    def _find_missing(self, name: str) -> list[str]:
        """Return the parameters that a line reads and none of its nodes, in order."""
        numbers = self.groups[name]
        read = {operand for number in numbers for operand in self.file_nodes[number].input}
        line = self.lines[numbers[0]]
        return [] if line is None else [own for own in self._own(line) if own not in read]

    def _store(self, name: str, source: str, data: TensorData) -> bool:
        """Store a parameter under its name; returns whether that is so: one name is of one value."""
        held = self.traced.stored.get(name)
        if held is None:
            self.traced.stored[name] = replace(data, storage=(data.storage, source, name))
            return True
        if held is data:
            return True
        same = (held.dtype, held.shape) == (data.dtype, data.shape)
        return same and np.array_equal(held.numpy(), data.numpy())

    def _store_full(self, name: str, size: int, number: float, dtype: str) -> bool:
        return self._store(name, "", TensorData.of(np.full(size, number, numpy_dtype(dtype))))

    def _add_bias(self, node: onnx.NodeProto, line: Line, own: Sequence[str], missing: Sequence[str]) -> None:
        """Add the bias of zeros that the exporter left out of a layer."""
        at = 1 if line.target.startswith("aten.addmm") else 0  # (bias, data, weight)
        weight = self.traced.stored.get(own[at])
        size = None if weight is None else _channels(node, weight.shape)
        if weight is None or size is None or len(own) != 2 or missing != [own[1 - at]]:
            return
        if len(node.input) == 2 and self._store_full(missing[0], size, 0, weight.dtype):
            node.input.append(missing[0])

    def _new_name(self, name: str) -> str:
        """Return a name that no value of the file has."""
        while name in self.values:
            name = f"{name}_"
        self.values.add(name)
        self.traced.made.add(name)
        return name

    # -- normalisations --------------------------------------------------------------------------

    def _unfold_norm(self, node: onnx.NodeProto, line: Line) -> bool:
        """Add a layer and the normalisation behind it; returns whether the names of both are known.

        The statistics are no longer in the file: the normalisation gets those of a layer whose results have
        the mean 0 and the variance 1, and so computes the same.
        """
        own = self._own(line)
        weight = self.stored.get(node.input[1])
        if len(own) != _STATISTICS or len(line.numbers) < 2 or weight is None or not node.input[0]:
            return False
        given = node.input[2] if len(node.input) > 2 else ""  # the exporter leaves out one of zeros
        bias = self.stored.get(given)
        path, _, leaf = node.input[1].rpartition(".")
        size = _channels(node, weight.shape)
        if (
            node.input[1] not in self.named
            or node.input[1] in own
            or leaf != "weight"
            or size is None
            or (given and (bias is None or bias.shape != (size,)))
            or any(a.name == "beta" and a.f != 1 for a in node.attribute)
        ):
            return False
        momentum, epsilon = line.numbers[-2:]
        if not (0 <= momentum <= 1 and 0 < epsilon <= _LARGEST_EPSILON):
            return False
        dtype, own_bias = weight.dtype, f"{path}.bias" if f"{path}.bias" in self.parameters else ""
        kept = dict(self.traced.stored)
        numbers = dict(zip((own[0], own[2], own[3]), (1.0, 0.0, 1 - epsilon), strict=True))
        stays = bool(given) and given == own_bias  # the file has the sum of both biases by this name
        if bias is None or stays:
            numbers[own[1]] = 0.0
        if own_bias and not stays:
            numbers[own_bias] = 0.0
        stored = [self._store_full(name, size, number, dtype) for name, number in numbers.items()]
        if bias is not None and not stays:
            stored.append(self._store(own[1], given, bias))
        if not all(stored):
            self.traced.stored = kept
            return False
        result, before = node.output[0], self._new_name(f"{node.output[0]}/unscaled")
        norm = onnx.helper.make_node(
            "BatchNormalization",
            [before, *own],
            [result],
            f"{node.name}/norm",
            epsilon=epsilon,
            momentum=1 - momentum,
        )
        norm.metadata_props.extend(node.metadata_props)
        node.output[0] = before
        del node.input[2:]
        if own_bias:
            node.input.append(own_bias)
        self._place(node, path, weight)
        self.nodes += [node, norm]
        self.folded.append(path)
        return True

    def _place(self, node: onnx.NodeProto, path: str, weight: TensorData) -> None:
        """State the module of a layer whose scope is that of the normalisation."""
        parts = path.split(".")
        inner = [".".join(parts[:cut]) for cut in range(1, len(parts))]
        scopes = ["", *(p for p in inner if p in self.classes), path]
        kinds = {"Conv": f"Conv{len(weight.shape) - 2}d", "Gemm": "Linear"}
        kinds["ConvTranspose"] = f"ConvTranspose{len(weight.shape) - 2}d"
        own = self.classes.get(path, f"torch.nn.{kinds[node.op_type]}")
        classes = [*(self.classes.get(p, "") for p in scopes[:-1]), own]
        stated = {SCOPES: [*scopes, node.name], CLASSES: [*classes, node.op_type]}
        for prop in node.metadata_props:
            if prop.key in stated:
                prop.value = str(stated[prop.key])

    # -- parameters ------------------------------------------------------------------------------

    def _unread(self) -> list[str]:
        read = {name for node in self.nodes for name in node.input}
        return [name for name in self.parameters if name not in read]

    def _find_aliases(self) -> None:
        """Find parameters of two modules: those that a call of one reads by the name in the other."""
        unread = set(self._unread())
        for node in self.nodes:
            path = next(reversed(listed(node, SCOPES)[:-1]), "")
            for name in node.input:
                other = f"{path}.{name.rpartition('.')[2]}"
                if name in self.named and other in unread and name != other:
                    self.traced.aliases[other] = name
                    unread.discard(other)

    def _find_folded_parameters(self) -> None:
        """Give parameters back that the exporter repeated, gave more axes, or looked up at fixed places."""
        unread = [name for name in self._unread() if name not in self.traced.aliases]
        nodes, self.nodes = self.nodes, []
        for node in nodes:
            line = line_of(node)
            scopes = listed(node, SCOPES)
            for slot, name in enumerate(node.input if unread and line is not None and scopes else ()):
                data = self.stored.get(name)
                if line is None or data is None or name in self.named or not self._is_read(line, name):
                    continue
                if len(data.shape) < 2 or len(scopes) < 2:
                    continue
                if name.startswith("expand"):
                    own = [n for n in unread if n.rpartition(".")[0] == scopes[-2]]
                    if len(own) == 1 and (result := self._repeat(own[0], name, data, node)):
                        node.input[slot] = result
                        unread.remove(own[0])
                elif name.startswith("view"):
                    own = [n for n in unread if n.rpartition(".")[0] == scopes[-2]]
                    if len(own) == 1 and (result := self._view(own[0], name, data, node)):
                        node.input[slot] = result
                        unread.remove(own[0])
                elif name.startswith("embedding"):
                    start = f"{scopes[-2]}." if scopes[-2] else ""
                    own = [n for n in unread if n.startswith(start) and n.endswith(".weight")]
                    if len(own) == 1 and (result := self._look_up(own[0], name, data, node)):
                        node.input[slot] = result
                        unread.remove(own[0])
            self.nodes.append(node)
        self.lost = unread

    def _is_read(self, line: Line, name: str) -> bool:
        """Whether a line reads a folded value, or one of the same operator: equal ones are stored once."""
        folded = [read.partition("_")[0] for read in line.reads if read not in self.values]
        return name in line.reads or folded.count(name.partition("_")[0]) == 1

    def _find_transposed(self) -> None:
        """Read a parameter where the exporter stored its transpose too, which training would leave behind."""
        by_shape: dict[tuple[int, ...], list[str]] = {}
        for name in self.parameters:
            data = self.traced.stored.get(name)
            if data is not None and len(data.shape) == 2:
                by_shape.setdefault(data.shape[::-1], []).append(name)
        made: dict[str, str] = {}
        nodes, self.nodes = self.nodes, []
        for node in nodes:
            line = line_of(node)
            for slot, name in enumerate(node.input if line is not None else ()):
                data = self.stored.get(name)
                if line is None or data is None or name in self.named or name not in line.reads:
                    continue
                if name not in made:
                    equal = [
                        other
                        for other in by_shape.get(data.shape, ())
                        if (held := self.traced.stored[other]).dtype == data.dtype
                        and np.array_equal(held.numpy().T, data.numpy())
                    ]
                    if len(equal) != 1:
                        continue
                    made[name] = self._insert("Transpose", equal, f"{name}/turned", node)
                node.input[slot] = made[name]
            self.nodes.append(node)

    def _find_results(self) -> Iterator[str]:
        """Yield the constants that the exporter computed of parameters: results of lines of their modules."""
        modules = {name.rpartition(".")[0] for name in self.lost}
        for node in self.nodes:
            line, scopes = line_of(node), listed(node, SCOPES)
            if line is not None and len(scopes) > 1 and scopes[-2] in modules:
                yield from (name for name in node.input if name in line.reads and name in self.stored)

    def _repeat(self, name: str, source: str, data: TensorData, user: onnx.NodeProto) -> str:
        """Add a node that repeats a parameter along the batch; an empty text where the rows differ."""
        array = data.numpy()
        row = replace(TensorData.of(array[:1]), storage=data.storage)
        if not (array == array[:1]).all() or not self._store(name, source, row):
            return ""
        sizes = self._constant(f"{source}/sizes", np.array(data.shape))
        return self._insert("Expand", [name, sizes], f"{source}/repeated", user)

    def _view(self, name: str, source: str, data: TensorData, user: onnx.NodeProto) -> str:
        """Add a node that gives a vector axes of size 1; an empty text for any other view."""
        size = int(np.prod(data.shape))
        if size not in data.shape or not self._store(name, source, data.reshaped((size,))):
            return ""
        sizes = self._constant(f"{source}/sizes", np.array(data.shape))
        return self._insert("Reshape", [name, sizes], f"{source}/viewed", user)

    def _look_up(self, name: str, source: str, data: TensorData, user: onnx.NodeProto) -> str:
        """Add a node that looks the rows of a table up, one after the other; empty for a name in use."""
        rows = int(np.prod(data.shape[:-1]))
        if not self._store(name, source, data.reshaped((rows, data.shape[-1]))):
            return ""
        self.traced.computed.append(name)  # which may have more rows
        places = self._constant(f"{source}/places", np.arange(rows).reshape(data.shape[:-1]))
        path = name.rpartition(".")[0]
        found = self._insert("Gather", [name, places], f"{source}/rows", user)
        parts = path.split(".")
        inner = [".".join(parts[:cut]) for cut in range(1, len(parts))]
        scopes = ["", *(p for p in inner if p in self.classes), path]
        classes = [*(self.classes.get(p, "") for p in scopes[:-1]), "torch.nn.Embedding"]
        for prop in self.nodes[-1].metadata_props:
            if prop.key == SCOPES:
                prop.value = str([*scopes, source])
            elif prop.key == CLASSES:
                prop.value = str([*classes, "Gather"])
        return found

    def _constant(self, name: str, array: np.ndarray) -> str:
        name = self._new_name(name)
        self.traced.stored[name] = TensorData.of(array.astype(np.int64))
        return name

    def _insert(self, operator: str, operands: list[str], result: str, user: onnx.NodeProto) -> str:
        result = self._new_name(result)
        node = onnx.helper.make_node(operator, operands, [result], result)
        node.metadata_props.extend(user.metadata_props)
        self.nodes.append(node)
        return result

    def _state_notes(self) -> None:
        if self.folded:
            self.traced.notes.append(
                f"the exporter folded {len(self.folded)} normalisations into the layers before them, the "
                f"first into `{self.folded[0]}`: they are layers again, of mean 0 and variance 1, "
                f"which is equal in evaluation, not in training: the file lacks their statistics; before "
                f"training, convert the original checkpoint with renames.json"
            )
        if self.lost:
            self.traced.notes.append(
                f"the exporter folded {len(self.lost)} parameters into constants, the first is "
                f"`{self.lost[0]}`; torch.onnx.export(..., optimize=False) keeps them"
            )


def _copied(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _constants(nodes: Sequence[onnx.NodeProto]) -> Iterator[tuple[str, TensorData]]:
    """Yield (name, data) of the tensors that Constant nodes hold, which are initializers elsewhere."""
    for node in nodes:
        if node.op_type == "Constant" and not node.domain and [a.name for a in node.attribute] == ["value"]:
            yield node.output[0], stored_tensor(node.attribute[0].t, node.output[0])


def _channels(node: onnx.NodeProto, shape: tuple[int, ...]) -> int | None:
    """Return how many numbers the bias of a layer has, from the shape of its weight."""
    numbers = {a.name: a.i for a in node.attribute}
    if len(shape) < 2:
        return None
    if node.op_type == "ConvTranspose":
        return shape[1] * numbers.get("group", 1)
    return shape[1 if node.op_type == "Gemm" and not numbers.get("transB") else 0]


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without its nodes and initializers."""
    model = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    model.functions.extend(proto.functions)
    model.graph.name = proto.graph.name
    for field_ in ("input", "output", "value_info", "metadata_props"):
        getattr(model.graph, field_).extend(getattr(proto.graph, field_))
    return model
