"""Scopes and short names, read from the prefixes of a flat graph's node names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from .chains import Element, Step, steps_of

_MOST = 0.7
"""Share of the steps above which a common prefix is dropped."""
_PART = re.compile(r"[a-z]+_?\d+$")
"""A numbered part of a model, such as ``stage3``, which may hold most of a deep one."""

_CALLED = {
    "Conv": "conv",
    "ConvTranspose": "deconv",
    "BatchNormalization": "bn",
    "LayerNormalization": "ln",
    "InstanceNormalization": "norm",
    "GroupNormalization": "norm",
    "Linear": "fc",
    "Gemm": "fc",
    "MatMul": "fc",
    "PRelu": "prelu",
    "Gather": "embedding",
}
"""Operator -> the name of a layer of it, where the source's names do not fit."""


class Scopes:
    """The scopes of all steps of a graph: ``resnet0_stage1_conv0_fwd`` lies in ``stage1``.

    A prefix that most names share is the model's own and is dropped.

    Args:
        steps: the steps.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._words = {id(s): _words(s.name) for s in steps}
        while True:
            first = Counter(words[0] for words in self._words.values() if len(words) > 1)
            word, count = first.most_common(1)[0] if first else ("", 0)
            named = sum(words != [""] for words in self._words.values())
            if count < 2 or count < _MOST * named or (_PART.match(word) and count < named):
                return
            for words in self._words.values():
                if len(words) > 1 and words[0] == word:
                    del words[0]

    def words(self, step: Step) -> list[str]:
        """Return the words of a step's name: its scopes, outermost first, and its own name."""
        return self._words[id(step)]

    def at(self, element: Element, depth: int) -> str:
        """Return the scope at a depth that most steps of an element lie in; empty if there is none."""
        found = Counter(
            words[depth] if len(words) > depth + 1 else "" for words in map(self.words, steps_of(element))
        )
        return found.most_common(1)[0][0]

    def common(self, steps: Iterable[Step]) -> int:
        """Return the number of outer words that the names of all steps share."""
        rows = [self.words(s)[:-1] for s in steps]
        count = 0
        while rows and all(len(r) > count and r[count] == rows[0][count] for r in rows):
            count += 1
        return count

    def local(self, step: Step, depth: int) -> str:
        """Return the name of a step without its `depth` outer scopes."""
        return "_".join(self.words(step)[depth:])


def _words(name: str) -> list[str]:
    """Split a name: ``net0_stage1__plus0`` -> net0, stage1, plus0; gluon's suffix ``_fwd`` is dropped.

    A path, ``layer1.0.conv1``, is split at its dots alone.
    """
    if "." in name:
        return [re.sub(r"\W", "_", word) for word in name.split(".") if word]
    words: list[str] = []
    for word in re.split(r"[_./]+", re.sub(r"\W*_?fwd$", "", name)):
        if word[:1].isdigit() and words:
            words[-1] += f"_{word}"  # Mixed_3a is one name
        elif word:
            words.append(re.sub(r"\W", "_", word))
    return words or [""]


def without_prefix(names: Sequence[str]) -> list[str]:
    """Return names without the words that all of them begin with.

    Example:
        >>> without_prefix(["seq_0_exp_conv", "seq_0_se_fc1"]), without_prefix(["conv1", "conv2"])
        (['exp_conv', 'se_fc1'], ['conv1', 'conv2'])
    """
    rows = [name.split("_") for name in names]
    while len(rows) > 1 and all(len(r) > 1 and r[0] == rows[0][0] for r in rows):
        rows = [r[1:] for r in rows]
    return ["_".join(r) for r in rows]


def by_kind(steps: Sequence[Step]) -> list[str]:
    """Return names by kind: conv1, bn1, conv2, …; a kind that occurs once has no number.

    Example:
        >>> row = [Step("", [], (kind,), None, (), ()) for kind in ("Conv", "Relu", "Conv", "Linear")]
        >>> by_kind(row)
        ['conv1', 'relu', 'conv2', 'fc']
    """
    return number_repeats([_CALLED.get(kind_of(s), kind_of(s).lower()) for s in steps])


def number_repeats(names: Sequence[str]) -> list[str]:
    """Return names with a number added to each that occurs several times.

    Example:
        >>> number_repeats(["conv", "bn", "conv", "a0", "a0"])
        ['conv1', 'bn', 'conv2', 'a0_1', 'a0_2']
    """
    total, seen = Counter(names), Counter[str]()
    out: list[str] = []
    for name in names:
        seen[name] += 1
        number = f"_{seen[name]}" if name[-1:].isdigit() else str(seen[name])
        out.append(f"{name}{number}" if total[name] > 1 else name)
    return out


def kind_of(step: Step) -> str:
    """Return the operator that the layer of a step is named after; Scale for a factor and a shift."""
    if {"Mul", "Add"} <= set(step.types) <= {"Mul", "Add", "Unsqueeze"}:
        return "Scale"
    return next((t for t in step.types if t in _CALLED), step.types[-1])


def class_word(scope: str) -> str:
    """Return a scope's name as a class name, without its number: ``resunit15`` -> ``Resunit``."""
    words = [w for w in re.split(r"_+", re.sub(r"\d+$", "", scope)) if w]
    name = "".join(w[0].upper() + w[1:] for w in words)
    return name if name[:1].isalpha() else ""


def shared_prefix(names: Sequence[str]) -> str:
    """Return the common beginning of several names, cut where a word or a number ends.

    Example:
        >>> shared_prefix(["Mixed_3a", "Mixed_3b"]), shared_prefix(["resunit15", "resunit16"])
        ('Mixed_3', 'resunit')
        >>> shared_prefix(["left", "right"])
        ''
    """
    first, last = min(names), max(names)
    count = 0
    while count < min(len(first), len(last)) and first[count] == last[count]:
        count += 1
    prefix = first[:count]
    if any(name[count : count + 1].isdigit() for name in names):
        prefix = prefix.rstrip("0123456789")
    return prefix.rstrip("_")
