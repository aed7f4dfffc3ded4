"""Capturing a Cell: one PyNative run for its calls, and compiles to MindIR, with the net left as it was."""

from __future__ import annotations

import inspect
import os
import re
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stderr, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from ...ir import ModelError, framework_errors_told
from ...ir.nesting import Nest
from .compiler import kept_stop_gradients, quick_compiler
from .debugging import Debugging
from .left_graph import lines_to_numpy, steps_in_python
from .live_state import borrow, waiting_for_operators
from .markers import add_markers, remove_markers
from .messages import first_line
from .mindir import Program, parse_program
from .nested import Arguments, flattened, nest_of
from .open_batch import OpenBatch, makes_of_sizes
from .operators.dropout import drops_in_training_only
from .recording import CellCall, record, stand_ins


@dataclass(frozen=True, slots=True)
class Capture:
    """The result of capturing a Cell.

    Attributes:
        programs: one MindIR program per size asked for, in order, or that of the example alone.
        calls: the Cell calls of the PyNative run on the example.
        marked: whether the programs hold the boundaries of the calls (`markers`).
        shapes: of the results of the PyNative run, nested ones in order; None of what is no tensor.
        results: how they nest, by their names.
        notes: what a reader should know of them.
        is_open: whether the one program is that for a batch of any size.
    """

    programs: tuple[Program, ...]
    calls: tuple[CellCall, ...]
    marked: bool
    shapes: tuple[tuple[int, ...] | None, ...] = ()
    results: Nest = None
    notes: tuple[str, ...] = ()
    is_open: bool = False


def start_mindspore() -> None:
    """Import MindSpore quietly and absorb its first operation's failure under NumPy 2.

    Raises:
        ModelError: when MindSpore is not installed, or too old.
    """
    os.environ.setdefault(
        "GLOG_v", "4"
    )  # its warnings are about its internals, its errors reach us as exceptions
    with framework_errors_told():
        from mindspore import Tensor, ops
    # built against NumPy 1: under NumPy 2 the first call with scalars fails, once, and NumPy prints two
    # tracebacks of what then works
    with suppress(SystemError), redirect_stderr(StringIO()), waiting_for_operators():
        ops.transpose(Tensor(np.ones((2, 3), np.float32)), (1, 0))


def capture(
    root: Any,
    cells: Sequence[Any],
    parameters: Sequence[Any],
    example: Arguments,
    sizes: Sequence[Callable[[], Sequence[np.ndarray]]],
    batch: OpenBatch | None = None,
) -> Capture:
    """Record `root` on `example` and compile it, once for an open batch or for every size.

    Args:
        root: the Cell.
        cells: every Cell of the net.
        parameters: every Parameter of the net, each once.
        example: arguments of the recorded run.
        sizes: what makes the tensors of each compile, whose values do not matter; none for a compile of the
            example itself, which is also what remains when the model refuses another size.
        batch: left open in one compile in place of those at `sizes`, where that is enough to know it.

    Raises:
        ModelError: when MindSpore cannot run or compile the net.
    """
    debugging = Debugging(cells)
    with borrow(cells, parameters):
        try:
            tensors = _tensors(example.arrays)
            with debugging.watching_hooks():
                calls, result = record(root, example.arrange(tensors)[0], tensors)
        except Exception as error:  # the user's construct and MindSpore's kernels may raise anything
            raise _refusal("run", root, error, _listing(root, example)) from error
        for cell in cells:
            if drops_in_training_only(type(cell)):
                cell.add_flags(training=True)  # it computes the same, and its dropouts are in the program
        results, notes = nest_of(result)
        boundaries = [*calls, *stand_ins(cells, calls)]

        def captured(programs: Sequence[Program], marked: bool, *, is_open: bool = False) -> Capture:
            said = (*notes, *filter(None, [debugging.note(programs[0])]))
            shapes = tuple(_shapes(result))
            return Capture(tuple(programs), tuple(calls), marked, shapes, results, said, is_open)

        refused: list[Exception] = []
        if batch is not None and not makes_of_sizes([call.cell for call in calls]):
            add_markers(boundaries)
            with (
                suppress(Exception),  # compiles at a size may be accepted, or tell what is wrong
                flattened(root, example, results) as arrange,
                debugging.leaving_out(),
                kept_stop_gradients(cells),
            ):
                found = batch.named(_compile(root, arrange(_tensors(batch.tensors()))), calls)
                return captured([found], True, is_open=True)
            remove_markers(boundaries)
        in_any_form = partial(add_markers, as_recorded=False)
        for add in (add_markers, in_any_form, None):
            if add is in_any_form and all(map(_is_left_to_python, refused)):
                continue  # what only Python can run is the net's own, whichever form its calls have
            if add is not None:
                add(boundaries)
            with flattened(root, example, results) as arrange, debugging.leaving_out():
                for makers in [sizes, [lambda: example.arrays]] if sizes else [[lambda: example.arrays]]:
                    try:
                        with kept_stop_gradients(cells) if add is not None else nullcontext():
                            programs = [_compile(root, arrange(_tensors(make()))) for make in makers]
                        return captured(programs, add is not None)
                    except Exception as error:  # the compiler refuses; the plainest form's refusal is told
                        refused.append(error)
            remove_markers(boundaries)
        left = [line for cls in dict.fromkeys(map(type, cells)) for line in lines_to_numpy(cls)]
        if _is_left_to_python(refused[-1]) and not left:
            with flattened(root, example, results) as arrange, debugging.leaving_out():
                again = partial(_compile, root, arrange(_tensors(example.arrays)))
                raise _left_to_python(root, again, refused[-1]) from refused[-1]
        if unnamed := [t for t in dict.fromkeys(map(type, cells)) if _is_without_self(t)]:
            raise _refusal_without_self(unnamed[0]) from refused[-1]
        raise _refusal("compile", root, refused[-1], left=left) from refused[-1]


