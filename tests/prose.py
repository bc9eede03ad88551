"""What a program can see of plain English: long lines, and docstrings that lean on a neighbour.

``python -m tests.prose`` is part of ``make lint``. No page may have such a place. The docstrings
had some before this lint: ``prose.toml`` has their number by package, which may only shrink.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
BASELINE: Final = ROOT / "tests/prose.toml"
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
        group: a Markdown file, or the package of a docstring with what is wrong.
    """

    group: str
    file: str
    line: int
    text: str


def long_lines(text: str, file: str) -> Iterator[Place]:
    """Yield the lines of Markdown over 120 characters; tables, code and images may be long."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        free = fenced or line.lstrip().startswith(("|", "![", "<!--"))
        if len(line) > LONGEST_LINE and not free:
            yield Place(file, file, number, line[:60])


def leaning_docstrings(source: str, file: str) -> Iterator[Place]:
    """Yield the docstrings whose first line begins with an anaphora, or has no verb."""
    package = "/".join(
        Path(file).parts[:3] if Path(file).parts[0] == "python" else file.split("/")[:1]
    )
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        line = getattr(node, "lineno", 1)
        if ANAPHORA.match(first):
            yield Place(f"{package}: leans on a neighbour", file, line, first)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and has_no_verb(node, first):
            yield Place(f"{package}: has no verb", file, line, first)


def has_no_verb(function: ast.FunctionDef | ast.AsyncFunctionDef, first: str) -> bool:
    """Whether the first line of a function, a property excepted, begins as a noun does."""
    decorators = {ast.unparse(each).rpartition(".")[2] for each in function.decorator_list}
    is_property = bool(decorators & {"property", "cached_property", "setter"})
    clause = re.split(r"[,;:]", first, maxsplit=1)[0]
    return not is_property and NOUN.match(first) is not None and not FINITE.search(clause)


def markdown() -> Iterator[Place]:
    """Yield what is found in the pages."""
    pages = [*ROOT.glob("*.md"), ROOT / "benches/README.md"]
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    for page in sorted(pages):
        yield from long_lines(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))


def docstrings() -> Iterator[Place]:
    """Yield what is found in the production code, stubs included."""
    for path in sorted((ROOT / "python").rglob("*.py*")):
        if path.suffix in {".py", ".pyi"}:
            source = path.read_text(encoding="utf-8")
            yield from leaning_docstrings(source, str(path.relative_to(ROOT)))


def complaints(pages: list[Place], code: list[Place], baseline: dict[str, int]) -> Iterator[str]:
    """Yield what fails the lint: a place in Markdown, or more places in a package than before."""
    for place in pages:
        yield f"{place.file}:{place.line}: over {LONGEST_LINE} characters: {place.text}..."
    counts = Counter(place.group for place in code)
    for group in sorted({*counts, *baseline}):
        found, allowed = counts[group], baseline.get(group, 0)
        if found > allowed:
            for place in code:
                if place.group == group:
                    yield f"{place.file}:{place.line}: {group}: {place.text}"
            yield f"{group}: {found} docstrings, {allowed} before"


def main() -> int:
    """Print every complaint; 1 if there is one. `--write` writes the baseline anew."""
    code = list(docstrings())
    if sys.argv[1:] == ["--write"]:
        counts = sorted(Counter(place.group for place in code).items())
        lines = "".join(f'"{group}" = {count}\n' for group, count in counts)
        BASELINE.write_text(
            f"# Written by `python -m tests.prose --write`; may only shrink.\n{lines}"
        )
    found = list(complaints(list(markdown()), code, tomllib.loads(BASELINE.read_text())))
    print("\n".join(found) or "prose: nothing to complain of")  # noqa: T201  a lint prints
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
