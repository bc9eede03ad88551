"""LabelMatch: rules from its arguments, and arguments that hold none."""

from typing import Any

import pytest
from tests.doors import command_line
from tests.doors.stories import configuration

from kubextend import testing
from kubextend.errors import ConfigError
from kubextend.plugins import LabelMatch

NODES = {"spot": {"capacity": "spot"}, "fast": {"disk": "nvme"}, "plain": {}}
NO_SPOT = {"podSelector": "team=ml", "nodeSelector": "capacity!=spot", "reason": "node is spot"}
LIKES_NVME = {"nodeSelector": "disk=nvme", "score": 70}


def test_a_node_is_rejected_by_the_rule_that_it_fails() -> None:
    args = {"filters": [NO_SPOT]}
    chosen = testing.make_pod(labels={"team": "ml"})
    result = testing.run_filter(LabelMatch, chosen, NODES, args=args)
    assert (result.kept, result.rejected) == (("fast", "plain"), {"spot": "node is spot"})
    assert result.unresolvable == {"spot"}
    other = testing.make_pod(labels={"team": "web"})
    assert testing.run_filter(LabelMatch, other, NODES, args=args).kept == ("spot", "fast", "plain")


def test_the_scores_of_all_rules_that_match_add_up() -> None:
    anywhere = {"nodeSelector": "capacity!=spot", "score": 20}
    args = {"scores": [LIKES_NVME, anywhere]}
    scores = testing.run_score(LabelMatch, testing.make_pod(), NODES, args=args)
    assert scores == {"spot": 0, "fast": 90, "plain": 20}


def test_scores_may_add_up_to_100_and_no_more() -> None:
    def with_anywhere(score: int) -> dict[str, Any]:
        return {"scores": [LIKES_NVME, {"nodeSelector": "capacity!=spot", "score": score}]}

    scores = testing.run_score(LabelMatch, testing.make_pod(), NODES, args=with_anywhere(30))
    assert scores["fast"] == 100
    with pytest.raises(ConfigError, match="101"):
        testing.Cluster(LabelMatch, args={"LabelMatch": with_anywhere(31)})


@pytest.mark.parametrize(
    "entries", [[], *([{"name": "LabelMatch", "args": args}] for args in ({}, {"filters": []}))]
)
def test_a_configuration_that_gives_it_no_rule_is_refused(entries: list[Any]) -> None:
    profile = command_line.profile(multiPoint="LabelMatch") | {"pluginConfig": entries}
    with pytest.raises(ConfigError) as caught:
        configuration({"profiles": [profile]})
    [issue] = caught.value.issues
    assert issue.path.startswith("profiles[0].pluginConfig")
    assert "does nothing" in issue.message
