"""Scripts as people bring them, through the command line: the cause, the line, what to type, and the edit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import regraft
from regraft.cli import main
from regraft.frontends.python_file import load_object
from tests.end_to_end.seeds.renamed_branch import write_siamese

SEEDS = Path(__file__).parent / "seeds"
DIGITS, CLASSIFIER = f"{SEEDS / 'guide_torch.py'}:Digits", f"{SEEDS / 'guide_mindspore.py'}:Classifier"
GUIDE = SEEDS / "guide_mindspore.py"


def invoke(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def line_of(text: str) -> str:
    lines = GUIDE.read_text().splitlines()
    return f"guide_mindspore.py:{next(n for n, line in enumerate(lines, 1) if text in line)}"


class TestGuide:
    """Nets of a guide for people who come from PyTorch."""

    def test_the_net_is_its_original_and_takes_its_trained_weights(self, tmp_path: Path) -> None:
        import mindspore as ms
        import torch

        found = invoke("verify", DIGITS, CLASSIFIER, "--input", "2x1x14x14", "--train")
        assert found.stdout.startswith("equal: ")
        digits = load_object(DIGITS)
        with torch.no_grad():
            for parameter in digits.parameters():
                parameter.mul_(1.5)
        torch.save(digits.state_dict(), tmp_path / "trained.pth")
        mine = tmp_path / "mine.ckpt"
        invoke("convert-checkpoint", tmp_path / "trained.pth", mine, "--like", CLASSIFIER)
        net = load_object(CLASSIFIER)
        ms.load_param_into_net(net, ms.load_checkpoint(str(mine)), strict_load=True)
        x = np.random.default_rng(0).normal(size=(3, 1, 14, 14)).astype(np.float32)
        expected = digits.eval()(torch.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(
            net.set_train(False)(ms.Tensor(x)).asnumpy(), expected, rtol=1e-4, atol=1e-5
        )

    @pytest.mark.slow
    def test_a_law_of_set_data_is_seen(self) -> None:
        found = invoke(
            "verify", DIGITS, f"{GUIDE}:Wrong", "--input", "2x1x14x14", "--train", code=1
        ).stdout.splitlines()
        assert found[0].startswith("DIFFERENT in 2 initial distributions")
        assert "he_normal(mode=fan_out) in the source, he_normal in the target" in "\n".join(found[:10])

    @pytest.mark.slow
    def test_a_net_in_float16_and_a_frozen_part_are_rewritten_as_they_are(self, tmp_path: Path) -> None:
        found = invoke(
            *(
                "rewrite",
                f"{GUIDE}:Half",
                "--input",
                "2x1x14x14",
                "--to",
                "mindspore",
                "-o",
                tmp_path / "half",
            )
        )
        assert found.stdout.startswith("equal: ")
        text = (tmp_path / "half" / "model.py").read_text()
        assert 'HeNormal(mode="fan_out", nonlinearity="relu")' in text
        net = load_object(f"{tmp_path / 'half' / 'model.py'}:build")
        frozen = [p.name for p in net.get_parameters() if not p.requires_grad]
        assert [n for n in frozen if "moving" not in n] == ["extractor.first.weight", "extractor.first.bias"]

    @pytest.mark.slow
    @pytest.mark.usefixtures("without_search")
    def test_precision_that_differs_is_the_first_thing_said(self) -> None:
        found = invoke("verify", DIGITS, f"{GUIDE}:Half", "--input", "2x1x14x14", code=1).stdout
        assert "expected element type float32, got float16: the target computes" in found.splitlines()[1]

    def test_numpy_inside_a_construct_is_named_with_its_line(self) -> None:
        found = invoke("check", f"{GUIDE}:Sampler", code=1).stdout.splitlines()
        assert found[1].startswith("error NP101 `Sampler` passes a tensor to NumPy in `construct`")
        assert found[1].endswith(f"- at {line_of('asnumpy()')}")
        assert found[2].startswith("  write: ")
        assert not any("NP101" in line for line in invoke("check", CLASSIFIER).stdout.splitlines())


class TestUNet:
    """A net that keeps a whole ResNet and calls its first children only."""

    NET = f"{SEEDS / 'unet_torch.py'}:UNet"
    INPUT = ("--input", "2x3x32x32")

    def test_every_parameter_is_counted_once_and_what_never_runs_is_said(self, tmp_path: Path) -> None:
        unused = 16 * 100 + 100
        shown = json.loads(invoke("show", self.NET, *self.INPUT, "--json").stdout)
        net = load_object(self.NET)
        assert shown["trainable"] == sum(p.numel() for p in net.parameters())
        assert shown["trainable"] - shown["used"] == unused
        done = invoke("rewrite", self.NET, *self.INPUT, "--to", "mindspore", "-o", tmp_path / "out")
        assert done.stdout.startswith(f"REMOVED {unused:,} of {shown['trainable']:,} trainable parameters")
        emitted = load_object(f"{tmp_path / 'out' / 'model.py'}:build")
        assert sum(int(np.prod(p.shape)) for p in emitted.trainable_params()) == shown["used"]


class TestRenamedBranch:
    """A symbol whose second branch was made by renaming every node of the first, weights included."""

    INPUT = ("--input", "data=2x1x8x8", "--input", "sha-data=2x1x8x8")

    def test_the_copy_is_said_once_and_becomes_one_branch(self, tmp_path: Path) -> None:
        symbol = write_siamese(tmp_path)
        found = invoke("check", symbol, *self.INPUT, code=1).stdout
        (told,) = re.findall(r"TW10\d (.+) - at .+\n  write: `(--pass) \"?(tie-weights:[^\"`]+)", found)
        assert told[0].startswith("`conv_weight`, `sha-conv_weight` and 7 more pairs are one structure")
        tie = (*self.INPUT, *told[1:])
        done = invoke("rewrite", symbol, *tie, "--to", "mindspore", "-o", tmp_path / "out")
        assert done.stdout.startswith("equal to what was read: ")
        net = load_object(f"{tmp_path / 'out' / 'model.py'}:build")
        assert len(list(net.get_parameters())) == 8
        assert "self.branch(data)" in (tmp_path / "out" / "model.py").read_text()
        invoke("rewrite", symbol, *tie, "-o", tmp_path / "out.onnx")
        graph = regraft.load(str(symbol), {"data": "2x1x8x8", "sha-data": "2x1x8x8"})
        assert regraft.verify(graph, tmp_path / "out.onnx").passed
