"""Modules of torch as PyTorch source: states that load strictly, gradients, devices, what the head says."""

import importlib.util
from itertools import count

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regraft

NUMBER = count()


class Activated(nn.BatchNorm2d):
    """A normalisation with its activation, as timm has it: the statistics are the class's own."""

    def __init__(self, channels):
        super().__init__(channels, momentum=0.3)
        self.act = nn.ReLU()

    def forward(self, x):
        x = F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )
        return self.act(x)


class Frozen(nn.Module):
    """A normalisation that keeps its statistics in training."""

    def __init__(self, channels):
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.rand(channels) + 0.5)

    def forward(self, x):
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, eps=1e-3)


class Mixed(nn.ModuleDict):
    """Convolutions of parts of the channels, by number."""

    def __init__(self):
        super().__init__({str(n): nn.Conv2d(4, 4, size, padding="same") for n, size in enumerate((1, 3))})

    def forward(self, x):
        x, y = x.chunk(2, 1)
        return torch.cat((self["0"](x), self["1"](y)), 1)


class Unshifted(nn.GroupNorm):
    """A normalisation with a scale alone."""

    def __init__(self, channels):
        super().__init__(2, channels)
        self.bias = None


class InPlace(nn.Module):
    """Activations in place: of a tensor of their own, of one that is read again, of a view."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.own, self.read, self.view = (nn.ReLU(inplace=True) for _ in range(3))

    def forward(self, x):
        x = self.own(self.conv(x)) + 1
        x = self.read(x.clone()) * x
        return self.view(self.conv(self.own(self.conv(x))).transpose(1, 2))


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        further = nn.BatchNorm2d(8, momentum=None), nn.InstanceNorm2d(8, 1e-4, 0.2, True, True)
        self.layers = nn.Sequential(Activated(8), Mixed(), Frozen(8), Unshifted(8), Activated(8), *further)

    def forward(self, x):
        return self.layers(self.conv(x))


class Masked(nn.Module):
    """Looks up a mask by indices that broadcast, and fills what it hides."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.places = nn.Embedding(20, 8)

    def forward(self, ids, mask):
        rows = torch.arange(ids.shape[0], device=ids.device)[:, None]
        columns = torch.arange(ids.shape[1], device=ids.device)
        x = self.embed(ids) + self.places(columns).expand(ids.shape[0], -1, -1)
        found = mask.bool()[rows, columns.flip(0)]
        return x.masked_fill(~found[..., None], 0.0), torch.zeros(ids.shape[0], 3, device=ids.device)


def emitted(net, inputs, folder):
    """Return the emitted module of a net, a verified one, and its text."""
    graph = regraft.load(net, inputs)
    regraft.rewrite_file(graph, regraft.rewrite(graph, to="torch"), folder, "torch")
    return imported(folder), (folder / "model.py").read_text()


