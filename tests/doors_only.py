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
# What people import by name: the packages, and some modules.
_NAMED: Final = ("app", "cli", "core", "discovery", "errors")
PUBLIC: Final = frozenset(
    {
        *("kubextend", *(f"kubextend.{name}" for name in _NAMED)),
        *(e.name for e in pkgutil.iter_modules(kubextend.__path__, "kubextend.") if e.ispkg),
    }
)
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
    return module.partition(".")[0] != "kubextend" or module in PUBLIC


def _names_of(module: str) -> frozenset[str]:
    """Return what a test may import of a module; of other people's modules that is never asked."""
    if not _is_public(module):
        return frozenset()
    found = importlib.import_module(module)
    named = getattr(found, "__all__", None) or (n for n in vars(found) if not n.startswith("_"))
    return frozenset(named)


def main() -> int:
    """Print every fault. Exit code: 1 where there is one."""
    checked = [
        file
        for file in sorted(TESTS.rglob("*.py"))
        if file.parent.name != "doors" or file.stem.startswith("test_")
    ]
    found = [line for file in checked for line in faults(file)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
