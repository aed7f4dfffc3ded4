"""Cases of reductions, sorting and counting."""

from .case import B, Case, Group, X, floats

REDUCTIONS = Group(
    [
        *(Case(f"aten.{name}.default", B) for name in ("_is_all_true", "_is_any_true", "all", "any")),
        *(Case(f"aten.{name}.dim", B, 1, True) for name in ("all", "any")),
        *(Case(f"aten.{name}.dims", B, [1, 2]) for name in ("all", "any")),
        *(Case(f"aten.{name}.default", X, [1], True) for name in ("amax", "amin")),
        *(Case(f"aten.{name}.default", X, 1, True) for name in ("argmax", "argmin")),
        *(Case(f"aten.{name}.default", X) for name in ("max", "min", "mean", "prod", "sum")),
        *(Case(f"aten.{name}.dim", X, 2, True) for name in ("max", "min")),
        Case("aten.mean.dim", X, [1, 2]),
        Case("aten.prod.dim_int", X, 2),
        Case("aten.sum.dim_IntList", X, [1, -1], True),
        Case("aten.cumsum.default", X, 1),
        Case("aten.linalg_vector_norm.default", X, 3, [1, 2]),
        Case("aten.logsumexp.default", X, [1, 2]),
        Case("aten.norm.Scalar", X, 3),
        Case("aten.norm.ScalarOpt_dim", X, 1, [1]),
        *(
            Case(f"aten.{name}.correction", X, [1], correction=0)
            for name in ("std", "std_mean", "var", "var_mean")
        ),
        *(Case(f"aten.{name}.default", X, False) for name in ("std", "std_mean", "var", "var_mean")),
        *(Case(f"aten.{name}.dim", X, [1, 2], True) for name in ("std", "std_mean", "var", "var_mean")),
    ]
)

_SORTED = floats(2, 7)

SORTS = Group(
    [
        Case("aten.argsort.default", _SORTED),
        Case("aten.argsort.stable", _SORTED, stable=True, descending=True),
        Case("aten.sort.default", _SORTED, -1, True),
        Case("aten.sort.stable", _SORTED, stable=True),
        Case("aten.topk.default", _SORTED, 3, -1, False),
    ]
)

GROUPS = [REDUCTIONS, SORTS]
