"""The arrows of the architecture: who may import whom, read from the syntax trees."""

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = (
    "ir",
    "frontends",
    "passes",
    "editing",
    "diagnosis",
    "backends",
    "checkpoints",
    "verification",
    "explanations",
    "messages",
    "pages",
    "sweeping",
)
ALLOWED = {
    "cli": {"commands", "ir", "ending", "process_state"},
    "commands": {"api", "ir", "commands", "messages", "ending", "process_state", "sweeping"},
    "api": {
        "capturing",
        "loading",
        "weights",
        "writing",
        "explaining",
        "extending",
        "phases",
        "fixing",
        "checking",
        "diagnosis",
        "guarding",
        "frontends",
        "passes",
        "backends",
        "checkpoints",
        "verification",
        "pages",
        "ir",
    },
    "explaining": {"diagnosis", "explanations", "ir", "passes", "writing"},
    "explanations": {"explanations"},
    "extending": {"frontends", "passes", "backends", "ir"},
    "capturing": {"frontends", "ir"},
    "checking": {"guarding", "diagnosis", "frontends", "passes", "ir"},
    "fixing": {
        "guarding",
        "checking",
        "diagnosis",
        "editing",
        "likeness",
        "frontends",
        "passes",
        "backends",
        "verification",
        "ir",
    },
    "loading": {"frontends", "checkpoints", "ir"},
    "weights": {"guarding", "loading", "frontends", "backends", "checkpoints", "verification", "ir"},
    "likeness": {"diagnosis", "editing", "passes", "verification"},
    "phases": set(),
    "writing": {"guarding", "phases", "frontends", "passes", "backends", "verification", "ir"},
    "guarding": {"frontends", "ir", "process_state"},
    "checkpoints": {"frontends", "backends", "ir", "checkpoints"},
    "verification": {"frontends", "backends", "checkpoints", "ir", "verification"},
    "pages": {"guarding", "frontends", "backends", "checkpoints", "verification", "messages", "ir", "pages"},
    "messages": {"messages"},
    "frontends": {"ir", "frontends"},
    "passes": {"ir", "passes"},
    "editing": {"editing"},
    "sweeping": {"ir", "sweeping", "__main__"},  # it runs the command line itself
    "diagnosis": {"frontends", "passes", "ir", "editing", "diagnosis"},
    "backends": {"ir", "backends", "passes"},  # what passes are; never one of them
    "ir": {"ir"},
    "ending": set(),
    "process_state": {"ending"},
}
FRAMEWORKS = {"torch", "mindspore", "mxnet"}
EAGER = "frontends/torch_module/expansions/"
"""Imports torch when it is imported, and is itself only imported inside functions."""
MAY_IMPORT = {
    "torch": ("frontends/torch_module/", "checkpoints/torch_file.py", "verification/"),
    "mindspore": ("frontends/mindspore_cell/", "diagnosis/", "backends/mindspore_source/", "verification/"),
    "mxnet": ("verification/oracle/mxnet_process.py",),  # which runs in another Python
}
MOST_FILES = 25
MOST_LINES = 450
MOST_LINES_OF = {"ir": 400, "passes": 400}
"""Where the bound is kept tighter than elsewhere."""
IR_MAY_IMPORT = {"networkx", "onnx", "numpy"}


def source_files() -> list[Path]:
    files = [
        ROOT / f"{name}.py"
        for name in (
            "api",
            "capturing",
            "checking",
            "cli",
            "ending",
            "explaining",
            "extending",
            "fixing",
            "guarding",
            "likeness",
            "loading",
            "process_state",
            "phases",
            "weights",
            "writing",
        )
    ]
    for part in ("commands", *PARTS):
        files += sorted((ROOT / part).rglob("*.py"))
    return files


def imported_files(path: Path) -> list[tuple[ast.AST, str, bool]]:
    """(statement, dotted name from the root, whether it is at module level) of every relative import."""
    tree = ast.parse(path.read_text())
    package = list(path.relative_to(ROOT).parent.parts)
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(node, ".".join([*base, name]), id(node) in top) for name in names]
    return found


