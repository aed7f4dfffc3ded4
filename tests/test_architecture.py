"""The arrows of the architecture: who may import whom, read from the syntax trees."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx

ROOT = Path(__file__).resolve().parent.parent
PARTS = (
    "api",
    "ir",
    "frameworks",
    "frontends",
    "passes",
    "diagnosis",
    "formats",
    "backends",
    "checkpoints",
    "verification",
    "process",
)
LOOSE_MODULES = {"__init__", "__main__", "cli"}
MOST_NAMES_IN_THE_ROOT = 31
ALLOWED = {
    "cli": {"commands", "ir", "process"},
    "commands": {
        "api",
        "backends",
        "checkpoints",
        "commands",
        "diagnosis",
        "formats",
        "frontends",
        "ir",
        "passes",
        "process",
        "verification",
        "__main__",  # a sweep runs the command line itself
    },
    "api": {
        "api",
        "formats",
        "process",
        "diagnosis",
        "frontends",
        "passes",
        "backends",
        "checkpoints",
        "verification",
        "ir",
    },
    "checkpoints": {"formats", "frameworks", "frontends", "ir", "checkpoints"},
    "verification": {"formats", "frameworks", "frontends", "backends", "checkpoints", "ir", "verification"},
    "formats": {"formats", "ir"},
    "frontends": {"formats", "frameworks", "ir", "frontends"},
    "frameworks": {"ir", "frameworks"},
    "passes": {"frameworks", "ir", "passes"},
    "diagnosis": {"formats", "frameworks", "frontends", "passes", "ir", "diagnosis"},
    "backends": {"formats", "frameworks", "ir", "backends", "passes"},  # what passes are; never one of them
    "ir": {"ir"},
    "process": {"frontends", "ir", "process"},
}
FRAMEWORKS = {"torch", "mindspore", "mxnet"}
EAGER = (
    "frontends/torch_module/expansions/",
    "frontends/torch_module/quantised/",
    "frontends/torch_module/scripted/branches.py",
    "frontends/torch_module/scripted/modules.py",
)
"""Import torch when they are imported, and are themselves only imported inside functions."""
MAY_IMPORT = {
    "torch": ("frontends/torch_module/", "verification/"),
    "mindspore": ("frontends/mindspore_cell/", "diagnosis/", "backends/mindspore_source/", "verification/"),
    "mxnet": ("verification/oracle/mxnet_process.py",),  # which runs in another Python
}
MOST_FILES = 32
MOST_LINES = 600
MOST_LINES_OF = {"ir": 500, "passes": 500}
"""Where the bound is kept tighter than elsewhere."""
CHECKER = "verification/certificate/recheck.py"
"""A program of its own: one file that needs NumPy alone, which anybody reads and runs without regraft."""
MOST_LINES_OF_THE_CHECKER = 2633
IR_MAY_IMPORT = {"networkx", "onnx", "numpy"}


def source_files() -> list[Path]:
    files = [ROOT / "cli.py"]
    for part in ("commands", *PARTS):
        files += sorted((ROOT / part).rglob("*.py"))
    return files


class Import(NamedTuple):
    """An import statement.

    Attributes:
        level: number of dots of a relative one; 0 for an absolute one.
        module: what is imported from; "" for `import a, b` and for `from . import a, b`.
        names: what is imported.
        at_top: whether it stands in no block.
        lazy: whether it stands in a function, or is for the type checker alone.
        typing: whether it is for the type checker alone.
    """

    level: int
    module: str
    names: tuple[str, ...]
    at_top: bool
    lazy: bool
    typing: bool


class Source(NamedTuple):
    """What the tests want to know of a file."""

    imports: list[Import]
    ends: list[int]
    """Lines that print, ask or exit."""


@cache
def source_of(path: Path) -> Source:
    """Read a file once for all tests; its tree would be large to keep."""
    found = Source([], [])
    tree = ast.parse(path.read_text())
    for statement in tree.body:
        collect(statement, found, at_top=True)
    return found


def collect(
    node: ast.AST, found: Source, *, at_top: bool = False, lazy: bool = False, typing: bool = False
) -> None:
    typing = typing or is_type_checking(node)
    lazy = lazy or typing or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    match node:
        case ast.Import(names=names):
            found.imports.append(Import(0, "", tuple(alias.name for alias in names), at_top, lazy, typing))
        case ast.ImportFrom(module=module, names=names, level=level):
            listed = tuple(alias.name for alias in names)
            found.imports.append(Import(level, module or "", listed, at_top, lazy, typing))
        case (
            ast.Call(func=ast.Name(id="print" | "exit" | "input"), lineno=line)
            | ast.Attribute(value=ast.Name(id="sys"), attr="exit", lineno=line)
        ):
            found.ends.append(line)
    for child in ast.iter_child_nodes(node):
        collect(child, found, lazy=lazy, typing=typing)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def base_of(path: Path, statement: Import) -> list[str]:
    """The package, from the root, that the dots of a relative import mean."""
    package = list(path.relative_to(ROOT).parent.parts)
    return package[: len(package) - (statement.level - 1)]


def imported_files(path: Path) -> list[tuple[str, bool]]:
    """(dotted name from the root, whether it stands in no block) of every relative import."""
    found = []
    for each in source_of(path).imports:
        if each.level:
            names = [each.module] if each.module else each.names
            found += [(".".join([*base_of(path, each), name]), each.at_top) for name in names]
    return found


def external_imports(path: Path) -> list[tuple[str, bool]]:
    """(top-level package, whether it is imported when the module is) of every absolute import."""
    found = []
    for each in source_of(path).imports:
        if not each.level:
            names = [each.module] if each.module else each.names
            found += [(name.split(".")[0], not each.lazy) for name in names]
    return found


def owner(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_arrows() -> None:
    for path in source_files():
        part = owner(path)
        for name, _ in imported_files(path):
            target = name.split(".")[0]
            assert target in ALLOWED[part], f"{path.relative_to(ROOT)} imports {name}"
            if part in ("frontends", "backends"):
                folder, mine = name.split(".")[1:2], path.relative_to(ROOT).parts[1:-1]
                if mine and folder and (ROOT / part / folder[0]).is_dir() and target == part:
                    other = f"{path.relative_to(ROOT)} imports another {part[:-1]}, {name}"
                    shared = {"source"} if mine[0].endswith("_source") else set()
                    assert folder[0] in {mine[0], *shared}, other


def test_imports_of_ours_are_relative() -> None:
    absolute = [path for path in source_files() if "regraft" in {name for name, _ in external_imports(path)}]
    assert absolute == []


def test_frameworks_are_imported_where_they_belong_and_lazily() -> None:
    for path in source_files():
        where = str(path.relative_to(ROOT))
        for name, eager in external_imports(path):
            if name in FRAMEWORKS:
                assert where.startswith(MAY_IMPORT[name]), f"{where} imports {name}"
                assert not eager or where.startswith(EAGER), f"{where} imports {name} when it is imported"


def test_what_imports_a_framework_when_imported_is_imported_lazily() -> None:
    for path in source_files():
        if not str(path.relative_to(ROOT)).startswith(EAGER):
            for name, at_top in imported_files(path):
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
        for each in source_of(path).imports:
            if not each.level or each.typing:
                continue
            base = [*base_of(path, each), *each.module.split(".")]
            for imported in each.names:
                found = ".".join(filter(None, [*base, imported]))
                target = found if found in modules else ".".join(filter(None, base))
                if target in modules and target != name:
                    arrows.add_edge(name, target)
    assert arrows.number_of_edges() > 1000
    circles = [circle for circle in nx.strongly_connected_components(arrows) if len(circle) > 1]
    assert circles == [{"ir.graph", "ir.text_form.rendering"}]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_a_folder_can_be_taken_in() -> None:
    counts = Counter(path.parent for path in source_files())
    assert {str(f.relative_to(ROOT)): n for f, n in counts.items() if n > MOST_FILES} == {}


def test_a_file_can_be_held_in_the_head() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in source_files()}
    most = {name: MOST_LINES_OF.get(name.split("/")[0], MOST_LINES) for name in lengths}
    most[CHECKER] = MOST_LINES_OF_THE_CHECKER
    assert {name: n for name, n in lengths.items() if n > most[name]} == {}


def test_the_root_explains_itself() -> None:
    assert {path.stem for path in ROOT.glob("*.py")} == LOOSE_MODULES
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = {name.split("/")[0] for name in listed.stdout.splitlines()}
    assert "README.md" in names
    assert len(names) <= MOST_NAMES_IN_THE_ROOT, names


def test_ir_depends_on_little() -> None:
    for path in sorted((ROOT / "ir").rglob("*.py")):
        names = {name for name, _ in external_imports(path)} - set(sys.stdlib_module_names)
        assert names <= IR_MAY_IMPORT, f"{path.relative_to(ROOT)} imports {names - IR_MAY_IMPORT}"


def test_only_the_command_line_prints_exits_or_reads_the_environment() -> None:
    lines = {str(path.relative_to(ROOT)): source_of(path).ends for path in source_files()}
    ending = {name for name, found in lines.items() if found}
    ending -= {"cli.py", CHECKER}
    assert {name for name in ending if not name.startswith("commands/")} == set()
    assert {name for name in ending if name.startswith("commands/sweeping/")} == set()


def test_the_checker_of_certificates_imports_numpy_alone() -> None:
    names = {i.module.split(".")[0] if i.module else i.names[0] for i in source_of(ROOT / CHECKER).imports}
    assert names - set(sys.stdlib_module_names) == {"numpy"}


def test_a_sweep_runs_cases_as_commands() -> None:
    """It would bring the frameworks into the process that must outlive each case."""
    for path in sorted((ROOT / "commands" / "sweeping").glob("*.py")):
        for name, _ in imported_files(path):
            assert name.startswith(("commands.sweeping", "ir", "__main__")), f"{path.name} imports {name}"


def test_help_loads_no_framework() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from regraft.cli import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "heavy = {'torch', 'mindspore', 'onnx', 'onnxruntime', 'networkx', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_symbol_becomes_onnx_without_the_code_of_other_targets_and_of_training(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from regraft.cli import main\n"
        "symbol, out = sys.argv[1:]\n"
        "given = ['rewrite', symbol, '--input', 'data=1x1x3x3', '-o', out]\n"
        "assert not main(given, standalone_mode=False)\n"
        "others = 'regraft.backends.mindspore_source', 'regraft.frontends.mindspore_cell.operators'\n"
        "loaded = {'torch', 'mindspore'} & set(sys.modules)\n"
        "others += 'regraft.verification.two_nets.nets', 'regraft.verification.recipes.comparing'\n"
        "others += 'regraft.verification.two_nets.report', 'regraft.verification.training.attempts'\n"
        "loaded |= {n for n in sys.modules if n.startswith(others)}\n"
        "assert not loaded, loaded\n"
    )
    symbol = ROOT / "examples" / "shared_weight-symbol.json"
    command = [sys.executable, "-c", code, str(symbol), str(tmp_path / "x.onnx")]
    subprocess.run(command, check=True, capture_output=True)
