"""Docstrings of the product, also those of attributes, begin with a verb or the noun that they describe."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {"tests", "docs", "benchmarks", "examples", "out", "build"}
RIDDLES = {"What", "How", "Where", "Which", "Who", "Whose", "Why", "Those", "That", "Of"}
"""First words of a docstring whose subject the reader would have to guess."""


def test_no_docstring_begins_with_a_riddle() -> None:
    found: list[str] = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if parts[0] in OUTSIDE or parts[0].startswith("."):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Expr(ast.Constant(str(text))) if text.partition(" ")[0] in RIDDLES:
                    found.append(f"{'/'.join(parts)}:{node.lineno} {text.partition(chr(10))[0]}")
    assert found == []
