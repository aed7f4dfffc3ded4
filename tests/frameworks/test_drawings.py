"""The initializers of each framework: what is written for a law draws from that law, and is read as it."""

import json
import math

import pytest

from regraft.frameworks import GLUON, MINDSPORE, TORCH, framework_of
from regraft.frontends.mxnet_symbol.initializers import stated_initializer
from regraft.ir import Initializer

LAWS = (
    Initializer.of("zeros"),
    Initializer.of("ones"),
    Initializer.of("identity"),
    Initializer.of("constant", value=0.25),
    Initializer.of("uniform", low=-0.25, high=0.25),
    Initializer.of("normal", mean=0.0, std=0.3),
    Initializer.of("normal", mean=1.0, std=0.5),
    Initializer.of("trunc_normal", mean=0.0, std=0.5, low=-2.0, high=2.0),
    Initializer.of("trunc_normal", mean=0.0, std=0.5, low=-1.0, high=2.0),
    Initializer.of("he_uniform", a=math.sqrt(5), mode="fan_in"),
    Initializer.of("he_uniform", a=0.0, mode="fan_in"),
    Initializer.of("he_normal", a=0.5, mode="fan_out"),
    Initializer.of("xavier_uniform", gain=1.0),
    Initializer.of("xavier_normal", gain=2.0),
    Initializer.of("orthogonal", gain=0.5),
    Initializer.of("sparse", sparsity=0.25, std=0.01),
)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_mindspore(law: Initializer) -> None:
    from mindspore.common import initializer

    from regraft.frontends.mindspore_cell.initializers import law_of_object

    text = MINDSPORE.text(law)
    assert law_of_object(eval(text, {"math": math, **vars(initializer)})) == law, text


@pytest.mark.parametrize("law", [*LAWS, Initializer.of("uniform", low=-0.5, high=0.25)], ids=str)
def test_torch(law: Initializer) -> None:
    from torch import nn, zeros

    from regraft.frontends.torch_module.modules.construction import laws_of, watch_construction

    net = nn.Module()
    net.weight = nn.Parameter(zeros(8, 6))
    text = TORCH.text(law, "net.weight")
    with watch_construction() as keep:
        eval(text, {"math": math, "nn": nn, "net": net})
        keep(net)
    assert laws_of(net)[id(net.weight)] == law, text


class Mx:
    """MXNet's initializers as far as it needs no MXNet: what they write into a symbol."""

    def __getattr__(self, name: str):
        keywords = {"Xavier": ("rnd_type", "factor_type", "magnitude"), "Uniform": ("scale",)}
        others = {"Constant": ("value",), "Normal": ("sigma",), "Orthogonal": ("scale",)}
        return lambda *given: json.dumps(
            [name.lower(), dict(zip((keywords | others).get(name, ()), given, strict=True))]
        )

    init = property(lambda self: self)


@pytest.mark.parametrize(
    "law",
    [
        *(each for each in LAWS if GLUON.text(each)),
        Initializer.of("bilinear"),
    ],
    ids=str,
)
def test_mxnet(law: Initializer) -> None:
    text = GLUON.text(law)
    found = stated_initializer(eval(text, {"mx": Mx()}), (8, 6, 3, 3))
    assert found is not None
    assert found.law == law.law
    for name, value in law.arguments:
        assert found.argument(name, 0.0) == (
            value if isinstance(value, str) else pytest.approx(value, abs=1e-6)
        )


def test_what_a_framework_cannot_draw_is_not_written() -> None:
    uneven = Initializer.of("uniform", low=-0.5, high=0.25)
    assert MINDSPORE.text(uneven) == GLUON.text(uneven) == ""
    assert GLUON.text(Initializer.of("normal", mean=1.0, std=0.5)) == ""
    assert MINDSPORE.text(Initializer.of("unknown")) == GLUON.text(Initializer.of("unknown")) == ""
    assert TORCH.text(Initializer.of("lstm_bias", forget_bias=1.0), "w") == ""
    assert framework_of("onnx").text(Initializer.of("zeros")) == ""
