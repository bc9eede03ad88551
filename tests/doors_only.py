"""Checks that tests see kubextend through the doors: ``python -m tests.doors_only``.

A test imports helpers of tests, and of kubextend what ``__all__`` of a public module names. It
reads no attribute that begins with an underscore, and patches nothing, so that the code behind a
door may move. Only helpers in tests/doors may do otherwise: a redesign changes them, and no test.
"""

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import kubextend

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = ROOT / "tests"
# Modules that people import by name, besides the packages.
PUBLIC: Final = frozenset(
    {"kubextend", *(f"kubextend.{name}" for name in ("app", "cli", "core", "discovery", "errors"))}
)
# At most ten: the file from tests, and why no door shows what it tests.
EXCEPTIONS: Final[dict[str, str]] = {}
# Still to be moved to the doors.
TO_MOVE: Final = ("contract",)
_PATCHES: Final = frozenset({"setattr", "delattr", "setitem", "delitem", "patch", "object"})
_PATCHERS: Final = frozenset({"monkeypatch", "mock", "mocker", "patch"})


def faults(file: Path) -> Iterator[str]:
    """Yield a line for each place where a test goes behind a door."""
    where = file.relative_to(ROOT)
    for node in ast.walk(ast.parse(file.read_text())):
        for what in _inner_imports(node) if isinstance(node, ast.stmt) else _reaches(node):
            yield f"{where}:{getattr(node, 'lineno', 0)}: {what}"


def _inner_imports(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (f"imports {a.name}" for a in statement.names if not _is_public(a.name))
    elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        for alias in statement.names:
            whole = f"{statement.module}.{alias.name}"
            if not (_is_public(whole) or alias.name in _names_of(statement.module)):
                yield f"imports {alias.name} of {statement.module}"


def _reaches(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Attribute):
        return
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    if (
        node.attr.startswith("_")
        and not node.attr.startswith("__")
        and owner not in {"self", "cls"}
    ):
        yield f"reads the private attribute {node.attr}"
    if owner in _PATCHERS and node.attr in _PATCHES:
        yield f"patches by {owner}.{node.attr}"


def _is_public(module: str) -> bool:
    return not _is_ours(module) or module in PUBLIC or module in _packages()


def _is_ours(module: str) -> bool:
    return module == "kubextend" or module.startswith("kubextend.")


def _names_of(module: str) -> frozenset[str]:
    """Return what a test may import of a module; of other people's modules that is never asked."""
    if not _is_public(module):
        return frozenset()
    found = importlib.import_module(module)
    named = getattr(found, "__all__", None) or (n for n in vars(found) if not n.startswith("_"))
    return frozenset(named)


def _packages() -> frozenset[str]:
    found = pkgutil.iter_modules(kubextend.__path__, "kubextend.")
    return frozenset(each.name for each in found if each.ispkg)


def checked() -> Iterator[Path]:
    """Yield each file that goes through the doors."""
    for file in sorted(TESTS.rglob("*.py")):
        inside = file.relative_to(TESTS)
        is_door = inside.parts[0] == "doors" and not file.stem.startswith("test_")
        if not is_door and inside.parts[0] not in TO_MOVE and str(inside) not in EXCEPTIONS:
            yield file


def main() -> int:
    """Print every fault. Exit code: 1 where there is one."""
    found = [line for file in checked() for line in faults(file)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
