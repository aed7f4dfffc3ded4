"""In pieces, each module of the source computes from the target's values of the modules before it."""

from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.formats.written_behind import all_there
from regraft.ir import Graph
from regraft.verification.conditioning import Cost, UnitsAlone
from regraft.verification.runners.runs import Run
from regraft.verification.sides import Sides
from regraft.verification.streaming.exact_constants import ExactConstants
from regraft.verification.streaming.handover import Handover
from regraft.verification.streaming.pace import Pace
from regraft.verification.streaming.targets import target_in_pieces
from regraft.verification.streaming.together import RunTogether
from regraft.verification.streaming.torch_pieces import TorchPieces


class Raised(nn.Module):
    """What leaves it is what its layer gave, changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        y += 1
        return y


class Shifted(nn.Module):
    """What leaves it is what leaves its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Raised(), nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x))


def written(path: Path) -> tuple[Graph, Path]:
    torch.manual_seed(0)
    graph = regraft.load(Shifted().eval(), [regraft.InputSpec.parse("x=2x12")])
    regraft.save(regraft.rewrite(graph).graph, path, "onnx" if path.suffix else "mindspore")
    return graph, path


def followed(graph: Graph, path: Path) -> tuple[Run, Run]:
    """The source's run and the target's, in which the source goes on with the target's values."""
    target = target_in_pieces(
        path,
        threads=1,
        wide=False,
        budget=1 << 10,
        weights=[],
        literals=[],
        constants=ExactConstants(),
        wait_for=all_there,
    )
    source, exact = TorchPieces(graph), TorchPieces(graph, "float64")
    with source.beside_others():
        return RunTogether(source, target, exact, None).follow({"x": np.ones((2, 12), np.float32)})


@pytest.mark.parametrize("file", ["net.onnx", "net"])
def test_a_module_of_the_source_computes_from_the_targets_values(file: str, tmp_path: Path) -> None:
    graph, path = written(tmp_path / file)
    model = graph.origin.model
    assert isinstance(model, Shifted)
    with torch.no_grad():  # of the source alone, behind what was written
        model.first.layer.bias += 1
        model.last[1].bias += 2
    source, target = followed(graph, path)
    off = {
        call: float((source.calls[call].outputs[0] - target.calls[call].outputs[0]).mean())
        for call in source.calls
    }
    wrong = {"first.layer#1": 1, "first#1": 0, "last.0#1": 0, "last.1#1": 2, "last#1": 2, "#1": 2}
    assert off == pytest.approx({call: wrong[call] for call in off}, abs=1e-5)
    assert off.keys() >= {"first.layer#1", "first#1", "last.0#1", "last.1#1"}
    # what is handed on is what the source itself computed, and no copy of the target's
    (_, own), (_, other) = source.outputs[0], target.outputs[0]
    assert own - other == pytest.approx(2, abs=1e-5)


@pytest.mark.parametrize("file", ["net.onnx", "net"])
def test_float64_is_for_what_is_off(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, path = written(tmp_path / file)
    graph = regraft.load(graph.origin.model, [regraft.InputSpec.parse("x=2x12")], dynamic_batch=False)
    real, runs = TorchPieces.separate, list[str]()
    monkeypatch.setattr(TorchPieces, "separate", lambda self: runs.append(self.runtime) or real(self))
    given = {"x": np.random.default_rng(0).standard_normal((2, 12), np.float32)}
    report = regraft.verify(graph, path, given, pieces=True)
    assert report.passed
    assert runs == []
    assert any("run on the target's values" in note for note in report.notes)
    monkeypatch.setattr(Sides, "units_alone", lambda self: UnitsAlone(Cost(0), "exact"))
    report = regraft.verify(graph, path, given, pieces=True)
    assert report.passed  # each side from its own values, within what rounding does to the source
    assert len(runs) == 1
    assert not any("run on the target's values" in note for note in report.notes)


def test_a_run_that_waits_for_another_is_not_waited_for() -> None:
    """Else a source that is behind would wait for a target that waits for it."""
    pace = Pace(10)
    own, other = pace.join(), pace.join()
    handover = Handover(lambda call: call != "nobody's#1", lambda: pace.aside(own))
    taken: list[list[np.ndarray] | None] = []
    went_on = Event()

    def source() -> None:
        with pace.run(own) as read:
            read(1)
            for call in ("nobody's#1", "a#1", "b#1"):
                taken.append(handover.take(call, [np.zeros(3, np.float32)]))
                went_on.set()
            read(200)

    thread = Thread(target=source, daemon=True)
    thread.start()
    with pace.run(other) as read:
        read(100)  # far ahead
        assert went_on.wait(30)  # nobody waits for what does not come
        handover.give("a#1", [np.ones(3)])
        handover.give("other#1", [np.ones(4)])
        read(100)
        handover.end()
    thread.join(30)
    assert not thread.is_alive()
    nothing, found, missing = taken
    assert nothing is None
    assert missing is None
    assert found is not None
    assert [array.dtype for array in found] == [np.float32]  # as the source's own
    assert found[0].tolist() == [1, 1, 1]
