"""`verify --steps`: steps of a decoder, each fed the cache of the one before, are one pass over all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import regraft
from regraft.backends.onnx_model import to_model
from regraft.cli import main
from regraft.verification.decoding.feeding import plan_feeding
from regraft.verification.decoding.ports import Port, Ports

WIDTH, HEADS, WORDS = 16, 2, 30
OPEN = {"input_ids": [0, 1], "past_key": [0, 2], "past_value": [0, 2]}


def rotate(x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    angle = position[:, None, :, None] / 10000 ** (torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Decoder(nn.Module):
    """One layer of attention; `fault` plants a mistake in its steps."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fault = fault
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def project(self, ids: torch.Tensor) -> list[torch.Tensor]:
        x = self.embed(ids)
        b, s, _ = x.shape
        return [layer(x).view(b, s, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v)]

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        a = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        a = a.masked_fill(~mask, -1e9).softmax(-1)
        return self.head((a @ v).transpose(1, 2).flatten(2))

    def forward(self, input_ids: torch.Tensor, past_key: torch.Tensor, past_value: torch.Tensor) -> Any:
        q, k, v = self.project(input_ids)
        past, s = past_key.shape[2], input_ids.shape[1]
        at = torch.arange(past, past + s)[None]
        moved = at * (0 if self.fault == "rotated" and s == 1 else 1)
        q, k = rotate(q, at), rotate(k, moved)
        if self.fault == "front":
            k, v = torch.cat([k, past_key], 2), torch.cat([v, past_value], 2)
        elif self.fault == "none kept":
            k, v = torch.cat([past_key[:, :, :0], k], 2), torch.cat([past_value[:, :, :0], v], 2)
        else:
            k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        total = k.shape[2]
        row = torch.arange(total - s, total)[:, None]
        place = torch.arange(total)[None]
        seen = place <= row
        if s == 1 and self.fault == "off by one":
            seen = place <= row - (row > 0).long()
        if s == 1 and self.fault in ("front", "window"):
            seen = place > row - 3
        return {"logits": self.attend(q, k, v, seen), "present_key": k, "present_value": v}


