"""Writes test_model.py: each emitted class against recorded values of its source."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .formatting import docstring_text, format_source
from .names import test_name

TESTS, VALUES = "test_model.py", "test_model.npz"
"""The files that `write_tests` writes."""

TOLERANCE = 1e-5
"""Allowed difference of outputs, relative to the largest absolute value, or to 1 if that is smaller."""


@dataclass(frozen=True, slots=True)
class TestWords:
    """The words of a framework in the tests of its source.

    Attributes:
        framework: its name, for readers.
        header: the lines before the tests, with places for ``{docstring}`` and ``{agrees}``.
        advice: a sentence on how to run them.
        tensor: the class of tensors.
        from_numpy: what makes a tensor of an array.
        to_numpy: what makes an array of a tensor, behind it.
        module: what it calls a module.
    """

    framework: str
    header: str
    advice: str
    tensor: str
    from_numpy: str
    to_numpy: str
    module: str


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a module of the source, as a call of the emitted class that stands for it.

    Attributes:
        class_name: the emitted class.
        module: the module as an expression, ``net.layer1[0]``.
        source: the source's name of it, ``the source's `layer1.0```.
        arguments: the call's arguments as source, where ``{0}`` stands for the first input.
        inputs: tensors that entered the call.
        outputs: tensors that left it, in the order in which the module returns them.
        tolerance: `TOLERANCE`, or more where the runtimes' own arithmetic differs more.
        nests: whether the module returns a dict, a list, None, or a tuple of one.
    """

    class_name: str
    module: str
    source: str
    arguments: tuple[str, ...]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    tolerance: float = TOLERANCE
    nests: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """Recorded calls of a model.

    Attributes:
        calls: one call of every class.
        origin: a sentence on the origin of the values.
        untested: class -> why no call of it was recorded.
    """

    calls: list[RecordedCall]
    origin: str
    untested: dict[str, str] = field(default_factory=dict)


def write_tests(words: TestWords, folder: Path, recording: Recording) -> list[Path]:
    """Write the tests and their values beside the ``model.py`` of a folder, and return the files written."""
    tests, values = folder / TESTS, folder / VALUES
    tests.write_text(tests_source(recording, words), encoding="utf-8")
    np.savez_compressed(
        values,
        **{
            f"{call.class_name}.{kind}{at}": np.ascontiguousarray(array)
            for call in recording.calls
            for kind, arrays in (("input", call.inputs), ("output", call.outputs))
            for at, array in enumerate(arrays)
        },
    )
    return [tests, values]


def tests_source(recording: Recording, words: TestWords) -> str:
    """Return the text of test_model.py."""
    names: list[str] = []
    for call in recording.calls:
        name = test_name(call.class_name)
        names.append(f"{name}_{len(names)}" if name in names else name)
    tests = "\n\n".join(_test(call, name) for call, name in zip(recording.calls, names, strict=True))
    return format_source(
        words.header.format(docstring=_docstring(recording, words), agrees=_check_function(recording, words))
        + tests
    )


def _check_function(recording: Recording, words: TestWords) -> str:
    """Write the comparing function, with branches only for what the recorded values need."""
    whole = any(a.dtype.kind not in "fc" for call in recording.calls for a in call.outputs)
    compared = [
        "scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)",
        "np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)",
    ]
    if whole:
        compared = [
            'if expected.dtype.kind in "fc":',
            *(f"    {line}" for line in compared),
            "else:",
            "    np.testing.assert_array_equal(found, expected)",
        ]
    several = any(call.nests or len(call.outputs) != 1 for call in recording.calls)
    leaving = "if each is not None " if any(call.nests for call in recording.calls) else ""
    lines = []
    if several:
        lines += [
            "def tensors(result):",
            '    """Return the tensors of a result as arrays, in order."""',
            f"    if isinstance(result, {words.tensor}):",
            f"        return [result{words.to_numpy}]",
            *(
                [
                    "    if isinstance(result, dict):",
                    "        result = result.values()",
                ]
                if any(call.nests for call in recording.calls)
                else []
            ),
            f"    return [array for each in result {leaving}for array in tensors(each)]",
            "",
            "",
        ]
    called = f"{words.module}(*inputs)"
    lines += [
        f"def check({words.module}, name, tolerance={_number(TOLERANCE)}):",
        '    """Compare the results of a call with the recorded ones, relative to the largest value or 1."""',
        f"    inputs = map({words.from_numpy}, recorded(f'{{name}}.input'))",
        "    outputs = recorded(f'{name}.output')",
        f"    results = {f'tensors({called})' if several else f'[{called}{words.to_numpy}]'}",
        "    assert len(results) == len(outputs)",
        "    for found, expected in zip(results, outputs):",
        "        assert found.shape == expected.shape",
        *(f"        {line}" for line in compared),
    ]
    return "\n".join(lines)


def _test(call: RecordedCall, name: str) -> str:
    plain = call.arguments == tuple(f"{{{at}}}" for at in range(len(call.inputs)))
    names = [f"x{at}" for at in range(len(call.inputs))] if len(call.inputs) > 1 else ["x"]
    given = ", ".join(argument.format(*names) for argument in call.arguments)
    called = call.module
    if not plain:
        called = f"lambda {', '.join(names[: len(call.inputs)])}: {call.module}({given})"
    tolerance = "" if call.tolerance == TOLERANCE else f", tolerance={_number(call.tolerance)}"
    return (
        f"def test_{name}(net):\n"
        f'    """{docstring_text(call.source)}."""\n'
        f'    check({called}, "{call.class_name}"{tolerance})\n'
    )


def _docstring(recording: Recording, words: TestWords) -> str:
    text = "Tests of model.py: compare each class with the recorded results of its source.\n\n"
    notes = [recording.origin, words.advice]
    if any(call.tolerance != TOLERANCE for call in recording.calls):
        notes.append(
            f"The default tolerance is {_number(TOLERANCE)}; any other is four times the difference that "
            f"{words.framework}'s own arithmetic made when the values were recorded."
        )
    notes += [f"`{name}` has no test of its own: {why}." for name, why in recording.untested.items()]
    for note in notes:
        text += "\n".join(textwrap.wrap(note, 88, break_long_words=False, break_on_hyphens=False)) + "\n"
    return docstring_text(text)


def _number(value: float) -> str:
    """Return a number in short form: ``1e-5``, ``0.002``."""
    return f"{value:g}".replace("e-0", "e-")
