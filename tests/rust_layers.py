"""Checks that modules of the Rust core use only modules of lower layers.

``python -m tests.rust_layers`` is part of ``make lint``. ARCHITECTURE.md lists the layers after the
words in ``LAYERS``: a module may use modules of the layers below its own, and no others.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CORE: Final = ROOT / "rust/core/src"
LAYERS: Final = "In the core, calls go down too:"

_PATH: Final = re.compile(r"\bcrate::(\w+|\{)|\b((?:super::)+)(\w+)")
# Tests may use what they like; they stand at the end of a file.
_TESTS: Final = re.compile(r"^#\[cfg\(test\)\]\n(?:pub\S* )?mod tests \{", re.MULTILINE)
_TEST_ITEM: Final = re.compile(r"^#\[cfg\(test\)\]\n(?:.*\{\n(?: .*\n|\n)*\}|.*;)\n", re.MULTILINE)


def layers(page: str) -> dict[str, int]:
    """Return the number of each module's layer, the lowest 0, from the text of ARCHITECTURE.md."""
    _, found, rest = page.partition(LAYERS)
    spelled = re.search(r"`([^`]+)`", rest)
    if not found or spelled is None:
        message = f"no line of the page says {LAYERS!r} and then the layers"
        raise ValueError(message)
    named = reversed(spelled[1].split(">"))
    return {name: at for at, layer in enumerate(named) for name in re.findall(r"\w+", layer)}


def used(source: str, depth: int) -> Iterator[tuple[int, str]]:
    """Yield line number and name of each module of the crate that a file uses outside its tests.

    ``depth`` is how many modules deep the file is: 1 for a file of the crate's root.
    """
    tests = _TESTS.search(source)
    code = source if tests is None else source[: tests.start()]
    code = _TEST_ITEM.sub(lambda item: "\n" * item[0].count("\n"), code)
    for number, line in enumerate(code.splitlines(), start=1):
        for of_crate, supers, name in _PATH.findall(line.partition("//")[0]):
            if of_crate:
                yield number, of_crate
            elif supers.count("super") >= depth:
                yield number, name


def wrong(path: Path, source: str, layer_of: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each use of a module that is not in a lower layer."""
    parts = [part for part in path.with_suffix("").parts if part != "mod"]
    if (module := parts[0]) not in layer_of:
        yield f"{path}: {module} is in no layer"
        return
    for line, name in used(source, len(parts)):
        if name != module and layer_of.get(name, sys.maxsize) >= layer_of[module]:
            yield f"{path}:{line}: {module} uses {name}"


def main() -> int:
    """Print every use of a module that is in no lower layer; return 1 if there is one."""
    layer_of = layers((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    found = [
        sentence
        for file in sorted(CORE.rglob("*.rs"))
        if file.name not in {"lib.rs", "oracle.rs"}
        for sentence in wrong(file.relative_to(CORE), file.read_text(encoding="utf-8"), layer_of)
    ]
    print("\n".join(found) or "layers of the core: every use goes down")  # noqa: T201  a lint prints
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
