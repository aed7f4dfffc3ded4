"""Measures which of MindSpore's CPU kernels lose writes where several threads write one element.

    python tests/tools/racing_kernels.py                 # all rows, each a few hundred times
    python tests/tools/racing_kernels.py scatter --runs 2000

Values are whole numbers, so that the order of additions changes no bit: every result of a sound kernel is the
same. A row prints how many runs gave something else than most did or than NumPy computes. A race that a quiet
machine does not show may show on a busy one. What raced is noted in `frontends/mindspore_cell/racing.py`.
Leave OMP_NUM_THREADS as users have it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

Row = tuple[str, Callable[..., object], tuple[np.ndarray, ...], np.ndarray | None]
SIZES = ((10, 400, 8), (10, 20_000, 8), (3, 60_000, 1), (2, 40, 64))
"""(elements written, writes, width of each)."""


def rows() -> Iterator[Row]:
    """Yield a row per kernel and size: its name, what runs it, what that is given, and what is right."""
    for size in SIZES:
        yield from _rows_of(*size)
    yield from _rows_of_images()


def _rows_of(n: int, e: int, w: int) -> Iterator[Row]:
    r = np.random.RandomState(0)
    at = r.randint(0, n, e)
    v = r.randint(-8, 9, (e, w)).astype("f4")
    signs = np.where(r.rand(e, w) < 0.5, -1, 1).astype("f4")
    zeros, ones = np.zeros((n, w), "f4"), np.ones((n, w), "f4")
    wide, tag = np.repeat(at[:, None], w, 1), f"{n}x{w} of {e}"
    total, most, least, product = zeros.copy(), zeros - 99, zeros + 99, ones.copy()
    np.add.at(total, at, v)
    np.maximum.at(most, at, v)
    np.minimum.at(least, at, v)
    np.multiply.at(product, at, signs)
    last = zeros.copy()
    last[at] = v

    def row(name: str, run: Callable[..., object], *given: np.ndarray, want: np.ndarray | None = None) -> Row:
        return (f"{name} [{tag}]", run, given, want)

    def grad(name: str, run: Callable[..., object], *given: np.ndarray) -> Row:
        return row(f"gradient of {name}", ms.grad(run, 0), *given)

    yield row("tensor_scatter_elements add", _elements("add"), zeros, wide, v, want=total)
    yield row("tensor_scatter_elements add, axis 1", _elements("add", 1), zeros.T, wide.T, v.T, want=total.T)
    yield row(
        "scatter_add (mint)", lambda x, i, u: ms.mint.scatter_add(x, 0, i, u), zeros, wide, v, want=total
    )
    yield row("tensor_scatter_add", ops.tensor_scatter_add, zeros, at[:, None], v, want=total)
    yield row("tensor_scatter_sub", ops.tensor_scatter_sub, zeros, at[:, None], v, want=0 - total)
    yield row("tensor_scatter_max", ops.tensor_scatter_max, zeros - 99, at[:, None], v, want=most)
    yield row("tensor_scatter_min", ops.tensor_scatter_min, zeros + 99, at[:, None], v, want=least)
    yield row("tensor_scatter_mul", ops.tensor_scatter_mul, ones, at[:, None], signs, want=product)
    yield row("scatter_nd", lambda i, u: ops.scatter_nd(i, u, (n, w)), at[:, None], v, want=total)
    yield row("scatter_nd_add", _parameter(ops.scatter_nd_add), zeros, at[:, None], v, want=total)
    yield row("scatter_add", _parameter(ops.scatter_add), zeros, at, v, want=total)
    yield row("scatter_max", _parameter(ops.scatter_max), zeros - 99, at.astype("i4"), v, want=most)
    yield row("scatter_mul", _parameter(ops.scatter_mul), ones, at.astype("i4"), signs, want=product)
    yield row("index_add", _index_add(0), zeros, at.astype("i4"), v, want=total)
    yield row("index_add, axis 1", _index_add(1), zeros.T, at.astype("i4"), v.T, want=total.T)
    yield row("unsorted_segment_sum", _segments(ops.unsorted_segment_sum, n), v, at, want=total)
    yield row("unsorted_segment_max", _segments(ops.unsorted_segment_max, n), v, at.astype("i4"), want=most)
    yield row("unsorted_segment_min", _segments(ops.unsorted_segment_min, n), v, at.astype("i4"), want=least)
    yield row("unsorted_segment_prod", _segments(ops.unsorted_segment_prod, n), signs, at, want=product)
    yield row(
        "bincount",
        lambda i: ops.bincount(i, minlength=n),
        at.astype("i4"),
        want=np.bincount(at, minlength=n),
    )
    yield row(
        "bincount, weights",
        lambda i, u: ops.bincount(i, u, n),
        at.astype("i4"),
        v[:, 0],
        want=total[:, 0],
    )
    yield row("one_hot product", _one_hot(n), v, at, want=total)
    yield row("histc", lambda x: ops.histc(x, n, 0, n), at.astype("f4"))
    yield row("TensorScatterUpdate", ops.TensorScatterUpdate(), zeros, at[:, None], v, want=last)
    yield row("scatter_nd_update", _parameter(ops.scatter_nd_update), zeros, at[:, None], v, want=last)
    yield row("a subscript that is assigned", _assign, zeros, at, v, want=last)
    yield row("tensor_scatter_elements none", _elements("none"), zeros, wide, v, want=last)
    yield row("scatter", lambda x, i, u: ops.scatter(x, 0, i, u), zeros, wide, v, want=last)

    k = r.randint(-8, 9, (e, w)).astype("f4")
    rows_ = r.randint(-8, 9, (n, w)).astype("f4")
    yield grad("gather", lambda x, i, g: (ops.gather(x, i, 0) * g).sum(), rows_, at, k)
    yield grad("gather, axis 1", lambda x, i, g: (ops.gather(x, i, 1) * g).sum(), rows_.T, at, k.T)
    yield grad("a subscript", lambda x, i, g: (x[i] * g).sum(), rows_, at, k)
    yield grad("index_select", lambda x, i, g: (ops.index_select(x, 0, i) * g).sum(), rows_, at, k)
    yield grad("gather_elements", lambda x, i, g: (ops.gather_elements(x, 0, i) * g).sum(), rows_, wide, k)
    yield grad(
        "gather_d, axis 1", lambda x, i, g: (ops.gather_elements(x, 1, i) * g).sum(), rows_.T, wide.T, k.T
    )
    yield grad("gather_nd", lambda x, i, g: (ops.gather_nd(x, i) * g).sum(), rows_, at[:, None], k)
    yield grad(
        "tensor_scatter_add",
        lambda u, x, i, g: (ops.tensor_scatter_add(x, i, u) * g).sum(),
        v,
        zeros,
        at[:, None],
        rows_,
    )
    yield grad(
        "unsorted_segment_sum",
        lambda u, i, g: (ops.unsorted_segment_sum(u, i, n) * g).sum(),
        v,
        at,
        rows_,
    )
    yield grad("broadcast_to", lambda x, g: (ops.broadcast_to(x, g.shape) * g).sum(), rows_[:1], k)
    yield grad("expand and add", lambda x, g: ((x + g) * g).sum(), rows_[:1], k)
    yield grad("sort", lambda x: (ops.sort(x, 0)[0] * x).sum(), k)
    yield grad("topk", lambda x: (ops.topk(x.T, 2)[0] * 3.0).sum(), k)
    yield grad("max", lambda x: ops.amax(x, 0).sum(), k)
    yield grad("cumsum", lambda x: (ops.cumsum(x, 0) * x).sum(), k[:40])


def _rows_of_images() -> Iterator[Row]:
    r = np.random.RandomState(0)
    image = r.randint(-8, 9, (2, 3, 16, 16)).astype("f4")
    tag = "image"
    places = (r.randint(-8, 9, (2, 40, 40, 2)) / 8).astype("f4")
    boxes = np.array([[0, 0, 0, 8, 8], [0, 1, 1, 7, 7], [1, 0, 0, 12, 12], [0, 2, 2, 8, 8]] * 8, "f4")
    big = r.randint(-8, 9, (2, 3, 32, 32)).astype("f4")
    for mode in ("nearest", "bilinear", "bicubic"):
        for size in ((48, 48), (7, 7)):
            options = {} if mode == "nearest" else {"align_corners": False}
            yield (
                f"gradient of interpolate {mode} {size} [image]",
                ms.grad(lambda x, m=mode, o=options, s=size: ops.interpolate(x, s, mode=m, **o).sum(), 0),
                (image,),
                None,
            )
    for mode in ("bilinear", "nearest"):
        yield (
            f"gradient of grid_sample {mode} [image]",
            ms.grad(lambda x, g, m=mode: ops.grid_sample(x, g, mode=m).sum(), 0),
            (image, places),
            None,
        )
    align = ops.ROIAlign(4, 4, 1.0, 2)
    yield "gradient of ROIAlign [image]", ms.grad(lambda x, b: align(x, b).sum(), 0), (image, boxes), None
    for name, layer in {
        "MaxPool2d, overlapping": nn.MaxPool2d(5, 1),
        "AvgPool2d, overlapping": nn.AvgPool2d(4, 1),
        "AdaptiveAvgPool2d": nn.AdaptiveAvgPool2d(5),
        "AdaptiveMaxPool2d": nn.AdaptiveMaxPool2d(5),
        "ReflectionPad2d": nn.ReflectionPad2d(7),
        "ReplicationPad2d": nn.ReplicationPad2d(7),
    }.items():
        yield f"gradient of {name} [{tag}]", ms.grad(lambda x, f=layer: f(x).sum(), 0), (big,), None
    columns = r.randint(-8, 9, (2, 3, 25, 784)).astype("f4")
    yield (
        "fold [image]",
        lambda x: ops.fold(x, Tensor([32, 32], ms.int32), (5, 5), (1, 1), (0, 0), (1, 1)),
        (columns,),
        None,
    )


def _elements(reduction: str, axis: int = 0) -> Callable[..., object]:
    return lambda x, i, u: ops.tensor_scatter_elements(x, i, u, axis=axis, reduction=reduction)


def _parameter(function: Callable[..., object]) -> Callable[..., object]:
    return lambda x, i, u: function(ms.Parameter(x), i, u)


def _assign(x: Tensor, at: Tensor, updates: Tensor) -> Tensor:
    found = x.copy()
    found[at] = updates
    return found


def _index_add(axis: int) -> Callable[..., object]:
    return lambda x, i, u: ops.index_add(ms.Parameter(x), i, u, axis)


def _segments(function: Callable[..., object], count: int) -> Callable[..., object]:
    return lambda u, i: function(u, i, count)


def _one_hot(count: int) -> Callable[..., object]:
    on, off = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)
    return lambda u, i: ops.matmul(ops.one_hot(i, count, on, off).T, u)


def deviations(
    run: Callable[..., object], given: tuple[np.ndarray, ...], want: np.ndarray | None, runs: int
) -> str:
    """Return how many runs gave something else than is right, or than most gave; or why it does not run."""
    tensors = [Tensor(np.ascontiguousarray(each)) for each in given]
    results: Counter[bytes] = Counter()
    try:
        for _ in range(runs):
            results[run(*tensors).asnumpy().astype("f4").tobytes()] += 1
    except Exception as error:
        return f"does not run: {str(error).strip().splitlines()[0][:90]}"
    ((_, count),) = results.most_common(1)
    text = f"{runs - count:5} of {runs} differ" if runs - count else "    same"
    if want is not None:
        wrong = runs - results[np.ascontiguousarray(want.astype("f4")).tobytes()]
        text += f", {wrong} wrong" if wrong else ", right"
    return text


def main() -> None:
    """Print a line per row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="?", default="", help="part of the names of the rows to run")
    parser.add_argument("--runs", type=int, default=300)
    chosen = parser.parse_args()
    print(f"MindSpore {ms.__version__}")
    for name, run, given, want in rows():
        if chosen.only in name:
            print(f"{deviations(run, given, want, chosen.runs):32}  {name}", flush=True)


if __name__ == "__main__":
    main()
