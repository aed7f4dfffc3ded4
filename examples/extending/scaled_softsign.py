"""A user-defined operator, ``scale * x / (1 + |x|)``, read from three frameworks and written for four.

`regraft rewrite MODEL -o OUT --extension scaled_softsign.py`, or imported before `regraft.load`.
"""

import regraft


def expand(builder, operator, operands):
    """Expand to ONNX's operators, for targets and comparisons that do not know this one."""
    (x,) = operands
    return [builder.op("Mul", builder.op("Softsign", x), builder.scalar_like(operator.float("scale"), x))]


NAME = regraft.add_operator(
    "ScaledSoftsign", expand, inputs="X", attributes={"scale": 1.0}, summary="Y = scale * X / (1 + |X|)"
)


@regraft.add_lowering("torch", "mylib.scaled_softsign.default")  # of a torch.library.custom_op
def from_torch(call):
    return call.op(NAME, call.value("x"), scale=call.float("scale"))


@regraft.add_lowering("mindspore", "Custom.twice_softsign")  # ops.Custom(twice_softsign, …)
def from_mindspore(call):
    return call.op(NAME, call.value(0), scale=2.0)


@regraft.add_lowering("mxnet", "scaled_softsign")  # an operator of your own MXNet build
def from_mxnet(call):
    return call.op(NAME, call.value(0), scale=call.float("scale", 1.0))


@regraft.add_emitter("mindspore", NAME)
def to_mindspore(view):
    return f"{view.operator.float('scale')} * ops.softsign({{0}})"


@regraft.add_emitter("torch", NAME)
def to_torch(view):
    return f"{view.operator.float('scale')} * F.softsign({{0}})"


@regraft.add_emitter("mxnet", NAME)
def to_mxnet(view):
    return view.node("scaled_softsign", view.inputs(), scale=view.operator.float("scale"))
