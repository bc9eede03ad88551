"""Finds long lines in Markdown pages, and docstrings whose first line cannot be understood alone.

``python -m tests.prose`` is part of ``make lint`` and fails if it finds any.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
LONGEST_LINE: Final = 120

# A first line that begins so needs the sentence or the name above the line.
ANAPHORA: Final = re.compile(
    r"(?:The same|The others?|It|Its|So|Who|Whose|Of|Them|Those|These|They|This|That|All of)\b"
)
# A function's first line begins so where its first word is no verb.
NOUN: Final = re.compile(
    r"(?:The|An?|Every|Each|Some|Any|No|None|Nothing|One|Two|What|Where|When|Why|How|In|At|From|For|"
    r"On|By|With|Without|After|Before|Only|As|Seconds|Bytes)\b"
)
# A first clause with one of these is a sentence, whatever it begins with.
FINITE: Final = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|do|does|may|must|can|will|comes|goes|gets|keeps|takes|"
    r"gives|stays|says|came|went|got|begins)\b"
)


class Place(NamedTuple):
    """A line of a page or docstring that breaks a rule; ``file`` is its path below the root."""

    file: str
    line: int
    fault: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.fault}: {self.text[:60]}"


def long_lines(text: str, file: str) -> Iterator[Place]:
    """Yield the lines of Markdown over 120 characters; tables, code and images may be long."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        free = fenced or line.lstrip().startswith(("|", "![", "<!--"))
        if len(line) > LONGEST_LINE and not free:
            yield Place(file, number, f"over {LONGEST_LINE} characters", line)


def leaning_docstrings(source: str, file: str) -> Iterator[Place]:
    """Yield the docstrings of Python source whose first line begins with an anaphora or no verb."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        line = getattr(node, "lineno", 1)
        if ANAPHORA.match(first):
            yield Place(file, line, "leans on a neighbour", first)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and has_no_verb(node, first):
            yield Place(file, line, "has no verb", first)


def has_no_verb(function: ast.FunctionDef | ast.AsyncFunctionDef, first: str) -> bool:
    """Return whether a function's first line begins with a noun; a property's line may do so."""
    decorators = {ast.unparse(each).rpartition(".")[2] for each in function.decorator_list}
    is_property = bool(decorators & {"property", "cached_property", "setter"})
    clause = re.split(r"[,;:]", first, maxsplit=1)[0]
    return not is_property and NOUN.match(first) is not None and not FINITE.search(clause)


def main() -> int:
    """Print every faulty line of pages, of the production code, and of its type stubs."""
    pages = [*ROOT.glob("*.md"), ROOT / "benches/README.md"]
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    code = [*(ROOT / "python").rglob("*.py"), *(ROOT / "python").rglob("*.pyi")]
    found = [
        place
        for look, files in ((long_lines, pages), (leaning_docstrings, code))
        for file in sorted(files)
        for place in look(file.read_text(encoding="utf-8"), str(file.relative_to(ROOT)))
    ]
    print("\n".join(map(str, found)) or "prose: nothing to complain of")  # noqa: T201  a lint prints
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
