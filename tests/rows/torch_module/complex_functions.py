"""Cases of functions, reductions and products of complex numbers."""

import torch

from .case import B, Case, Group, Refused, X, Y, constant
from .complex_numbers import _case

_Z = X.through(lambda x: torch.complex(x, 0.5 - x))
_W = Y.through(lambda y: torch.complex(y.abs() + 1, y))
_NULLS = X.through(lambda x: torch.complex(x.clamp(min=0), 0.5 * (x < -0.5)))
_FLAT = X.through(lambda x: torch.complex(x, 0.5 - x).flatten(1))
_ROWS = _Z.through(lambda z: z[:, 0])
_OTHER = Y.through(lambda y: torch.complex(y, y.abs() - 1).flatten(1))
_SQUARE = X.through(lambda x: torch.complex(x[..., :3], 0.3 - x[..., 1:]) + 3 * torch.eye(3))
_SQUARES = Y.through(lambda y: torch.complex(y[..., 1:], y[..., :3] * 2))
_IMAGE = X.through(lambda x: torch.complex(x, x * 0.5)[:, :, None])
_VOLUME = X.through(lambda x: torch.complex(x, x * 0.5)[:, :, None, None])
_M = torch.complex(constant(4, 5), constant(4, 5, seed=3))
_K = torch.complex(constant(2, 3, 2), constant(2, 3, 2, seed=3))
_T = _K.transpose(0, 1)
_B5 = torch.complex(constant(5), constant(5, seed=3))
_B2 = torch.complex(constant(2), constant(2, seed=3))

_FUNCTIONS = (
    "log log2 log10 log1p exp2 expm1 sqrt rsqrt sinh cosh tanh sin cos tan sigmoid asinh acosh atanh"
    " asin acos atan sgn isnan isinf isfinite"
)

FUNCTIONS = Group(
    [
        *(_case(f"aten.{name}.default", _Z) for name in _FUNCTIONS.split()),
        *(_case("aten.pow.Tensor_Scalar", _W, power) for power in (0, 1, 2, -1, 0.5, 3, 1.5 + 1j)),
        _case("aten.pow.Tensor_Tensor", _W, _Z),
        _case("aten.pow.Tensor_Tensor", _W, X),
        _case("aten.pow.Scalar", 2 + 1j, _Z),
        *(_case(f"aten.ne.{name}", _Z, other) for name, other in (("Tensor", _W), ("Scalar", 1 + 1j))),
        _case("aten.masked_fill.Scalar", _Z, B, 2 + 1j),
        _case("aten.full_like.default", _Z, 2 + 1j),
        _case("aten.mul.Tensor", _Z, _W, _Z, value=0.5 - 1j, call=torch.addcmul),
        _case("aten.div.Tensor", _Z, _Z, _W, value=2, call=torch.addcdiv),
        _case("aten.sigmoid.default", _Z, call=torch.nn.functional.silu),
        _case("aten.lerp.Scalar", _Z, _W, 0.3),
        _case("aten.lerp.Tensor", _Z, _W, _Z),
    ],
    atol=1e-4,
)

_DIM = {"dim": [1], "keepdim": True}

REDUCTIONS = Group(
    [
        _case("aten.prod.dim_int", _Z, 1, True),
        _case("aten.cumprod.default", _Z, 1),
        *(_case("aten.linalg_vector_norm.default", _Z, *how, call=torch.norm) for how in ((2,), (2, [1]))),
        _case("aten.linalg_vector_norm.default", _Z, 1, [1, 2]),
        _case("aten.linalg_vector_norm.default", _Z, 2, [1], dtype=torch.complex64),
        *(
            _case("aten.linalg_vector_norm.default", _Z, order, [1, 2], call=torch.linalg.norm)
            for order in (None, "fro")
        ),
        _case("aten.var.correction", _Z, [1], correction=0),
        *(_case("aten.var.correction", _Z, call=function) for function in (torch.var, torch.std)),
        _case("aten.var.correction", _Z, [1], True, call=torch.std),
        *(
            _case("aten._to_copy.default", _NULLS, *where, call=function)
            for function in (torch.any, torch.all)
            for where in ((), (1,), ([1, 2],))
        ),
        _case("aten._to_copy.default", _NULLS, dtype=torch.bool),
        *(_case("aten.ne.Scalar", _NULLS, *where, call=torch.count_nonzero) for where in ((), ([1],))),
    ],
    atol=1e-4,
)

PRODUCTS = Group(
    [
        _case("aten.prod.default", _Z),
        _case("aten.full.default", [2, 3], 2 + 1j, dtype=torch.complex64),
        _case("aten._conj.default", _SQUARE, call=torch.adjoint),
        *(_case(f"aten.{name}.default", _SQUARE) for name in ("linalg_inv", "inverse")),
        _case("aten.linalg_solve.default", _SQUARE, _SQUARES),
        _case("aten.mul.Tensor", _Z, _W, dim=1, call=torch.linalg.vecdot),
        _case(
            "aten.mul.Tensor",
            _B5,
            _Z.through(lambda z: z[:, 0]),
            _M,
            beta=2,
            alpha=0.5 + 1j,
            call=torch.addmm,
        ),
        _case("aten.addbmm.default", _SQUARES.through(lambda s: s[0]), _SQUARE, _SQUARES, beta=2),
        _case("aten.mul.Tensor", _SQUARES, _SQUARE, _SQUARES, alpha=2j, call=torch.baddbmm),
        _case("aten.linear.default", _Z, _M.mT.contiguous(), _B5),
        _case("aten.conv1d.default", _Z, _K, _B2, [1], [1]),
        _case("aten.conv2d.default", _IMAGE, _K[:, :, None], _B2),
        _case("aten.conv3d.default", _VOLUME, _K[:, :, None, None], _B2),
        _case("aten.conv_transpose1d.default", _Z, _T, _B2, [2]),
        _case("aten.conv_transpose2d.input", _IMAGE, _T[:, :, None], _B2),
        _case("aten.conv_transpose3d.input", _VOLUME, _T[:, :, None, None], _B2),
    ],
    dynamic=False,
    atol=1e-4,
)

PLACES = Group([Case("aten.nonzero.default", _Z)])

GROUPS = [FUNCTIONS, REDUCTIONS, PRODUCTS, PLACES]
REFUSED = [
    Refused("aten.linalg_solve.default", _SQUARE, _SQUARES, left=False, says="from the right"),
]
