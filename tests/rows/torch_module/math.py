"""Cases of element-wise arithmetic and logic."""

from .case import B, C, Case, Group, J, K, P, U, X, Y

_ANY = "abs angle asinh atan ceil cos cosh erf exp expm1 fix floor frac isinf isnan neg round sigmoid sign"
_ANY += " signbit sin sinh square tan tanh trunc"
_POSITIVE = "log log10 log1p log2 reciprocal rsqrt sqrt"

UNARY = Group(
    [
        *(Case(f"aten.{name}.default", X) for name in _ANY.split()),
        *(Case(f"aten.{name}.default", P) for name in _POSITIVE.split()),
        *(Case(f"aten.{name}.default", U) for name in ("acos", "asin", "atanh")),
        Case("aten.acosh.default", P.through(lambda x: x + 1)),
        Case("aten.round.decimals", X, decimals=2),
        Case("aten.bitwise_not.default", J),
        Case("aten.logical_not.default", B),
        *(Case(f"aten.clamp{end}.default", X, 0.3) for end in ("", "_min", "_max")),
    ]
)

ARITHMETIC = Group(
    [
        *(Case(f"aten.{name}.Tensor", X, Y) for name in ("add", "sub", "rsub")),
        *(Case(f"aten.{name}.Scalar", X, 2, 3) for name in ("add", "sub", "rsub")),
        *(Case(f"aten.{name}.Tensor", X, P) for name in ("mul", "div", "true_divide", "fmod", "remainder")),
        *(Case(f"aten.{name}.Scalar", X, 0.7) for name in ("mul", "div", "fmod", "remainder")),
        Case("aten.div.Scalar_mode", X, 0.3, rounding_mode="floor"),
        Case("aten.div.Tensor_mode", X, P, rounding_mode="trunc"),
        Case("aten.floor_divide.Scalar", X, 0.7),
        Case("aten.floor_divide.default", J, K),
        Case("aten.addcdiv.default", X, Y, P, value=2),
        Case("aten.addcmul.default", X, Y, P, value=0.5),
        Case("aten.lerp.Scalar", X, Y, 0.3),
        Case("aten.lerp.Tensor", X, Y, P),
        Case("aten.pow.Scalar", 2, X),
        Case("aten.pow.Tensor_Scalar", X, 3),
        Case("aten.pow.Tensor_Tensor", P, Y),
        *(Case(f"aten.{name}.default", X, Y) for name in ("arctan2", "atan2", "hypot")),
        Case("aten.copysign.Scalar", X, -1),
        Case("aten.copysign.Tensor", X, Y),
    ]
)

INTEGERS = Group(
    [
        *(Case(f"aten.__{side}shift__.Scalar", J, 2) for side in "lr"),
        *(Case(f"aten.__{side}shift__.Tensor", J, K) for side in "lr"),
        *(Case(f"aten.bitwise_{side}_shift.Scalar_Tensor", 9, K) for side in ("left", "right")),
        *(Case(f"aten.bitwise_{side}_shift.Tensor", J, K) for side in ("left", "right")),
        *(Case(f"aten.bitwise_{side}_shift.Tensor_Scalar", J, 2) for side in ("left", "right")),
        *(
            Case(f"aten.{form.format(name)}.Scalar", J, 6)
            for form in ("__{}__", "bitwise_{}")
            for name in ("and", "or", "xor")
        ),
        *(
            Case(f"aten.{form.format(name)}.Tensor", J, K)
            for form in ("__{}__", "bitwise_{}")
            for name in ("and", "or", "xor")
        ),
    ]
)

LOGIC = Group(
    [
        *(Case(f"aten.logical_{name}.default", B, C) for name in ("and", "or", "xor")),
        *(Case(f"aten.{name}.Scalar", J, 3) for name in ("eq", "ge", "gt", "le", "lt", "ne")),
        *(Case(f"aten.{name}.Tensor", J, K) for name in ("eq", "ge", "gt", "le", "lt", "ne")),
        Case("aten.clamp.Tensor", X, Y, P),
        Case("aten.clamp_max.Tensor", X, Y),
        Case("aten.clamp_min.Tensor", X, Y),
        *(Case(f"aten.{name}.default", X, Y) for name in ("fmax", "fmin", "maximum", "minimum")),
        Case("aten.max.other", X, Y),
        Case("aten.min.other", X, Y),
        Case("aten.masked_fill.Scalar", X, C, -1.0),
        Case("aten.masked_fill.Tensor", X, C, X.through(lambda x: x.sum())),
        Case("aten.where.self", C, X, P),
        Case("aten.where.Scalar", C, 1.0, 2.0),
        Case("aten.where.ScalarOther", C, X, 2.0),
        Case("aten.where.ScalarSelf", C, 1.0, X),
    ]
)

GROUPS = [UNARY, ARITHMETIC, INTEGERS, LOGIC]
