"""Opens and runs sessions of ONNX Runtime, whose errors become ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from ...ir import ModelError, numpy_dtype
from .onnx_weights import Weights

_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
_SPINNING = "session.intra_op.allow_spinning"
"""Whether a session's threads wait busily; beside the many sessions of a comparison that takes the cores."""

_NO_PREPACKING = "session.disable_prepacking"
"""Whether weights stay as they are, and are not brought into the order in which kernels read them."""


def session_options(
    threads: int | None, folder: Path | None, *, optimised: bool, once: bool = False
) -> onnxruntime.SessionOptions:
    """Return the options of a session.

    Args:
        threads: threads within an operator; None leaves the choice to ONNX Runtime.
        folder: where weights lie that are not in the model.
        optimised: whether ONNX Runtime may fuse and fold.
        once: whether the session runs about once, so that it does not pay to bring weights into another
            order for it.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its errors come as exceptions
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    elif once:  # fused, in the usual layout
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    if once:
        options.add_session_config_entry(_NO_PREPACKING, "1")
    if threads is not None:
        options.intra_op_num_threads = threads
    options.add_session_config_entry(_SPINNING, "0")
    if folder is not None:
        options.add_session_config_entry(_EXTERNAL_FOLDER, str(folder.resolve()))
    return options


def open_session(model: onnx.ModelProto, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """Return a session on a model.

    Raises:
        ModelError: E702 where ONNX Runtime refuses it.
    """
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime has a dozen exception classes without a common base
        raise ModelError(
            "E702", f"ONNX Runtime refused the model: {_first_line(error)}", hint=_lacking(model, error)
        ) from error


_FIRST_OPSET = 7
"""The oldest opset whose operators ONNX Runtime has."""


def _lacking(model: onnx.ModelProto, error: Exception) -> str:
    """Return advice for an operator without a kernel in ONNX Runtime."""
    if "NOT_IMPLEMENTED" not in str(error):
        return ""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), _FIRST_OPSET)
    if opset >= _FIRST_OPSET:
        return "ONNX Runtime lacks the operator in this element type on the CPU; --no-verify writes the model"
    return (
        f"it runs opset {_FIRST_OPSET} or later, and the model's opset is {opset}: --no-verify writes the "
        f"model without a comparison; or verify against a copy from onnx.version_converter"
    )


def run_session(
    session: onnxruntime.InferenceSession, outputs: Sequence[str], feeds: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return outputs of a session by their names; what it does not take is left out.

    Raises:
        ModelError: E702 where ONNX Runtime cannot run it.
    """
    wanted = {i.name for i in session.get_inputs()}
    try:
        found = session.run(list(outputs), {k: np.asarray(v) for k, v in feeds.items() if k in wanted})
    except Exception as error:  # ONNX Runtime has a dozen exception classes without a common base
        raise ModelError("E702", f"ONNX Runtime could not run the model: {_first_line(error)}") from error
    declared = {output.name: output.type for output in session.get_outputs()}
    return [_typed(np.asarray(value), declared[name]) for name, value in zip(outputs, found, strict=True)]


def _typed(array: np.ndarray, declared: str) -> np.ndarray:
    """Return an output in its element type; ONNX Runtime gives the bits of 8-bit floats as numbers."""
    if "float8" not in declared or array.dtype != np.uint8:
        return array
    name = declared.removeprefix("tensor(").removesuffix(")")
    return array.view(numpy_dtype(name.replace("float8", "float8_")))


def run_part(
    session: onnxruntime.InferenceSession,
    weights: Weights,  # noqa: ARG001 - which the session reads and does not keep alive
    inputs: Sequence[str],
    outputs: Sequence[str],
    arrays: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Run a session on arrays in the order of `inputs`."""
    return run_session(session, outputs, dict(zip(inputs, arrays, strict=True)))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
