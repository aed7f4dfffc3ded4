"""`regraft mcp`, driven by the SDK's own client over standard input and output: one server for all tests."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import onnx
import pytest
from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from onnx import TensorProto, helper, numpy_helper

from regraft.cli import main
from regraft.commands.serving.calls import run

pytestmark = pytest.mark.xdist_group("mcp")

Call = Callable[..., Any]

PIPELINE = """\
import os
print("a model prints")
os.write(1, b"and writes\\n")

def make():
    return [(i, i * SCALE) for i in range(4)]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    allowed, outside = folder / "allowed", folder / "outside"
    allowed.mkdir()
    outside.mkdir()
    weight = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [weight],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10),
        str(allowed / "net.onnx"),
    )
    (allowed / "data.py").write_text(PIPELINE.replace("SCALE", "1"))
    (allowed / "port.py").write_text(PIPELINE.replace("SCALE", "2"))
    (allowed / "slow.py").write_text("import time\ntime.sleep(60)\n")
    (outside / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n" + PIPELINE)
    (allowed / "link.py").symlink_to(outside / "evil.py")
    (allowed / "linked").symlink_to(outside)
    (allowed / "holder").mkdir()
    (allowed / "holder" / "model.py").symlink_to(outside / "evil.py")
    return folder


@pytest.fixture(scope="module")
def client(project: Path) -> Iterator[tuple[Any, Client]]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "regraft", "mcp", "--allow", str(project / "allowed"), "--timeout", "40"],
        env=dict(os.environ),
        cwd=project,
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server)) as connected,
    ):
        yield portal, connected


@pytest.fixture(scope="module")
def call(client: tuple[Any, Client]) -> Call:
    portal, connected = client

    def run(tool: str, **arguments: Any) -> Any:
        return portal.call(connected.call_tool, tool, arguments)

    return run


def document(*arguments: str) -> dict[str, Any]:
    found = CliRunner().invoke(main, [*arguments, "--json"])
    return {"exit_code": found.exit_code, **json.loads(found.stdout)}


def test_the_tools_have_schemas(client: tuple[Any, Client]) -> None:
    portal, connected = client
    tools = {tool.name: tool for tool in portal.call(connected.list_tools).tools}
    assert list(tools) == ["check", "explain", "show", "verify", "rewrite", "diff", "compare-data"]
    for tool in tools.values():
        assert tool.description
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), f"{tool.name}: {name}"
    assert tools["verify"].input_schema["required"] == ["source", "target"]
    assert [name for name, tool in tools.items() if not tool.annotations.read_only_hint] == ["rewrite"]


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("explain", {"code": "PT101"}, ["explain", "PT101"]),
        ("show", {"model": "net.onnx"}, ["show", "{net}"]),
        ("check", {"model": "net.onnx"}, ["check", "{net}"]),
        ("diff", {"first": "net.onnx", "second": "net.onnx"}, ["diff", "{net}", "{net}"]),
    ],
)
def test_a_result_is_the_document_of_the_command(
    tool: str, arguments: dict[str, str], line: list[str], call: Call, project: Path
) -> None:
    found = call(tool, **arguments)
    net = str(project / "allowed" / "net.onnx")
    assert found.structured_content == document(*(net if part == "{net}" else part for part in line))
    assert json.loads(found.content[0].text) == found.structured_content
    assert not found.is_error


def test_an_output_is_compared_written_once_and_verified(call: Call, project: Path) -> None:
    given = {"model": "net.onnx", "output": "out.onnx", "to": "onnx"}
    written = call("rewrite", **given).structured_content
    assert written["exit_code"] == 0
    assert written["verified"]["passed"]
    assert (project / "allowed" / "out.onnx").is_file()
    again = call("rewrite", **given)
    assert again.is_error
    assert again.structured_content["error"]["code"] == "E002"
    assert call("rewrite", **given, force=True).structured_content["exit_code"] == 0
    verified = call("verify", source="net.onnx", target="out.onnx").structured_content
    assert verified["verdict"] == "equal"


def test_what_a_file_prints_stays_out_of_the_protocol(call: Call) -> None:
    found = call("compare-data", first="data.py:make", second="port.py:make")
    assert not found.is_error
    assert found.structured_content["exit_code"] == 1
    assert found.structured_content["findings"]


OUTSIDE = [
    ("compare-data", {"first": "../outside/evil.py:make", "second": "data.py:make"}),
    ("compare-data", {"first": "link.py:make", "second": "data.py:make"}),
    ("compare-data", {"first": "linked/evil.py:make", "second": "data.py:make"}),
    ("compare-data", {"first": "evil:make", "second": "data.py:make"}),
    ("compare-data", {"first": "data.py:make;x", "second": "data.py:make"}),
    ("check", {"model": "/etc/hostname"}),
    ("check", {"model": "torch.nn:ReLU"}),
    ("check", {"model": "net.onnx", "inputs": ["x=@../outside/x.npy"]}),
    ("verify", {"source": "net.onnx", "target": "holder"}),
    ("rewrite", {"model": "net.onnx", "output": "../outside/o.onnx"}),
    ("rewrite", {"model": "net.onnx", "output": "linked/o.onnx"}),
    ("show", {"model": ""}),
]


@pytest.mark.parametrize(("tool", "arguments"), OUTSIDE)
def test_nothing_outside_is_read_run_or_written(
    tool: str, arguments: dict[str, str], call: Call, project: Path
) -> None:
    found = call(tool, **arguments)
    assert found.is_error
    assert found.structured_content["error"]["code"] == "E001"
    assert not (project / "ran").exists()
    assert [path.name for path in (project / "outside").iterdir()] == ["evil.py"]


def test_no_value_is_taken_for_an_option(call: Call) -> None:
    found = call("check", model="net.onnx", arguments=["--trust"])
    assert found.structured_content["exit_code"] == 2
    assert call("explain", code="--help").structured_content["error"]["code"] == "E502"


def test_a_call_that_takes_too_long_is_ended(project: Path) -> None:
    slow = str(project / "allowed" / "slow.py") + ":make"
    begun = time.monotonic()
    code, found = anyio.run(run, ["compare-data", "--json", "--", slow, slow], str(project), 0.5)
    assert code == 2
    assert "took longer than 0.5 s" in found["error"]["message"]
    assert time.monotonic() - begun < 20


def test_a_folder_that_is_none_is_refused() -> None:
    found = CliRunner().invoke(main, ["mcp", "--allow", "/nowhere"])
    assert found.exit_code == 2
    assert "expected a folder, got `/nowhere`" in found.output
