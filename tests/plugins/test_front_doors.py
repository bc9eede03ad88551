"""What a plugin author imports, and from where."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kubextend
from kubextend import framework, testing

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = ("*.md", "docs/*.md", "deploy/**/*.md", "deploy/**/*.py")
TEMPLATES = "python/kubextend/new_plugin_templates/*.txt"
SHOWN = sorted(file for pattern in (*PATTERNS, TEMPLATES) for file in ROOT.glob(pattern))
AUTHOR = """\
from typing import Any, Protocol, assert_type

from kubextend import Status, core, framework, testing
from kubextend.core import normalize
from kubextend.framework import (
    CycleState, NormalizeScorePlugin, Plugin, PreFilterResult, Rejection, ScorePlugin, Scores,
)


class Array(Protocol):  # What NumPy says of an array before 3.12.
    def tolist(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: int | slice, /) -> Any: ...
    def __iter__(self) -> Any: ...


class Author:
    name = "Author"
    scores: Array

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> list[Rejection]:
        assert_type(Status.skip(), Status)
        assert_type(Status.skip().code, framework.Code)
        assert_type(nodes.matches("a=b"), core.Mask)
        return [Rejection(nodes.matches("a=b"), Status.unschedulable("b"))]

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> PreFilterResult:
        return PreFilterResult(frozenset({pod.name}))

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Array:
        assert_type(normalize(self.scores), memoryview)
        assert_type(normalize([1]), list[int])
        return self.scores

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        return normalize(scores, reverse=True)


author: tuple[Plugin, ScorePlugin, NormalizeScorePlugin] = (Author(), Author(), Author())
result = testing.run_filter(Author, testing.make_pod(), {"n": {}})
assert_type(result, testing.FilterResult)
"""
WRONG = """\
from kubextend import Stauts
from kubextend.framework import CycleStaet
"""


def python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def mypy(file: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml"]
    done = subprocess.run([*command, file], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.slow
def test_an_author_has_every_name_typed_and_a_wrong_one_is_found(tmp_path: Path) -> None:
    python(AUTHOR)
    file = tmp_path / "author.py"
    file.write_text(AUTHOR)
    assert "Success: no issues found in 1 source file" in mypy(file)
    file.write_text(WRONG)
    printed = mypy(file)
    assert 'Module "kubextend" has no attribute "Stauts"' in printed
    assert 'Module "kubextend.framework" has no attribute "CycleStaet"' in printed


@pytest.mark.slow
def test_the_package_brings_in_nothing_before_a_name_is_used() -> None:
    ours = "print(sorted(name for name in sys.modules if name.startswith('kubextend')))"
    assert python(f"import sys, kubextend; {ours}") == "['kubextend', 'kubextend._native']\n"
    assert "'kubextend.testing'" not in python(f"import sys; from kubextend import Status; {ours}")
    assert "'kubextend.testing'" in python(f"import sys, kubextend; kubextend.testing; {ours}")


@pytest.mark.parametrize("package", [kubextend, framework, testing])
def test_a_package_has_what_it_announces(package: Any) -> None:
    assert all(getattr(package, name) is not None for name in package.__all__)


def test_the_package_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match="module 'kubextend' has no attribute 'Stauts'"):
        kubextend.Stauts  # type: ignore[attr-defined]  # noqa: B018


def test_what_is_shown_to_authors_uses_the_front_doors() -> None:
    by_the_back = re.compile(r"kubextend\.(?:framework|testing)\.\w+ import.*")
    assert [str(file) for file in SHOWN if by_the_back.search(file.read_text())] == []
    assert len(SHOWN) > 20
