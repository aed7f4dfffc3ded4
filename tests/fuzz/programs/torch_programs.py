"""Random PyTorch programs, against torch itself by way of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import onnxruntime
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch._higher_order_ops.while_loop import while_loop

import regraft
from regraft.backends.onnx_model import to_model
from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read

from .program import EXAMPLE, OTHERS, Program, Values, close, grow

_NAMES = {"torch": torch, "F": F, "while_loop": while_loop}
_TYPES = ["float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool"]


def _kind(value: torch.Tensor) -> str:
    if value.dtype == torch.bool:
        return "b"
    return "f" if value.is_floating_point() else "i"


def _one(draw: Any, options: str) -> str:
    return draw(st.sampled_from(options.split()))


def unary(draw, v):
    return f"{v.pick(draw, 'fi')}.{_one(draw, 'neg abs square sign relu')}()"


def stepwise(draw, v):
    return f"{v.pick(draw, 'f', sharp=True)}.{_one(draw, 'floor ceil round trunc frac')}()"


def binary(draw, v):
    return f"torch.{_one(draw, 'add sub mul maximum minimum')}({v.pick(draw, 'fi')}, {v.pick(draw, 'fi')})"


def numbered(draw, v):
    number = draw(st.sampled_from(["2", "-1", "0.5", "3"]))
    return f"{v.pick(draw, 'fi')} {_one(draw, '+ - *')} {number}"


def divided(draw, v):
    x, number = v.pick(draw, "fi", sharp=True), draw(st.sampled_from([2, -4, 0.5]))
    return f"torch.div({x}, {number}, rounding_mode='{_one(draw, 'floor trunc')}')"


def remainder(draw, v):
    x, number = v.pick(draw, "fi", sharp=True), draw(st.sampled_from([3, -3, 0.75]))
    return f"torch.{_one(draw, 'remainder fmod')}({x}, {number})"


def bits(draw, v):
    return f"{v.pick(draw, 'i')} {_one(draw, '& | ^')} {draw(st.integers(1, 7))}"


def compared(draw, v):
    x = v.pick(draw, "fi", sharp=True)
    return f"torch.{_one(draw, 'lt le gt ge eq ne')}({x}, {v.pick(draw, 'fi', sharp=True)})"


def logic(draw, v):
    return f"torch.logical_{_one(draw, 'and or xor')}({v.pick(draw, 'b')}, {v.pick(draw, 'bfi', sharp=True)})"


def chosen(draw, v):
    return f"torch.where({v.pick(draw, 'b')}, {v.pick(draw, 'fi')}, {v.pick(draw, 'fi')})"


def clamped(draw, v):
    return f"{v.pick(draw, 'fi')}.clamp({draw(st.sampled_from(['-1, 1', 'min=0', 'max=0.5', '-2.5, 1']))})"


def cast(draw, v):
    x = v.pick(draw, "fib", sharp=True)
    return f"{x}.to(torch.{draw(st.sampled_from(_TYPES))})"


def reduced(draw, v):
    x = v.pick(draw, "fi", least=2, sharp=True)
    axis = v.axis(draw, x, first=draw(st.sampled_from([0, 1, 1, 1])))
    keep = draw(st.booleans())
    return f"{x}.{_one(draw, 'sum amax amin')}({axis}, keepdim={keep})"


def located(draw, v):
    x = v.pick(draw, "fi", least=2, sharp=True)
    return f"{x}.{_one(draw, 'argmax argmin')}({v.axis(draw, x)})"


def truths(draw, v):
    x = v.pick(draw, "b", least=2)
    return f"{x}.{_one(draw, 'any all')}({v.axis(draw, x)})"


def scanned(draw, v):
    x = v.pick(draw, "fi", least=2, sharp=True)
    return f"{x}.{_one(draw, 'cumsum flip')}({v.axis(draw, x, first=0)})"


def ordered(draw, v):
    x = v.pick(draw, "fi", least=2, sharp=True)
    return f"{x}.sort({v.axis(draw, x)}, descending={draw(st.booleans())})[0]"


def reshaped(draw, v):
    forms = ["flatten(1)", "reshape(-1)", "unsqueeze(1)", "flatten(0, 1)", "unsqueeze(-1)", "squeeze()"]
    return f"{v.pick(draw, 'fib', least=2)}.{draw(st.sampled_from(forms))}"


def sized(draw, v):
    x = v.pick(draw, "fib", least=2)
    return f"{x}.reshape({x}.shape[0], -1, {v.shape(x)[-1]})"


def moved(draw, v):
    x = v.pick(draw, "fib", least=2)
    return f"{x}.transpose({v.axis(draw, x, first=0)}, {v.axis(draw, x, first=0)})"


def cut(draw, v):
    x = v.pick(draw, "fib", least=2)
    axis = v.axis(draw, x)
    part = draw(st.sampled_from(["1:", ":-1", "::2", "-2:", "0", "-1", ":1"]))
    return f"{x}[{', '.join([':'] * axis + [part])}]"


def rolled(draw, v):
    x = v.pick(draw, "fib", least=2)
    return f"{x}.roll({draw(st.integers(-3, 3))}, {v.axis(draw, x, first=0)})"


def joined(draw, v):
    x, y = v.pick(draw, "fi", least=2), v.pick(draw, "fi", least=2)
    return f"torch.cat([{x}, {y}], {v.axis(draw, x)})"


def padded(draw, v):
    x = v.pick(draw, "f", least=3)
    mode = draw(st.sampled_from(["constant", "reflect", "replicate", "circular"]))
    return f"F.pad({x}, ({draw(st.integers(0, 2))}, {draw(st.integers(0, 2))}), mode='{mode}')"


def picked(draw, v):
    x = v.pick(draw, "fib", least=2)
    axis = v.axis(draw, x)
    last = v.shape(x)[axis] - 1
    places = draw(st.lists(st.integers(0, max(last, 0)), min_size=1, max_size=3))
    return f"{x}.index_select({axis}, torch.tensor({places}))"


def counted(draw, v):
    x = v.pick(draw, "fi", least=2)
    return f"{x} + torch.arange({x}.shape[{v.axis(draw, x, first=0)}]).sum()"


def branched(draw, v):
    x = v.pick(draw, "f", least=2, sharp=True)
    return (
        f"torch.cond({x}.sum() > {draw(st.integers(-1, 1))}, lambda x: x * 2, lambda x: x.abs() - 1, ({x},))"
    )


def looped(draw, v):
    x = v.pick(draw, "f", least=2, sharp=True)
    turns = draw(st.integers(0, 3))
    return (
        f"while_loop(lambda i, y: i < {turns}, lambda i, y: (i + 1, y * 0.5 + 1), (torch.tensor(0), {x}))[1]"
    )


def convolved(draw, v):
    x = v.pick(draw, "f", rank=4)
    channels = v.shape(x)[1]
    kernel, stride, pad, dilation = (draw(st.integers(*r)) for r in ((1, 3), (1, 2), (0, 2), (1, 2)))
    group = draw(st.sampled_from([1, channels]))
    return (
        f"F.conv2d({x}, torch.ones({2 * channels}, {channels // group}, {kernel}, {kernel}, "
        f"dtype={x}.dtype) / 4, None, {stride}, {pad}, {dilation}, {group})"
    )


def transposed_convolution(draw, v):
    x = v.pick(draw, "f", rank=4)
    kernel, stride, pad = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(0, 1))
    weight = f"torch.ones({v.shape(x)[1]}, 2, {kernel}, {kernel}, dtype={x}.dtype) / 4"
    return f"F.conv_transpose2d({x}, {weight}, None, {stride}, {pad})"


def pooled(draw, v):
    x = v.pick(draw, "f", rank=4)
    kernel, stride, up = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.booleans())
    pad = draw(st.integers(0, kernel // 2))
    return f"F.max_pool2d({x}, {kernel}, {stride}, {pad}, ceil_mode={up})"


def averaged(draw, v):
    x = v.pick(draw, "f", rank=4)
    kernel, up, counted = draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans())
    pad = draw(st.integers(0, kernel // 2))
    return f"F.avg_pool2d({x}, {kernel}, 2, {pad}, {up}, {counted})"


def smooth(draw, v):
    return f"{v.pick(draw, 'f')}.{_one(draw, 'tanh sigmoid sin cos exp2 erf atan')}()"


def positive(draw, v):
    return f"({v.pick(draw, 'f')}.abs() + 1).{_one(draw, 'log sqrt rsqrt reciprocal log1p')}()"


def normalised(draw, v):
    x = v.pick(draw, "f", least=2)
    return f"{_one(draw, 'torch.softmax F.log_softmax')}({x}, {v.axis(draw, x)})"


def multiplied(draw, v):
    x = v.pick(draw, "f", least=2)
    return f"{x} @ {x}.transpose(-1, -2)"


def mean(draw, v):
    x = v.pick(draw, "f", least=2)
    return f"{x}.{_one(draw, 'mean var std')}({v.axis(draw, x)}, keepdim={draw(st.booleans())})"


def divided_by(draw, v):
    return f"{v.pick(draw, 'fi')} / ({v.pick(draw, 'fi')}.abs() + 1)"


SHARP = [
    *(unary, stepwise, binary, numbered, divided, remainder, bits, compared, logic, chosen, clamped, cast),
    *(reduced, located, truths, scanned, ordered, reshaped, sized, moved, cut, rolled, joined, padded),
    *(picked, counted, branched, looped, convolved, transposed_convolution, pooled, averaged),
]
ROUNDED = [smooth, positive, normalised, multiplied, mean, divided_by]


class Invalid(LookupError):
    """A line that torch itself refuses."""


@st.composite
def programs(draw: st.DrawFn) -> Program:
    shapes = draw(
        st.sampled_from([((3, 6, 5),), ((3, 4),), ((3, 4), (3, 4)), ((4,), (3, 4)), ((2, 5, 5), (5, 5))])
    )
    types = draw(st.lists(st.sampled_from(["float32", "float32", "int64", "bool"]), min_size=2, max_size=2))
    inputs = {f"x{n}": (s, t) for n, (s, t) in enumerate(zip(shapes, ["float32", *types], strict=False))}
    program = Program(inputs)
    example = {n: torch.from_numpy(a) for n, a in zip(inputs, program.arrays(EXAMPLE), strict=True)}
    values = Values(program, dict(example), _kind)

    def evaluate(text: str) -> torch.Tensor:
        try:
            found = eval(text, {**_NAMES, **values.known})
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
            raise Invalid(str(error)) from error
        if not isinstance(found, torch.Tensor) or not 0 < found.numel() < 20_000:
            raise Invalid("no tensor of a small size")
        if found.is_floating_point() and not found.abs().max() < 1e3:
            raise Invalid("not finite, or large")
        return found

    return grow(draw, values, SHARP, ROUNDED, evaluate, draw(st.integers(1, 9)))


class Net(torch.nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        names = dict(_NAMES)
        exec(program.source(), names)
        self.function = names["program"]

    def forward(self, *inputs):
        return self.function(*inputs)


def check(program: Program) -> None:
    """Assert that what regraft makes of a program computes what torch does, at other batch sizes too."""
    net, arrays = Net(program), program.arrays(EXAMPLE)
    graph = read(net, [("", a) for a in arrays], LoadOptions())
    graph = regraft.rewrite(graph, verify_each=True).graph
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString(), options)
    names, given = [n.name for n in graph.input_nodes()], {i.name for i in session.get_inputs()}
    symbolic = any(n.type.shape and n.type.shape[0] == "N" for n in graph.input_nodes())
    for batch in (EXAMPLE, *(OTHERS if symbolic else ())):
        arrays = dict(zip(names, program.arrays(batch, seed=batch), strict=True))
        try:
            with torch.no_grad():
                want = net(*map(torch.from_numpy, arrays.values()))
        except RuntimeError as error:
            raise AssertionError(
                f"torch refuses a batch of {batch}, for which the graph has a symbol: {error}"
            ) from error
        got = session.run(None, {n: a for n, a in arrays.items() if n in given})
        for name, g, w in zip(program.outputs, got, want, strict=True):
            close(g, w.numpy(), f"{name} at batch {batch}")
