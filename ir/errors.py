"""Every error regraft raises: a stable code, what was expected, where, and a hint.

The class says who must act: the user (`UsageError`, `ModelError`), whoever adds an operator
(`UnsupportedError`), the author of a frontend or pass (`InvalidGraphError`), of an IR text
(`TextFormError`), of a pipeline (`PassError`), or us (`MismatchError`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .outside.arguments import as_arguments
from .outside.display import shorten_words

CODES: dict[str, str] = {
    "E001": "a command-line value or argument cannot be understood",
    "E002": "the output exists already, or cannot be written",
    "E003": "more than half of the trained parameters would be removed",
    "E101": "a model file is missing, truncated or malformed",
    "E102": "a Python model file raised, or does not define the name asked for",
    "E103": "the inputs given do not fit the model",
    "E104": "the framework refused to capture the model",
    "E105": "a framework that the model needs is not installed",
    "E106": "a size beyond regraft's limits or the available memory",
    "E107": "only a reader that may run the file's content can open it",
    "E201": "operators without a lowering",
    "E202": "an operator has an attribute that its lowering does not read",
    "E203": "an operator is used in a form that its lowering does not cover",
    "E301": "the graph is not valid",
    "E401": "a text in the IR's text form cannot be parsed",
    "E501": "a pass cannot fulfil its request",
    "E502": "no pass or option of that name",
    "E601": "operators that a backend can neither emit nor expand",
    "E602": "a model that a backend cannot express",
    "E701": "the target and the source compute different results",
    "E702": "a model could not be run for the comparison",
    "E703": "the layers of two nets cannot be paired",
    "E704": "a training recipe cannot be read or run",
    "E801": "a checkpoint and a map do not fit",
}
"""Code -> what it means, in one line; `regraft explain` prints it."""


class RegraftError(Exception):
    """Base of every error of ours.

    Args:
        code: a key of `CODES`.
        message: what was expected and what was found, lower case.
        place: location of the fault: a module path, a file and line, or a line of IR text.
        hint: what to do about it, in options of the command line; `str` of the error has the library's
            arguments in their place.
    """

    def __init__(self, code: str, message: str, *, place: str = "", hint: str = "") -> None:
        assert code in CODES, code
        self.code, self.message, self.place, self.hint = (
            code,
            shorten_words(message),
            shorten_words(place),
            shorten_words(hint),
        )
        super().__init__(str(self))

    def __str__(self) -> str:
        return self._text(as_arguments(self.hint))

    def for_command_line(self) -> str:
        """Return what `str` does, with options of the command line in the hint."""
        return self._text(self.hint)

    def _text(self, hint: str) -> str:
        at = f" - at {self.place}" if self.place else ""
        return f"{self.code} {self.message}{at}" + (f"\nhint: {hint}" if hint else "")


class UsageError(RegraftError):
    """The user asked for something that cannot be understood or must not be done."""


class ModelError(RegraftError):
    """The model or its inputs cannot be read: the user must act."""


@dataclass(frozen=True)
class Missing:
    """One operator that nothing lowers or emits.

    Attributes:
        operator: its name.
        places: where it is used: module path and source line.
        reason: why there is nothing for it, where that is known.
        instead: what its user can do.
        reproduction: source of the smallest model that has it.
    """

    operator: str
    places: tuple[str, ...]
    reason: str = ""
    instead: str = ""
    reproduction: str = ""

    def __str__(self) -> str:
        uses = f"{len(self.places)} use{'s' if len(self.places) != 1 else ''}"
        lines = [f"{self.operator}: {uses}, e.g. {self.places[0]}"]
        others = [p for p in dict.fromkeys(self.places) if p != self.places[0]]
        lines += [f"  also at {place}" for place in others[:_PLACES]]
        lines += [f"  and at {len(others) - _PLACES} more places"] if len(others) > _PLACES else []
        lines += [f"  because {self.reason}"] if self.reason else []
        lines += [f"  instead: {self.instead}"] if self.instead else []
        if self.reproduction:
            lines += ["  the smallest model that has it:"]
            lines += [f"    {line}".rstrip() for line in self.reproduction.split("\n")]
        return shorten_words("\n".join(f"  {line}" for line in lines))


_PLACES = 8
"""Number of further places of an operator that are listed."""


class UnsupportedError(RegraftError):
    """Operators without a lowering or an emitter, all of a model's at once.

    Args:
        missing: every such operator with the places that use it.
    """

    def __init__(
        self, code: str, message: str, *, missing: Sequence[Missing] = (), place: str = "", hint: str = ""
    ) -> None:
        self.missing = tuple(missing)
        super().__init__(code, message, place=place, hint=hint)

    def _text(self, hint: str) -> str:
        head, *tail = super()._text(hint).split("\n")
        return "\n".join([head, *map(str, self.missing), *tail])


class InvalidGraphError(RegraftError):
    """A graph breaks an invariant: the author of what built it must act."""


class TextFormError(RegraftError):
    """A text is not in the IR's text form."""


class PassError(RegraftError):
    """A pass cannot do what its options ask of this graph."""


class BackendError(RegraftError):
    """A backend cannot express the graph."""


class MismatchError(RegraftError):
    """A rewritten model does not compute what its source computes."""
