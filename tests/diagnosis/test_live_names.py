"""`unique_names` repairs a live net before its optimizer is made."""

import pytest

import regraft


def net(inserted: bool):
    from mindspore import nn

    root = nn.SequentialCell(nn.Dense(3, 3))
    for name in ("a", "b"):
        group = nn.SequentialCell(nn.Dense(3, 3), nn.BatchNorm1d(3))
        if inserted:
            root.insert_child_to_cell(name, group)
        else:
            root.append(group)
    return root


def test_an_optimizer_takes_the_net_after_it() -> None:
    from mindspore import nn

    found = net(inserted=True)
    before = [(id(p), p.asnumpy().tobytes(), p.requires_grad) for p in found.get_parameters()]
    with pytest.raises(ValueError, match="already exists"):
        nn.Adam(found.trainable_params())
    changed = regraft.unique_names(found)
    nn.Adam(found.trainable_params())
    assert changed["a.0.weight"] == changed["b.0.weight"] == "0.weight"
    assert [p.name for p in found.get_parameters()] == [path for path, _ in found.parameters_and_names()]
    assert [(id(p), p.asnumpy().tobytes(), p.requires_grad) for p in found.get_parameters()] == before
    assert regraft.unique_names(found) == {}


def test_names_that_differ_stay_whatever_they_are() -> None:
    found = net(inserted=False)
    next(found.get_parameters()).name = "my_own"
    names = [p.name for p in found.get_parameters()]
    assert regraft.unique_names(found) == {}
    assert [p.name for p in found.get_parameters()] == names


def test_what_is_no_cell_is_refused() -> None:
    with pytest.raises(regraft.RegraftError, match="E001 expected a MindSpore Cell"):
        regraft.unique_names([])
