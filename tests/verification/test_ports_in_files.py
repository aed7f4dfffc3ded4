"""Two nets of a file as their authors wrote them: constructed from one seed, and trained by scripts."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from regraft.cli import main

NETS = """
from pathlib import Path
import torch
from torch import nn

class Apart(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def projections(self, x):
        return self.q(x), self.k(x), self.v(x)

    def forward(self, x):
        q, k, v = self.projections(x)
        return self.out((torch.softmax(q @ k.transpose(1, 2), -1) @ v).mean(1))

class Together(Apart):
    def __init__(self):
        nn.Module.__init__(self)
        self.fused, self.out = nn.Linear(8, 24), nn.Linear(8, 5)

    def projections(self, x):
        return self.fused(x).chunk(3, -1)

class Deep(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 5))

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.spare, self.b, self.c = (nn.Linear(8, n) for n in (8, 3, 8, 5))
        del self.spare

    def forward(self, x):
        return self.c(self.b(torch.relu(self.a(x))))

class Loaded(Other):
    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(1)
            source = Deep()
        state = {"a.weight": source[0].weight, "a.bias": source[0].bias}
        self.load_state_dict(state, strict=False)

class Seeded(Deep):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        for layer in self:
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()

def recipe(net):
    return {"loss": nn.CrossEntropyLoss(), "optimizer": torch.optim.AdamW(net.parameters(), 1e-3)}

def without_decay(net):
    own = list(net.out.parameters())
    others = [p for p in net.parameters() if all(p is not q for q in own)]
    groups = [{"params": others, "weight_decay": 0.0}, {"params": own}]
    return {"loss": nn.CrossEntropyLoss(), "optimizer": torch.optim.AdamW(groups, 1e-3)}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "nets.py"
    found.write_text(NETS)
    return found


def verify(path: Path, source: str, target: str, shape: str, *options: str) -> Result:
    arguments = ["verify", f"{path}:{source}", f"{path}:{target}", "--input", shape, *options]
    return CliRunner().invoke(main, arguments)


def recipes(path: Path, source: str, target: str) -> tuple[str, ...]:
    return ("--recipe", f"{path}:{source}", "--recipe", f"{path}:{target}", "--steps", "4")


def test_equal_first_draws_of_one_seed_are_no_weights_of_their_own(path: Path) -> None:
    found = verify(path, "Deep", "Other", "2x8")
    assert found.exit_code == 0, found.output
    assert "weights: the target was given the source's for this comparison" in found.stdout


def test_a_layer_that_a_checkpoint_left_out_is_still_named(path: Path) -> None:
    found = verify(path, "Seeded", "Loaded", "2x8")
    assert found.exit_code == 1, found.output
    assert "weights: each net kept its own" in found.stdout
    assert "`{2,3}.weight` has other values in the target" in found.stdout


@pytest.mark.parametrize("nets", [("Apart", "Together"), ("Together", "Apart")])
def test_a_script_trains_what_one_side_keeps_in_one(nets: tuple[str, str], path: Path) -> None:
    found = verify(path, *nets, "2x4x8", *recipes(path, "recipe", "recipe"))
    assert found.exit_code == 0, found.output
    assert "trajectory: 4 steps agree" in found.stdout


@pytest.mark.parametrize(
    ("nets", "held"),
    [(("Apart", "Together"), "`fused.weight`"), (("Together", "Apart"), "`q.weight`")],
)
def test_a_setting_of_what_one_side_keeps_in_one_is_named(
    nets: tuple[str, str], held: str, path: Path
) -> None:
    found = verify(path, *nets, "2x4x8", *recipes(path, "recipe", "without_decay"))
    assert found.exit_code == 1, found.output
    first = "\n".join(found.stdout.splitlines()[:10])
    assert "weight decay: 0.01 in the source, 0 in the target" in first
    assert held in first
