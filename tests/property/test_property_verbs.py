"""The quick verbs against plain Python, with native and Python plugins mixed in one profile.

Each plugin stands beside what it has to say of a node, written once more over dicts.
"""

import array
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.wire import Answer, Wire, node, pod
from tests.doors.wire_plugins import Plugin

from kubextend import core
from kubextend.framework import PreFilterResult, Rejection, Status
from kubextend.plugins import HighCommPodFilter, LabelMatch, RdmaAware

Labels: TypeAlias = Mapping[str, str]
MOST_RAW = 1 << 40

UIDS = itertools.count()
"""No two requests are of one pod: what a pod is told changes only so often."""

AVOIDED, SPOT = Status.unschedulable("zone is avoided"), Status.unresolvable("node is spot")


def rank_of(node: core.NodeInfo) -> int:
    return int(node.label("rank") or 0)


PER_NODE = Plugin(
    "PerNode",
    filter=lambda _state, pod, node: (
        AVOIDED if node.label("zone") == pod.labels.get("avoid", "-") else None
    ),
    score=lambda _state, _pod, node: rank_of(node) % 101,
)
# All nodes in one call: none of spot; large numbers that DefaultNormalizeScore brings down.
AT_ONCE = Plugin(
    "AtOnce",
    filter_nodes=lambda _state, _pod, nodes: [Rejection(nodes.matches("spot"), SPOT)],
    score_nodes=lambda _state, _pod, nodes: array.array("q", map(rank_of, nodes)),
    normalize_score=lambda _state, _pod, scores: core.normalize(scores, 100, reverse=True),
)
EVEN = Plugin(
    "Even",
    pre_filter=lambda _state, _pod, nodes: PreFilterResult(
        frozenset(name for name in nodes.names if int(name[1:]) % 2 == 0)
    ),
)


def label_match() -> LabelMatch:
    args = {
        "filters": [{"podSelector": "team=ml", "nodeSelector": "zone in (a,b)", "reason": "zone"}],
        "scores": [
            {"podSelector": "team", "nodeSelector": "zone=a", "score": 60},
            {"nodeSelector": "rank>50", "score": 35},
        ],
    }
    return LabelMatch(LabelMatch.Args.model_validate(args))


# Plugins that filter, and whether a pod may run on a node, by the labels of both and its name.
FILTERS: tuple[tuple[Any, Callable[[Labels, Labels, str], bool]], ...] = (
    (
        label_match(),
        lambda pod, node, _: pod.get("team") != "ml" or node.get("zone") in {"a", "b"},
    ),
    (
        HighCommPodFilter(),
        lambda pod, node, _: (
            "high-comm" not in pod or node.get("node.kubernetes.io/rdma-enabled") == "true"
        ),
    ),
    (
        RdmaAware(),
        lambda pod, node, _: pod.get("high-comm") == "true" and node.get("rdma") == "true",
    ),
    (PER_NODE, lambda pod, node, _: node.get("zone") != pod.get("avoid", "-")),
    (AT_ONCE, lambda _, node, __: "spot" not in node),
    (EVEN, lambda _, __, name: int(name[1:]) % 2 == 0),
)


def rank(node: Labels) -> int:
    return int(node.get("rank", 0))


def reversed_share(node: Labels, nodes: Sequence[Labels]) -> int:
    """DefaultNormalizeScore, reversed."""
    highest = max(rank(each) for each in nodes)
    return 100 - 100 * rank(node) // highest if highest else 100


# Plugins that score, and a node's score among others by their labels and the pod's.
SCORES: tuple[tuple[Any, Callable[[Labels, Labels, Sequence[Labels]], int]], ...] = (
    (
        label_match(),
        lambda pod, node, _: (
            60 * ("team" in pod and node.get("zone") == "a") + 35 * (rank(node) > 50)
        ),
    ),
    (PER_NODE, lambda _, node, __: rank(node) % 101),
    (AT_ONCE, lambda _, node, nodes: reversed_share(node, nodes)),
)


def server_of(
    filters: tuple[int, ...], scores: tuple[tuple[int, int], ...] = (), scale: str = "additive"
) -> Wire:
    """Return a server of these plugins by their numbers, with weights."""
    weights = {SCORES[number][0].name: weight for number, weight in scores}
    chosen = [FILTERS[number][0] for number in filters] + [
        SCORES[number][0] for number, _ in scores
    ]
    return Wire(*chosen, weights=weights, settings={"scoreScale": scale})


