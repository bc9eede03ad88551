"""The quick verbs against plain Python, with native and Python plugins mixed in one profile.

Each plugin stands beside what it has to say of a node, written down once more over dicts.
"""

import array
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.wire import Answer, Wire, node, pod

from kubextend import core
from kubextend.framework import CycleState, PreFilterResult, Rejection, Status
from kubextend.plugins import HighCommPodFilter, LabelMatch, RdmaAware

Labels: TypeAlias = Mapping[str, str]
MOST_RAW = 1 << 40

UIDS = itertools.count()
"""No two requests are of one pod: what a pod is told changes only so often."""


class PerNode:
    """The per-node grain: a node of another team's zone will not do; ranks are scores."""

    name = "PerNode"

    def filter(self, _state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        if node.label("zone") == pod.labels.get("avoid", "-"):
            return Status.unschedulable("zone is avoided")
        return None

    def score(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> int:
        return int(node.label("rank") or 0) % 101


class AtOnce:
    """All nodes in one call: none of spot; large numbers that DefaultNormalizeScore brings down."""

    name = "AtOnce"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        return [Rejection(nodes.matches("spot"), Status.unresolvable("node is spot"))]

    def score_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> "array.array[int]":
        return array.array("q", [int(rank or 0) for rank in nodes.labels("rank")])

    def normalize_score(
        self, _state: CycleState, _pod: core.Pod, scores: "array.array[int]"
    ) -> memoryview:
        return core.normalize(scores, 100, reverse=True)


class Narrows:
    """PreFilter that leaves the nodes with even numbers."""

    name = "Narrows"

    def pre_filter(self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> PreFilterResult:
        return PreFilterResult(frozenset(name for name in nodes.names if int(name[1:]) % 2 == 0))


def label_match() -> LabelMatch:
    args = {
        "filters": [{"podSelector": "team=ml", "nodeSelector": "zone in (a,b)", "reason": "zone"}],
        "scores": [
            {"podSelector": "team", "nodeSelector": "zone=a", "score": 60},
            {"nodeSelector": "rank>50", "score": 35},
        ],
    }
    return LabelMatch(LabelMatch.Args.model_validate(args))


class Filters(NamedTuple):
    """A plugin that filters, and whether a pod may run on a node, by the labels of both."""

    plugin: Any
    passes: Callable[[Labels, Labels, str], bool]


FILTERS = (
    Filters(
        label_match(),
        lambda pod, node, _: pod.get("team") != "ml" or node.get("zone") in {"a", "b"},
    ),
    Filters(
        HighCommPodFilter(),
        lambda pod, node, _: (
            "high-comm" not in pod or node.get("node.kubernetes.io/rdma-enabled") == "true"
        ),
    ),
    Filters(
        RdmaAware(),
        lambda pod, node, _: pod.get("high-comm") == "true" and node.get("rdma") == "true",
    ),
    Filters(PerNode(), lambda pod, node, _: node.get("zone") != pod.get("avoid", "-")),
    Filters(AtOnce(), lambda _, node, __: "spot" not in node),
    Filters(Narrows(), lambda _, __, name: int(name[1:]) % 2 == 0),
)


def rank(node: Labels) -> int:
    return int(node.get("rank", 0))


def reversed_share(node: Labels, nodes: Sequence[Labels]) -> int:
    """DefaultNormalizeScore, reversed."""
    highest = max(rank(each) for each in nodes)
    return 100 - 100 * rank(node) // highest if highest else 100


class Scores(NamedTuple):
    """A plugin that scores, and a node's score among others by their labels and the pod's."""

    plugin: Any
    of: Callable[[Labels, Labels, Sequence[Labels]], int]


SCORES = (
    Scores(
        label_match(),
        lambda pod, node, _: (
            60 * ("team" in pod and node.get("zone") == "a") + 35 * (rank(node) > 50)
        ),
    ),
    Scores(PerNode(), lambda _, node, __: rank(node) % 101),
    Scores(AtOnce(), lambda _, node, nodes: reversed_share(node, nodes)),
)


@lru_cache(256)
def server_of(
    filters: tuple[int, ...], scores: tuple[tuple[int, int], ...] = (), scale: str = "additive"
) -> Wire:
    """A server of these plugins by their numbers, with weights; one for all examples."""
    chosen = {FILTERS[number].plugin.name: FILTERS[number].plugin for number in filters}
    scoring = {SCORES[number].plugin.name: weight for number, weight in scores}
    chosen |= {SCORES[number].plugin.name: SCORES[number].plugin for number, _ in scores}
    return Wire(*chosen.values(), weights=scoring, settings={"scoreScale": scale})


CHOSEN_FILTERS = st.permutations(range(len(FILTERS))).flatmap(
    lambda order: st.integers(1, len(order)).map(lambda count: tuple(order[:count]))
)
WEIGHTS = st.integers(1, 30)
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
        if all(FILTERS[number].passes(of, labels, name) for number in chosen)
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
        name: sum(weight * SCORES[number].of(of, labels, everyone) for number, weight in chosen)
        for name, labels in nodes.items()
    }
    assert [host["Host"] for host in answer] == list(nodes)
    # A tenth, as kube-scheduler multiplies by ten; halves go up.
    assert [host["Score"] for host in answer] == [(total + 5) // 10 for total in sums.values()]


@pytest.mark.slow
@given(MODES, CHOSEN_FILTERS, CHOSEN_SCORES, POD_LABELS, NODES, st.randoms(use_true_random=False))
def test_no_answer_depends_on_the_order_of_the_nodes(
    mode: str,
    filters: tuple[int, ...],
    scores: tuple[tuple[int, int], ...],
    of: Labels,
    nodes: Mapping[str, Labels],
    draw: Any,
) -> None:
    names = list(nodes)
    draw.shuffle(names)
    shuffled = {name: nodes[name] for name in names}
    server = server_of(filters, scores)

    def answers(order: Mapping[str, Labels]) -> tuple[Any, ...]:
        filtered = asked(server, "filter", mode, of, order)
        scored = asked(server, "prioritize", mode, of, order)
        return set(filtered.kept), filtered.rejected, filtered.unresolvable, scored.scores

    assert answers(shuffled) == answers(nodes)


@pytest.mark.slow
@given(MODES, WEIGHTS, st.sampled_from(["additive", "strict10"]), POD_LABELS, NODES)
def test_normalised_scores_keep_the_order_of_the_raw_ones_within_the_scale(
    mode: str, weight: int, scale: str, of: Labels, nodes: Mapping[str, Labels]
) -> None:
    server = server_of((), ((2, weight),), scale)
    answer = asked(server, "prioritize", mode, of, nodes).json
    most = 10 if scale == "strict10" else 10 * weight
    assert all(0 <= host["Score"] <= most for host in answer)
    # Reversed: the higher the rank, the lower the score.
    by_rank = sorted((-rank(nodes[host["Host"]]), host["Score"]) for host in answer)
    assert [score for _, score in by_rank] == sorted(host["Score"] for host in answer)
