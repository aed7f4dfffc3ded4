"""Layers and functions of `mindspore.mint.nn` on CPU beside torch's: `benchmarks/results/mint.json`.

    python benchmarks/mint.py [--only REGEX] [--store]

Each row is one expression, evaluated with MindSpore's `mint.nn` and with `torch.nn` on equal inputs and equal
parameters. It is run in PyNative mode, in graph mode and with a gradient with respect to its input; values
are compared. A row that ends its process, or takes more than a minute, is a row too.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("results") / "mint.json"
SECONDS = 60

X1, X2, X3 = "f(2,4,8)", "f(2,4,8,8)", "f(2,4,4,6,6)"
LAYERS: dict[str, str] = {
    "nn.Conv1d(4, 6, 3, padding=1)": X1,
    "nn.Conv2d(4, 6, 3, stride=2, padding=1)": X2,
    "nn.Conv3d(4, 6, 3)": X3,
    "nn.ConvTranspose2d(4, 6, 3, stride=2)": X2,
    "nn.Linear(8, 5)": X1,
    "nn.BatchNorm1d(4)": X1,
    "nn.BatchNorm2d(4)": X2,
    "nn.BatchNorm3d(4)": X3,
    "nn.SyncBatchNorm(4)": X2,
    "nn.GroupNorm(2, 4)": X2,
    "nn.PReLU(4)": X2,
    **{
        f"nn.{name}()": X2
        for name in ("Identity", "ReLU", "SiLU", "SELU", "GELU", "Hardshrink", "Hardsigmoid")
    },
    **{f"nn.{name}()": X2 for name in ("Hardswish", "Mish", "ELU", "Flatten", "Hardtanh", "ReLU6", "Tanh")},
    **{f"nn.{name}()": X2 for name in ("LogSigmoid", "Sigmoid")},
    'nn.GELU(approximate="tanh")': X2,
    "nn.Threshold(0.1, 2.0)": X2,
    "nn.Softmax(dim=-1)": X2,
    "nn.LogSoftmax(dim=-1)": X2,
    **{
        f"nn.{name}({pads})": x
        for name, pads, x in (
            ("ConstantPad1d", "1, 0.5", X1),
            ("ConstantPad2d", "1, 0.5", X2),
            ("ConstantPad3d", "1, 0.5", X3),
            ("ZeroPad1d", "1", X1),
            ("ZeroPad2d", "1", X2),
            ("ZeroPad3d", "1", X3),
            ("ReflectionPad1d", "1", X1),
            ("ReflectionPad2d", "1", X2),
            ("ReflectionPad3d", "1", X3),
            ("ReplicationPad1d", "1", X1),
            ("ReplicationPad2d", "1", X2),
            ("ReplicationPad3d", "1", X3),
        )
    },
    "nn.AvgPool1d(2)": X1,
    "nn.AvgPool2d(2)": X2,
    "nn.AvgPool3d(2)": X3,
    "nn.AdaptiveAvgPool1d(3)": X1,
    "nn.AdaptiveAvgPool2d(3)": X2,
    "nn.AdaptiveAvgPool3d(3)": X3,
    "nn.AdaptiveMaxPool1d(3)": X1,
    "nn.AdaptiveMaxPool2d(3)": X2,
    "nn.PixelShuffle(2)": X2,
    "nn.Unfold(3)": X2,
    "nn.Fold((4, 4), 2)": "f(2,16,9)",
    "nn.Upsample(scale_factor=2.0)": X2,
    "nn.UpsamplingNearest2d(size=(16, 16))": X2,
    "nn.UpsamplingBilinear2d(size=(16, 16))": X2,
    "nn.L1Loss()": f"{X2}, {X2}",
    "nn.MSELoss()": f"{X2}, {X2}",
    "nn.SmoothL1Loss()": f"{X2}, {X2}",
    "nn.SoftMarginLoss()": f"{X2}, s(2,4,8,8)",
    "nn.BCEWithLogitsLoss()": f"{X2}, u(2,4,8,8)",
    "nn.BCELoss()": "u(2,4), u(2,4)",
    "nn.KLDivLoss()": f"{X2}, u(2,4,8,8)",
    "nn.CosineEmbeddingLoss()": "f(3,8), f(3,8), s(3)",
    "nn.MaxUnpool2d(2)": "f(2,4,4,4), w(2,4,4,4)",
}
"""A layer -> operands: `f` normal, `u` in (0, 1), `s` signs, `i` integers below 5, `w` windows' places."""

