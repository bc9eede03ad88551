"""The quick verbs against plain Python, with native and Python plugins mixed in one profile.

Each plugin stands beside what it has to say of a node, written down once more over dicts.
"""

import array
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import PreFilterResult, Rejection
from kubextend.framework.status import Status
from kubextend.plugins import HighCommPodFilter, LabelMatch, RdmaAware
from kubextend.profile import Profile, Profiles
from kubextend.verbs import Verbs
from make_verbs import make_verbs

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


@dataclass(frozen=True)
class Watched:
    """A node source that is filled for each example."""

    store: core.NodeStore = field(default_factory=core.NodeStore)
    synced: bool = True

    def age_s(self) -> float | None:
        return 0.0


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

WATCHED = Watched()


@lru_cache(256)
def verbs_of(
    filters: tuple[int, ...], scores: tuple[tuple[int, int], ...] = (), scale: Any = "additive"
) -> Verbs:
    """Verbs of these plugins by their numbers, with weights; one for all examples that take it."""
    filtering = [FILTERS[number].plugin for number in filters]
    profile = Profile(
        "default-scheduler",
        pre_filter=[plugin for plugin in filtering if hasattr(plugin, "pre_filter")],
        filter=[plugin for plugin in filtering if not hasattr(plugin, "pre_filter")],
        score=[(SCORES[number].plugin, weight) for number, weight in scores],
    )
    return make_verbs(
        Profiles.of([profile]),
        request_store=core.RequestStore(max_bytes=200_000),
        watched=WATCHED,
        score_scale=scale,
    )


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
    uid = f"uid-{next(UIDS)}"
    return {"metadata": {"name": "p", "namespace": "ml", "uid": uid, "labels": dict(labels)}}


def request(mode: str, pod: Labels, nodes: Mapping[str, Labels]) -> bytes:
    """As kube-scheduler sends it; in names mode the nodes are in the watched store afterwards."""
    items = [{"metadata": {"name": name, "labels": labels}} for name, labels in nodes.items()]
    listed = {"metadata": {}, "items": items}
    if mode == "names":
        WATCHED.store.replace(json.dumps(listed).encode())
    body = {
        "Pod": pod_of(pod),
        "Nodes": None if mode == "names" else listed,
        "NodeNames": list(nodes) if mode == "names" else None,
    }
    return json.dumps(body).encode()


def kept_by(mode: str, answer: Mapping[str, Any]) -> list[str]:
    if mode == "names":
        return list(answer["NodeNames"] or ())
    return [node["metadata"]["name"] for node in answer["Nodes"]["items"] or ()]


@given(MODES, CHOSEN_FILTERS, POD_LABELS, NODES)
def test_filter_keeps_what_passes_in_order_and_rejects_every_other_node_once(
    mode: str, chosen: tuple[int, ...], pod: Labels, nodes: Mapping[str, Labels]
) -> None:
    answer = json.loads(verbs_of(chosen).filter(request(mode, pod, nodes)))
    assert answer["Error"] == ""
    passing = [
        name
        for name, labels in nodes.items()
        if all(FILTERS[number].passes(pod, labels, name) for number in chosen)
    ]
    assert kept_by(mode, answer) == passing
    rejected = [*(answer["FailedNodes"] or ()), *(answer["FailedAndUnresolvableNodes"] or ())]
    assert sorted([*passing, *rejected]) == sorted(nodes)
    reasons = (answer["FailedNodes"] or {}) | (answer["FailedAndUnresolvableNodes"] or {})
    assert all(reasons.values())


@given(CHOSEN_FILTERS, POD_LABELS, NODES)
def test_preempt_leaves_the_candidates_that_filter_keeps(
    chosen: tuple[int, ...], pod: Labels, nodes: Mapping[str, Labels]
) -> None:
    verbs = verbs_of(chosen)
    kept = kept_by("names", json.loads(verbs.filter(request("names", pod, nodes))))
    victims = {name: {"Pods": [{"UID": name}], "NumPDBViolations": 0} for name in nodes}
    asked = {"Pod": pod_of(pod), "NodeNameToMetaVictims": victims}
    left = json.loads(verbs.preempt(json.dumps(asked).encode()))["NodeNameToMetaVictims"]
    assert left == {name: victims[name] for name in kept}


@given(MODES, CHOSEN_SCORES, POD_LABELS, NODES)
def test_prioritize_answers_the_weighted_sum_once_for_each_node_in_order(
    mode: str, chosen: tuple[tuple[int, int], ...], pod: Labels, nodes: Mapping[str, Labels]
) -> None:
    answer = json.loads(verbs_of((), chosen).prioritize(request(mode, pod, nodes)))
    everyone = list(nodes.values())
    sums = {
        name: sum(weight * SCORES[number].of(pod, labels, everyone) for number, weight in chosen)
        for name, labels in nodes.items()
    }
    assert [host["Host"] for host in answer] == list(nodes)
    # A tenth, as kube-scheduler multiplies by ten; halves go up.
    assert [host["Score"] for host in answer] == [(total + 5) // 10 for total in sums.values()]


@given(MODES, CHOSEN_FILTERS, CHOSEN_SCORES, POD_LABELS, NODES, st.randoms(use_true_random=False))
def test_no_answer_depends_on_the_order_of_the_nodes(
    mode: str,
    filters: tuple[int, ...],
    scores: tuple[tuple[int, int], ...],
    pod: Labels,
    nodes: Mapping[str, Labels],
    draw: Any,
) -> None:
    names = list(nodes)
    draw.shuffle(names)
    shuffled = {name: nodes[name] for name in names}
    verbs = verbs_of(filters, scores)

    def answers(order: Mapping[str, Labels]) -> tuple[Any, ...]:
        filtered = json.loads(verbs.filter(request(mode, pod, order)))
        scored = json.loads(verbs.prioritize(request(mode, pod, order)))
        return (
            set(kept_by(mode, filtered)),
            filtered["FailedNodes"],
            filtered["FailedAndUnresolvableNodes"],
            {host["Host"]: host["Score"] for host in scored},
        )

    assert answers(shuffled) == answers(nodes)


@given(MODES, WEIGHTS, st.sampled_from(["additive", "strict10"]), POD_LABELS, NODES)
def test_normalised_scores_keep_the_order_of_the_raw_ones_within_the_scale(
    mode: str, weight: int, scale: str, pod: Labels, nodes: Mapping[str, Labels]
) -> None:
    verbs = verbs_of((), ((2, weight),), scale)
    answer = json.loads(verbs.prioritize(request(mode, pod, nodes)))
    most = 10 if scale == "strict10" else 10 * weight
    assert all(0 <= host["Score"] <= most for host in answer)
    # Reversed: the higher the rank, the lower the score.
    by_rank = sorted((-rank(nodes[host["Host"]]), host["Score"]) for host in answer)
    assert [score for _, score in by_rank] == sorted(host["Score"] for host in answer)