def imported(folder):
    spec = importlib.util.spec_from_file_location(f"emitted{next(NUMBER)}", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def normalised(tmp_path_factory):
    torch.manual_seed(0)
    net = Normalised().eval()
    for layer in (net.layers[0], net.layers[5]):
        layer.num_batches_tracked.fill_(7)
    net.layers[3].weight.data.uniform_()
    module, text = emitted(net, (torch.randn(4, 3, 7, 7),), tmp_path_factory.mktemp("n") / "out")
    return net, module, text


def test_the_state_of_classes_with_statistics_of_their_own_loads_strictly(normalised):
    net, module, _ = normalised
    built = module.build()
    assert {n: v.tolist() for n, v in built.state_dict().items()} == {
        n: v.tolist() for n, v in net.state_dict().items()
    }
    fresh = module.build(None).state_dict()
    assert fresh["layers.0.running_var"].tolist() == [1.0] * 8
    assert fresh["layers.2.running_var"].tolist() == net.layers[2].running_var.tolist()


def test_a_training_step_is_the_sources(normalised):
    net, module, _ = normalised
    built = module.build().train()
    x = torch.randn(4, 3, 7, 7)
    for each in (net.train(), built):
        each.zero_grad()
        each(x).square().sum().backward()
    for (name, own), other in zip(net.named_parameters(), built.parameters(), strict=True):
        torch.testing.assert_close(other.grad, own.grad, msg=name)
    for (name, own), other in zip(net.named_buffers(), built.buffers(), strict=True):
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(other, own, msg=name)


def test_a_norm_that_is_the_whole_net_averages_no_batches_but_runs(tmp_path):
    x = torch.randn(4, 3, 5, 5)
    module, _ = emitted(nn.BatchNorm2d(3, momentum=None).eval(), (x,), tmp_path / "out")
    built = module.build().train()
    torch.testing.assert_close(built(x), nn.BatchNorm2d(3)(x))
    torch.testing.assert_close(built.running_mean, x.mean((0, 2, 3)) / 10)


def test_statistics_and_biases_are_written_as_what_they_are(normalised):
    text = normalised[2]
    assert "training=self.training, momentum=0.3" in " ".join(text.split()).replace("( ", "(")
    assert text.count("training=self.training") == 1  # of two instances; the frozen one has none
    assert "layer.bias = None" in text
    assert "class Mixed(nn.ModuleList)" in text
    assert "self[0](x)" in text
    assert "FROZEN" not in text


def test_activations_are_in_place_where_nothing_else_reads_their_input(tmp_path):
    torch.manual_seed(0)
    module, text = emitted(InPlace().eval(), (torch.randn(2, 3, 4, 4),), tmp_path / "out")
    assert "self.own = nn.ReLU(inplace=True)" in text
    assert "self.read = nn.ReLU()" in text
    assert "self.view = nn.ReLU()" in text
    module.build(None).train()(torch.randn(2, 3, 4, 4)).sum().backward()


def test_the_head_lists_no_other_forms_of_operators(tmp_path):
    torch.manual_seed(0)
    ids, mask = torch.randint(11, (3, 5)), torch.tensor([[1, 1, 1, 1, 0]] * 3)
    module, text = emitted(Masked().eval(), (ids, mask), tmp_path / "out")
    assert "Pass " not in text
    assert "unbind(-1)" not in text
    assert "broadcast_shapes" not in text
    assert "device=ids.device" in text
    built = module.build(device="meta")  # where a tensor of the host is an error
    assert [y.device.type for y in built(ids.to("meta"), mask.to("meta"))] == ["meta", "meta"]


def test_tensors_made_of_sizes_are_on_the_device_of_the_given(tmp_path):
    class Counting(nn.Module):
        def forward(self, x):
            return x + torch.arange(x.shape[1], device=x.device) * 2.5, x.new_full((x.shape[0], 2), 3.0)

    module, text = emitted(Counting(), (torch.randn(3, 4),), tmp_path / "out")
    assert "3.0" in text
    found = module.build(device="meta")(torch.ones(2, 4, device="meta"))
    assert [y.device.type for y in found] == ["meta", "meta"]


class Idle(nn.Module):
    """Parameters that no run reads: a token, a head, a recurrent layer, a list, one that is tied."""

    def __init__(self):
        super().__init__()
        self.mask_token = nn.Parameter(torch.zeros(1, 4))
        self.fc = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(3, dtype=torch.int64))
        self.register_buffer("ids", torch.arange(3), persistent=False)
        self.pooler = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.BatchNorm1d(8))
        self.heads = nn.ModuleList([nn.Conv2d(4, 2, 3, groups=2), nn.Linear(4, 3), nn.LSTM(4, 2)])
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))])
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.tied = nn.Linear(4, 3)
        self.tied.weight = self.heads[1].weight
        self.pooler[2].num_batches_tracked += 7

    def forward(self, x):
        return self.heads[1](self.fc(x)) * self.scales[0] + self.scales[1]


def both_ways(model, folder):
    """The emitted module and the source's, each loading the other's state."""
    net = imported(folder).build()
    state = model.state_dict()
    assert list(net.state_dict()) == list(state)
    for name, value in net.state_dict().items():
        assert torch.equal(value, state[name]), name
    net.load_state_dict(state, strict=True)
    model.load_state_dict(net.state_dict(), strict=True)
    return net


def test_what_no_run_reads_stays_under_its_name(tmp_path):
    model, x = Idle().eval(), torch.rand(2, 4)
    graph = regraft.load(model, (x,))
    rewritten = regraft.rewrite(graph, to="torch")
    assert not regraft.api.targets.removal(graph, rewritten).tensors
    _, report = regraft.rewrite_file(graph, rewritten, tmp_path / "a", to="torch")
    assert report.passed
    text = (tmp_path / "a" / "model.py").read_text()
    joined = "".join(text.split())
    assert "nn.Sequential(nn.Linear(4,8,bias=False),nn.Identity(),nn.BatchNorm1d(8))" in joined
    assert "nn.Conv2d(4, 2, 3, groups=2)" in text
    assert "* self.scales[0] + self.scales[1]" in text
    net = both_ways(model, tmp_path / "a")
    assert net.tied.weight is net.heads[1].weight
    torch.testing.assert_close(net(x), model(x))