CHOSEN_FILTERS = st.permutations(range(len(FILTERS))).flatmap(
    lambda order: st.integers(1, len(order)).map(lambda count: tuple(order[:count]))
)
CHOSEN_SCORES = st.dictionaries(
    st.integers(0, len(SCORES) - 1), st.sampled_from([1, 2, 7, 30]), min_size=1
).map(lambda chosen: tuple(chosen.items()))

NODE_LABELS = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from("abc"),
        "spot": st.sampled_from(["", "true"]),
        "rdma": st.sampled_from(["true", "false"]),
        "node.kubernetes.io/rdma-enabled": st.sampled_from(["true", "false"]),
        "rank": (st.integers(0, 200) | st.integers(0, MOST_RAW)).map(str),
    },
)
POD_LABELS = st.fixed_dictionaries(
    {},
    optional={
        "team": st.sampled_from(["ml", "web"]),
        "high-comm": st.sampled_from(["", "true"]),
        "avoid": st.sampled_from("abc"),
    },
)
NAMES = st.integers(0, 99).map(lambda number: f"n{number}")
NODES = st.dictionaries(NAMES, NODE_LABELS, min_size=1, max_size=24)
MODES = st.sampled_from(["names", "whole nodes"])


def pod_of(labels: Labels) -> dict[str, Any]:
    return pod("p", uid=f"uid-{next(UIDS)}", labels=dict(labels))


def asked(
    server: Wire, verb: str, mode: str, labels: Labels, nodes: Mapping[str, Labels]
) -> Answer:
    """Ask as kube-scheduler does; in names mode the watch shows the nodes before."""
    items = [node(name, labels=of) for name, of in nodes.items()]
    whole = None if mode == "names" else items
    if whole is None:
        server.list_nodes(*items)
    call = server.filter if verb == "filter" else server.prioritize
    return call(pod_of(labels), list(nodes), whole=whole)


@pytest.mark.slow
@given(MODES, CHOSEN_FILTERS, POD_LABELS, NODES)
def test_filter_keeps_what_passes_in_order_and_rejects_every_other_node_once(
    mode: str, chosen: tuple[int, ...], of: Labels, nodes: Mapping[str, Labels]
) -> None:
    answer = asked(server_of(chosen), "filter", mode, of, nodes)
    assert answer.error == ""
    passing = [
        name
        for name, labels in nodes.items()
        if all(FILTERS[number][1](of, labels, name) for number in chosen)
    ]
    assert answer.kept == passing
    assert sorted([*passing, *answer.rejected]) == sorted(nodes)
    assert all(answer.rejected.values())


@pytest.mark.slow
@given(CHOSEN_FILTERS, POD_LABELS, NODES)
def test_preempt_leaves_the_candidates_that_filter_keeps(
    chosen: tuple[int, ...], of: Labels, nodes: Mapping[str, Labels]
) -> None:
    server = server_of(chosen)
    kept = asked(server, "filter", "names", of, nodes).kept
    victims = {name: [name] for name in nodes}
    left = server.preempt(pod_of(of), victims).victims
    assert left == {name: victims[name] for name in kept}


@pytest.mark.slow
@given(MODES, CHOSEN_SCORES, POD_LABELS, NODES)
def test_prioritize_answers_the_weighted_sum_once_for_each_node_in_order(
    mode: str, chosen: tuple[tuple[int, int], ...], of: Labels, nodes: Mapping[str, Labels]
) -> None:
    answer = asked(server_of((), chosen), "prioritize", mode, of, nodes).json
    everyone = list(nodes.values())
    sums = {
        name: sum(weight * SCORES[number][1](of, labels, everyone) for number, weight in chosen)
        for name, labels in nodes.items()
    }
    assert [host["Host"] for host in answer] == list(nodes)
    # A tenth, as kube-scheduler multiplies by ten; halves go up.
    assert [host["Score"] for host in answer] == [(total + 5) // 10 for total in sums.values()]


@pytest.mark.slow
@given(MODES, st.integers(1, 30), POD_LABELS, NODES)
def test_strict10_keeps_the_order_of_the_raw_scores_within_ten(
    mode: str, weight: int, of: Labels, nodes: Mapping[str, Labels]
) -> None:
    answer = asked(server_of((), ((2, weight),), "strict10"), "prioritize", mode, of, nodes).json
    assert all(0 <= host["Score"] <= 10 for host in answer)
    # Reversed: the higher the rank, the lower the score.
    by_rank = sorted((-rank(nodes[host["Host"]]), host["Score"]) for host in answer)
    assert [score for _, score in by_rank] == sorted(host["Score"] for host in answer)
