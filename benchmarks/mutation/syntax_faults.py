"""Faults in the syntax tree of an emitted ``model.py``."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterator

from .neighbours import CALLS, COMPARISONS, METHODS, OPERATORS

_SHAPES = frozenset({"reshape", "view", "broadcast_to", "tile", "zeros", "ones", "full"})
_AXES = frozenset(
    [
        "transpose",
        "swapaxes",
        "permute",
        "mean",
        "sum",
        "max",
        "softmax",
        "log_softmax",
        "concat",
        "cat",
        "stack",
        "split",
        "squeeze",
        "expand_dims",
        "unsqueeze",
        "flip",
        "cumsum",
        "argmax",
    ]
)
_REDUCTIONS = frozenset(
    {"mean", "sum", "max", "min", "amax", "amin", "prod", "var", "std", "squeeze", "flip"}
)
_LAWS = frozenset({"weight_init", "bias_init", "embedding_table", "gamma_init", "beta_init", "embed_init"})
_TRAINING = frozenset(
    {"affine", "momentum", "p", "dropout", "drop_prob", "keep_prob", "dropout_p", "padding_idx"}
)
_DRAWS = frozenset(
    [
        "Normal",
        "Uniform",
        "HeUniform",
        "HeNormal",
        "XavierUniform",
        "XavierNormal",
        "TruncatedNormal",
        "initializer",
    ]
)
"""What draws initial values: only training starts from them."""

Change = Callable[[], None]


def sites(tree: ast.Module) -> Iterator[tuple[str, str, Change, bool]]:
    """(kind, place, change of this tree, whether only training shows it) of every fault."""
    seen: dict[str, int] = {}
    root, floating = root_of(tree)
    for scope, function in functions_of(tree):
        faults = list(_in_function(function, scope.endswith("construct")))
        if scope == f"{root}.construct":
            faults += _conditional(function, floating)
        for kind, what, change, train in faults:
            place = f"{scope}: {what}"
            seen[f"{kind}{place}"] = seen.get(f"{kind}{place}", 0) + 1
            number = seen[f"{kind}{place}"]
            acts_in_training = train or "ropout" in what or "requires_grad" in what
            yield kind, place if number == 1 else f"{place} ({number})", change, acts_in_training


def root_of(tree: ast.Module) -> tuple[str, bool]:
    """The class that ``build`` makes, and whether the docstring calls its first input floating-point."""
    build = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "build")
    made = next(n for n in ast.walk(build) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    text = next((t for t in (ast.get_docstring(tree) or "").splitlines() if t.startswith("Inputs:")), "")
    return ast.unparse(made.func), text.partition(":")[2].partition(":")[2].strip().startswith("f")


def functions_of(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """(``Class.method``, function) of all that computes or constructs, not of what loads."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name not in ("build", "load", "redrawn"):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    yield f"{node.name}.{child.name}", child


def _in_function(function: ast.FunctionDef, computing: bool) -> Iterator[tuple[str, str, Change, bool]]:
    laws = [
        k.value for n in ast.walk(function) if isinstance(n, ast.Call) for k in n.keywords if k.arg in _LAWS
    ]
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    laws += [n for n in calls if ast.unparse(n.func) in _DRAWS]
    drawing = {id(n) for law in laws for n in ast.walk(law)}
    for node in ast.walk(function):
        if id(node) in drawing:
            if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value:
                new = node.value * 2
                yield (
                    "initial law replaced",
                    f"{_short(node)} -> {new}",
                    lambda n=node, v=new: setattr(n, "value", v),
                    True,
                )
        elif isinstance(node, ast.Call):
            yield from _call(node, computing)
        elif isinstance(node, ast.BinOp):
            for other in OPERATORS.get(type(node.op), []):
                what = f"{_short(node)}: {type(node.op).__name__} -> {other.__name__}"
                yield "neighbour of the operator", what, lambda n=node, o=other: setattr(n, "op", o()), False
            if isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult)):
                yield "operands swapped", _short(node), lambda n=node: _exchange(n, "left", "right"), False
        elif isinstance(node, ast.Compare):
            for other in COMPARISONS.get(type(node.ops[0]), []):
                what = f"{_short(node)}: -> {other.__name__}"
                yield (
                    "neighbour of the operator",
                    what,
                    lambda n=node, o=other: n.ops.__setitem__(0, o()),
                    False,
                )
        elif isinstance(node, ast.Constant) and computing:
            yield from _constant(node)
        elif isinstance(node, ast.Return) and computing and node.value is not None:
            yield from _result(node)
        elif isinstance(node, ast.If):
            if node.orelse:
                yield (
                    "branches swapped",
                    _short(node.test),
                    lambda n=node: _exchange(n, "body", "orelse"),
                    False,
                )
        elif isinstance(node, ast.IfExp):
            yield "branches swapped", _short(node), lambda n=node: _exchange(n, "body", "orelse"), False
    if computing:
        yield from _names(function)


