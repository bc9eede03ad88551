"""The command line door: ``kubextend`` as a shell runs it, and the configurations it is given."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from click.testing import CliRunner, Result
from tests.doors import configured_plugins

from kubextend.cli import main

__all__ = [
    "FITS",
    "ROOT",
    "Golden",
    "Result",
    "Tree",
    "cases",
    "checked",
    "compared",
    "configuration",
    "enabled",
    "other_lines",
    "profile",
    "run",
    "said",
    "transcript",
    "write",
]

ROOT: Final = Path(__file__).resolve().parents[2]
Tree = dict[str, Any]
Golden = Callable[[str, str], None]
FITS: Final = " fits: kube-scheduler calls kubextend as this configuration says"
_DEFAULTS: Final[Tree] = {
    "apiVersion": "kubextend.dev/v1alpha1",
    "kind": "ExtenderConfiguration",
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
}


def run(*words: object, given: str | None = None) -> Result:
    """Run the command with these words; ``given`` is its standard input."""
    return CliRunner().invoke(main, [str(word) for word in words], input=given)


def configuration(**sections: Any) -> Tree:
    """Return a right configuration with other or further sections."""
    return _DEFAULTS | sections


def enabled(*plugins: str | tuple[str, int]) -> Tree:
    """Return the ``enabled`` of a point: names, or names with their weights."""
    named = [(each, None) if isinstance(each, str) else each for each in plugins]
    return {"enabled": [{"name": n} if w is None else {"name": n, "weight": w} for n, w in named]}


def profile(name: str | None = None, **points: Any) -> Tree:
    """Return a profile: each point has the name of one plugin, several names, or a whole set."""
    plugins = {
        point: enabled(*([given] if isinstance(given, str) else given))
        if isinstance(given, str | list | tuple)
        else given
        for point, given in points.items()
    }
    return {"plugins": plugins} | ({} if name is None else {"schedulerName": name})


def checked(sections: Mapping[str, Any], *options: object) -> Result:
    """Run ``kubextend check`` on a configuration that may name ``configured_plugins``."""
    tree = {"outOfTree": configured_plugins.ALL} | _DEFAULTS | dict(sections)
    return run("check", "-", *options, given=json.dumps(tree))


def compared(ours: object, theirs: object) -> Result:
    """Run ``check --scheduler`` on two files that are written to the current folder."""
    file = write(Path("kube-scheduler.yaml"), theirs)
    return run("check", write(Path("kubextend.yaml"), ours), "--scheduler", file)


def said(result: Result) -> str:
    """Return what a command printed, and its exit code where that is not 0."""
    code = "" if result.exit_code == 0 else f"exit code {result.exit_code}\n"
    return f"{code}{result.stdout}{result.stderr}"


def cases(name: str) -> dict[str, Any]:
    """Return the cases of a YAML file of tests by their names."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "tests" / name).read_text())
    return loaded


def other_lines(usual: str, text: str) -> str:
    """Return the lines of a text that are not among the usual ones."""
    lines = set(usual.splitlines(keepends=True))
    return "".join(line for line in text.splitlines(keepends=True) if line not in lines)


def transcript(told: Mapping[str, str]) -> str:
    """Return the text of a golden file: for each case its name and what was printed.

    Names that kubextend knows are listed once, and are ``...`` where the same names come again.
    """
    whole = "".join(f"## {name}\n{text}" for name, text in told.items())
    seen: set[str] = set()

    def listed(found: re.Match[str]) -> str:
        again = found[0] in seen
        seen.add(found[0])
        return f"{found[1]} ..." if again else found[0]

    return re.sub(r"(known [\w ]+:) [^;\n]*,[^;\n]*", listed, whole)


def write(file: Path, content: object) -> Path:
    """Write text, or anything else as JSON, to a file; return its path."""
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file
