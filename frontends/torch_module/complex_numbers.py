"""Complex tensors as pairs of real ones: how a call that takes or gives some is run on their parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...ir import Builder, Constant, Parameter, TensorData, UnsupportedError, Value
from ..complex_numbers import Complex
from .decompositions import fake_mode, is_fed, trace_first

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node


@dataclass(frozen=True, slots=True)
class InParts:
    """A call on complex tensors as a program on real ones.

    Attributes:
        body: the program.
        operands: for each of its inputs, the node it comes from and which part of it: "", "real" or "imag".
        spec: how the program's results make up those of the call, each leaf a result or a complex one.
    """

    body: GraphModule
    operands: list[tuple[Node, str]]
    spec: Any

    def results(self, values: list[Value]) -> Any:
        """Return the results of the call, as values of the program."""
        import torch.utils._pytree as pytree

        waiting = iter(values)
        shape, kinds = self.spec
        leaves = [Complex(next(waiting), next(waiting)) if kind else next(waiting) for kind in kinds]
        return pytree.tree_unflatten(leaves, shape)


def in_parts(node: Node) -> InParts | None:
    """Return a call on complex tensors as a program on real ones; None where the operator has no such form.

    Raises:
        Untraceable: when it has one that these arguments do not fit.
    """
    import torch
    import torch.utils._pytree as pytree
    from torch.fx import Node

    from .expansions import complex_expansion

    function, mode = complex_expansion(node.target), fake_mode(node)
    if function is None or mode is None:
        return None
    leaves, spec = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    values = [leaf.meta["val"] if isinstance(leaf, Node) else leaf for leaf in leaves]
    operands: list[tuple[Node, str]] = []
    fakes: list[torch.Tensor] = []
    for leaf, value in zip(leaves, values, strict=True):
        if not isinstance(leaf, Node) or not is_fed(value):
            continue
        if not _is_complex(value):
            operands.append((leaf, ""))
            fakes.append(value)
            continue
        operands += [(leaf, "real"), (leaf, "imag")]
        with mode:
            fakes += [torch.empty(value.shape, dtype=value.dtype.to_real()) for _ in range(2)]
    kinds: list[tuple[Any, list[bool]]] = []

    wanted = pytree.tree_leaves(node.meta["val"])

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        waiting = iter(tensors)
        given: list[Any] = []
        for leaf, value in zip(leaves, values, strict=True):
            if not isinstance(leaf, Node) or not is_fed(value):
                given.append(value)
            elif _is_complex(value):
                given.append(Complex(next(waiting), next(waiting)))
            else:
                given.append(next(waiting))
        args, kwargs = pytree.tree_unflatten(given, spec)
        found, shape = pytree.tree_flatten(function(*args, **kwargs))
        kinds.append((shape, [isinstance(x, Complex) for x in found]))
        whole = [
            _whole(x, fake) if isinstance(x, Complex) else (x,) for x, fake in zip(found, wanted, strict=True)
        ]
        return tuple(t for x in whole for t in x)

    body = trace_first([run], fakes, mode, composites=True)
    return InParts(body, operands, kinds[-1])


def _is_complex(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtype.is_complex


def _whole(x: Complex, fake: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return both parts of a result as tensors of its shape.

    The part of a sum that one term alone has is of that term's shape, and where no term has it, a number.
    """
    import torch

    parts = []
    for part in (x.real, x.imag):
        if not isinstance(part, torch.Tensor):
            part = torch.full(fake.shape, part, dtype=fake.dtype.to_real())
        elif [*map(str, part.shape)] != [*map(str, fake.shape)]:
            part = part.expand(fake.shape)
        parts.append(part)
    return tuple(parts)


def part_of(b: Builder, value: Value | Complex, part: str, place: str) -> Value:
    """Return one part of a complex value; that of a constant or buffer is another constant.

    Raises:
        UnsupportedError: for a complex input, and for a complex parameter that is trained.
    """
    if isinstance(value, Complex):
        return value.real if part == "real" else value.imag
    producer = b.graph.producer(value)
    if isinstance(producer, Constant) or (isinstance(producer, Parameter) and not producer.trainable):
        array = producer.data.numpy()
        return b.graph.add_constant(TensorData.of(getattr(array, part).copy()))
    what = f"the parameter `{producer.name}`" if isinstance(producer, Parameter) else "a complex input"
    raise UnsupportedError(
        "E203",
        f"expected complex numbers that the model computes or holds as a buffer, got {what}",
        place=place,
        hint="give its real and imaginary part as two tensors",
    )


def on_a_last_axis(b: Builder, pair: Complex) -> Value:
    """Return both parts as one value, as `torch.view_as_real` lays them out."""
    both = [b.op("Unsqueeze", v, b.constant([-1])) for v in (pair.real, pair.imag)]
    return b.op("Concat", *both, axis=-1)
