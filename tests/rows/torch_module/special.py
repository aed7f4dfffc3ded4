"""Cases of special functions and polynomials."""

from .case import Case, Group, J, K, P, Refused, U, X, Y

_ANY = "bessel_j0 bessel_j1 erfcx i0 i0e i1 i1e log_ndtr modified_bessel_i0 modified_bessel_i1 erfc exp2"
_NOWHERE = "bessel_y0 bessel_y1 modified_bessel_k0 scaled_modified_bessel_k1"  # below zero
_POSITIVE = "bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0"
_POSITIVE += " scaled_modified_bessel_k1 spherical_bessel_j0 digamma psi gammaln"
_DEGREES = "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w"
_DEGREES += " shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v"
_DEGREES += " shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l"
_DEGREES += " legendre_polynomial_p"
_DEGREE = K.through(lambda k: k.float())
_UNIT = X.through(lambda x: x.sigmoid() * 0.9 + 0.05)

FUNCTIONS = Group(
    [
        *(Case(f"aten.special_{name}.default", X) for name in _ANY.split()),
        *(Case(f"aten.special_{name}.default", P) for name in _POSITIVE.split()),
        *(Case(f"aten.{name}.default", X) for name in ("erfc", "exp2", "i0")),
        *(Case(f"aten.{name}.default", P) for name in ("digamma", "lgamma")),
        *(Case(f"aten.{name}.default", U) for name in ("erfinv", "special_erfinv")),
        Case("aten.special_ndtri.default", _UNIT),
        *(Case(f"aten.{name}.default", 2, P) for name in ("polygamma", "special_polygamma")),
        Case("aten.special_zeta.default", P.through(lambda x: x + 1.5), Y.through(lambda y: y.abs() + 0.5)),
        Case("aten.special_zeta.other_scalar", P.through(lambda x: x + 1.5), 1.5),
        Case("aten.special_zeta.self_scalar", 2.5, P.through(lambda x: x + 0.5)),
        Case("aten.logaddexp2.default", X, Y),
        Case("aten.frexp.Tensor", X),
        *(Case(f"aten.{name}.default", J, K) for name in ("gcd", "lcm")),
        *(Case(f"aten.special_{name}.default", X) for name in _NOWHERE.split()),
    ],
    atol=1e-4,
)

POLYNOMIALS = Group(
    [
        *(Case(f"aten.special_{name}.default", U, _DEGREE) for name in _DEGREES.split()),
        *(Case(f"aten.special_{name}.n_scalar", U, 3) for name in _DEGREES.split()),
        *(Case(f"aten.special_{name}.x_scalar", 0.3, _DEGREE) for name in _DEGREES.split()),
    ],
    atol=1e-3,
)

GROUPS = [FUNCTIONS, POLYNOMIALS]
REFUSED = [Refused("aten.special_hermite_polynomial_h.n_scalar", X, 65, says="a degree of 64 or less")]
