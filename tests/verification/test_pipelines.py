"""Two input pipelines: a planted difference is named with its stage, and a right port has no finding."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from regraft.cli import main
from regraft.verification.pipelines.explaining import explain_values

HERE = Path(__file__).parent / "pipelines"

RIGHT = [
    ("torch", "torch"),
    ("torch", "mindspore"),
    ("torch", "torch v2"),
    ("torch", "torch own"),
    ("torch own", "mindspore generator"),
    ("torch", "mindspore padded"),  # the crop takes off what the padding adds
    ("torch tensors", "mindspore C"),
    ("torch tensors", "mindspore rescaled"),
    ("torch random", "random"),
    ("plain", "plain"),
    ("plain", "plain rounded mean"),
    ("tokens", "tokens"),
    ("texts", "texts lists"),
    ("recurrent", "recurrent arrays"),
    ("torch 5", "drops none"),  # ten images in batches of five: there is no smaller batch
    ("torch", "torch converted"),
    ("torch erased", "erased"),
    ("torch mirrored", "mirrored early"),  # which normalises as the image what it fills in
    ("plain smooth", "plain smooth"),
]

WRONG = [
    ("torch", "mindspore C", "Resize", "antialias=False, the first has True"),
    ("torch", "bgr", "reverse_channels", "channels are in the other order (BGR against RGB)"),
    ("torch", "other mean", "Normalize", "instead of [123.68, 116.28, 103.53]"),
    ("torch", "not divided", "Normalize", "gets values from 0 to 255 and not from 0 to 1"),
    ("torch tensors", "mindspore to -1", "Normalize", "gets values from -1 to 1 and not from 0 to 1"),
    ("torch", "bicubic", "Resize", "interpolation=bicubic, the first has bilinear"),
    ("torch", "square", "Resize", "size=[32, 32], the first has 32"),
    ("torch", "not normalised", "ToTensor", "Normalize is missing in the second"),
    ("torch", "layout", "image", "the layout is HWC, not CHW"),
    ("torch", "cropped", "CenterCrop", "size=[26, 26], the first has [28, 28]"),
    ("torch", "crop first", "CenterCrop", "the order of transforms differs"),
    ("torch", "flipped", "HorizontalFlip", "HorizontalFlip is not in the first"),
    ("torch", "drops", "batches", "the last, smaller batch is left out"),
    ("torch", "batch 5", "batches", "batches have 5 samples instead of 4"),
    ("torch", "shuffled", "order", "samples are shuffled, those of the first are not"),
    ("torch", "one-hot", "label", "labels are one-hot vectors, not numbers of classes"),
    ("torch", "skips", "samples", "there are 6 samples instead of 10"),
    ("torch", "torch one", "1", "labels are larger by 1"),
    ("torch random", "random scale", "RandomResizedCrop", "scale=[0.5, 1], the first has [0.08, 1]"),
    ("torch random", "random flip", "RandomHorizontalFlip", "probability=0.1, the first has 0.5"),
    ("plain", "plain bgr", "0", "channels are in the other order"),
    ("plain", "plain layout", "0", "the layout is HWC, not CHW"),
    ("plain", "plain not divided", "0", "values are 255 times those of the first"),
    ("plain", "plain mean", "0", "another scale, mean or deviation"),
    ("plain", "plain exchanged", "fields", "another order: `0` is `1`, `1` is `0` of the first"),
    ("plain", "plain near mean", "0", "by channel: another mean"),
    ("plain", "plain 256", "0", "another scale, mean or deviation"),
    ("plain", "plain flip", "0", "images are mirrored from left to right"),
    ("plain", "plain shift", "0", "images are shifted by 1 rows and 0 columns"),
    ("plain", "plain classes", "1", "labels count the classes in another order"),
    ("plain", "plain half", "0", "the element type float16 instead of float32"),
    ("plain", "plain backwards", "order", "samples come in another order"),
    ("tokens", "tokens padded", "ids", "padded with 1 instead of 0"),
    ("tokens", "tokens left", "ids", "padded at the beginning, not at the end"),
    ("tokens", "tokens longer", "ids", "padded to 16 and not to 12"),
    ("tokens", "tokens first", "ids", "begin with 1 token more: 101"),
    ("tokens", "tokens cut", "ids", "cut after 6 values"),
    ("texts", "texts left", "ids", "padded at the beginning, not at the end"),
    ("texts", "texts cut left", "ids", "cut at their beginning, not at their end"),
    ("texts", "texts end", "ids", "sequences end with 1 token more: 1"),
    ("texts", "texts shorter", "ids", "cut after 6 values"),
    ("texts", "texts pad", "ids", "padded with 99 instead of 0"),
    ("texts", "texts marks", "mask", "0 and 1 are exchanged"),
    ("recurrent", "recurrent time first", "0", "has the batch as its second axis, not as its first"),
    ("recurrent", "recurrent filled", "0", "padded with -1 instead of 0"),
    ("plain", "plain own statistics", "0", "each image is normalised by its own mean and deviation"),
    ("torch", "torch grey", "Decode", "images are grey, those of the first have colours"),
    ("torch erased", "erased early", "RandomErasing", "comes before Normalize, in the first after it"),
    ("torch edged", "edged early", "Pad", "comes before Normalize, in the first after it"),
    ("torch random", "random decoded", "RandomResizedCrop", "antialias=False, the first has True"),
    ("plain smooth", "plain hot", "1", "labels are smoothed by 0, those of the first by 0.1"),
    ("plain hot", "plain mixed", "1", "labels are mixed of several classes"),
    ("torch", "repeats", "samples", "there are 20 samples instead of 10: 2 times as many"),
]


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:48, :64]
    for kind in "ab":
        (folder / kind).mkdir()
        for i in range(5):
            waves = [
                127 + 100 * np.sin(columns / (3 + i) + c + ord(kind)) * np.cos(rows / (4 + c))
                for c in range(3)
            ]
            image = (np.stack(waves, -1) + rng.normal(0, 12, (48, 64, 3))).clip(0, 255)
            Image.fromarray(image.astype(np.uint8)).save(folder / kind / f"{i}.png")
    return folder


def name_of(pipeline: str) -> str:
    return "make_" + pipeline.replace(" ", "_").replace("-", "_")


@pytest.fixture(scope="module")
def reports(images: Path, tmp_path_factory) -> dict[tuple[str, str], dict]:
    """Every report, made in one process: imports of three libraries cost more than all pairs."""
    pairs = [(a, b) for a, b, *_ in [*RIGHT, *WRONG]]
    done = subprocess.run(
        [sys.executable, HERE / "compare_all.py", tmp_path_factory.mktemp("records")],
        input=json.dumps([(name_of(a), name_of(b)) for a, b in pairs]),
        capture_output=True,
        text=True,
        env={**os.environ, "IMAGES": str(images)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(pairs, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("pair", RIGHT, ids=" against ".join)
def test_a_right_port_has_no_finding(reports, pair: tuple[str, str]) -> None:
    assert reports[pair]["findings"] == []
    assert reports[pair]["verdict"].startswith("equal: ")


@pytest.mark.parametrize(("first", "second", "stage", "message"), WRONG, ids=[row[1] for row in WRONG])
def test_a_planted_difference_is_named(reports, first: str, second: str, stage: str, message: str) -> None:
    report = reports[first, second]
    assert not report["equal"]
    finding = report["findings"][0]
    assert message in finding["message"]
    assert finding["stage"] == stage


def test_lines_are_those_of_the_file(reports) -> None:
    finding = reports["torch", "bicubic"]["findings"][0]
    lines = (HERE / "pipelines.py").read_text().splitlines()
    first, second = finding["lines"]
    assert "tv.Resize(32)" in lines[first - 1]
    assert "BICUBIC" in lines[second - 1]
    assert finding["advice"] == "Resize with interpolation=bilinear"


def test_the_command(images: Path, tmp_path: Path, monkeypatch) -> None:
    """Two processes, an HTML page, and the outputs of two models."""
    (tmp_path / "p.py").write_text(
        "import numpy as np, torch\n"
        "def batches(scale):\n"
        "    rng = np.random.default_rng(0)\n"
        "    for _ in range(2):\n"
        "        yield {'x': (rng.random((4, 3, 8, 8)) * scale).astype('float32'), 'y': np.arange(4)}\n"
        "def first(): return batches(1)\n"
        "def second(): return batches(255)\n"
        "def broken(): raise ValueError('no data here')\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x): return x.mean((2, 3))\n"
    )
    monkeypatch.chdir(tmp_path)
    command = [
        "compare-data",
        "p.py:first",
        "p.py:second",
        "--html",
        "d.html",
        "--source",
        "p.py:Net",
        "--target",
        "p.py:Net",
    ]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1, done.output
    assert done.stdout.startswith("different: `x`: values are 255 times those of the first\n")
    assert "write: divide by 255" in done.stdout
    assert "the largest output is the same for 8 of 8 samples" in done.stdout
    assert (tmp_path / "d.html").read_text().count("data:image/png") == 12
    broken = CliRunner().invoke(main, ["compare-data", "p.py:first", "p.py:broken"])
    assert broken.exit_code == 2
    assert "no data here" in broken.output
    assert "p.py:8" in broken.output


def test_vectors_of_numbers_are_explained() -> None:
    draw = np.random.default_rng(0)
    corners = [np.concatenate([v, v + draw.random((5, 2))], 1) for v in draw.random((3, 5, 2))]
    sized = [np.concatenate([v[:, :2], v[:, 2:] - v[:, :2]], 1) for v in corners]
    features = list(draw.standard_normal((12, 6)) * np.arange(1, 7) + 3)
    centred = list((np.stack(features) - np.mean(features, 0)) / np.std(features, 0))
    for first, second, message in (
        (corners, sized, "boxes are a corner with width and height, not two corners"),
        (sized, corners, "boxes are two corners, not a corner with width and height"),
        (corners, [v[:, [1, 0, 3, 2]] for v in corners], "the first's are the second's 1, 0, 3, 2"),
        (features, [v[::-1] for v in features], "columns are in another order"),
        (features, centred, "columns have another mean or deviation each"),
        (features, [v / 4 for v in features], "the first is the second times [4] plus [0]"),
    ):
        (found,) = explain_values(first, second)
        assert message in found.message
    assert explain_values(features, features) == []
    assert explain_values(features, list(draw.standard_normal((12, 6)))) == []


def test_numbers_to_write_of_a_pipeline_without_stages_make_its_values_the_first_s() -> None:
    draw = np.random.default_rng(0)
    raw = [draw.integers(0, 256, (3, 16, 16)) / 255 for _ in range(4)]
    mean, deviation = (np.array(v)[:, None, None] for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    first = [(v - mean) / deviation for v in raw]
    for second in (raw, [v * 255 for v in raw], [(v - 0.5) / 0.5 for v in raw]):
        (found,) = explain_values(first, second)
        means, deviations = re.findall(r"\[(.*?)\]", found.advice)
        m, d = (np.array(text.split(", "), float)[:, None, None] for text in (means, deviations))
        np.testing.assert_allclose([(v - m) / d for v in second], first, atol=5e-3)
    (found,) = explain_values(first, raw)
    assert found.advice.endswith("by the mean [0.485, 0.456, 0.406] and the deviation [0.229, 0.224, 0.225]")
    (found,) = explain_values(first, [v + 0.25 for v in first])
    assert found.advice == "give both one mean, or subtract [0.25, 0.25, 0.25] from what the second gives"
    (found,) = explain_values(raw, [2 - v for v in raw])
    assert found.advice.endswith("take what the second gives times [-1, -1, -1] plus [2, 2, 2]")


def test_values_that_nothing_explains_have_no_explanation() -> None:
    rng = np.random.default_rng(0)
    first = [rng.random((3, 16, 16)) for _ in range(4)]
    assert explain_values(first, [rng.random((3, 16, 16)) for _ in range(4)]) == []
    assert explain_values(first, first) == []