def external_imports(path: Path) -> list[tuple[str, bool]]:
    """(top-level package, whether it is imported when the module is) of every absolute import."""
    tree = ast.parse(path.read_text())
    lazy: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lazy |= {id(child) for child in ast.walk(node)}
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            lazy |= {id(child) for child in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name.split(".")[0], id(node) not in lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.append((node.module.split(".")[0], id(node) not in lazy))
    return found


def owner(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows(path: Path) -> None:
    part = owner(path)
    for _, name, _ in imported_files(path):
        target = name.split(".")[0]
        assert target in ALLOWED[part], f"{path.relative_to(ROOT)} imports {name}"
        if part in ("frontends", "backends"):
            folder, mine = name.split(".")[1:2], path.relative_to(ROOT).parts[1:-1]
            if mine and folder and (ROOT / part / folder[0]).is_dir() and target == part:
                assert folder[0] == mine[0], f"{path.relative_to(ROOT)} imports another {part[:-1]}, {name}"


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_of_ours_are_relative(path: Path) -> None:
    assert "regraft" not in {name for name, _ in external_imports(path)}


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_frameworks_are_imported_where_they_belong_and_lazily(path: Path) -> None:
    where = str(path.relative_to(ROOT))
    for name, eager in external_imports(path):
        if name in FRAMEWORKS:
            assert where.startswith(MAY_IMPORT[name]), f"{where} imports {name}"
            assert not eager or where.startswith(EAGER), f"{where} imports {name} when it is imported"


def test_what_imports_a_framework_when_imported_is_imported_lazily() -> None:
    for path in source_files():
        if not str(path.relative_to(ROOT)).startswith(EAGER):
            for _, name, at_top in imported_files(path):
                assert not (at_top and f"{name.replace('.', '/')}/".startswith(EAGER)), path


def test_every_package_is_installed() -> None:
    """pyproject.toml lists packages by name: a folder that it forgets works in a checkout only."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {".".join(["regraft", *path.parent.relative_to(ROOT).parts]) for path in source_files()}
    assert set(listed) == found


def test_no_circle_of_imports() -> None:
    """Imports inside functions count; those for the type checker do not. Text and graph know each other."""
    arrows = nx.DiGraph()
    modules = {module_name(path): path for path in source_files()}
    for name, path in modules.items():
        tree = ast.parse(path.read_text())
        skipped = {id(c) for n in ast.walk(tree) if is_type_checking(n) for c in ast.walk(n)}
        package = list(path.relative_to(ROOT).parent.parts)
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level or id(node) in skipped:
                continue
            base = [*package[: len(package) - (node.level - 1)], *(node.module or "").split(".")]
            for alias in node.names:
                found = ".".join(filter(None, [*base, alias.name]))
                target = found if found in modules else ".".join(filter(None, base))
                if target in modules and target != name:
                    arrows.add_edge(name, target)
    assert arrows.number_of_edges() > 1000
    circles = [circle for circle in nx.strongly_connected_components(arrows) if len(circle) > 1]
    assert circles == [{"ir.graph", "ir.text_form.rendering"}]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def test_a_folder_can_be_taken_in() -> None:
    counts = Counter(path.parent for path in source_files())
    assert {str(f.relative_to(ROOT)): n for f, n in counts.items() if n > MOST_FILES} == {}


def test_a_file_can_be_held_in_the_head() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in source_files()}
    most = {name: MOST_LINES_OF.get(name.split("/")[0], MOST_LINES) for name in lengths}
    assert {name: n for name, n in lengths.items() if n > most[name]} == {}


def test_ir_depends_on_little() -> None:
    for path in sorted((ROOT / "ir").rglob("*.py")):
        names = {name for name, _ in external_imports(path)} - set(sys.stdlib_module_names)
        assert names <= IR_MAY_IMPORT, f"{path.relative_to(ROOT)} imports {names - IR_MAY_IMPORT}"


def test_only_the_command_line_prints_exits_or_reads_the_environment() -> None:
    for path in source_files():
        if owner(path) in ("cli", "commands"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"print", "exit", "input"}, (
                    f"{path.relative_to(ROOT)}:{node.lineno}"
                )
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) != ("sys", "exit"), (
                    f"{path.relative_to(ROOT)}:{node.lineno}"
                )


def test_help_loads_no_framework() -> None:
    import subprocess

    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from regraft.cli import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "heavy = {'torch', 'mindspore', 'onnx', 'onnxruntime', 'networkx', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_symbol_becomes_onnx_without_the_code_of_other_targets(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys\n"
        "from regraft.cli import main\n"
        "symbol, out = sys.argv[1:]\n"
        "given = ['rewrite', symbol, '--input', 'data=1x1x3x3', '-o', out]\n"
        "assert not main(given, standalone_mode=False)\n"
        "others = 'regraft.backends.mindspore_source', 'regraft.frontends.mindspore_cell.operators'\n"
        "loaded = {'torch', 'mindspore'} & set(sys.modules)\n"
        "loaded |= {n for n in sys.modules if n.startswith(others)}\n"
        "assert not loaded, loaded\n"
    )
    symbol = ROOT / "examples" / "shared_weight-symbol.json"
    command = [sys.executable, "-c", code, str(symbol), str(tmp_path / "x.onnx")]
    subprocess.run(command, check=True, capture_output=True)