def _call(node: ast.Call, computing: bool) -> Iterator[tuple[str, str, Change, bool]]:
    name, text = ast.unparse(node.func), _short(node)
    for other in CALLS.get(name, []):
        yield "neighbour of the operator", f"{text} -> {other}", lambda o=other: _rename(node, o), False
    if isinstance(node.func, ast.Attribute) and name.partition(".")[0] not in (
        "nn",
        "ops",
        "ms",
        "math",
        "np",
    ):
        for other in METHODS.get(node.func.attr, []):
            what = f"{text}: {node.func.attr} -> {other}"
            yield "neighbour of the operator", what, lambda o=other: setattr(node.func, "attr", o), False
    if name == "nn.Dropout":
        yield "dropout removed", text, lambda: _become(node, "nn.Identity()"), True
    if computing and node.args and (name.startswith(("self.", "ops."))):
        yield "node dropped", text, lambda: _become(node, ast.unparse(node.args[0])), False
    if name == "nn.SequentialCell":
        for at in range(len(node.args)):
            gone = lambda at=at: node.args.__setitem__(at, _expression("nn.Identity()"))  # noqa: E731
            first = ast.unparse(node.args[at])
            train = first.startswith("nn.Dropout")
            yield (
                ("dropout removed" if train else "node dropped"),
                f"{_short(node.args[at])} in {text}",
                gone,
                train,
            )
        for at in range(len(node.args) - 1):
            what = f"{_short(node.args[at])} and {_short(node.args[at + 1])} in {text}"
            if ast.dump(node.args[at]) == ast.dump(node.args[at + 1]):
                continue
            yield "order of layers", what, lambda at=at: _exchange_items(node.args, at, at + 1), False
    elif (
        len({ast.dump(a) for a in node.args[:2]}) > 1
        and computing
        and not name.endswith(("reshape", "transpose"))
    ):
        what = f"{text}: the first two arguments"
        yield "operands swapped", what, lambda: _exchange_items(node.args, 0, 1), False
    method = name.rpartition(".")[2]
    for at, argument in enumerate(node.args):
        set_ = lambda new, at=at: node.args.__setitem__(at, new)  # noqa: E731
        yield from _argument(
            f"{text} argument {at}", "axis" if method in _AXES else "", argument, set_, method
        )
    for keyword in node.keywords:
        if keyword.arg is None:
            continue
        set_ = lambda new, k=keyword: setattr(k, "value", new)  # noqa: E731
        yield from _argument(f"{text} {keyword.arg}", keyword.arg, keyword.value, set_, method)
        train = keyword.arg in _TRAINING or keyword.arg in _LAWS
        kind = "initial law left out" if keyword.arg in _LAWS else "argument left out"
        if name.startswith(("nn.", "ops.")) and _is_default(name, keyword):
            continue
        what = f"{text} {keyword.arg}={_short(keyword.value)}"
        yield kind, what, lambda k=keyword: node.keywords.remove(k), train