class Pass(Decoder):
    """The same net without a cache."""

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        b = input_ids.shape[0]
        empty = torch.zeros(b, HEADS, 0, WIDTH // HEADS)
        return super().forward(input_ids, empty, empty)["logits"]


class Fixed(Decoder):
    """A cache of a fixed size, written in place."""

    def forward(  # type: ignore[override]
        self,
        input_ids: torch.Tensor,
        cache_position: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
    ) -> Any:
        q, k, v = self.project(input_ids)
        q, k = rotate(q, cache_position[None]), rotate(k, cache_position[None])
        at = cache_position - (cache_position > 2).long() if self.fault == "place" else cache_position
        k, v = k_cache.index_copy(2, at, k), v_cache.index_copy(2, at, v)
        seen = torch.arange(k.shape[2])[None] <= cache_position[:, None]
        return self.attend(q, k, v, seen), k, v


class Masked(Decoder):
    """A decoder that is given its mask and positions, and returns the logits of the last token."""

    def forward(  # type: ignore[override]
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past_key: torch.Tensor,
        past_value: torch.Tensor,
    ) -> Any:
        q, k, v = self.project(input_ids)
        q, k = rotate(q, position_ids), rotate(k, position_ids)
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        t, s = k.shape[2], input_ids.shape[1]
        seen = torch.arange(t)[None] <= torch.arange(t - s, t)[:, None]
        logits = self.attend(q, k, v, seen & (attention_mask[:, None, None, :] > 0))
        return logits[:, -1], k, v


def caches(tokens: int = 3) -> dict[str, torch.Tensor]:
    shape = (2, HEADS, tokens, WIDTH // HEADS)
    return {"past_key": torch.zeros(shape), "past_value": torch.zeros(shape)}


def ids(tokens: int) -> torch.Tensor:
    return torch.randint(0, WORDS, (2, tokens))


def written(net: nn.Module, inputs: dict[str, torch.Tensor], axes: dict[str, list[int]], path: Path) -> Any:
    graph = regraft.load(net.eval(), inputs, dynamic=axes)
    onnx.save(to_model(graph), path)
    return graph


@pytest.fixture(scope="module")
def whole() -> Any:
    return regraft.load(Pass().eval(), {"input_ids": ids(5)}, dynamic={"input_ids": [0, 1]})


def lines(report: Any) -> list[str]:
    return report.render(brief=True).splitlines()


def test_a_right_decoder_equals_one_pass_in_every_form(whole: Any, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    graph = written(Decoder(), {"input_ids": ids(2), **caches()}, OPEN, path)
    for source, target, count in ((whole, path, 4), (graph, path, 6), (str(path), str(path), 6)):
        report = regraft.verify(source, target, steps=5)
        head = "equal in 5 steps with a cache and in one pass"
        assert report.summary().startswith(f"{head}: {count} outputs compared"), report.render()
    assert report.steps is not None
    assert report.steps.caches == {"past_key": "present_key", "past_value": "present_value"}
    assert report.steps.roles == {"input_ids": "token"}
    assert report.steps.first is None

    masks = {
        "attention_mask": torch.ones(2, 5, dtype=torch.int64),
        "position_ids": torch.tensor([[3, 4]] * 2),
    }
    given = {"input_ids": ids(2), **masks, **caches()}
    axes = {**OPEN, "attention_mask": [0, 1], "position_ids": [0, 1]}
    written(Masked(), given, axes, tmp_path / "masked.onnx")
    report = regraft.verify(whole, tmp_path / "masked.onnx", steps=4)
    assert report.passed, report.render()  # the logits of the last token, against a prefix for each step
    assert report.steps is not None
    assert report.steps.roles == {"input_ids": "token", "attention_mask": "mask", "position_ids": "positions"}

    shape = (2, HEADS, 8, WIDTH // HEADS)
    fixed = {"k_cache": torch.zeros(shape), "v_cache": torch.zeros(shape)}
    given = {"input_ids": ids(1), "cache_position": torch.tensor([0]), **fixed}
    graph = written(Fixed(), given, {"input_ids": [0]}, tmp_path / "fixed.onnx")
    assert regraft.verify(whole, tmp_path / "fixed.onnx", steps=6).passed
    assert regraft.verify(graph, tmp_path / "fixed.onnx", steps=6).passed
    report = regraft.verify(tmp_path / "fixed.onnx", tmp_path / "fixed.onnx", steps=6)
    assert report.verdict == "unproven"
    assert "compared with itself" in report.summary()

    written(Fixed("place"), given, {"input_ids": [0]}, tmp_path / "place.onnx")
    report = regraft.verify(whole, tmp_path / "place.onnx", steps=6)
    assert report.summary().startswith("DIFFERENT in step 4 of 6: ")
    assert lines(report)[2] == "  the cache `output_1` takes token 4 in place 3"


@pytest.mark.parametrize(
    ("fault", "step", "cause"),
    [
        ("rotated", 2, "has token 2 rotated by -1, as position 0 in place of 1 after step 2"),
        ("none kept", 2, "holds 1 token after step 2"),
        ("off by one", 2, "every cache is that of the pass: a step reads it with another mask or position"),
        ("window", 4, "every cache is that of the pass: a step reads it with another mask or position"),
        ("front", 4, "holds tokens 2 1 in this order after step 2"),
    ],
)
def test_the_first_wrong_step_and_its_cause_are_named(fault: str, step: int, cause: str) -> None:
    given = {"input_ids": ids(1), **caches()}
    net = Decoder(fault).eval()
    report = regraft.verify(Pass().eval(), net, given, steps=6)
    text = report.render(brief=True)
    assert report.summary().startswith(f"DIFFERENT in step {step} of 6: "), text
    assert "its one pass over 6 tokens is right" in text
    assert cause in text, text
    assert json.loads(json.dumps(report.to_json()))["steps"]["first"] == step


def test_a_fault_of_the_net_itself_is_not_put_on_the_cache(whole: Any, tmp_path: Path) -> None:
    net = Decoder()
    with torch.no_grad():
        net.k.weight[3] *= 1.5
    written(net, {"input_ids": ids(2), **caches()}, OPEN, tmp_path / "a.onnx")
    report = regraft.verify(whole, tmp_path / "a.onnx", steps=4)
    assert "its one pass over 4 tokens differs too" in report.render(), report.render()


class States(nn.Module):
    """A recurrent cell as its decoder's step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.cell = nn.GRUCell(5, 6)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.cell(x, hidden)
        return hidden.tanh(), hidden


class Sequence(nn.Module):
    """The same over a sequence."""

    def __init__(self, states: States) -> None:
        super().__init__()
        self.rnn = nn.GRU(5, 6, batch_first=True)
        self.rnn.load_state_dict({f"{name}_l0": value for name, value in states.cell.state_dict().items()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x)[0].tanh()


def test_a_state_of_one_size_is_a_cache_too(tmp_path: Path) -> None:
    states = States()
    given = {"x": torch.zeros(2, 5), "hidden": torch.zeros(2, 6)}
    written(states, given, {"x": [0], "hidden": [0]}, tmp_path / "cell.onnx")
    source = regraft.load(Sequence(states).eval(), {"x": torch.zeros(2, 3, 5)}, dynamic={"x": [0, 1]})
    assert regraft.verify(source, tmp_path / "cell.onnx", steps=4).passed
    report = regraft.verify(source, tmp_path / "cell.onnx", steps=4, feed={"hidden": "output_0"})
    assert report.summary().startswith("DIFFERENT in step 1 of 4: ")


class Blind(nn.Module):
    def forward(self, x: torch.Tensor, past_key: torch.Tensor) -> Any:
        return {"y": x.sin(), "present_key": torch.cat([past_key, x], 1)}


def test_a_cache_that_no_output_reads_proves_nothing(tmp_path: Path) -> None:
    given = {"x": torch.randn(2, 2, 4), "past_key": torch.randn(2, 3, 4)}
    graph = written(Blind(), given, {"x": [0, 1], "past_key": [0, 1]}, tmp_path / "a.onnx")
    report = regraft.verify(graph, tmp_path / "a.onnx", steps=4)
    assert report.summary().startswith("NOT PROVEN, `y` is the same whatever the cache holds: ")


def test_what_cannot_be_stepped_is_one_error(whole: Any, tmp_path: Path) -> None:
    path = tmp_path / "pass.onnx"
    onnx.save(to_model(whole), path)
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, "expected a cache, an input that an output of the step before feeds, and found none"),
        ({"feed": {"input_ids": "nothing"}}, "expected an output of the source or one of token, "),
        ({"feed": {"nothing": "same"}}, "expected an input of the source or the target, got `nothing`"),
        ({"train": True}, "expected --steps without --train, got both"),
        ({"steps": 1}, "expected two or more steps of a decoder, got 1"),
        ({"steps": None, "feed": {"a": "b"}}, "expected --feed with --steps"),
    ]
    for options, message in rows:
        with pytest.raises(regraft.UsageError) as caught:
            regraft.verify(whole, path, **{"steps": 4, **options})
        assert message in str(caught.value)
    result = CliRunner().invoke(main, ["verify", str(path), str(path), "--steps", "4"])
    assert result.exit_code == 2
    assert "error E103 expected a cache" in result.output
    assert "--feed 'past.*=present.*'" in result.output


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        (["input_ids", "past_key_values.0.key", "past_key_values.0.value"],
         ["logits", "present.0.key", "present.0.value"], {1: 1, 2: 2}),
        (["ids", "past_key_0", "past_value_0"], ["logits", "present_value_0", "present_key_0"], {1: 2, 2: 1}),
        (["ids", "pk", "pv"], ["y", "nk", "nv"], {1: 1, 2: 2}),
        (["ids", "cache_k", "cache_v"], ["y", "cache_k_out", "cache_v_out"], {1: 1, 2: 2}),
        (["ids", "h0", "c0"], ["y", "hn", "cn"], {1: 1, 2: 2}),
        (["ids", "state"], ["y", "new_state"], {1: 1}),
        (["ids", "memory", "bias"], ["y"], {}),
    ],
)  # fmt: skip
def test_pairs_are_found_by_name_and_by_shape(
    inputs: list[str], outputs: list[str], expected: dict[int, int]
) -> None:
    cache = ("N", 2, "p", 8)
    ports = Ports(
        "source",
        [
            Port(name, "float32" if i else "int64", cache if i else ("N", "s"))
            for i, name in enumerate(inputs)
        ],
        [Port(n, "float32", ("N", 2, "t", 8) if i else ("N", "s", 9)) for i, n in enumerate(outputs)],
    )
    pairs = plan_feeding(ports, []).pairs
    assert {inputs.index(name): pair.output for name, pair in pairs.items()} == expected
    assert all(pair.axis == 2 for pair in pairs.values())
