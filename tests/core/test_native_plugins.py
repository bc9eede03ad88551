"""Native plugins are made by name or from rules; tests/plugins has what each decides."""

import pytest
from tests.doors import core_objects as world

from kubextend import core


def test_a_name_that_no_plugin_has_is_told_those_there_are() -> None:
    for name in ("", "LabelMatch", "NodeName"):
        with pytest.raises(ValueError, match=r"there are HighCommPodFilter, RdmaAware$"):
            core.NativePlugin.named(name)


@pytest.mark.parametrize(
    ("filters", "scores", "error"),
    [
        ([("a in", "", "r")], [], ValueError),
        ([("", "a in", "r")], [], ValueError),
        ([], [("", "a>b", 1)], ValueError),
        ([], [("", "", 1 << 64)], OverflowError),
        ([], [("", "", 0.5)], TypeError),
        ([("", "")], [], ValueError),
        (7, [], TypeError),
    ],
)
def test_rules_that_cannot_be_are_refused(
    filters: list[tuple[str, str, str]], scores: list[tuple[str, str, int]], error: type[Exception]
) -> None:
    with pytest.raises(error):
        core.NativePlugin.label_match(filters, scores)


def test_a_plugin_without_score_says_so_in_the_schedulers_words() -> None:
    plugin = core.NativePlugin.named("RdmaAware")
    with pytest.raises(ValueError, match='plugin "RdmaAware" does not extend ScorePlugin plugin'):
        plugin.score_nodes(world.pod_of(), world.nodes_of())
