"""What a program can see of plain English: long lines, and docstrings that lean on a neighbour.

``python -m tests.prose`` is part of ``make lint``. No page and no docstring may have such a place.
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
    """A line that a reader stumbles on.

    Attributes:
        fault: what is wrong with the line.
        text: how the line begins.
    """

    file: str
    line: int
    fault: str
    text: str

    def __str__(self) -> str:
        """Return the place as one line, as a compiler would."""
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
    """Yield the docstrings whose first line begins with an anaphora, or has no verb."""
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
    """Return whether a function's first line begins as a noun does; a property's may."""
    decorators = {ast.unparse(each).rpartition(".")[2] for each in function.decorator_list}
    is_property = bool(decorators & {"property", "cached_property", "setter"})
    clause = re.split(r"[,;:]", first, maxsplit=1)[0]
    return not is_property and NOUN.match(first) is not None and not FINITE.search(clause)


def markdown() -> Iterator[Place]:
    """Yield the places in the pages."""
    pages = [*ROOT.glob("*.md"), ROOT / "benches/README.md"]
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    for page in sorted(pages):
        yield from long_lines(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))


def docstrings() -> Iterator[Place]:
    """Yield the places in the production code, stubs included."""
    for path in sorted((ROOT / "python").rglob("*.py*")):
        if path.suffix in {".py", ".pyi"}:
            source = path.read_text(encoding="utf-8")
            yield from leaning_docstrings(source, str(path.relative_to(ROOT)))


def main() -> int:
    """Print every place; return 1 if there is one."""
    found = [*markdown(), *docstrings()]
    print("\n".join(map(str, found)) or "prose: nothing to complain of")  # noqa: T201  a lint prints
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
