"""Where plugins come from, and what happens when one cannot be had."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.stories import known_plugins, plugin_at

from kubextend.errors import KubextendError
from kubextend.plugins import IN_TREE, HighCommPodFilter

MODULES = {
    "good.py": """
class Good:
    name = "Good"
    def filter(self, state, pod, node): ...
class Nameless:
    def filter(self, state, pod, node): ...
class Idle:
    name = "Idle"
class OddArgs:
    name = "OddArgs"
    Args = dict
    def filter(self, state, pod, node): ...
class TwoArgs:
    name = "TwoArgs"
    def filter(self, pod, node): ...
class Async:
    name = "Async"
    async def filter(self, state, pod, node): ...
class Again:
    name = "Good"
    def score(self, state, pod, node): ...
instance = Good()
""",
    "broken.py": "raise RuntimeError('no\\n luck')",
    "script.py": "import sys; sys.exit(3)",
    "needs.py": "import x7",
    "team/__init__.py": "from team.limits import LIMITS\nclass Plugin: ...\nLIMITS['cpu']",
    "team/limits.py": "import json\nLIMITS = json.loads('{}')\njson.loads('') if BROKEN else None",
    "imported.py": "import sys; sys.modules['was_imported'] = sys; from good import Good",
}


NO_X7 = "No module named 'x7'"
FILTER = "def filter(self, state, pod, node)"


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "team").mkdir()
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in (*MODULES, "was_imported.py", "team", "team.limits"):
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.mark.parametrize(
    ("reference", "message", "hint"),
    [
        ("", "expected package.module:Class", "such as my_package.my_module:MyPlugin"),
        ("good", "expected package.module:Class", "such as my_package.my_module:MyPlugin"),
        ("../good:Good", "expected package.module:Class", "such as"),
        ("good.py:Good", 'there is no module "good.py"', "name the module and not its file: good"),
        ("absent.deep:X", 'there is no module "absent"', "install its package beside kubextend"),
        (
            "good:Goood",
            "good has no Goood",
            "did you mean Good? plugins there: Again, Async, Good,",
        ),
        ("good:instance", "good:instance is no class but Good", "name the class"),
        ("good:TwoArgs", "{}: filter(self, pod, node) does not take (state, pod, node)", FILTER),
        ("good:Async", "{}: filter is async, which only the binding cycle awaits", FILTER),
        ("good:Nameless", "good:Nameless has no name", 'give the class a name = "Nameless"'),
        ("good:Idle", "{} extends nothing", "define one of: pre_enqueue, less, pre_filter,"),
        ("good:OddArgs", "good:OddArgs: its Args are no pydantic model", "class Args("),
        ("broken:X", "importing broken failed: RuntimeError: no luck (broken.py:1)", ""),
        ("script:X", "importing script failed: SystemExit: 3 (script.py:1)", ""),
        ("needs:X", f"importing needs failed: ModuleNotFoundError: {NO_X7} (needs.py:1)", ""),
    ],
)
def test_a_reference_to_no_plugin_says_why(reference: str, message: str, hint: str) -> None:
    said, remedy = plugin_at(reference)
    assert said == message.format(reference)
    assert remedy.startswith(hint)
    assert bool(remedy) == bool(hint)


@pytest.mark.parametrize(
    ("broken", "place"), [("True", "team/limits.py:3"), ("False", "team/__init__.py:3")]
)
def test_an_error_at_import_has_the_innermost_place_in_the_plugins_own_code(
    broken: str, place: str, tmp_path: Path
) -> None:
    file = tmp_path / "team/limits.py"
    file.write_text(file.read_text().replace("BROKEN", broken))
    assert plugin_at("team:Plugin")[0].endswith(f" ({place})")


def announced(name: str, reference: str) -> Any:
    return known_plugins((name, reference, "package p 1.0"))


def test_an_announced_plugin_is_imported_when_it_is_looked_up_and_not_before() -> None:
    known = announced("Good", "imported:Good")
    assert ("Good" in known, list(known), len(known)) == (True, ["Good"], 1)
    assert known.sources("Good") == ("package p 1.0",)
    assert known.may_extend("Good", "score"), "nobody knows yet"
    assert "was_imported" not in sys.modules
    assert known["Good"].extension_points == {"filter"}
    assert "was_imported" in sys.modules


def test_a_package_that_cannot_be_imported_concerns_only_who_asks_for_its_plugin() -> None:
    known = known_plugins(("Broken", "broken:X", "package b 2.0"), bundled=IN_TREE)
    assert known["HighCommPodFilter"].plugin_class is HighCommPodFilter
    with pytest.raises(KubextendError, match=r"^package b 2\.0: importing broken failed"):
        known["Broken"]


def test_a_plugin_under_another_name_than_its_own_is_refused() -> None:
    message = 'package p 1.0 announces "Nice", but the name of good:Good is "Good"'
    with pytest.raises(KubextendError, match=message):
        announced("Nice", "good:Good")["Nice"]
    with pytest.raises(KubextendError, match='the class under "Nice" has the name'):
        known_plugins().with_classes({"Nice": HighCommPodFilter}, "the caller")


def test_a_name_that_two_classes_have_is_refused_with_both_sources() -> None:
    both = ("Good", "good:Good", "package p 1.0"), ("Good", "good:Again", "package q 3.0")
    known = known_plugins(*both)
    message = 'different plugins are named "Good": package p 1.0, package q 3.0'
    with pytest.raises(KubextendError, match=message):
        known["Good"]


def test_a_class_that_takes_the_name_of_another_is_refused_when_it_is_given() -> None:
    known = announced("Good", "good:Good")
    with pytest.raises(KubextendError, match=r"package p 1\.0, outOfTree\[0\]"):
        known.with_reference("good:Again", "outOfTree[0]")


def test_no_package_can_take_the_place_of_a_plugin_that_comes_along() -> None:
    bundled = {"Good": IN_TREE["HighCommPodFilter"]}
    taken = known_plugins(("Good", "good:Good", "package p 1.0"), bundled=bundled)
    with pytest.raises(KubextendError, match=r"kubextend, package p 1\.0"):
        taken["Good"]


def test_the_same_class_found_twice_is_one_plugin() -> None:
    known = announced("Good", "good:Good").with_reference("imported:Good", "outOfTree[0]")
    assert known["Good"].name == "Good"
    assert known.sources("Good") == ("package p 1.0", "outOfTree[0]")


def test_what_is_at_hand_is_known_to_extend_what_it_extends() -> None:
    known = known_plugins(bundled=IN_TREE)
    assert known.may_extend("HighCommPodFilter", "filter")
    assert not known.may_extend("HighCommPodFilter", "score")
    with pytest.raises(KeyError):
        known["Absent"]


@pytest.mark.parametrize(
    ("method", "meant"),
    [
        *(("prefilter", "pre_filter"), ("preFilter", "pre_filter"), ("Filter", "filter")),
        *(("filterNodes", "filter_nodes"), ("post_Bind", "post_bind"), ("UnReserve", "unreserve")),
        *((score, "normalize_score") for score in ("NormalizeScore", "normalise_score")),
    ],
)
def test_a_method_that_is_nearly_one_of_the_framework_is_refused(method: str, meant: str) -> None:
    methods = {"name": "Near", "score": print, method: print}
    near = type("Near", (), methods)
    said = f"given: Near: {method} is no method that is called.*did you mean {meant}"
    with pytest.raises(KubextendError, match=f"(?s){said}"):
        known_plugins().with_classes({"Near": near}, "given")
    both = type("Both", (near,), {"reserve": print, "unreserve": print, meant: print})
    assert known_plugins().with_classes({"Near": both}, "given")["Near"].plugin_class is both


def test_a_private_method_may_have_nearly_the_name_of_one_of_the_framework() -> None:
    scores = type("Scores", (), {"name": "Scores", "score_nodes": print, "_score": print})
    known = known_plugins().with_classes({"Scores": scores}, "given")
    assert known["Scores"].plugin_class is scores
