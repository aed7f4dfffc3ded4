"""Decides what feeds each input of a step: an output of the step before, tokens, positions, a mask."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...ir import UsageError
from .ports import Dim, Port, Ports

ROLES = {
    "token": "the tokens of the step",
    "positions": "the position of each token of the step",
    "position": "the number of tokens before the step",
    "last": "the position of the step's last token",
    "length": "the number of tokens with those of the step",
    "mask": "ones for all tokens up to the step's",
    "same": "one value in every step",
}
"""The word for what feeds an input in `--feed NAME=WORD` -> its meaning."""

_CACHE_WORDS = re.compile(
    r"past_key_values?|present_key_values?|new_key_values?|past|present|previous|prev|updated|current|new|next|"
    r"old|inputs?|outputs?|out|in|cache[ds]?|init(?:ial)?|states?(?=_)"
)
"""Words that tell a cache that enters from the one that leaves, or say that it is one."""

_NAMED = (
    (re.compile(r"encoder|cross|image|pixel|vision|audio|use_cache"), "same"),
    (re.compile(r"mask"), "mask"),
    (re.compile(r"total.*len|(^|_)cur(rent)?_len|full_len"), "length"),
    (re.compile(r"seqlens?_k|last_pos"), "last"),
    (re.compile(r"start_pos|past.*len|cache_len|offset|^step$|^pos$|n_past"), "position"),
    (re.compile(r"position|input_pos|pos_ids"), "positions"),
)
"""Part of an input's name -> what feeds it, the first that matches."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An input that the step after feeds from an output.

    Attributes:
        input: the input.
        output: index of the output.
        axis: the axis along which the cache grows by a token; None for one of a fixed size.
        appends: whether the output holds the new tokens alone, which are joined to those of before.
    """

    input: Port
    output: int
    axis: int | None
    appends: bool = False


@dataclass(frozen=True, slots=True)
class Feeding:
    """The sources that feed the inputs of one side.

    Attributes:
        ports: the side's inputs and outputs.
        pairs: name of an input -> the output that feeds it.
        roles: name of each other input -> a key of `ROLES`.
    """

    ports: Ports
    pairs: Mapping[str, Pair]
    roles: Mapping[str, str]

    @property
    def plain(self) -> list[int]:
        """The indices of the outputs that are no cache."""
        fed = {pair.output for pair in self.pairs.values()}
        return [at for at in range(len(self.ports.outputs)) if at not in fed]

    def named(self, role: str) -> list[Port]:
        """Return the inputs of a role, in order."""
        return [port for port in self.ports.inputs if self.roles.get(port.name) == role]

    def describe(self) -> str:
        """Describe what feeds each input, for a note."""
        names = [port.name for port in self.ports.outputs]
        fed = [
            f"`{name}` from {'the new tokens of ' if pair.appends else ''}`{names[pair.output]}`"
            for name, pair in self.pairs.items()
        ]
        fed[2:] = [f"{len(fed) - 2} more such pairs"] if len(fed) > 3 else fed[2:]
        return "; ".join([*fed, *(f"`{name}`: {ROLES[role]}" for name, role in self.roles.items())])


def plan_feeding(ports: Ports, said: Sequence[tuple[str, str]]) -> Feeding:
    """Return what feeds each input, from what the user said, else from names, shapes and element types.

    Args:
        ports: the side's inputs and outputs.
        said: patterns of input names with a pattern of output names, ``+`` before it for one that holds the
            new tokens alone, or a key of `ROLES`.

    Raises:
        UsageError: for an output that the side has not, beside an input that it has (E103).
    """
    pairs, roles = _as_said(ports, said)
    left = [p for p in ports.inputs if p.name not in pairs and p.name not in roles]
    taken = {pair.output for pair in pairs.values()}
    found = _by_name(ports, left, taken) or ([] if pairs else _by_order(ports, left, taken))
    pairs.update((pair.input.name, pair) for pair in found)
    for port in left:
        if port.name not in pairs:
            roles[port.name] = _role_of(port)
    order = [port.name for port in ports.inputs]
    return Feeding(
        ports, {n: pairs[n] for n in order if n in pairs}, {n: roles[n] for n in order if n in roles}
    )


def token_axis(feeding: Feeding, port: Port) -> int | None:
    """Return the axis of an input along which tokens lie: the second, or the only one; None for one token.

    A cell takes features of one token, ``[N, 5]``, or its number, ``[N]`` where the caches have N too.
    """
    dims = port.dims or ()
    if len(dims) == 1:
        batches = {pair.input.dims[0] for pair in feeding.pairs.values() if pair.input.dims}
        return None if dims[0] in batches else 0
    if len(dims) == 2 and "float" in port.dtype and isinstance(dims[1], int) and dims[1] > 1:
        return None
    return 1


def token_symbol(feeding: Feeding) -> Dim:
    """Return the symbol of the number of tokens in a step; None if it has none."""
    for port in feeding.named("token"):
        axis = token_axis(feeding, port)
        if port.dims and axis is not None and isinstance(symbol := port.dims[axis], str):
            return symbol
    return None


def _as_said(ports: Ports, said: Sequence[tuple[str, str]]) -> tuple[dict[str, Pair], dict[str, str]]:
    """Return the pairs and roles that the user stated of this side's inputs."""
    pairs: dict[str, Pair] = {}
    roles: dict[str, str] = {}
    names = [port.name for port in ports.outputs]
    for pattern, what in said:
        for port in ports.inputs:
            if not fnmatchcase(port.name, pattern):
                continue
            appends = what.startswith("+")
            wanted = _fill(pattern, port.name, what.removeprefix("+"))
            if wanted in names:
                at = names.index(wanted)
                pairs[port.name] = Pair(port, at, _growing_axis(port, ports.outputs[at]), appends)
            elif what in ROLES:
                roles[port.name] = what
            else:
                raise UsageError(
                    "E103",
                    f"expected an output of the {ports.side} or one of {', '.join(ROLES)}, got `{wanted}`",
                    place=f"--feed {pattern}={what}",
                    hint=f"its outputs are {', '.join(names)}",
                )
    return pairs, roles