def test_a_pass_by_name_removes_what_no_run_reads(tmp_path):
    graph = regraft.load(Idle().eval(), (torch.rand(2, 4),))
    regraft.save(regraft.rewrite(graph, ["drop-unused-modules"]), tmp_path / "b", to="torch")
    names = set(imported(tmp_path / "b").build().state_dict())
    assert not any(name.startswith(("mask_token", "seen", "pooler", "heads.0", "weights")) for name in names)
    regraft.save(regraft.rewrite(graph, to="mindspore"), tmp_path / "c", to="mindspore")
    assert "mask_token" not in (tmp_path / "c" / "model.py").read_text()


class Block(nn.Module):
    def __init__(self, shared, norm):
        super().__init__()
        self.fc, self.shared, self.norm = nn.Linear(4, 4), shared, norm

    def forward(self, x):
        return self.norm(self.shared(self.fc(x)))


class Shared(nn.Module):
    """Modules under several names, with a counter, in a sequence, in a list; a shared parameter."""

    def __init__(self):
        super().__init__()
        self.inner = Block(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.left, self.right = (Block(self.inner, nn.Identity()) for _ in range(2))
        self.chain = nn.Sequential(self.inner, nn.ReLU(), self.inner)
        self.last = nn.Linear(4, 4)
        self.heads = nn.ModuleList([self.last, nn.Linear(4, 4)])
        self.alias = self.heads[1]
        self.table = self.alias.weight
        self.inner.norm.num_batches_tracked += 3

    def forward(self, x):
        return self.last(self.heads[1](self.chain(self.left(x)))) + self.right(x) @ self.table


def test_what_is_shared_has_each_of_its_names(tmp_path):
    torch.manual_seed(0)
    model, x = Shared().eval(), torch.rand(3, 4)
    graph = regraft.load(model, (x,))
    rewritten = regraft.rewrite(graph, to="torch")
    assert not [c for c in rewritten.changes if c.fixed and not c.code.startswith("IN")]
    _, report = regraft.rewrite_file(graph, rewritten, tmp_path / "a", to="torch", checkpoint_format="pth")
    assert report.passed
    assert report.coverage.compared == report.coverage.calls - 2  # but the identities
    both_ways(model, tmp_path / "a")
    regraft.save(rewritten, tmp_path / "b", to="torch")
    net = both_ways(model, tmp_path / "b")
    assert net.left.shared is net.inner is net.chain[2]
    text = (tmp_path / "b" / "model.py").read_text()
    assert "self.right.shared = self.inner  # tied" in text
    report = regraft.verify(graph, tmp_path / "b", train=True)
    assert report.passed
    torch.save(model.state_dict(), tmp_path / "source.pth")
    map_ = tmp_path / "b" / "renames.json"
    regraft.convert_checkpoint(tmp_path / "source.pth", tmp_path / "there.safetensors", map_)
    regraft.convert_checkpoint(tmp_path / "there.safetensors", tmp_path / "back.pth", map_)
    model.load_state_dict(torch.load(tmp_path / "back.pth"), strict=True)


class Renamed(nn.Module):
    """A module whose name is no attribute's."""

    def __init__(self):
        super().__init__()
        self.add_module("class", nn.Linear(4, 4))

    def forward(self, x):
        return getattr(self, "class")(x)


def test_a_step_of_a_renamed_module_is_compared(tmp_path):
    graph = regraft.load(Renamed().eval(), (torch.rand(2, 4),))
    regraft.save(regraft.rewrite(graph, to="torch"), tmp_path / "a", to="torch")
    assert regraft.verify(graph, tmp_path / "a", train=True).passed


class Listed(nn.Module):
    """Layers in a list, which no call is of."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        return self.layers[1](self.layers[0](x))


class Twice(nn.Module):
    """A module with a list, first registered where it is not called."""

    def __init__(self):
        super().__init__()
        self.first = Listed()
        self.blocks = nn.ModuleList([Block(self.first, nn.Identity()) for _ in range(2)])

    def forward(self, x):
        return self.blocks[1](self.blocks[0](x))


def test_a_list_in_a_shared_module_is_found(tmp_path):
    model = Twice().eval()
    graph = regraft.load(model, (torch.rand(2, 4),))
    regraft.save(regraft.rewrite(graph, to="torch"), tmp_path / "a", to="torch")
    net = both_ways(model, tmp_path / "a")
    assert net.blocks[1].shared is net.first


class Upcasting(nn.Module):
    """A net whose code computes in float32 here and there, and makes a mask of integers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.q, self.k, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.ones(8))

    def norm(self, x):
        given = x.dtype
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.scale * wide.to(given)

    def forward(self, tokens, mask):
        x = self.norm(self.table(tokens) * 300)  # its squares are above what float16 has
        hidden = (1 - mask[:, None, :].to(x.dtype)) * -1000.0
        for _ in range(2):
            scores = self.q(x) @ self.k(x).transpose(1, 2) + hidden
            weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
            x = self.norm(weights @ x + x)
        return self.head(x), self.head(x).float().exp(), x.sum(-1, dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_copy_of_another_type_computes_in_float32_where_that_of_the_source_does(tmp_path, dtype):
    torch.manual_seed(1)
    net = Upcasting().eval()
    example = torch.randint(0, 9, (2, 5)), torch.ones(2, 5, dtype=torch.int64)
    emitted(net, example, tmp_path / "out")
    copy = imported(tmp_path / "out").build(dtype=dtype)
    example[1][:, 3:] = 0
    expected, found = net.to(dtype)(*example), copy(*example)
    assert [one.dtype for one in found] == [one.dtype for one in expected]
    tolerance = 4 * torch.finfo(dtype if dtype != torch.float64 else torch.float32).eps
    for one, other in zip(found, expected, strict=True):
        assert torch.isfinite(one).all()
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * other.abs().max().item())


