"""Special functions of the IR: how accurate they are, what they give at the edges and what they refuse."""

import mpmath as mp
import numpy as np
import onnxruntime
import pytest

from regraft.backends.onnx_model import to_model
from regraft.ir import Builder, Graph, InvalidGraphError, TensorType

RANDOM = np.random.default_rng(0)
ANY = np.concatenate(
    [RANDOM.standard_normal(40) * 4, RANDOM.standard_normal(10) * 30, [1e-3, 7.99, 11.99, 19.99]]
)
POSITIVE = abs(ANY)
POLES = np.array([-k + d for k in range(4) for d in (0.3, 1e-2, 1e-3, -1e-3)] + [1e-5, 1.5, 30])
SIGNED = [*np.tanh(RANDOM.standard_normal(40) * 2), 1 - 1e-6, -0.9999, 1e-9]
SHARES = [1e-36, 1e-12, 1e-8, 1e-4, 0.3, 0.5, 0.9, 0.9999]


def bessel(function, order, scale=0):
    return lambda x: function(order, x) * mp.exp(scale * (abs(x) if function is mp.besseli else x))


def normal_quantile(p):
    with mp.workdps(60):
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)


FUNCTIONS = {
    "Log1p": (mp.log1p, [*abs(ANY), *SIGNED]),
    "Expm1": (mp.expm1, ANY[ANY < 9]),
    "Lgamma": (lambda x: mp.re(mp.loggamma(x)), [*ANY, *POLES]),
    "Gamma": (mp.gamma, POLES),
    "Digamma": (mp.digamma, [*ANY, *POLES]),
    "Erfc": (mp.erfc, ANY),
    "Erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), ANY[abs(ANY) < 9]),
    "Erfinv": (mp.erfinv, SIGNED),
    "Ndtri": (normal_quantile, SHARES),
    "LogNdtr": (lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), ANY),
    "Exp2": (lambda x: mp.mpf(2) ** x, ANY),
    **{f"BesselJ{n}": (bessel(mp.besselj, n), ANY) for n in (0, 1)},
    **{f"BesselY{n}": (bessel(mp.bessely, n), POSITIVE) for n in (0, 1)},
    **{f"BesselI{n}": (bessel(mp.besseli, n), ANY) for n in (0, 1)},
    **{f"BesselI{n}e": (bessel(mp.besseli, n, -1), ANY) for n in (0, 1)},
    **{f"BesselK{n}": (bessel(mp.besselk, n), POSITIVE) for n in (0, 1)},
    **{f"BesselK{n}e": (bessel(mp.besselk, n, 1), POSITIVE) for n in (0, 1)},
    "SphericalBesselJ0": (lambda x: mp.sin(x) / x, ANY),
}
"""Composite -> what it is, and where it is asked."""

IN_FLOAT64 = {
    "Ndtri": 1e-11,
    "BesselJ0": 1e-10,
    "BesselJ1": 1e-10,
    "BesselY0": 1e-10,
    "BesselY1": 1e-10,
} | dict.fromkeys(("BesselK0", "BesselK1", "BesselK0e", "BesselK1e"), 2e-8)
"""How far off they are in float64, where that is more than 1e-12: series that cancel."""


def run(name, *arrays, outputs=1, **attributes):
    b = Builder(Graph())
    inputs = [b.graph.add_input(f"x{i}", TensorType(str(a.dtype), a.shape)) for i, a in enumerate(arrays)]
    for number, value in enumerate(b.ops(f"regraft.{name}", *inputs, outputs=outputs, **attributes)):
        b.graph.outputs.append((f"y{number}", value))
    session = onnxruntime.InferenceSession(to_model(b.graph).SerializeToString())
    found = session.run(None, {f"x{i}": a for i, a in enumerate(arrays)})
    return found if outputs > 1 else found[0]


def farthest(found, exact):
    """The largest error, relative to what is larger than 1."""
    return float(np.max(abs(found.astype(float) - exact) / np.maximum(abs(exact), 1)))


def exactly(function, points):
    return np.array([float(function(mp.mpf(float(x)))) for x in points])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_how_far_off_a_function_is(name):
    function, points = FUNCTIONS[name]
    single = np.array(points, np.float32)
    exact = exactly(function, single)
    sound = abs(exact) < 3e38
    assert farthest(run(name, single)[sound], exact[sound]) < 2.5e-7
    double = np.array(points)
    assert farthest(run(name, double), exactly(function, double)) < IN_FLOAT64.get(name, 1e-12)
    half = run(name, single.astype(np.float16))
    assert half.dtype == np.float16


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 4e-7), (np.float64, 1e-15), (np.float16, 1e-3)])
@pytest.mark.parametrize(("name", "function"), [("Log1p", mp.log1p), ("Expm1", mp.expm1)])
def test_near_zero_all_digits_are_right(name, function, dtype, bound):
    tiny = 4 if dtype is np.float16 else 20
    points = np.array([s * 10.0**e for e in np.linspace(-tiny, -0.1, 200) for s in (1, -1)]).astype(dtype)
    exact = exactly(function, points)
    np.testing.assert_array_less(abs(run(name, points).astype(float) - exact), bound * abs(exact))


