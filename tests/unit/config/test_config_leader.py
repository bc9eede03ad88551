"""Which profiles need a leader among the replicas, why, and how a leader is asked for."""

from collections.abc import Mapping
from typing import Any

import pytest
from config_world import Info, document

from kubextend import config
from kubextend.errors import ConfigError, Issue

KNOWN: Mapping[str, Any] = {
    "Plain": Info(frozenset({"filter", "score", "preBind", "bind", "postBind"})),
    "Counts": Info(frozenset({"filter", "preEnqueue"}), needs_pods=True),
    "ScoresByPods": Info(frozenset({"score"}), needs_pods=True),
    "Reserves": Info(frozenset({"reserve"})),
    "Holds": Info(frozenset({"reserve", "permit"})),
    "Sort": Info(frozenset({"queueSort"})),
}


def parse(profile: Mapping[str, str], **sections: Any) -> config.ExtenderConfiguration:
    plugins = {
        point: {"enabled": [{"name": name} for name in names.split()]}
        for point, names in profile.items()
    }
    tree = document(profiles=[{"plugins": plugins}], **({"cluster": {}} | sections))
    return config.parse(tree, known=KNOWN)


@pytest.mark.parametrize(
    ("profile", "state"),
    [
        ({"filter": "Plain", "score": "Plain", "preBind": "Plain", "postBind": "Plain"}, ()),
        ({"filter": "Plain Counts"}, ("Counts looks at the pods on nodes",)),
        ({"score": "ScoresByPods"}, ("ScoresByPods looks at the pods on nodes",)),
        ({"reserve": "Reserves"}, ("Reserves reserves",)),
        ({"permit": "Holds"}, ("Holds holds pods",)),
        (
            {"filter": "Counts", "multiPoint": "Reserves"},
            ("Counts looks at the pods on nodes", "Reserves reserves"),
        ),
        # The queue has a Lease of its own.
        ({"queueSort": "Sort", "preEnqueue": "Counts"}, ()),
    ],
)
def test_a_profile_needs_a_leader_for_what_its_plugins_keep(
    profile: dict[str, str], state: tuple[str, ...]
) -> None:
    loaded = parse(profile)
    assert loaded.resolved[0].state == state
    assert loaded.needs_leader is bool(state)


def test_the_guard_needs_a_leader() -> None:
    loaded = parse({"filter": "Plain"}, guard={"resources": True}, server={"lease": {}})
    assert loaded.needs_leader
    assert loaded.notes == ()


def test_the_lease_has_a_name_and_the_namespace_of_the_pod() -> None:
    assert parse({"filter": "Counts"}).server.lease is None
    lease = parse({"filter": "Counts"}, server={"lease": {}}).server.lease
    assert lease is not None
    assert (lease.name, lease.namespace) == ("kubextend", None)


def test_a_lease_that_nobody_needs_gets_a_note() -> None:
    assert parse({"filter": "Counts"}, server={"lease": {}}).notes == ()
    assert parse({"filter": "Plain"}, server={"lease": {}}).notes == (
        "server.lease: no profile needs a leader: without it every replica answers",
    )


def test_a_lease_needs_the_api() -> None:
    with pytest.raises(ConfigError) as caught:
        parse({"filter": "Plain"}, server={"lease": {}}, cluster=None)
    assert caught.value.issues == (
        Issue(
            "cluster",
            "Required value: server.lease names an object of the Kubernetes API",
            hint="add cluster: {}",
        ),
    )


COUNTING: Mapping[str, Any] = {
    "Counts": Info(frozenset({"preFilter", "filter", "score"}), needs_pods=True)
}


@pytest.mark.parametrize(
    ("point", "binds"), [("preFilter", True), ("filter", True), ("score", False)]
)
def test_a_pod_is_bound_by_kubextend_where_a_plugin_may_reject_it_for_the_pods_on_nodes(
    point: str, binds: bool
) -> None:
    plugins = {point: {"enabled": [{"name": "Counts"}]}}
    loaded = config.parse(document(profiles=[{"plugins": plugins}], cluster={}), known=COUNTING)
    assert loaded.counts_pods is binds
    assert ("bind" in loaded.verbs) is binds


OWN_LEDGER: Mapping[str, Any] = {
    "OwnLedger": Info(frozenset({"filter", "reserve"})),
    "Counts": Info(frozenset({"filter", "reserve"}), needs_pods=True),
}


def test_a_note_names_a_filter_that_may_count_what_its_reserve_took() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "OwnLedger"}, {"name": "Counts"}]}}
    tree = document(profiles=[{"plugins": plugins}], cluster={})
    assert config.parse(tree, known=OWN_LEDGER).notes == (
        (
            "profiles[0].plugins: OwnLedger filters and reserves without needs_pods: if its filter "
            "counts what its reserve took, kube-scheduler 1.37 may bind a part of a PodGroup only; "
            "count the pods on nodes instead, with needs_pods = True"
        ),
    )
    parts = {"filter": "OwnLedger", "reserve": "Counts"}
    apart = {point: {"enabled": [{"name": name}]} for point, name in parts.items()}
    separate = document(profiles=[{"plugins": apart}], cluster={})
    assert config.parse(separate, known=OWN_LEDGER).notes == ()
