"""train.py beside a PyTorch output: what trains the source trains the emitted module, and goes on."""

import ast
import copy
import importlib.util
import sys
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.backends.source.training.loss import loss_function
from regraft.backends.torch_source.training.script import tensor_source, training_source
from regraft.frontends.recipe_losses import read_loss
from regraft.frontends.torch_module.recipe import read_recipe
from regraft.frontends.training_script import Script
from regraft.ir import BackendError
from regraft.ir.recipe import LossRule, Recipe, UpdateRule
from regraft.verification.recipes.rules import updated

NUMBER, STEPS = count(), 8
NAMES = ["0.weight", "0.bias", "2.weight", "2.bias"]
DATA = [(torch.rand(4, 6, generator=torch.Generator().manual_seed(n)), torch.arange(4)) for n in range(STEPS)]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))


def momentum(net):
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    more = {"clip_norm": 1.0, "loss_scale": 8.0, "ema": 0.9}
    return {
        "loss": nn.CrossEntropyLoss(label_smoothing=0.1),
        "optimizer": optimizer,
        "schedule": schedule,
        **more,
    }


def adamw(net):
    plain = [p for n, p in net.named_parameters() if "bias" in n]
    decayed = [p for n, p in net.named_parameters() if "bias" not in n]
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0, "lr": 2e-3, "betas": (0.8, 0.9)}]
    optimizer = torch.optim.AdamW(groups, 1e-2, weight_decay=0.05, amsgrad=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    return {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer, "schedule": schedule, "steps": STEPS}


def rmsprop(net):
    options = {"alpha": 0.9, "eps": 1e-4, "momentum": 0.5, "weight_decay": 0.01, "centered": True}
    optimizer = torch.optim.RMSprop(net.parameters(), 1e-2, **options)
    return {"loss": nn.CrossEntropyLoss(reduction="sum"), "optimizer": optimizer, "clip_value": 0.05}


def adagrad(net):
    options = {"lr_decay": 0.1, "eps": 1e-3, "initial_accumulator_value": 0.2, "maximize": True}
    weights = torch.tensor([1.0, 2.0, 1.0, 1.0, 0.5])
    return {
        "loss": nn.CrossEntropyLoss(weights),
        "optimizer": torch.optim.Adagrad(net.parameters(), 0.1, **options),
    }


def mixed(net):
    optimizer = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    more = {"precision": torch.float16, "loss_scale": scaler, "clip_norm": 1.0}
    return {"loss": nn.CrossEntropyLoss(), "optimizer": optimizer, **more}


def kept(net):
    scaler = StaticScaler("cpu", 1024.0)
    optimizer = torch.optim.NAdam(net.parameters(), 0.01, weight_decay=0.1, decoupled_weight_decay=True)
    return {
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "precision": torch.float16,
        "loss_scale": scaler,
    }


class StaticScaler(torch.amp.GradScaler):
    """As MindSpore's of that name."""

    def get_growth_factor(self):
        return 1.0

    def update(self, new_scale=None):
        super().update(self.get_scale())


RECIPES = [momentum, adamw, rmsprop, adagrad, mixed, kept]


def by_hand(net, make):
    """Losses of the loop that everybody writes, and the weights that it ends with, or their averages."""
    script, losses = make(net.train()), []
    averages = {n: p.detach().clone() for n, p in net.named_parameters()}
    is_mixed = "precision" in script
    scaler = script["loss_scale"] if is_mixed else torch.amp.GradScaler("cpu", enabled=False)
    for x, labels in DATA:
        script["optimizer"].zero_grad()
        with torch.autocast("cpu", torch.float16, enabled=is_mixed):
            loss = script["loss"](net(x), labels)
        scaler.scale(loss * (1.0 if is_mixed else script.get("loss_scale", 1.0))).backward()
        scaler.unscale_(script["optimizer"])
        if "clip_norm" in script:
            nn.utils.clip_grad_norm_(net.parameters(), script["clip_norm"])
        if "clip_value" in script:
            nn.utils.clip_grad_value_(net.parameters(), script["clip_value"])
        scaler.step(script["optimizer"])
        scaler.update()
        if "schedule" in script:
            script["schedule"].step()
        for name, parameter in net.named_parameters():
            averages[name].lerp_(parameter.detach(), 1 - script.get("ema", 0.0))
        losses.append(loss.item())
    return losses, averages


def imported(path):
    name = f"torch_training_{next(NUMBER)}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def written(make, folder):
    """The module of train.py, and the recipe that it is written from."""
    module = net()
    read = read_recipe(
        Script(**make(module)), {id(p): n for n, p in module.named_parameters()}, STEPS, "t.py:r"
    )
    (folder / "train.py").write_text(training_source(read, NAMES, ["x"], "t.py:r"))
    return imported(folder / "train.py"), read


@pytest.mark.parametrize("make", RECIPES)
def test_a_step_is_the_loop_of_torch(make, tmp_path):
    module, recipe = written(make, tmp_path)
    losses, averages = by_hand(net(), make)
    training = module.Training(net())
    found = [training.step(x, labels).item() for x, labels in DATA]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    assert len(set(found)) == STEPS
    held = training.averages if recipe.options["averaged weights"] else dict(training.net.named_parameters())
    for name, value in averages.items():
        torch.testing.assert_close(held[name].detach(), value, rtol=1e-4, atol=1e-6)
    again = read_recipe(
        Script(**module.recipe(training.net)),
        {id(p): n for n, p in training.net.named_parameters()},
        STEPS,
        "train.py:recipe",
    )
    assert again.options == recipe.options
    assert {n: (r.kind, r.settings) for n, r in again.rules.items()} == {
        n: (r.kind, r.settings) for n, r in recipe.rules.items()
    }
    np.testing.assert_allclose(again.rules["0.weight"].rates, recipe.rules["0.weight"].rates, rtol=1e-6)


@pytest.mark.parametrize("make", RECIPES)
def test_it_goes_on_from_what_was_saved(make, tmp_path):
    module, _ = written(make, tmp_path)
    whole = module.Training(net())
    losses = [whole.step(*batch).item() for batch in DATA]
    first = module.Training(net())
    for batch in DATA[:4]:
        first.step(*batch)
    torch.save(first.state_dict(), tmp_path / "last.pth")
    second = module.Training(net())
    second.load_state_dict(torch.load(tmp_path / "last.pth", weights_only=True))
    np.testing.assert_allclose([second.step(*batch).item() for batch in DATA[4:]], losses[4:], rtol=1e-5)


WEIGHTS = torch.tensor([1 / 3, 2.0, 1e-9, 1.0, 5.0])
MORE, WHOLE = torch.rand(4, 5), torch.arange(4)
LOSSES = [  # loss, labels
    (nn.CrossEntropyLoss(WEIGHTS, ignore_index=2, label_smoothing=0.1), WHOLE),
    (nn.CrossEntropyLoss(torch.arange(1.0, 6.0)), WHOLE),
    (nn.NLLLoss(WEIGHTS, ignore_index=1, reduction="sum"), WHOLE),
    (nn.BCEWithLogitsLoss(MORE[:, :1], pos_weight=torch.rand(1, 5)), MORE.round()),
    (nn.SmoothL1Loss(beta=0.3), MORE),
    (nn.HuberLoss(delta=0.7, reduction="sum"), MORE),
    (nn.KLDivLoss(reduction="batchmean"), MORE.softmax(1)),
    (nn.KLDivLoss(reduction="sum", log_target=True), MORE.log_softmax(1)),
    (nn.PoissonNLLLoss(log_input=False, full=True, eps=1e-6), MORE),
    (nn.SoftMarginLoss(), MORE.sub(0.5).sign()),
    (nn.HingeEmbeddingLoss(margin=0.4), MORE.sub(0.5).sign()),
    (nn.MultiMarginLoss(p=2, margin=0.5, weight=WEIGHTS), WHOLE),
    (nn.MultiLabelSoftMarginLoss(WEIGHTS), MORE.round()),
    (nn.MultiLabelMarginLoss(), torch.tensor([[3, 0, -1, 1, 2]] * 4)),
]


@pytest.mark.parametrize(("loss", "labels"), LOSSES, ids=lambda given: type(given).__name__)
def test_a_loss_of_torch_is_written_with_its_arguments(loss, labels):
    space = {"nn": nn, "torch": torch}
    rule = read_loss(loss, "torch.nn.modules")
    exec(loss_function(rule, "PyTorch", tensor_source, own=True), space)
    output = torch.rand(4, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(space["make_loss"]()(output, labels), loss(output, labels), rtol=0, atol=0)


def test_a_loss_that_torch_alone_has_is_refused_elsewhere_and_of_another_script():
    rule = read_loss(nn.KLDivLoss(), "torch.nn.modules")
    with pytest.raises(BackendError, match="E602 expected a loss that MindSpore has"):
        loss_function(rule, "MindSpore", str)


ADAM = {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3, "amsgrad": False, "nesterov": False}
ADAM |= {"bias correction": True, "epsilon is added": "to the root before its correction"}
UNCORRECTED = {k: v for k, v in ADAM.items() if k != "epsilon is added"} | {"bias correction": False}
DECAYED = {"weight decay": 0.1, "kind of decay": "added to the gradient (L2)"}
APART = {"weight decay": 0.1, "kind of decay": "apart from the gradient (decoupled)"}


RMSPROP = {"alpha": 0.9, "epsilon": 1e-3, "epsilon inside the root": True, "mean square starts at": 1.0}
RMSPROP |= {"momentum": 0.5, "centered": True, "rates inside the momentum": True}
ADAGRAD = {"rate decay": 0.0, "epsilon": 1e-8, "epsilon inside the root": True}
ADAMAX = {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3, "epsilon is added": "to the largest magnitude"}


@pytest.mark.parametrize(
    ("kind", "settings", "rates"),
    [
        ("Adam", {**ADAM, "weight decay": 0.0}, 0),
        ("Adam", {**ADAM, **DECAYED, "nesterov": True}, 0),
        ("Adam", {**ADAM, **DECAYED, "amsgrad": True}, 0),
        ("Adam", {**UNCORRECTED, **APART}, 0),
        ("RMSprop", {**RMSPROP, **DECAYED}, 0.003),
        ("Adagrad", {**ADAGRAD, "sum of squares starts at": 0.2, **DECAYED}, 0),
        ("Adamax", {**ADAMAX, **DECAYED}, 0),
    ],
    ids=["adam", "nesterov", "amsgrad", "AdamWeightDecay", "RMSProp", "Adagrad", "AdaMax"],
)
def test_what_mindspore_alone_computes_is_written_as_a_class(kind, settings, rates, tmp_path):
    rule = UpdateRule(kind, settings, tuple(0.01 + rates * at for at in range(STEPS)))
    source = training_source(recipe_of(rules=dict.fromkeys(NAMES, rule)), NAMES, ["x"], "t.py:r")
    (tmp_path / "train.py").write_text(source)
    module, start = imported(tmp_path / "train.py"), net()
    training = module.Training(copy.deepcopy(start))
    values = {n: p.detach().double() for n, p in start.named_parameters()}
    states: dict[str, dict[str, Any]] = {n: {} for n in values}
    for at, (x, labels) in enumerate(DATA):
        training.step(x, torch.eye(5)[labels])
        for name, parameter in training.net.named_parameters():
            gradient = parameter.grad.double()
            values[name] = updated(rule, states[name], values[name], gradient, rule.rates[at])
    for name, parameter in training.net.named_parameters():
        torch.testing.assert_close(parameter.detach().double(), values[name], rtol=1e-4, atol=1e-6)
    read = read_recipe(
        Script(**module.recipe(start)), {id(p): n for n, p in start.named_parameters()}, STEPS, "r"
    )
    assert {n: (r.kind, r.settings) for n, r in read.rules.items()} == dict.fromkeys(NAMES, (kind, settings))


def recipe_of(**changes: Any) -> Recipe:
    rule = UpdateRule("SGD", {"momentum": 0.0, "weight decay": 0.0}, (0.1,))
    options = {"clip norm": None, "clip value": None, "gradients times": 1.0, "precision": None}
    parts = {
        "loss": LossRule("squared error", {"reduction": "mean"}, "nn.MSELoss"),
        "rules": {"0.weight": rule},
        "options": {**options, "averaged weights": None, **changes.pop("options", {})},
    }
    return Recipe("torch", "t.py:r", "torch.optim.SGD", **{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"precision": "o2"}}, "float16 or bfloat16, got `o2`"),
        ({"options": {"averaged weights": "a AveragedModel"}}, "the decay of averaged weights"),
        ({"loss": LossRule("", {}, "my_loss")}, "a loss that PyTorch has.*my_loss"),
        ({"rules": {}}, "an optimizer over the net's parameters"),
        (
            {
                "rules": {
                    "0.weight": UpdateRule("SGD", {"momentum": 0.0, "weight decay": 0.0}, (0.1,)),
                    "0.bias": UpdateRule("Adam", {**ADAM, "weight decay": 0.0}, (0.1,)),
                }
            },
            "for all groups",
        ),
        (
            {"rules": {"0.weight": UpdateRule("FTRL", {"weight decay": 0.0}, (0.1,))}},
            "expected one of torch.s SGD",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(changes, message):
    with pytest.raises(BackendError, match=rf"E602 .*{message}"):
        training_source(recipe_of(**changes), NAMES, ["x"], "t.py:r")


def test_names_of_files_are_text_and_nothing_else():
    tree = ast.parse(training_source(recipe_of(), NAMES, ["x"], 'a""".py\nimport nothing_of_that_name'))
    assert [type(node) for node in tree.body[1:3]] == [ast.Import, ast.ImportFrom]


def test_a_rewrite_writes_it_and_follows_it(tmp_path):
    graph = regraft.load(net(), (torch.rand(4, 6),))
    files, report = regraft.rewrite_file(
        graph, regraft.rewrite(graph), tmp_path / "out", "torch", recipe=momentum
    )
    assert "train.py" in [f.name for f in files]
    assert report.passed
    assert report.recipes.trajectory.steps == 20
