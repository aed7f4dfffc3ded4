"""The kinds of node in the dataflow graph, and references to their outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from .initializers import Initializer
from .operators import signature, traits_of
from .signatures import Signature
from .tensors import TensorData
from .traits import Traits
from .types import TensorType

if TYPE_CHECKING:
    from .graph import Graph


class Nested:
    """Base class of `Graph`, by which an operator's nested graphs are told from other attributes."""


class Value(NamedTuple):
    """Output number `output` of the node with key `node`."""

    node: int
    output: int = 0


"""The type of an attribute; ONNX has no booleans, a flag is 0 or 1."""


@dataclass(slots=True, eq=False)
class Input:
    """A formal input of a graph."""

    name: str
    type: TensorType
    key: int = -1

    @property
    def types(self) -> list[TensorType | None]:
        """The type of its one output."""
        return [self.type]


@dataclass(slots=True, eq=False)
class Capture:
    """In a nested graph: a value of the enclosing graph, number `index` of its owner's captures."""

    index: int
    type: TensorType
    key: int = -1

    @property
    def types(self) -> list[TensorType | None]:
        """The type of its one output."""
        return [self.type]


@dataclass(slots=True, eq=False)
class Constant:
    """A tensor that is part of the program rather than of the state."""

    data: TensorData
    key: int = -1

    @property
    def types(self) -> list[TensorType | None]:
        """The type of its one output."""
        return [self.data.type]


@dataclass(slots=True, eq=False)
class Parameter:
    """State of the model: a weight, or a buffer such as a running mean. Lives in the root graph only.

    Identity is the node, never the name: two parameters may have one name, and the paths that hold a
    parameter are in the module tree (`Graph.parameter_paths`).

    Attributes:
        name: current name.
        declared: name in the source, which may collide.
        data: the values.
        trainable: whether an optimizer may change it.
        is_buffer: whether it is state that no gradient reaches by design (running statistics).
        initializer: initial distribution, or None for unknown.
        location: where the source created or inserted it; empty when not known.
        role: what the state is for, where a framework tells ("weight", "moving_mean"…); informative, but for
            the parts of a quantised weight, see `quantised_parts`.
        absorbed: declared names of the parameters that were tied into this one, in the order it happened.
    """

    name: str
    declared: str
    data: TensorData
    trainable: bool = True
    is_buffer: bool = False
    initializer: Initializer | None = None
    location: str = ""
    role: str = ""
    absorbed: tuple[str, ...] = ()
    key: int = -1

    @property
    def type(self) -> TensorType:
        """Its tensor type, always static."""
        return self.data.type

    @property
    def types(self) -> list[TensorType | None]:
        """The type of its one output."""
        return [self.data.type]


@dataclass(slots=True, eq=False)
class Operator:
    """One application of an ONNX operator or of a composite of ours.

    Attributes:
        op_type: name in its domain.
        domain: "" for ONNX, "regraft" for composites.
        attributes: name -> value; If and Loop hold `Graph`s here.
        types: one per output, None where unknown.
        call: key of the module call it belongs to, or None.
        location: source line or source node name, for messages.
        hint: a name for the text form; no meaning.
        form: (graph's state, form in a target), as the target's backend found it; no meaning.
        upcast: whether the source's code computes it in float32 in a copy of lower precision too; no
            meaning as long as all is float32.
    """

    op_type: str
    domain: str = ""
    attributes: dict[str, object] = field(default_factory=dict[str, object])
    types: list[TensorType | None] = field(default_factory=list[TensorType | None])
    call: int | None = None
    location: str = ""
    hint: str = ""
    key: int = -1
    form: tuple[object, str] | None = field(default=None, compare=False, repr=False)
    upcast: bool = field(default=False, compare=False, repr=False)

    @property
    def qualified_name(self) -> str:
        """``Conv``, or ``regraft.Linear`` for a composite."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def traits(self) -> Traits:
        """The traits of the operator, looked up in one table."""
        return traits_of(self.op_type, self.domain)

    @property
    def is_random(self) -> bool:
        """Whether two runs of it on equal operands differ, in training at least."""
        traits = self.traits
        return traits.random or (traits.drops_inside and bool(self.attributes.get("dropout")))

    @property
    def is_pure(self) -> bool:
        """Whether one run of it can stand for two on equal operands, in training too."""
        traits = self.traits
        return not (traits.control_flow or traits.own_gradient or self.is_random)

    @property
    def signature(self) -> Signature:
        """Arity and attributes of the operator, of its schema or as the composite declares them."""
        return signature(self.op_type, self.domain)

    def attribute(self, name: str) -> object:
        """Return an attribute: as given, else the signature's default; None where there is neither."""
        if name in self.attributes:
            return self.attributes[name]
        spec = self.signature.attributes.get(name)
        assert spec is not None, f"`{self.qualified_name}` has no attribute `{name}`"
        return spec.default

    def int(self, name: str) -> int:
        """Return an integer attribute."""
        value = self.attribute(name)
        assert isinstance(value, int), (self.op_type, name, value)
        return value

    def float(self, name: str) -> float:
        """Return a float attribute."""
        value = self.attribute(name)
        assert isinstance(value, (int, float)), (self.op_type, name, value)
        return float(value)

    def str(self, name: str) -> str:
        """Return a string attribute."""
        value = self.attribute(name)
        assert isinstance(value, str), (self.op_type, name, value)
        return value

    def ints(self, name: str) -> list[int]:
        """Return an attribute that is a list of integers, empty where there is neither value nor default."""
        value = self.attribute(name)
        if value is None:
            return []
        assert isinstance(value, (list, tuple)), (self.op_type, name, value)
        return list(cast("list[int]", value))

    def spatial(self, name: str, rank: int) -> list[int]:
        """Return an attribute with numbers for each spatial axis, by ONNX's rule where it is not given.

        By that rule strides and dilations are 1 along each axis, and padding is 0 at its beginning and end.

        Args:
            name: "strides", "dilations", "pads" or "output_padding".
            rank: number of spatial axes.
        """
        return self.ints(name) or _SPATIAL[name] * rank

    def is_usual(self, name: str) -> bool:
        """Whether an attribute says nothing: it has the values that ONNX's rule gives where it is left out.

        A convolution's ``kernel_shape`` says nothing either, because its weight has that shape.
        """
        if name == "kernel_shape":
            return "Conv" in self.op_type
        return name in _SPATIAL and all(number == _SPATIAL[name][0] for number in self.ints(name))

    def subgraphs(self) -> dict[str, Graph]:
        """Return the nested graphs among its attributes."""
        nested = {name: value for name, value in self.attributes.items() if isinstance(value, Nested)}
        return cast("dict[str, Graph]", nested)


_SPATIAL = {"strides": [1], "dilations": [1], "pads": [0, 0], "output_padding": [0]}
"""Attribute -> its default for one spatial axis, which ONNX states in words only."""

Node = Input | Capture | Constant | Parameter | Operator