def _fill(pattern: str, name: str, wanted: str) -> str:
    """Return a pattern of outputs with what the stars of the input's pattern stand for."""
    regex = "".join("(.*)" if part == "*" else re.escape(part) for part in re.split(r"(\*)", pattern))
    found = re.fullmatch(regex, name)
    for text in found.groups() if found else ():
        wanted = wanted.replace("*", text, 1)
    return wanted


def _stem(name: str) -> str:
    """Return a name without the words that tell what enters from what leaves."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    words = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
    kept = re.sub(rf"(?<![a-z])(?:{_CACHE_WORDS.pattern})(?![a-z])", "", words)
    return re.sub(r"^([a-z])_?[0n]$", r"\1", re.sub(r"_+", "_", kept).strip("_"))


def _by_name(ports: Ports, left: Sequence[Port], taken: set[int]) -> list[Pair]:
    """Return the inputs and outputs whose names are one but for such words."""
    found: list[Pair] = []
    used = set(taken)
    for port in left:
        stem, cache = _stem(port.name), _is_cache_word(port.name)
        if not stem and not cache:
            continue
        for at, output in enumerate(ports.outputs):
            changed = output.name != port.name or cache
            if at not in used and changed and _stem(output.name) == stem and _fits(port, output):
                found.append(Pair(port, at, _growing_axis(port, output)))
                used.add(at)
                break
    return found if len(found) < len(left) or taken else []


def _is_cache_word(name: str) -> bool:
    return re.search(r"past|cache|key_value|(?<!hidden_)state", name.lower()) is not None


def _by_order(ports: Ports, left: Sequence[Port], taken: set[int]) -> list[Pair]:
    """Return inputs with the outputs of their form, in order, if there are as many of both."""
    inputs = [
        p
        for p in left
        if _is_state(p) and not _named(p) and any(_is_next(p, o, ports) for _, o in _rest(ports, taken))
    ]
    outputs = [(at, o) for at, o in _rest(ports, taken) if any(_is_next(p, o, ports) for p in inputs)]
    more = len(inputs) - len(outputs)
    is_all = len(inputs) == len(left) and len(outputs) == len(ports.outputs)
    if is_all or more == 1:  # the first input is tokens
        inputs = inputs[1:] if inputs[:1] == list(ports.inputs[:1]) else inputs
    if is_all or more == -1:  # the first output is the result
        outputs = outputs[1:] if outputs[0][0] == 0 else outputs
    if not inputs or len(inputs) != len(outputs) or len(inputs) == len(left):
        return []
    if len(outputs) == len(ports.outputs) or not all(
        _is_next(p, o, ports) for p, (_, o) in zip(inputs, outputs, strict=True)
    ):
        return []
    return [Pair(p, at, _growing_axis(p, o)) for p, (at, o) in zip(inputs, outputs, strict=True)]


def _is_next(port: Port, output: Port, ports: Ports) -> bool:
    """Whether an output may be an input's next state by its axes alone: sizes are equal, or one is longer.

    An axis that is open in both, and not the batch, belongs to tokens.
    """
    if not _fits(port, output) or port.dims is None:
        return False
    after = output.dims if output.dims is not None else (None,) * len(port.dims)
    batches = {other.dims[0] for other in ports.inputs if other.dims and other is not port}
    for axis, (a, b) in enumerate(zip(port.dims, after, strict=True)):
        last = axis == len(port.dims) - 1
        if isinstance(a, int) and isinstance(b, int) and (b < a or (last and a != b)):
            return False
        if isinstance(a, str) and a == b and axis and a not in batches:
            return False
    return True


def _rest(ports: Ports, taken: set[int]) -> Iterator[tuple[int, Port]]:
    yield from ((at, o) for at, o in enumerate(ports.outputs) if at not in taken)


def _is_state(port: Port) -> bool:
    return "float" in port.dtype and (port.rank or 0) >= 2


def _fits(port: Port, output: Port) -> bool:
    """Whether an output may be the cache that an input takes: its axes are equal but for one."""
    if output.dtype and output.dtype != port.dtype:
        return False
    if port.dims is None or output.dims is None:
        return True
    if len(port.dims) != len(output.dims):
        return False
    apart = [
        a
        for a, b in zip(port.dims, output.dims, strict=True)
        if a != b and (isinstance(a, int) or isinstance(b, int)) and a is not None and b is not None
    ]
    return len(apart) <= 1


def _growing_axis(port: Port, output: Port) -> int | None:
    """Return the axis along which a cache grows: the last that is open and differs, but for the batch."""
    dims = port.dims or ()
    after = output.dims if output.dims is not None and len(output.dims) == len(dims) else (None,) * len(dims)
    for axis in reversed(range(1 if len(dims) > 1 else 0, len(dims))):
        fixed = isinstance(dims[axis], int)
        if dims[axis] != after[axis] and not (fixed and after[axis] is None):
            return axis
        if dims[axis] is None and after[axis] is None:
            return axis
    return None


def _named(port: Port) -> str:
    """Return the role that an input's name says; empty if it says none."""
    name = port.name.lower().replace(".", "_")
    return next((role for pattern, role in _NAMED if pattern.search(name)), "")


def _role_of(port: Port) -> str:
    """Return the role of an input without a pair."""
    return _named(port) or ("token" if port.rank != 0 else "position")
