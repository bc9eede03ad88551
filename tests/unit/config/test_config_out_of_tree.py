"""``outOfTree``: plugins that a configuration brings by itself."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from config_world import Parse, Refusal, document, filter_profile

from kubextend import config
from kubextend.errors import ConfigError, Issue
from kubextend.framework.known_plugins import Announcement, KnownPlugins
from kubextend.plugins import IN_TREE

MODULE = """
from pydantic import BaseModel
class Mine:
    name = "Mine"
    class Args(BaseModel, extra="forbid"):
        limit: int = 1
    def __init__(self, args): ...
    def filter(self, state, pod, node): ...
class Taken:
    name = "HighCommPodFilter"
    def filter(self, state, pod, node): ...
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "beside.py").write_text(MODULE)
    (tmp_path / "fails.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("beside", "fails"):
        sys.modules.pop(name, None)


def test_a_plugin_of_the_files_own_takes_its_arguments(parse: Parse) -> None:
    profile = filter_profile("Mine", pluginConfig=[{"name": "Mine", "args": {"limit": 3}}])
    loaded = parse(document(outOfTree=["beside:Mine"], profiles=[profile]))
    assert loaded.out_of_tree == ("beside:Mine",)
    assert loaded.resolved[0].args["Mine"] == sys.modules["beside"].Mine.Args(limit=3)


def test_its_arguments_are_checked_like_any_others(refusal: Refusal) -> None:
    profile = filter_profile("Mine", pluginConfig=[{"name": "Mine", "args": {"limits": 3}}])
    (issue,) = refusal(document(outOfTree=["beside:Mine"], profiles=[profile]))
    assert issue.path == "profiles[0].pluginConfig[0].args.limits"
    assert issue.hint == "did you mean limit? known fields: limit"


@pytest.mark.parametrize(
    ("references", "issue"),
    [
        (
            ["fails:Mine"],
            Issue(
                "outOfTree[0]",
                "importing fails failed: ZeroDivisionError: division by zero (fails.py:1)",
                "fails:Mine",
            ),
        ),
        (
            ["beside.Mine"],
            Issue(
                "outOfTree[0]",
                "expected package.module:Class",
                "beside.Mine",
                "such as my_package.my_module:MyPlugin",
            ),
        ),
        (
            ["beside:Mine", "beside:Mine"],
            Issue("outOfTree[1]", "is named twice", "beside:Mine", "keep one"),
        ),
        (["beside:Mine", 3], Issue("outOfTree[1]", "expected a string, found a number", 3)),
        (
            "beside:Mine",
            Issue(
                "outOfTree", "expected a list, found a string", "beside:Mine", "write [beside:Mine]"
            ),
        ),
    ],
)
def test_what_cannot_be_had_is_one_issue_at_its_place(
    references: object, issue: Issue, refusal: Refusal
) -> None:
    assert refusal(document(outOfTree=references)) == (issue,)


@pytest.mark.parametrize("reference", ["fails:Mine", "beside:Mines", "beside.Mine", "team_nodes"])
def test_a_failed_import_is_told_alone_and_not_what_the_profiles_lack_without_it(
    reference: str, refusal: Refusal
) -> None:
    profile = filter_profile("Mine", "Other", pluginConfig=[{"name": "Mine", "args": {}}])
    issues = refusal(document(outOfTree=[reference], profiles=[profile]))
    assert [issue.path for issue in issues] == ["outOfTree[0]"]


def test_a_plugin_may_not_take_the_name_of_another() -> None:
    tree = document(outOfTree=["beside:Taken"])
    with pytest.raises(ConfigError) as caught:
        config.parse(tree, known=IN_TREE)
    (issue,) = caught.value.issues
    assert issue.path == "outOfTree[0]"
    sources = "kubextend, outOfTree[0]"
    assert issue.message == f'different plugins are named "HighCommPodFilter": {sources}'


def announcing(*names: str) -> KnownPlugins:
    return KnownPlugins.of(IN_TREE, "kubextend").with_announced(
        Announcement(name, f"fails:{name}", "package p 1.0") for name in names
    )


@pytest.mark.parametrize(
    "where",
    [
        {"plugins": {"filter": {"enabled": [{"name": "Broken"}]}}},
        {"plugins": {"multiPoint": {"enabled": [{"name": "Broken"}]}}},
    ],
)
def test_an_announced_plugin_that_cannot_be_imported_says_so_where_it_is_named(
    where: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(document(profiles=[where]), known=announcing("Broken", "Unnamed"))
    (issue,) = caught.value.issues
    assert issue.path.endswith(".enabled[0].name")
    assert issue.message.startswith("package p 1.0: importing fails failed: ZeroDivisionError")


def test_an_announced_plugin_that_nobody_names_is_not_imported_not_even_for_a_hint() -> None:
    profile = filter_profile("Brokn")
    with pytest.raises(ConfigError) as caught:
        config.parse(document(profiles=[profile]), known=announcing("Broken"))
    (issue,) = caught.value.issues
    assert issue.hint.startswith("did you mean Broken?")
    assert "fails" not in sys.modules
