"""Golden pages: Markdown with a case per `##` heading, read, run and written back.

A case is a heading, a sentence of prose, and fences: ```before OPTIONS with the graph in the text form, then
```after with the graph that the pass leaves, or ```error with what it refuses, and ```findings with the
changes in words (absent when there are none).
"""

import re
from dataclasses import dataclass, field

from regraft.ir import RegraftError, parse, render, validate
from regraft.passes import parse_pass
from regraft.passes.base import Pass

_FENCE = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Case:
    title: str
    prose: str
    options: str
    fences: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        parts = [f"## {self.title}\n\n{self.prose}\n"]
        for kind in ("before", "after", "error", "findings"):
            if kind in self.fences:
                head = f"```{kind} {self.options}".rstrip() if kind == "before" else f"```{kind}"
                parts.append(f"{head}\n{self.fences[kind]}```\n")
        return "\n".join(parts)


def read_page(text: str) -> tuple[str, list[Case]]:
    """The text above the first case, and the cases."""
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    cases = []
    for section in sections:
        title, _, body = section.partition("\n")
        prose = body[: body.index("```")].strip()
        case = Case(title.strip(), prose, "")
        for kind, info, content in _FENCE.findall(body):
            case.fences[kind] = content
            if kind == "before":
                case.options = info.strip()
        cases.append(case)
    return head, cases


def write_page(head: str, cases: list[Case]) -> str:
    return head + "\n".join(case.text() for case in cases)


def run_case(name: str | Pass, case: Case) -> Case:
    """The case as it really is: before in canonical form, after, error and findings as they come out."""
    options = f":{case.options}" if case.options else ""
    pass_ = name if isinstance(name, Pass) else parse_pass(f"{name}{options}")
    graph = parse(case.fences["before"])
    actual = Case(case.title, case.prose, case.options, {"before": render(graph)})
    try:
        validate(graph)
        changes = pass_.run(graph)
    except RegraftError as error:
        actual.fences["error"] = f"{error}\n"
        return actual
    validate(graph)
    actual.fences["after"] = after = render(graph)
    if changes:
        actual.fences["findings"] = "".join(
            f"{change.severity}{'' if change.fixed else ' (not changed)'}: {change}\n" for change in changes
        )
    assert (after != actual.fences["before"]) == any(c.fixed for c in changes), (
        "`fixed` does not say what happened"
    )
    again = pass_.run(graph)
    assert not any(change.fixed for change in again), (
        f"a second run changes: {[str(c) for c in again if c.fixed]}"
    )
    assert render(graph) == after, "a second run changes the graph without saying so"
    assert render(parse(after)) == after, "the text form does not round-trip"
    return actual
