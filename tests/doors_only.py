"""Checks that tests see kubextend through the doors: ``python -m tests.doors_only``.

A test imports helpers of tests, and of kubextend what ``__all__`` of a public module names. It
reads no attribute that begins with an underscore, and patches nothing, so that the code behind a
door may move. Only helpers in tests/doors may do otherwise: a redesign changes them, and no test.
What they read that is private in kubextend is listed in ``REACHES``.
"""

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
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
_PROMISED: Final = "docs/failures.md has the number"
REACHES: Final = {
    "_LONGEST_CALL_S": "a test of a method that hangs would last a minute",
    "_AFTER_CLEANUP": _PROMISED,
    "_AFTER_PLUGINS": _PROMISED,
    "_SHARE": _PROMISED,
    "_in_annotations": "no answer shows how often SySched reads the annotations of a pod",
    "_of_pods": "no answer shows what SySched remembers",
    "_serve": "a pool counts a thread as free before the thread tells of its result",
}
"""What is private in kubextend and read by helpers in tests/doors, with the reason; ten at most."""
_MOST_REACHES: Final = 10
_DEFINED: Final = re.compile(r"(?:\bdef |\bself\.|^)(_\w+)", re.MULTILINE)
_PATCHES: Final = frozenset({"setattr", "delattr", "setitem", "delitem"})
_BY_NAME: Final = frozenset({"getattr", "hasattr", "setattr", "delattr", "attrgetter"})
_IMPORTING: Final = frozenset({"import_module", "__import__"})


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the kind of each place where a test goes behind a door."""
    nodes = [*ast.walk(ast.parse(source))]
    imported = dict(name for node in nodes for name in _imported(node))
    for node in nodes:
        for what in (*_inner_imports(node), *_reaches(node, imported)):
            yield getattr(node, "lineno", 0), what


def private_reaches(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each private attribute that no import of others explains."""
    nodes = [*ast.walk(ast.parse(source))]
    imported = dict(name for node in nodes for name in _imported(node))
    for node in nodes:
        of = _whole(node.value, imported) if isinstance(node, ast.Attribute) else ""
        if not of or of.startswith(("kubextend", "tests")):
            yield from ((getattr(node, "lineno", 0), name) for name in _private(node))


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that a statement imports, and what the name stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.partition(".")[0]
            yield alias.asname or first, alias.name if alias.asname else first
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def _inner_imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"imports {a.name}" for a in node.names if not _is_public(a.name))
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if not (_is_public(whole) or alias.name in _names_of(node.module)):
                yield f"imports {alias.name} of {node.module}"
    elif isinstance(node, ast.Call) and _called(node) in _IMPORTING:
        texts = [each for argument in node.args for each in _texts(argument)]
        yield from (f"imports {text}" for text in texts if not _is_public(text))


def _reaches(node: ast.AST, imported: Mapping[str, str]) -> Iterator[str]:
    yield from (f"reads the private attribute {name}" for name in _private(node))
    if isinstance(node, ast.Call) and _called(node) in {"setattr", "delattr"} and node.args:
        changed: ast.expr | None = node.args[0]
    elif isinstance(node, ast.Attribute):
        changed = None if isinstance(node.ctx, ast.Load) else node.value
        module = _whole(node.value, imported)
        if node.attr in _PATCHES:
            yield f"patches by {node.attr}"
        elif module in PUBLIC and not (
            node.attr.startswith("_")
            or _is_public(f"{module}.{node.attr}")
            or node.attr in _names_of(module)
            or not hasattr(importlib.import_module(module), node.attr)
        ):
            yield f"reads {node.attr} of {module}"
    else:
        return
    if changed and (whole := _whole(changed, imported)).startswith(("kubextend", "tests.doors")):
        yield f"changes {whole}"


def _private(node: ast.AST) -> list[str]:
    """Return the private names that are read of another object, also those given as text."""
    names: list[str] = []
    if isinstance(node, ast.Attribute):
        own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
        names = [] if own else [node.attr]
    elif isinstance(node, ast.Call) and _called(node) in _BY_NAME:
        names = [text for argument in node.args for text in _texts(argument)]
    elif isinstance(node, ast.Subscript) and (
        (isinstance(node.value, ast.Call) and _called(node.value) == "vars")
        or (isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__")
    ):
        names = [*_texts(node.slice)]
    return [name for name in names if name.startswith("_") and not name.startswith("__")]


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _called(call: ast.Call) -> str:
    of = call.func
    return of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""


def _whole(node: ast.AST, imported: Mapping[str, str]) -> str:
    """Return what a name or a chain of attributes stands for; empty: nothing that is imported."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, "")
    of = _whole(node.value, imported) if isinstance(node, ast.Attribute) else ""
    return f"{of}.{node.attr}" if of and isinstance(node, ast.Attribute) else ""


def _is_public(module: str) -> bool:
    if module.startswith(("unittest.mock", "mock.")):
        return False
    return module.partition(".")[0] != "kubextend" or module in PUBLIC


def _names_of(module: str) -> frozenset[str]:
    """Return what a test may import of a module; of other people's modules that is never asked."""
    if not _is_public(module):
        return frozenset()
    found = importlib.import_module(module)
    named = getattr(found, "__all__", None) or (n for n in vars(found) if not n.startswith("_"))
    return frozenset(named)


def _in_doors(sources: Mapping[Path, str]) -> Iterator[str]:
    """Yield a line for each private name of kubextend that a door reads and REACHES does not list.

    A name that is defined in tests/doors is a door's own.
    """
    code = "\n".join(file.read_text() for file in Path(kubextend.__path__[0]).rglob("*.py"))
    kubextends = {*_DEFINED.findall(code)} - {*_DEFINED.findall("\n".join(sources.values()))}
    read = [(f, *each) for f, source in sources.items() for each in private_reaches(source)]
    for file, line, name in read:
        if name in kubextends - REACHES.keys():
            yield f"{file}:{line}: reads the private attribute {name}"
    unread = REACHES.keys() - {name for _, _, name in read}
    yield from (f"REACHES: no door reads {name}" for name in sorted(unread))
    if len(REACHES) > _MOST_REACHES:
        yield f"REACHES: more than {_MOST_REACHES}"


def main() -> int:
    """Print every fault. Exit code: 1 where there is one."""
    sources = {file.relative_to(ROOT): file.read_text() for file in sorted(TESTS.rglob("*.py"))}
    doors = {
        file: source
        for file, source in sources.items()
        if file.parent.name == "doors" and not file.stem.startswith("test_")
    }
    found = [
        f"{file}:{line}: {what}"
        for file in sources.keys() - doors.keys()
        for line, what in faults(sources[file])
    ]
    found += _in_doors(doors)
    sys.stdout.writelines(f"{line}\n" for line in sorted(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
