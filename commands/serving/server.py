"""The tools of the server. This module imports the protocol's SDK, and is imported where one is served."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from ...ir import RegraftError
from ..printing import error_row
from .calls import options, run
from .folders import Folders

INSTRUCTIONS = (
    "Rewrites neural-network models between MindSpore, PyTorch, ONNX and MXNet and compares them in the "
    "frameworks' own runtimes. Call `check` before a change, `rewrite` or your own edit, then `verify`. "
    "exit_code 0: equal or clean; 1: different, or findings; 2: an error, with a hint. Only `verify` (or "
    "`rewrite` with verified outputs) supports the statement that two models compute the same, and only for "
    "what its report lists as compared."
)

Answer = Annotated[CallToolResult, dict[str, Any]]
Model = Annotated[
    str,
    Field(description="file.py:Name (its code is run), or a .onnx, .mindir, .pt2, .pt or x-symbol.json file"),
]
Inputs = Annotated[
    list[str] | None,
    Field(description="example inputs, [NAME=]SHAPE[:DTYPE] such as 2x3x224x224, or NAME=@file.npy"),
]
Arguments = Annotated[
    list[str] | None, Field(description="constructor arguments of file.py:Name, NAME=VALUE such as depth=50")
]
Params = Annotated[str | None, Field(description="parameter file or folder, if not beside the model")]


def build(folders: Folders, timeout: float) -> MCPServer:
    """Return the server.

    Args:
        folders: what it may read, run and write.
        timeout: seconds that a call may take.
    """
    server = MCPServer("regraft", instructions=INSTRUCTIONS, log_level="ERROR")
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    async def answer(command: str, positions: list[str], values: dict[str, Any]) -> CallToolResult:
        arguments = [command, "--json", *options(values), "--", *positions]
        code, document = await run(arguments, str(folders.roots[0]), timeout)
        return _result(code, document)

    def loading(inputs: list[str] | None, arguments: list[str] | None, params: str | None) -> dict[str, Any]:
        return {
            "input": [folders.value(text) for text in inputs or ()],
            "arg": arguments,
            "params": None if params is None else folders.existing(params),
        }

    @server.tool(annotations=reading)
    @_refusing
    async def check(
        model: Model,
        inputs: Inputs = None,
        arguments: Arguments = None,
        ported_from_torch: Annotated[bool, Field(description="report the traps of a port too")] = False,
        release: Annotated[
            str | None,
            Field(description="installed, 2.9, 2.10 or 2.11: what that MindSpore removes or changes"),
        ] = None,
    ) -> Answer:
        """Report the faults of a model: cause, line and fix. A whole file.py checks every net in it."""
        values = {
            **loading(inputs, arguments, None),
            "from": "torch" if ported_from_torch else None,
            "for": release,
        }
        return await answer("check", [folders.model(model)], values)

    @server.tool(annotations=reading)
    async def explain(
        code: Annotated[str, Field(description="a code such as PT101 or E103, or the name of a pass")],
    ) -> Answer:
        """Explain a code of a finding or an error: its cause, an example, and what to do."""
        return await answer("explain", [code], {})

    @server.tool(annotations=reading)
    @_refusing
    async def show(
        model: Model,
        inputs: Inputs = None,
        arguments: Arguments = None,
        params: Params = None,
        depth: Annotated[int | None, Field(ge=0, description="levels of modules to show")] = None,
    ) -> Answer:
        """Show a model's modules with shapes, parameters and costs."""
        values = {**loading(inputs, arguments, params), "depth": depth}
        return await answer("show", [folders.model(model)], values)

    @server.tool(annotations=reading)
    @_refusing
    async def verify(
        source: Model,
        target: Annotated[str, Field(description="a model, or what rewrite has written")],
        inputs: Inputs = None,
        arguments: Arguments = None,
        params: Params = None,
        train: Annotated[
            bool, Field(description="compare one training step too: gradients, statistics")
        ] = False,
        copy_weights: Annotated[
            bool, Field(description="of two model sources: give the target the source's weights first")
        ] = False,
        recipes: Annotated[
            list[str] | None, Field(description="two FILE.py:FUNCTION, the training recipes of both")
        ] = None,
    ) -> Answer:
        """Run two models on equal inputs in their own runtimes and compare outputs, module by module."""
        values = {
            **loading(inputs, arguments, params),
            "train": train,
            "copy-weights": copy_weights,
            "recipe": [folders.model(each) for each in recipes or ()],
        }
        return await answer("verify", [folders.model(source), folders.model(target)], values)

    @server.tool(
        annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    )
    @_refusing
    async def rewrite(
        model: Model,
        output: Annotated[str, Field(description="a folder, or an .onnx file")],
        to: Annotated[str | None, Field(description="mindspore, onnx, torch or mxnet")] = None,
        inputs: Inputs = None,
        arguments: Arguments = None,
        params: Params = None,
        force: Annotated[bool, Field(description="replace existing files")] = False,
    ) -> Answer:
        """Rewrite a model for another framework, compare the output with the source, and write it."""
        values = {
            **loading(inputs, arguments, params),
            "output": folders.path(output),
            "to": to,
            "force": force,
        }
        return await answer("rewrite", [folders.model(model)], values)

    @server.tool(annotations=reading)
    @_refusing
    async def diff(first: Model, second: Model, inputs: Inputs = None) -> Answer:
        """Compare two models as a code review does, or two checkpoints by the values of their tensors."""
        values = {"input": [folders.value(text) for text in inputs or ()]}
        return await answer("diff", [folders.model(first), folders.model(second)], values)

    @server.tool(name="compare-data", annotations=reading)
    @_refusing
    async def compare_data(
        first: Annotated[str, Field(description="FILE.py:FUNCTION that returns an iterable of batches")],
        second: Annotated[str, Field(description="the same of the port")],
        samples: Annotated[int, Field(ge=1, le=100_000, description="samples to compare")] = 64,
    ) -> Answer:
        """Compare two input pipelines, transform by transform, on the same samples."""
        return await answer(
            "compare-data", [folders.model(first), folders.model(second)], {"samples": samples}
        )

    return server


def _result(code: int, document: dict[str, Any]) -> CallToolResult:
    found = {"exit_code": code, **document}
    text = TextContent(type="text", text=json.dumps(found, ensure_ascii=False))
    return CallToolResult(content=[text], structured_content=found, is_error=code >= 2)


def _refusing(tool: Callable[..., Awaitable[CallToolResult]]) -> Callable[..., Awaitable[CallToolResult]]:
    """Let a tool answer with the error that its arguments raise."""

    @wraps(tool)
    async def call(*arguments: Any, **keywords: Any) -> CallToolResult:
        try:
            return await tool(*arguments, **keywords)
        except RegraftError as error:
            return _result(2, {"error": error_row(error)})

    return call