FUNCTIONS: dict[str, str] = {
    **{
        f"F.{name}(a)": X2
        for name in ("relu", "gelu", "silu", "sigmoid", "leaky_relu", "tanh", "elu", "logsigmoid")
    },
    **{f"F.{name}(a)": X2 for name in ("hardtanh", "relu6", "glu")},
    "F.softmax(a, dim=-1)": X2,
    "F.log_softmax(a, dim=-1)": X2,
    "F.threshold(a, 0.1, 2.0)": X2,
    "F.normalize(a)": X2,
    "F.layer_norm(a, (8,))": X2,
    "F.group_norm(a, 2)": X2,
    "F.batch_norm(a, b, c)": f"{X2}, f(4), u(4)",
    "F.linear(a, b)": "f(3,8), f(5,8)",
    "F.prelu(a, b)": f"{X2}, u(4)",
    "F.embedding(a, b)": "i(2,3), f(5,4)",
    "F.one_hot(a, 5)": "i(2,3)",
    "F.conv1d(a, b)": f"{X1}, f(6,4,3)",
    "F.conv2d(a, b)": f"{X2}, f(6,4,3,3)",
    "F.conv3d(a, b)": f"{X3}, f(6,4,3,3,3)",
    "F.conv_transpose2d(a, b)": f"{X2}, f(4,6,3,3)",
    "F.max_pool2d(a, 2)": X2,
    "F.avg_pool1d(a, 2)": X1,
    "F.avg_pool2d(a, 2)": X2,
    "F.avg_pool3d(a, 2)": X3,
    "F.adaptive_avg_pool1d(a, 3)": X1,
    "F.adaptive_avg_pool2d(a, 3)": X2,
    "F.adaptive_avg_pool3d(a, 3)": X3,
    "F.adaptive_max_pool1d(a, 3)": X1,
    "F.adaptive_max_pool2d(a, 3)": X2,
    "F.interpolate(a, scale_factor=2.0)": X2,
    'F.interpolate(a, scale_factor=2.0, mode="bilinear")': X2,
    "F.pad(a, (1, 1))": X2,
    "F.unfold(a, 3)": X2,
    "F.fold(a, (4, 4), 2)": "f(2,16,9)",
    "F.pixel_shuffle(a, 2)": X2,
    "F.grid_sample(a, b)": f"{X2}, u(2,3,3,2)",
    "F.dropout(a, 0.5, False)": X2,
    "F.cross_entropy(a, b)": "f(6,5), i(6)",
    "F.nll_loss(a, b)": "f(6,5), i(6)",
    "F.mse_loss(a, b)": f"{X2}, {X2}",
    "F.kl_div(a, b)": f"{X2}, u(2,4,8,8)",
    "F.binary_cross_entropy(a, b)": "u(2,4), u(2,4)",
    "F.binary_cross_entropy_with_logits(a, b)": "f(2,4), u(2,4)",
    "F.soft_margin_loss(a, b)": f"{X2}, s(2,4,8,8)",
    "F.cosine_embedding_loss(a, b, c)": "f(3,8), f(3,8), s(3)",
    "F.max_unpool2d(a, b, 2)": "f(2,4,4,4), w(2,4,4,4)",
}
"""A call -> its operands."""

ROWS = {**LAYERS, **FUNCTIONS}


def operands(text: str) -> list[Any]:
    """Return the arrays that a row states, the same each time."""
    import numpy as np

    draw = np.random.default_rng(7)

    def windows(*shape: int) -> Any:
        rows, columns = np.indices(shape[-2:])
        return np.broadcast_to(rows * 2 * shape[-1] * 2 + columns * 2, shape).astype(np.int64)

    makers = {
        "f": lambda *shape: draw.standard_normal(shape, np.float32),
        "u": lambda *shape: draw.uniform(0.05, 0.95, shape).astype(np.float32),
        "s": lambda *shape: draw.choice([-1.0, 1.0], shape).astype(np.float32),
        "i": lambda *shape: draw.integers(0, 5, shape),
        "w": windows,
    }
    return list(eval(f"({text},)", makers))  # noqa: S307 - this file's own rows


