"""Converts an optimizer's state between torch's and MindSpore's terms, so that training resumes.

torch numbers the parameters of an optimizer; MindSpore puts a prefix before their names. A step of torch's
SGD is one of `nn.SGD`, and moments are the same numbers in both; Adam's step count is `global_step`, from
which `nn.Adam` has the powers of its betas in two further parameters. RMSprop's and Adagrad's are those of
`mindspore.experimental.optim` and of an emitted train.py; `nn.RMSProp` multiplies its `moment` by the rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..ir import TensorData
from .mapping import Map, applied
from .slots import is_global, slot_in
from .spelling import COUNTER

_BUFFERS = ("running_mean", "running_var", COUNTER)
_PREFIXES = {"exp_avg": "moment1.", "exp_avg_sq": "moment2.", "max_exp_avg_sq": "vhat."}
"""Adam's terms in torch -> the prefixes of `nn.Adam`."""
_SQUARES = {"square_avg": "mean_square.", "grad_avg": "mean_grad.", "sum": "accum."}
"""The same for RMSprop and Adagrad."""
_SAVED = {**_PREFIXES, **_SQUARES}
_TERMS = {
    "mean_square.": "square_avg",
    "mean_grad.": "grad_avg",
    "moment.": "momentum_buffer",
    **{prefix: term for term, prefix in _PREFIXES.items()},
    **{f"{term}.": term for term in _PREFIXES},  # of mindspore.experimental.optim
    "accum.": "momentum_buffer",
    "moments.": "momentum_buffer",
}


@dataclass(slots=True)
class OptimizerState:
    """The tensors of an optimizer, in torch's terms.

    Attributes:
        slots: name of a parameter -> term ("exp_avg", "momentum_buffer") -> its tensor.
        steps: steps done; None where that is not known.
        betas: Adam's; empty where they are not known.
        prefixes: term -> the prefix that a MindSpore checkpoint had for it.
        once: what a MindSpore checkpoint had once for all parameters.
        missing: why there is nothing, where something was expected.
    """

    slots: dict[str, dict[str, TensorData]] = field(default_factory=dict)
    steps: int | None = None
    betas: tuple[float, ...] = ()
    prefixes: dict[str, str] = field(default_factory=dict)
    once: dict[str, TensorData] = field(default_factory=dict)
    missing: str = ""