def _shapes(result: Any) -> list[tuple[int, ...] | None]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [shape for part in result for shape in _shapes(part)]
    if result is None or isinstance(result, str):
        return []
    shape = getattr(result, "shape", None)
    return [None if shape is None else tuple(shape)]


def _tensors(arrays: Sequence[Any]) -> list[Any]:
    """Return tensors of arrays; a tensor, whose size is left open, is itself."""
    from mindspore import Tensor

    return [Tensor(np.array(a, order="C", ndmin=a.ndim)) if isinstance(a, np.ndarray) else a for a in arrays]


def _compile(root: Any, arguments: Sequence[Any]) -> Program:
    from mindspore.train.serialization import _cell_info

    root.compile_cache.clear()  # the cache knows neither of names nor of modes
    with quick_compiler():
        stream, _ = _cell_info(root, False, *arguments)
    assert stream is not None
    return parse_program(stream)


def _listing(root: Any, example: Arguments) -> str:
    """Return the compiler's error for a net that does not run: it knows the line, PyNative often does not."""
    try:
        _compile(root, example.arrange(_tensors(example.arrays))[0])
    except Exception as error:  # any refusal of the compiler: its text is what is wanted
        return str(error)
    return ""


def _is_left_to_python(error: Exception) -> bool:
    return "PyExecute" in str(error)


def _left_to_python(root: Any, compile_: Callable[[], object], error: Exception) -> ModelError:
    """E104 with the lines that only Python can run."""
    lines, hint = steps_in_python(compile_, _is_users)
    return ModelError(
        "E104",
        "MindSpore could not compile the model: expected operators on tensors, got code that only Python "
        "can run",
        place=", ".join(lines) or _user_line(root, error, str(error)),
        hint=hint,
    )


def _refusal(
    what: str, root: Any, error: Exception, listing: str = "", left: Sequence[str] = ()
) -> ModelError:
    """E104 with the first useful line of MindSpore's message and the user's line, or those to NumPy."""
    message = first_line(error)
    return ModelError(
        "E104",
        f"MindSpore could not {what} the model: {message}",
        place=", ".join(left) or _user_line(root, error, listing or str(error)),
        hint=_what_to_write(message, bool(left)),
    )


def _what_to_write(message: str, left: bool) -> str:
    """Say what to write in place of what MindSpore's compiler refuses; nothing where that is not known."""
    if left:
        return "`asnumpy()` leaves the graph: use `ops`, or call it outside of the Cell"
    if "'set_data'" in message:
        return "assign it: `self.limit = value` in place of `self.limit.set_data(value)`, or `ops.assign`"
    if found := re.search(r"The kernel (\w+) unregistered", message):
        return (
            f"MindSpore has no kernel {found[1]} on the CPU: in place of the layer or function of `mint` "
            "write that of `mindspore.nn` or `mindspore.ops` (`nn.Conv2d`, `ops.mish`)"
        )
    return ""


def _is_without_self(kind: type) -> bool:
    """Whether a user's `construct` calls its first argument otherwise, which MindSpore's compiler refuses."""
    code = getattr(kind.__dict__.get("construct"), "__code__", None)
    return code is not None and code.co_argcount > 0 and code.co_varnames[0] != "self"


def _refusal_without_self(kind: Any) -> ModelError:
    code = kind.construct.__code__
    return ModelError(
        "E104",
        f"MindSpore could not compile the model: expected the first argument of `construct` to be called "
        f"`self`, got `{code.co_varnames[0]}`",
        place=f"{Path(code.co_filename).name}:{code.co_firstlineno}",
        hint="call it `self`; MindSpore then reports anything else that it cannot compile",
    )


def _user_line(root: Any, error: Exception, listing: str) -> str:
    """Return the innermost line outside MindSpore: in the traceback, or in the compiler's own listing."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        found = f"{Path(frame.filename).name}:{frame.lineno}" if _is_users(frame.filename) else found
    listed = re.findall(r"In file ([^\s,]+\.py):(\d+)", listing)
    users = [f"{Path(file).name}:{line}" for file, line in listed if _is_users(file)]
    if users:
        return users[-1]  # from the outermost call inwards
    if found:
        return found
    try:
        file = Path(inspect.getsourcefile(type(root)) or "").name
    except TypeError:
        return type(root).__name__
    code = getattr(type(root).construct, "__code__", None)
    return file if code is None or any(root.cells()) else f"{file}:{code.co_firstlineno}"


def _is_users(file: str) -> bool:
    """Whether a source file is neither MindSpore's nor this package's."""
    import mindspore

    path, ours = Path(file), Path(__file__).parents[1]
    return not path.is_relative_to(Path(str(mindspore.__file__)).parent) and not path.is_relative_to(ours)