def run_row(expression: str, text: str) -> dict[str, str]:
    """Run one row and return what came of it: "equal", "different" or an error, by mode."""
    import mindspore as ms
    import numpy as np
    import torch
    from mindspore import mint

    given = operands(text)
    is_layer = expression.startswith("nn.")
    theirs = [torch.tensor(value) for value in given]
    trained = theirs[0].is_floating_point()
    theirs[0].requires_grad_(trained)
    names = "abc"
    torch.manual_seed(0)
    if is_layer:
        wanted_layer = eval(expression, {"nn": torch.nn}).eval()  # noqa: S307
        wanted = wanted_layer(*theirs)
    else:
        wanted = eval(expression, {"F": torch.nn.functional, **dict(zip(names, theirs, strict=False))})  # noqa: S307
    found: dict[str, str] = {}

    class Call(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            if is_layer:
                self.layer = eval(expression, {"nn": mint.nn})  # noqa: S307
                for mine, other in zip(self.layer.trainable_params(), wanted_layer.parameters(), strict=True):
                    mine.set_data(ms.Tensor(other.detach().numpy()))
            self.call = (
                None if is_layer else eval(f"lambda F, a, b=None, c=None: {expression}")  # noqa: S307
            )

        def construct(self, *values: Any) -> Any:
            return self.layer(*values) if is_layer else self.call(mint.nn.functional, *values)

    def compare(value: Any, other: Any) -> str:
        mine, expected = value.asnumpy(), other.detach().numpy()
        close = mine.shape == expected.shape and np.allclose(mine, expected, rtol=1e-3, atol=1e-4)
        return "equal" if close else "different"

    def attempt(name: str, run: Any) -> None:
        try:
            found[name] = run()
        except Exception as error:
            lines = [line.strip("- ") for line in str(error).splitlines() if line.strip("- ")]
            found[name] = f"{type(error).__name__}: {(lines or [''])[0][:120]}"

    mine = [ms.Tensor(value) for value in given]

    def forward() -> str:
        return compare(Call().set_train(False)(*mine), wanted)

    def gradient() -> str:
        expected = torch.autograd.grad(wanted.sum(), theirs[0])[0]
        net = Call().set_train(False)
        return compare(ms.grad(lambda *values: net(*values).sum())(*mine), expected)

    ms.set_context(mode=ms.PYNATIVE_MODE)
    attempt("PyNative", forward)
    if trained:
        attempt("gradient", gradient)
    if is_layer:  # a graph is compiled from source in a file, which an expression is not
        ms.set_context(mode=ms.GRAPH_MODE)
        attempt("graph", forward)
    return found


def measured(only: str) -> list[dict[str, str]]:
    """Return all rows, each from a process that may end by it."""
    left = [name for name in ROWS if re.search(only, name)]
    rows: list[dict[str, str]] = []
    while left:
        process = subprocess.Popen(
            [sys.executable, __file__, "--rows", json.dumps(left)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        done = 0
        try:
            for _ in left:
                line = _line(process)
                if not line:
                    break
                rows.append(json.loads(line))
                done += 1
        finally:
            process.kill()
            process.wait()
        if done < len(left):
            rows.append({"call": left[done], "PyNative": "ends the process, or takes more than a minute"})
        left = left[done + 1 :]
    return rows


def _line(process: subprocess.Popen[str]) -> str:
    """Return the next line that begins a document; empty when the process ends or is too slow."""
    import threading

    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        return next((line for line in process.stdout if line.startswith("{")), "")
    finally:
        timer.cancel()


def summary(rows: list[dict[str, str]]) -> dict[str, dict[str, int]]:
    """Return how many rows are equal, different or raise, by mode and kind."""
    found: dict[str, dict[str, int]] = {}
    for kind, prefix in (("layers", "nn."), ("functions", "F.")):
        for mode in ("PyNative", "graph", "gradient"):
            values = [row[mode] for row in rows if row["call"].startswith(prefix) and mode in row]
            counts = Counter(v if v in ("equal", "different") else "error" for v in values)
            if values:
                found[f"{kind}, {mode}"] = {**dict(sorted(counts.items())), "of": len(values)}
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows that this regular expression finds")
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/mint.json")
    parser.add_argument("--rows", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rows:
        for name in json.loads(chosen.rows):
            print(json.dumps({"call": name, **run_row(name, ROWS[name])}), flush=True)
        return
    import importlib.metadata

    rows = measured(chosen.only)
    for row in rows:
        print(row)
    print(json.dumps(summary(rows), indent=1))
    if chosen.store:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        document = {
            "commit": commit,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "mindspore": importlib.metadata.version("mindspore"),
            "summary": summary(rows),
            "rows": rows,
        }
        STORED.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