def of_torch(
    content: object, tensors: Mapping[str, TensorData], handle: Callable[[object], TensorData | None]
) -> OptimizerState | None:
    """Return the state of ``optimizer.state_dict()`` by tensor names; None for anything else.

    Args:
        content: the untrusted dictionary.
        tensors: the model's tensors, in the order of its state dict.
        handle: makes a handle of a torch tensor; None for anything else.
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("state"), Mapping):
        return None
    groups, state = content.get("param_groups"), content["state"]
    if not isinstance(groups, list) or not all(_is_group(g) for g in groups):
        return None
    made = OptimizerState()
    kept: dict[int, dict[str, TensorData]] = {}
    steps: set[int] = set()
    for number, values in state.items():
        if type(number) is not int or not isinstance(values, Mapping):
            return None
        found = {str(term): handle(value) for term, value in values.items() if value is not None}
        if "step" in values:
            step = found.get("step")
            counted = step.numpy().reshape(-1)[0] if step is not None and step.shape in ((), (1,)) else None
            steps.add(_count(values["step"] if step is None else counted))
        unknown = set(found) - {"step", "momentum_buffer", *_SAVED}
        if unknown:
            made.missing = (
                f"it keeps `{min(unknown)}`, and the terms of SGD, Adam, RMSprop and Adagrad are converted"
            )
            return made
        kept[number] = {term: d for term, d in found.items() if d is not None and term != "step"}
    if not any(kept.values()):
        return None
    names, why = _names_of(groups, kept, tensors)
    if why or len(steps) > 1 or -1 in steps:
        made.missing = why or "its parameters have made different numbers of steps"
        return made
    made.slots = {names[number]: terms for number, terms in kept.items() if number in names}
    made.steps = next(iter(steps), None)
    betas = groups[0].get("betas")
    if isinstance(betas, (tuple, list)) and all(isinstance(b, float) and 0 <= b < 1 for b in betas):
        made.betas = tuple(betas)
    return made


def _is_group(group: object) -> bool:
    numbers = group.get("params") if isinstance(group, Mapping) else None
    return isinstance(numbers, list) and all(type(n) is int for n in numbers)


def _count(value: object) -> int:
    """Return a number of steps; -1 for anything else."""
    try:
        number = float(value)  # pyright: ignore[reportArgumentType] - a tensor, or anything
    except (TypeError, ValueError, RuntimeError):
        return -1
    return int(number) if 0 <= number < 1 << 31 and number == int(number) else -1


def _names_of(
    groups: Sequence[Mapping[str, object]],
    kept: Mapping[int, Mapping[str, TensorData]],
    tensors: Mapping[str, TensorData],
) -> tuple[dict[int, str], str]:
    """Return (number of a parameter in an optimizer -> its name, why that cannot be told)."""
    numbers = [list(g["params"]) for g in groups]  # pyright: ignore[reportArgumentType]
    stated = [g.get("param_names") for g in groups]
    if all(isinstance(s, list) and len(s) == len(n) for s, n in zip(stated, numbers, strict=True)):
        pairs = [pair for n, s in zip(numbers, stated, strict=True) for pair in zip(n, s, strict=True)]  # pyright: ignore[reportArgumentType]
        named = dict(pairs)
        fits = all(isinstance(named.get(n), str) and _fits(kept[n], tensors.get(named[n])) for n in kept)
        return (named, "") if fits else ({}, "its names are not those of the model")
    names = [n for n in tensors if n.rpartition(".")[2] not in _BUFFERS]
    if len(numbers) == 1:
        first = _embedded(numbers[0], names, kept, tensors)
        last = _embedded(numbers[0][::-1], names[::-1], kept, tensors)
        if first is None or first != last:
            why = "more than one order of the model's parameters fits its shapes"
            return {}, why if first is not None else "its shapes are not those of the model's parameters"
        return first, ""
    return _by_shapes(numbers, names, kept, tensors)


def _by_shapes(
    numbers: Sequence[Sequence[int]],
    names: Sequence[str],
    kept: Mapping[int, Mapping[str, TensorData]],
    tensors: Mapping[str, TensorData],
) -> tuple[dict[int, str], str]:
    """Return the parameters of several groups, if every shape is of one group alone; or the obstacle."""
    found: dict[int, str] = {}
    holders: dict[tuple[int, ...], dict[int, list[int]]] = {}  # shape -> group -> numbers
    for at, group in enumerate(numbers):
        for n in group:
            if kept.get(n):
                holders.setdefault(next(iter(kept[n].values())).shape, {}).setdefault(at, []).append(n)
    named: dict[tuple[int, ...], list[str]] = {}
    for name in names:
        named.setdefault(tensors[name].shape, []).append(name)
    for shape, groups_of in holders.items():
        here, mine = named.get(shape, []), list(groups_of.values())
        if len(mine) != 1 or len(mine[0]) != len(here):
            return {}, (
                f"shapes do not tell which of its {len(numbers)} groups holds which parameter of "
                f"{list(shape)}; an optimizer that is given named_parameters() saves the names"
            )
        found.update(zip(mine[0], here, strict=True))
    place = {name: at for at, name in enumerate(names)}
    for group in numbers:
        order = [place[found[n]] for n in group if n in found]
        if order != sorted(order):
            return {}, "its groups do not keep the order of the model's parameters"
    return found, ""


def _fits(terms: Mapping[str, TensorData], data: TensorData | None) -> bool:
    return data is not None and all(slot.shape == data.shape for slot in terms.values())


def _embedded(
    numbers: Sequence[int],
    names: Sequence[str],
    kept: Mapping[int, Mapping[str, TensorData]],
    tensors: Mapping[str, TensorData],
) -> dict[int, str] | None:
    """Return the parameters by the first names in order that have their shapes; None where there are none."""
    found: dict[int, str] = {}
    at = 0
    for number in numbers:
        while at < len(names) and not _fits(kept.get(number, {}), tensors[names[at]]):
            at += 1
        if at == len(names):
            return None
        found[number] = names[at]
        at += 1
    return found


def split_slots(
    given: Mapping[str, TensorData], notes: list[str]
) -> tuple[dict[str, TensorData], OptimizerState | None]:
    """(the weights of a MindSpore checkpoint, what its optimizer keeps; None where it keeps nothing)."""
    slots = {name: slot for name in given if (slot := slot_in(name, given)) is not None}
    if not slots:
        return dict(given), None
    weights: dict[str, TensorData] = {}
    state, dropped = OptimizerState(), list[str]()
    once = state.once
    for name, data in given.items():
        slot = slots.get(name)
        if slot is not None and slot[0] in _TERMS:
            # nn.SGD keeps `stat` beside its momentum; Adagrad's sum of squares has the same prefix
            is_sum = slot[0] == "accum." and f"stat.{slot[1]}" not in given
            term = "sum" if is_sum else _TERMS[slot[0]]
            state.slots.setdefault(slot[1], {})[term] = data
            state.prefixes[term] = slot[0]
        elif slot is not None:
            dropped += [name] * (slot[0] != "stat.")
        elif is_global(name):
            once[name] = data
        else:
            weights[name] = data
    for name in ("global_step", "state_step", "step_t"):
        if name in once and once[name].numpy().size == 1:
            state.steps = _count(once[name].numpy().reshape(-1)[0])
    if dropped:
        notes.append(f"slots of an optimizer that torch does not have: {len(dropped)} (`{dropped[0]}`, …)")
    if once and not state.slots:
        notes.append(f"not of the net, so not carried over: {', '.join(f'`{n}`' for n in once)}")
    return weights, state if state.slots else None


def carried(state: OptimizerState, mapping: Map, *, reverse: bool) -> tuple[OptimizerState, list[str]]:
    """(the state by the other side's names and in its layout, parameters of which it could not follow)."""
    made = replace(state, slots={})
    left: list[str] = []
    done: set[str] = set()
    for row in mapping.rows:
        here, there = mapping.source_name(row), row.target
        here, there = (there, here) if reverse else (here, there)
        terms = state.slots.get(here)
        if terms is None or here in done or not there:
            continue
        shape = tuple(row.target_shape if reverse else row.shape)
        kind = row.transform.partition(":")[0]
        if kind in ("identity", "reshape", "transpose") and all(d.shape == shape for d in terms.values()):
            made.slots[there] = {t: applied(row, d, reverse=reverse) for t, d in terms.items()}
            done.add(here)
    for join in mapping.joins:
        join = join.turned() if reverse else join
        terms = set.intersection(*(set(state.slots.get(name, ())) for name in join.source))
        for term in sorted(terms):
            parts = {name: state.slots[name][term] for name in join.source}
            if all(parts[name].shape == shape for name, shape in join.source.items()):
                for name, data in join.applied(parts).items():
                    made.slots.setdefault(name, {})[term] = data
                done.update(join.source)
    left = [name for name in state.slots if name not in done]
    return made, left


def as_mindspore(state: OptimizerState) -> dict[str, TensorData]:
    """Return the slots as saved by `nn.SGD`, `nn.Adam`, and the RMSprop and Adagrad of torch's rules."""
    made: dict[str, TensorData] = {}
    for name, terms in state.slots.items():
        for term, data in terms.items():
            if term == "momentum_buffer" and "square_avg" in terms:
                made[f"moment.{name}"] = data
            elif term == "momentum_buffer":
                prefix = state.prefixes.get(term, "accum.")
                made[f"{prefix}{name}"] = data
                if prefix == "accum.":  # 1 says that there was no step yet
                    made[f"stat.{name}"] = TensorData.of(np.zeros(data.shape, np.float32))
            else:
                made[f"{state.prefixes.get(term, _SAVED[term])}{name}"] = data
    made |= state.once
    if state.once:
        return made
    if state.steps is not None:
        made["global_step"] = TensorData.of(np.array([state.steps], np.int32))
        for name, beta in zip(("beta1_power", "beta2_power"), state.betas, strict=False):
            made[name] = TensorData.of(np.array(beta**state.steps, np.float32))
    return made


def as_torch(state: OptimizerState) -> dict[str, object]:
    """Return the state of torch's optimizer by parameter names, which only the model can number."""
    rows: dict[str, object] = {}
    for name, terms in state.slots.items():
        rows[name] = dict(terms)
        # RMSprop must have a count, which no step of it reads
        steps = 0 if state.steps is None and "square_avg" in terms else state.steps
        if steps is not None and terms.keys() & {"exp_avg", "square_avg", "sum"}:
            # one of its own for each: a shared tensor would be counted up once for every parameter
            rows[name] = {"step": TensorData.of(np.array(steps, np.float32)), **terms}
    return {"state": rows}


RESUME = (
    "state = saved['optimizer']['state']; names = [n for n, _ in model.named_parameters()]; "
    "optimizer.load_state_dict({**optimizer.state_dict(), "
    "'state': {i: state[n] for i, n in enumerate(names) if n in state}})"
)
"""Code that restores a torch optimizer over ``model.parameters()``."""
