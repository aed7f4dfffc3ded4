"""Random MindSpore Cells, against PyNative by way of ONNX Runtime."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import mindspore as ms
import onnxruntime
from hypothesis import strategies as st

import regraft
from regraft.backends.onnx_model import to_model
from regraft.frontends.mindspore_cell import read
from regraft.frontends.options import LoadOptions

from .program import EXAMPLE, OTHERS, Program, Template, Values, close, grow

_NAMES = {"ms": ms, "ops": ms.ops, "mint": ms.mint, "Tensor": ms.Tensor}
_NUMBER = count()
_HEAD = "import mindspore as ms\nfrom mindspore import Tensor, mint, nn, ops\n\n\nclass Net(nn.Cell):\n"


def _kind(value: Any) -> str:
    if value.dtype == ms.bool_:
        return "b"
    return "f" if "Float" in str(value.dtype) else "i"


def _of(
    *forms: str, kinds: str = "f", rank: int | None = None, least: int = 0, sharp: bool = False
) -> Template:
    """A template of texts: ``x`` and ``y`` stand for values of these kinds, ``axis`` for one of x's."""

    def template(draw: st.DrawFn, v: Values) -> str:
        form = draw(st.sampled_from(forms))
        x = v.pick(draw, kinds, rank=rank, least=least, sharp=sharp)
        y = v.pick(draw, kinds, rank=rank, least=least, sharp=sharp) if "{y}" in form else ""
        axis = v.axis(draw, x) if "{axis}" in form else 0
        keep = draw(st.booleans()) if "{keep}" in form else False
        return form.format(x=x, y=y, axis=axis, keep=keep)

    return template


SHARP = [
    _of("ops.abs({x})", "-{x}", "ops.square({x})", "ops.sign({x})", "ops.relu({x})"),
    _of("ops.floor({x})", "ops.ceil({x})", "ops.round({x})", "ops.trunc({x})", sharp=True),
    _of("{x} + {y}", "{x} - {y}", "{x} * {y}", "ops.maximum({x}, {y})", "ops.minimum({x}, {y})", kinds="fi"),
    _of("{x} + 1", "2 - {x}", "{x} * 3", "mint.add({x}, 2, alpha=3)", "mint.sub({x}, 1)", kinds="fi"),
    _of("{x} // 3", "{x} % 3", "{x} // -2", "{x} % -2", kinds="fi", sharp=True),
    _of("{x} < {y}", "{x} >= {y}", "{x} == {y}", "{x} != {y}", kinds="fi", sharp=True),
    _of("{x} > 0", "mint.eq({x}, 1)", "mint.ge({x}, 0)", kinds="fi", sharp=True),
    _of("ops.logical_and({x}, {y})", "ops.logical_or({x}, {y})", "ops.logical_not({x})", kinds="b"),
    _of("ops.select({x} > 0, {x}, {y})", "ops.masked_fill({x}, {y} > 0, 0.5)", sharp=True),
    _of("ops.clamp({x}, -1, 1)", "ops.clip_by_value({x}, 0, 2)", kinds="fi"),
    _of("{x}.astype(ms.float32)", "{x}.astype(ms.int32)", "{x}.astype(ms.float64)", kinds="fib", sharp=True),
    _of("ops.sum({x}, {axis}, keepdim={keep})", "ops.amax({x}, {axis}, {keep})", least=2, sharp=True),
    _of(
        "ops.argmax({x}, {axis})", "ops.cumsum({x}, {axis})", "ops.sort({x}, {axis})[0]", least=2, sharp=True
    ),
    _of("ops.flip({x}, ({axis},))", "{x}.flatten(start_dim=1)", "{x}.expand_dims({axis})", least=2),
    _of("ops.swapaxes({x}, 0, {axis})", "ops.swapaxes({x}, 1, {axis})", "{x}.reshape(-1)", least=2),
    _of("{x}[:, 1:]", "{x}[:, ::2]", "{x}[:, -1]", "{x}[:, 0:1]", "{x}[..., 1]", kinds="fib", least=2),
    _of("ops.cat(({x}, {y}), 1)", "ops.stack(({x}, {x}), {axis})", "ops.tile({x}, (1, 2))", least=2),
    _of("ops.split({x}, 1, {axis})[0]", "ops.roll({x}, 1, {axis})", "ops.unstack({x}, {axis})[-1]", least=2),
    _of(
        "ops.gather({x}, Tensor([0, 0, 0]), {axis})",
        "ops.one_hot(ops.argmax({x}, 1), 2)",
        least=2,
        sharp=True,
    ),
    _of("ops.max_pool2d({x}, 2, 2)", "ops.avg_pool2d({x}, 3, 2, 1)", "ops.max_pool2d({x}, 3, 1, 1)", rank=4),
    _of("ops.adaptive_avg_pool2d({x}, 1)", "ops.interpolate({x}, size=(7, 8), mode='nearest')", rank=4),
    _of("ops.conv2d({x}, ops.ones((2, 3, 3, 2)) / 4, pad_mode='same')", "ops.pad({x}, (1, 2))", rank=4),
    _of("ops.conv2d({x}, ops.ones((2, 3, 2, 2)) / 4, stride=2, pad_mode='pad', padding=1)", rank=4),
]
ROUNDED = [
    _of("ops.tanh({x})", "ops.sigmoid({x})", "ops.sin({x})", "ops.erf({x})", "ops.gelu({x})"),
    _of("ops.log(ops.abs({x}) + 1)", "ops.sqrt(ops.abs({x}))", "ops.rsqrt(ops.abs({x}) + 1)"),
    _of("ops.softmax({x}, {axis})", "ops.log_softmax({x}, {axis})", least=2),
    _of("ops.matmul({x}, ops.swapaxes({x}, -1, -2))", least=2),
    _of("ops.mean({x}, {axis}, {keep})", "ops.std({x}, {axis}, keepdims={keep})", least=2),
    _of("{x} / (ops.abs({y}) + 1)", kinds="fi"),
]