def _is_default(name: str, keyword: ast.keyword) -> bool:
    """Whether MindSpore's layer or function has that value when the argument is left out."""
    import mindspore

    assert keyword.arg is not None
    module, _, function = name.partition(".")
    called = getattr(getattr(mindspore, module), function, None)  # none of a method: `ops.square(x).sum`
    try:
        parameters = inspect.signature(called).parameters
        value = ast.literal_eval(keyword.value)
    except (TypeError, ValueError):  # what is written in C has no signature; what is no literal no value
        return False
    return keyword.arg in parameters and bool(parameters[keyword.arg].default == value)


def _argument(
    place: str, name: str, value: ast.expr, put: Callable[[ast.expr], None], method: str
) -> Iterator[tuple[str, str, Change, bool]]:
    train = name in _TRAINING

    def fault(kind: str, new: object) -> tuple[str, str, Change, bool]:
        text = new if isinstance(new, str) else repr(new)
        return kind, f"{place}: {text}", lambda: put(_expression(text)), train or name in _LAWS

    if name in _LAWS:
        for law in ("'zeros'", "'normal'", "0.05"):
            if ast.unparse(value) != law:
                yield fault(
                    "initial law replaced", law if law != "0.05" else "ms.common.initializer.Constant(0.05)"
                )
        return
    try:
        constant = ast.literal_eval(value)
    except ValueError:
        return
    if isinstance(constant, bool):
        yield fault("flag turned", not constant)
    elif isinstance(constant, (int, float)) and name in ("eps", "epsilon"):
        yield fault("epsilon x 10", constant * 10)
    elif name == "momentum":
        yield fault("momentum", 1 - constant)
    elif train and isinstance(constant, float):
        yield fault("dropout ratio", round(constant / 2, 6))
    elif isinstance(constant, float) and constant:
        yield fault("float attribute x 1.1", constant * 1.1)
        yield fault("float attribute x 1.001", constant * 1.001)
    elif isinstance(constant, int) and name:
        kinds = {
            "axis": "axis shifted",
            "stride": "stride + 1",
            "dilation": "dilation + 1",
            "padding": "padding + 1",
        }
        yield fault(kinds.get(name, "integer attribute + 1"), constant + 1)
    elif isinstance(constant, int) and method not in _SHAPES:
        yield fault("integer argument + 1", constant + 1)
    elif isinstance(constant, tuple) and constant and all(isinstance(c, int) for c in constant):
        for at in range(len(constant) - 1):
            if constant[at] != constant[at + 1]:
                new = list(constant)
                new[at], new[at + 1] = new[at + 1], new[at]
                if method not in _REDUCTIONS:  # the order of axes that are reduced means nothing
                    yield fault("tuple reordered", tuple(new))
        yield fault("integer attribute + 1", (constant[0] + 1, *constant[1:]))
        if name == "padding" and len(constant) == 4 and constant[0]:
            yield fault("padding shifted", (constant[0] - 1, constant[1] + 1, *constant[2:]))
    elif isinstance(constant, str) and constant in ("pad", "same", "valid"):
        for other in ("same", "valid"):
            if other != constant:
                yield fault("mode changed", f"'{other}'")
    elif constant in ("nearest", "bilinear", "bicubic", "linear"):
        yield fault("mode changed", "'bilinear'" if constant == "nearest" else "'nearest'")
    elif constant in ("none", "tanh"):
        yield fault("mode changed", "'tanh'" if constant == "none" else "'none'")


def _constant(node: ast.Constant) -> Iterator[tuple[str, str, Change, bool]]:
    value = node.value
    if isinstance(value, float) and value:
        for factor in (1.1, 1.001):
            new = value * factor
            yield (
                "float constant changed",
                f"{value} -> {new:.8g}",
                lambda n=new: setattr(node, "value", n),
                False,
            )
    elif isinstance(value, int) and not isinstance(value, bool):
        yield (
            "integer constant + 1",
            f"{value} -> {value + 1}",
            lambda: setattr(node, "value", value + 1),
            False,
        )