class Named(nn.Module):
    """A net whose names are no identifiers: of layers, of parameters, in sequences and in a dict."""

    def __init__(self):
        super().__init__()
        self.add_module("layer-1", nn.Conv2d(3, 4, 3))
        self.add_module("class", nn.BatchNorm2d(4))
        parts = {"conv-a": nn.Conv2d(4, 4, 1), "act": nn.ReLU()}
        for name, part in parts.items():
            self.add_module("block 2", nn.Sequential()) if name == "conv-a" else None
            getattr(self, "block 2").add_module(name, part)
        self.register_parameter("my-scale", nn.Parameter(torch.rand(4, 1, 1)))
        self.register_buffer("shift:1", torch.rand(1))
        self.branches = nn.ModuleDict({"3x3": nn.Conv2d(4, 4, 3, padding=1), "1": nn.Conv2d(4, 4, 1)})
        self.add_module("tied-1", nn.Linear(4, 4))
        self.add_module("tied-2", nn.Linear(4, 4))
        getattr(self, "tied-2").weight = getattr(self, "tied-1").weight
        for number in (1, 2, 3):
            self.add_module(f"dense-{number}", nn.Linear(4, 4))
        self.add_module('quo"te', nn.Linear(4, 2))

    def forward(self, x):
        x = getattr(self, "class")(getattr(self, "layer-1")(x))
        x = getattr(self, "block 2")(x) * getattr(self, "my-scale") + getattr(self, "shift:1")
        x = sum(branch(x) for branch in self.branches.values()).mean((2, 3))
        x = getattr(self, "tied-2")(getattr(self, "tied-1")(x).relu())
        for number in (1, 2, 3):
            x = getattr(self, f"dense-{number}")(x).relu()
        return getattr(self, 'quo"te')(x)


def test_names_that_are_no_identifiers_stay(tmp_path):
    """All but those that a text in quotes does not have as they are."""
    torch.manual_seed(0)
    net, x = Named().eval(), torch.randn(2, 3, 6, 6)
    module, text = emitted(net, (x,), tmp_path / "out")
    built = module.build(None)
    state = {name.replace('"', "_"): value for name, value in net.state_dict().items()}
    built.load_state_dict(state)
    torch.testing.assert_close(built.eval()(x), net(x))
    assert 'setattr(self, "layer-1", nn.Conv2d(3, 4, 3))' in text
    assert "self.act" not in text
    assert built.get_parameter("tied-1.weight") is built.get_parameter("tied-2.weight")
    torch.export.export(built, (x,), strict=False)