def test_lgamma_is_zero_where_it_should_be():
    np.testing.assert_array_equal(run("Lgamma", np.array([1, 2, 1, 2], np.float32)), 0)
    np.testing.assert_array_equal(run("Lgamma", np.array([1.0, 2.0])), 0)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_polygamma_on_both_sides_of_zero(n):
    found = run("Polygamma", POLES, n=n)
    exact = exactly(lambda x: mp.polygamma(n, x), POLES)
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_zeta_of_a_vector_and_a_column():
    s, q = np.array([1.5, 2, 7.25]), np.array([[0.25], [3]])
    exact = [[float(mp.zeta(a, b[0])) for a in s] for b in q]
    np.testing.assert_allclose(run("Zeta", s, q), exact, rtol=1e-12)


INF, NAN = np.inf, np.nan
EDGES = {
    "Log1p": ([0, -1, INF, -2, -INF, NAN, 1, 3e38], [0, -INF, INF, NAN, NAN, NAN, np.log(2), np.log(3e38)]),
    "Expm1": ([0, INF, -INF, NAN, 100, -100], [0, INF, -1, NAN, INF, -1]),
    "Lgamma": ([0, -1, -2, INF, -INF, NAN, 1, 2], [INF, INF, INF, INF, INF, NAN, 0, 0]),
    "Gamma": ([0, -1, -2, INF, NAN, 40], [INF, NAN, NAN, INF, NAN, INF]),
    "Digamma": ([0, -0.0, -1, INF, NAN], [-INF, INF, NAN, INF, NAN]),
    "Erfc": ([0, INF, -INF, NAN], [1, 0, 2, NAN]),
    "Erfinv": ([0, 1, -1, 1.5, -2, NAN], [0, INF, -INF, NAN, NAN, NAN]),
    "Ndtri": ([0, 1, 0.5, -0.1, 1.1], [-INF, INF, 0, NAN, NAN]),
    "BesselJ0": ([0, NAN], [1, NAN]),
    "BesselY0": ([0, -1, NAN], [-INF, -INF, NAN]),
    "BesselK0": ([0, -1, NAN, 200], [INF, INF, NAN, 0]),
    "BesselK1e": ([0, -1, NAN], [INF, INF, NAN]),
    "BesselI0e": ([0, NAN], [1, NAN]),
    "SphericalBesselJ0": ([0, INF, -INF, NAN], [1, 0, 0, NAN]),
}


@pytest.mark.parametrize("name", EDGES)
def test_what_a_function_is_at_its_edges(name):
    given, expected = EDGES[name]
    np.testing.assert_allclose(run(name, np.array(given, np.float32)), expected, atol=1e-6)


def test_infinities_are_added():
    x, y = np.array([INF, -INF, INF, -INF, 3]), np.array([INF, -INF, 1, 2, 3])
    np.testing.assert_array_equal(run("LogAddExp2", x, y), [INF, -INF, INF, 2, 4])


def test_mantissas_and_exponents_are_exact():
    x = np.array([0, 1, -3, 1e-30, INF, -INF, 0.5, 1e-42, 1023, 2**20], np.float32)
    mantissa, exponent = run("Frexp", x, outputs=2)
    np.testing.assert_array_equal(mantissa, np.frexp(x)[0])
    np.testing.assert_array_equal(exponent, np.frexp(x)[1])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_divisors_of_large_and_negative_numbers(dtype):
    x = np.array([0, 0, 12, -12, 46368, -(2**20), 6], dtype)
    y = np.array([0, 5, -18, -18, 28657, 2**9, 0], dtype)
    np.testing.assert_array_equal(run("Gcd", x, y), np.gcd(x, y))
    np.testing.assert_array_equal(run("Lcm", x, y), np.lcm(x, y))


@pytest.mark.parametrize("family", ["hermite_h", "laguerre_l", "legendre_p"])
def test_degrees_above_what_is_unrolled_are_not_a_number(family):
    x, degrees = np.full(4, 0.25), np.array([32, 32.9, 33, 1000])
    found = run("Polynomial", x, degrees, family=family)
    np.testing.assert_array_equal(found[:2], run("Polynomial", x[:2], family=family, degree=32))
    assert np.isnan(found[2:]).all()


FLOATS, WHOLE = TensorType("float32", (2,)), TensorType("int64", (2,))


@pytest.mark.parametrize(
    ("name", "types", "attributes", "says"),
    [
        ("Lgamma", [WHOLE], {}, "expected floating-point numbers, got int64"),
        ("Gcd", [FLOATS, FLOATS], {}, "expected integers, got float32"),
        ("Zeta", [FLOATS, TensorType("float64", (2,))], {}, "one element type, got float32 and float64"),
        ("Zeta", [FLOATS, TensorType("float32", (3,))], {}, "sizes 2 and 3 do not spread"),
        ("Polygamma", [FLOATS], {"n": -1}, "expected `n` from 0"),
        ("Polynomial", [FLOATS], {"family": "jacobi_p", "degree": 1}, "expected `family` to be one of"),
        ("Polynomial", [FLOATS], {"family": "hermite_h"}, "as an attribute or as an operand"),
        ("Polynomial", [FLOATS, FLOATS], {"family": "hermite_h", "degree": 1}, "and not both"),
        ("Polynomial", [FLOATS], {"family": "hermite_h", "degree": 10**9}, "a degree of 64 or less"),
    ],
)
def test_what_does_not_fit_is_refused(name, types, attributes, says):
    b = Builder(Graph())
    inputs = [b.graph.add_input(f"x{i}", given) for i, given in enumerate(types)]
    with pytest.raises(InvalidGraphError, match=says):
        b.op(f"regraft.{name}", *inputs, **attributes)
