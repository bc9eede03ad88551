"""failurePolicy of a pluginConfig entry."""

from typing import Any

import pytest
from config_world import Parse, Refusal, document


def with_policy(plugin: str, *points: str, **policy: Any) -> dict[str, Any]:
    enabled = {point: {"enabled": [{"name": plugin}]} for point in points}
    entry = {"name": plugin, **policy}
    return document(cluster={}, profiles=[{"plugins": enabled, "pluginConfig": [entry]}])


ACCEPTED: dict[str, tuple[dict[str, Any], frozenset[str]]] = {
    "nothing said": (with_policy("RdmaAware", "filter"), frozenset()),
    "Fail": (with_policy("RdmaAware", "filter", failurePolicy="Fail"), frozenset()),
    "Ignore": (
        with_policy("RdmaAware", "filter", failurePolicy="Ignore"),
        frozenset({"RdmaAware"}),
    ),
    "Ignore without a part in binding": (
        with_policy("Gang", "preFilter", failurePolicy="Ignore"),
        frozenset({"Gang"}),
    ),
    "Ignore after the pod is bound": (
        with_policy("test-plugin", "postBind", "filter", failurePolicy="Ignore"),
        frozenset({"test-plugin"}),
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_the_profile_knows_whose_failure_is_ignored(parse: Parse, case: str) -> None:
    tree, ignored = ACCEPTED[case]
    assert parse(tree).resolved[0].ignored == ignored


def test_a_policy_for_a_plugin_that_is_not_enabled_is_not_used(parse: Parse) -> None:
    tree = with_policy("RdmaAware", "filter", failurePolicy="Ignore")
    tree["profiles"][0]["pluginConfig"][0]["name"] = "LabelMatch"
    config = parse(tree)
    assert not config.resolved[0].ignored
    assert any("LabelMatch is not enabled in this profile" in note for note in config.notes)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    **{
        f"Ignore at {point}": (
            with_policy("test-plugin", point, failurePolicy="Ignore"),
            "failurePolicy",
            f"must be Fail: test-plugin is enabled at {point[0].upper()}{point[1:]}",
        )
        for point in ("reserve", "permit", "preBind", "bind")
    },
    "Ignore at several, through multiPoint": (
        with_policy("Gang", "multiPoint", failurePolicy="Ignore"),
        "failurePolicy",
        "must be Fail: Gang is enabled at Permit",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_where_it_stands(refusal: Refusal, case: str) -> None:
    tree, field, message = REFUSED[case]
    issues = refusal(tree)
    assert [(issue.path, issue.message) for issue in issues] == [
        (f"profiles[0].pluginConfig[0].{field}", message)
    ]