class Invalid(LookupError):
    """A line that MindSpore itself refuses."""


@st.composite
def programs(draw: st.DrawFn) -> Program:
    shapes = draw(st.sampled_from([((3, 6, 5),), ((3, 4), (3, 4)), ((4,), (3, 4))]))
    types = ["float32", draw(st.sampled_from(["float32", "int32", "bool"]))]
    program = Program({f"x{n}": (s, t) for n, (s, t) in enumerate(zip(shapes, types, strict=False))})
    example = {n: ms.Tensor(a) for n, a in zip(program.inputs, program.arrays(EXAMPLE), strict=True)}
    values = Values(program, dict(example), _kind)

    def evaluate(text: str) -> Any:
        try:
            found = eval(text, {**_NAMES, **values.known})
            size = found.asnumpy().size  # which waits for what runs behind
        except (
            RuntimeError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
            NotImplementedError,
        ) as error:
            raise Invalid(str(error)) from error
        if not 0 < size < 20_000 or (_kind(found) == "f" and not abs(found.asnumpy()).max() < 1e3):
            raise Invalid("not finite, or large")
        return found

    return grow(draw, values, SHARP, ROUNDED, evaluate, draw(st.integers(1, 9)))


def cell(program: Program, folder: Path) -> ms.nn.Cell:
    """The program as a Cell, of a file that MindSpore can compile."""
    name = f"programs_{next(_NUMBER)}"
    text = "".join(f"    {line}\n" for line in program.source("construct").splitlines())
    (folder / f"{name}.py").write_text(_HEAD + text)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.Net().set_train(False)


def check(program: Program) -> None:
    """Assert that what regraft makes of a program computes what PyNative does, at other batch sizes too."""
    with tempfile.TemporaryDirectory() as folder:
        net = cell(program, Path(folder))
        graph = read(net, [("", a) for a in program.arrays(EXAMPLE)], LoadOptions())
        graph = regraft.rewrite(graph, verify_each=True).graph
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(to_model(graph).SerializeToString(), options)
        names, given = [n.name for n in graph.input_nodes()], {i.name for i in session.get_inputs()}
        symbolic = any(n.type.shape and n.type.shape[0] == "N" for n in graph.input_nodes())
        for batch in (EXAMPLE, *(OTHERS if symbolic else ())):
            arrays = dict(zip(names, program.arrays(batch, seed=batch), strict=True))
            want = net(*map(ms.Tensor, arrays.values()))
            got = session.run(None, {n: a for n, a in arrays.items() if n in given})
            for name, g, w in zip(program.outputs, got, want, strict=True):
                close(g, w.asnumpy(), f"{name} at batch {batch}")