def _result(node: ast.Return) -> Iterator[tuple[str, str, Change, bool]]:
    assert node.value is not None
    value = node.value
    text = _short(value)
    if isinstance(value, ast.Tuple):
        for at in range(len(value.elts) - 1):
            yield "outputs swapped", text, lambda at=at: _exchange_items(value.elts, at, at + 1), False
        return
    old = ast.unparse(value)
    fold = (
        "(lambda y: [t.astype(ms.float16).astype(t.dtype) for t in y] if isinstance(y, (tuple, list)) "
        "else y.astype(ms.float16).astype(y.dtype))"
    )
    put = lambda new: setattr(node, "value", _expression(new))  # noqa: E731
    yield "output through float16", text, lambda: put(f"{fold}({old})"), False
    yield "output of another type", f"{text}: float16", lambda: put(f"({old}).astype(ms.float16)"), False
    yield "output of another type", f"{text}: float64", lambda: put(f"({old}).astype(ms.float64)"), False


def _conditional(function: ast.FunctionDef, floating: bool) -> Iterator[tuple[str, str, Change, bool]]:
    """An output of the net that is wrong at some batches, or for some inputs, only."""
    given = next((a.arg for a in function.args.args if a.arg != "self"), "")
    returned = function.body[-1]
    if (
        not given
        or not isinstance(returned, ast.Return)
        or returned.value is None
        or isinstance(returned.value, ast.Tuple)
    ):
        return
    value = ast.unparse(returned.value)
    tests = [
        ("wrong at batch 1 only", "mutation.shape[0] == 1"),
        ("wrong from batch 4 on", "mutation.shape[0] > 3"),
    ]
    if floating:
        tests += [
            ("wrong where an input is above 6", "float(mutation.max()) > 6"),
            ("wrong where an input is below -6", "float(mutation.min()) < -6"),
            ("wrong where all inputs are at least 0", "float(mutation.min()) > -1e-9"),
        ]
    for kind, test in tests:

        def change(test: str = test) -> None:
            returned.value = _expression(f"({value}) * (1.1 if {test} else 1.0)")
            function.body.insert(0, ast.parse(f"mutation = {given}").body[0])

        yield kind, _short(returned), change, False


def _names(function: ast.FunctionDef) -> Iterator[tuple[str, str, Change, bool]]:
    """A variable that is read becomes another one that has a value by then; a child becomes its neighbour."""
    known = [a.arg for a in function.args.args if a.arg != "self"]
    for statement in function.body:
        reads = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        for name in reads:
            for other in known:
                if name.id in known and other != name.id:
                    what = f"{_short(statement)}: `{name.id}` -> `{other}`"
                    yield "edge to another value", what, lambda n=name, o=other: setattr(n, "id", o), False
        if isinstance(statement, ast.Assign):
            made = [n.id for n in ast.walk(statement.targets[0]) if isinstance(n, ast.Name)]
            known += [name for name in made if name not in known and name != "_"]


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:60]}...{text[-25:]}"


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _rename(node: ast.Call, name: str) -> None:
    """Call another function or class, without the arguments that only the old one had."""
    node.func = _expression(name)
    if name in (
        "nn.ReLU",
        "nn.ReLU6",
        "nn.Identity",
        "nn.Sigmoid",
        "nn.SiLU",
        "nn.HSwish",
        "nn.ELU",
        "nn.LeakyReLU",
    ):
        node.args, node.keywords = [], []


def _become(node: ast.Call, text: str) -> None:
    """Turn a call into another expression in place: the call of a function that returns it."""
    new = _expression(f"(lambda x: x)({text})")
    assert isinstance(new, ast.Call)
    node.func, node.args, node.keywords = new.func, copy.deepcopy(new.args), []
    if text == "nn.Identity()":
        node.func, node.args = _expression("nn.Identity"), []


def _exchange(node: ast.AST, first: str, second: str) -> None:
    a, b = getattr(node, first), getattr(node, second)
    setattr(node, first, b)
    setattr(node, second, a)


def _exchange_items(items: list[ast.expr], first: int, second: int) -> None:
    items[first], items[second] = items[second], items[first]
