"""Filter, PostFilter, PreScore, Score and NormalizeScore, as kube-scheduler 1.36 runs them."""

import json
from typing import Any

import pytest
from profile_world import Said, rejecting, request, state

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import PreFilterResult
from kubextend.framework.status import Code, Status
from kubextend.profile import BindingPlugins, Profile


def test_the_first_plugin_that_rejects_a_node_gives_its_status() -> None:
    pod, nodes = request("x", "y", "z")
    first = Said("A", [], filter_nodes=rejecting(nodes, ["x"], Status.unschedulable("a")))
    second = Said("B", [], filter_nodes=rejecting(nodes, ["x", "y"], Status.unresolvable("b")))
    outcome = Profile("s", filter=[first, second]).find_nodes_that_fit(state(), pod, nodes)
    assert outcome.kept.indices() == [2]
    said = [(r.nodes.indices(), r.status.code, r.status.reason) for r in outcome.rejections]
    assert said == [
        ([0], Code.UNSCHEDULABLE, "a"),
        ([1], Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "b"),
    ]


def test_a_plugin_at_several_points_is_one_plugin_of_its_profile() -> None:
    many: Any = Said("A", [], pre_filter=None, filter_nodes=[], score_nodes=[], reserve=None)
    other: Any = Said("B", [], filter_nodes=[])
    profile = Profile(
        "s",
        filter=[many, other],
        score=[(many, 1)],
        pre_filter=[many],
        binding=BindingPlugins(reserve=[many]),
    )
    assert profile.plugins == [many, other]


def test_no_plugin_is_asked_once_no_node_is_left() -> None:
    pod, nodes = request("x")
    diary: list[str] = []
    first = Said("A", diary, filter_nodes=rejecting(nodes, ["x"], Status.unschedulable("a")))
    second = Said("B", diary, filter_nodes=[])
    Profile("s", filter=[first, second]).find_nodes_that_fit(state(), pod, nodes)
    assert diary == ["A.filter_nodes"]


PER_NODE: dict[str, tuple[Any, list[bool], str]] = {
    "none passes": (None, [True, True], ""),
    "success passes": (Status.success(), [True, True], ""),
    "unschedulable": (Status.unschedulable("u"), [False, False], "u"),
    "unresolvable": (Status.unresolvable("r"), [False, False], "r"),
    "pending": (Status.pending("p"), [False, False], "p"),
}


@pytest.mark.parametrize(("answer", "kept", "reason"), PER_NODE.values(), ids=PER_NODE)
def test_what_a_per_node_filter_may_say(answer: Any, kept: list[bool], reason: str) -> None:
    pod, nodes = request("x", "y")
    outcome = Profile("s", filter=[Said("A", [], filter=answer)]).find_nodes_that_fit(
        state(), pod, nodes
    )
    assert list(outcome.kept) == kept
    assert [r.status.reason for r in outcome.rejections] == ([reason] if reason else [])


@pytest.mark.parametrize("code", [Code.ERROR, Code.WAIT, Code.SKIP])
def test_a_filter_that_says_anything_else_has_failed(code: Code) -> None:
    pod, nodes = request("x")
    plugin = Said("A", [], filter=Status(code, "why"))
    with pytest.raises(PluginError, match='running "A" Filter plugin'):
        Profile("s", filter=[plugin]).find_nodes_that_fit(state(), pod, nodes)


class Even:
    name = "Even"

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        del state, pod
        return None if int(node.name) % 2 == 0 else Status.unschedulable("odd")

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        del state, pod
        return int(node.name)


def test_a_per_node_plugin_sees_each_node_once_and_in_order() -> None:
    pod, nodes = request(*(str(number) for number in range(100)))
    profile = Profile("s", filter=[Even()], score=[(Even(), 1)])
    outcome = profile.find_nodes_that_fit(state(), pod, nodes)
    assert outcome.kept.indices() == list(range(0, 100, 2))
    scores, _ = profile.run_score_plugin(profile.score[0][0], state(), pod, nodes)
    assert list(scores) == list(range(100))


POST_FILTER: dict[str, tuple[Any, Any, str, Code]] = {
    "unschedulable goes on": (Status.unschedulable("a"), None, "AB", Code.SUCCESS),
    "success ends it": (None, None, "A", Code.SUCCESS),
    "unresolvable ends it": (
        *(Status.unresolvable("never"), None, "A", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
    ),
    "all unschedulable": (
        *(Status.unschedulable("a"), Status.unschedulable("b"), "AB", Code.UNSCHEDULABLE),
    ),
}


@pytest.mark.parametrize("case", POST_FILTER.values(), ids=POST_FILTER)
def test_post_filter_runs_until_one_has_an_answer(case: Any) -> None:
    first, second, called, code = case
    pod, _ = request("x")
    diary: list[str] = []
    plugins = [Said("A", diary, post_filter=first), Said("B", diary, post_filter=second)]
    said = Profile("s", post_filter=plugins).run_post_filter_plugins(state(), pod, [])
    assert diary == [f"{name}.post_filter" for name in called]
    assert said.code is code


def test_a_post_filter_error_is_the_plugins_failure() -> None:
    pod, _ = request("x")
    plugin = Said("A", [], post_filter=Status.error("broken"))
    with pytest.raises(PluginError, match='running "A" PostFilter plugin: broken'):
        Profile("s", post_filter=[plugin]).run_post_filter_plugins(state(), pod, [])


def test_pre_score_skip_is_kept_in_the_state_and_a_rejection_is_a_failure() -> None:
    pod, nodes = request("x")
    profile = Profile("s")
    attempt = state()
    profile.run_pre_score_plugin(Said("A", [], pre_score=Status.skip()), attempt, pod, nodes)
    assert attempt.skip_score_plugins == {"A"}
    for status in (Status.unschedulable("late"), Status.error("late"), Status.pending("late")):
        with pytest.raises(
            PluginError,
            match=r'"B" PreScore plugin: .*late',
        ):
            profile.run_pre_score_plugin(Said("B", [], pre_score=status), attempt, pod, nodes)


SCORES: dict[str, tuple[Any, Any, list[int] | str]] = {
    "in range": ([0, 100], None, [0, 100]),
    "normalized into the range": ([7, 700], [1, 100], [1, 100]),
    "below the range": ([-1, 5], None, '"A" Score plugin: .*-1'),
    "above the range": ([0, 101], None, '"A" Score plugin: .*101'),
    "normalized out of the range": ([0, 1], [0, 1000], '"A" NormalizeScore plugin: .*1000'),
    "too few": ([1], None, '"A" Score plugin: .*1 scores for 2 nodes'),
    "not integers": ([1.5, 2.0], None, '"A" Score plugin: TypeError'),
    "bytes": (b"\x01\x02", None, '"A" Score plugin: TypeError'),
    "none": (None, None, '"A" Score plugin: TypeError'),
}


@pytest.mark.parametrize(("scores", "normalized", "expected"), SCORES.values(), ids=SCORES)
def test_scores_are_checked_after_normalize(scores: Any, normalized: Any, expected: Any) -> None:
    pod, nodes = request("x", "y")
    answers = {"score_nodes": scores}
    if normalized is not None:
        answers["normalize_score"] = normalized
    plugin: Any = Said("A", [], **answers)
    profile = Profile("s", score=[(plugin, 1)])
    if isinstance(expected, str):
        with pytest.raises(PluginError, match=expected):
            profile.run_score_plugin(plugin, state(), pod, nodes)
    else:
        assert list(profile.run_score_plugin(plugin, state(), pod, nodes)[0]) == expected


@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(3), BaseException("y")])
@pytest.mark.parametrize("point", ["pre_filter", "filter_nodes", "filter"])
def test_whatever_a_plugin_raises_is_its_own_failure(raised: BaseException, point: str) -> None:
    pod, nodes = request("x")
    plugin: Any = Said("A", [], **{point: raised})
    where = {"pre_filter": [plugin]} if point == "pre_filter" else {"filter": [plugin]}
    with pytest.raises(PluginError, match=type(raised).__name__):
        Profile("s", **where).find_nodes_that_fit(state(), pod, nodes)


class Judges:
    """Looks at one node after the other, and knows only some of them."""

    name = "Judges"

    def __init__(self, *known: str) -> None:
        self.known = known

    def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> Status | None:
        if node.name not in self.known:
            raise KeyError(node.name)
        return Status.unschedulable("no") if node.name == "y" else None


def test_a_per_node_filter_is_not_asked_about_a_node_that_is_rejected_already() -> None:
    pod, nodes = request("x", "y", "z")
    first = Said("A", [], filter_nodes=rejecting(nodes, ["x"], Status.unschedulable("a")))
    outcome = Profile("s", filter=[first, Judges("y", "z")]).find_nodes_that_fit(
        state(), pod, nodes
    )
    assert outcome.kept.indices() == [2]
    said = [(r.nodes.indices(), r.status.reason) for r in outcome.rejections]
    assert said == [([0], "a"), ([1], "no")]


def test_a_per_node_filter_is_asked_only_about_what_its_pre_filter_left() -> None:
    pod, nodes = request("x", "y", "z")
    judges = Judges("z")
    narrows = Said("Judges", [], pre_filter=PreFilterResult(frozenset({"z"})))
    outcome = Profile("s", pre_filter=[narrows], filter=[judges]).find_nodes_that_fit(
        state(), pod, nodes
    )
    assert outcome.kept.indices() == [2]


class Reads:
    """A filter that reads the labels of the pods on a node, and those of the pod that asks."""

    name = "Reads"
    needs_pods = True

    def filter(self, _state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        labels = [each.labels for each in node.pods if pod.labels is not None]
        return Status.unschedulable("no") if {"away": "yes"} in labels else None


def with_large_labels(name: str, node: str, labels: dict[str, str]) -> bytes:
    made = {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"nodeName": node}}
    return json.dumps({"type": "ADDED", "object": made}).encode()


def test_a_pod_that_is_too_large_to_keep_stops_its_node_and_no_other() -> None:
    store = core.PodStore(max_pod_bytes=4096)
    store.apply(with_large_labels("small", "x", {"away": "yes"}))
    large = store.apply(
        with_large_labels("large", "y", {f"k{number}": "v" for number in range(1000)})
    )
    pod, nodes = request("w", "x", "y", "z")
    profile = Profile("s", filter=[Reads()], pods=store.snapshot)
    outcome = profile.find_nodes_that_fit(state(), pod, nodes)
    assert outcome.kept.indices() == [0, 3]
    said = [(r.nodes.indices(), r.status.reason) for r in outcome.rejections]
    assert said == [([1], "no"), ([2], "node(s) have a pod that is too large to be judged")]
    # What is not known of the asking pod is not known on any node.
    assert large.pod is not None
    with pytest.raises(PluginError):
        profile.find_nodes_that_fit(state(), large.pod, nodes)


class Counts:
    """A score of each node: how many of its pods have a label; fewer are better."""

    name = "Counts"
    needs_pods = True

    def score(self, _state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        return sum(pod.labels == each.labels for each in node.pods)


class Reversed(Counts):
    name = "Reversed"

    def normalize_score(self, _state: CycleState, _pod: core.Pod, scores: Any) -> list[int]:
        return [100 - 100 * score // max(*scores, 1) for score in scores]


def world_with_a_large_pod_on(*nodes: str) -> core.PodStore:
    store = core.PodStore(max_pod_bytes=4096)
    store.apply(with_large_labels("small", "x", {}))
    for node in nodes:
        large = {f"k{number}": "v" for number in range(1000)}
        store.apply(with_large_labels(f"large-{node}", node, large))
    return store


@pytest.mark.parametrize(
    ("plugin", "large", "expected"),
    [
        (Counts(), "y", [1, 0, 0]),
        (Reversed(), "y", [0, 0, 100]),
        (Reversed(), "xyz", [0, 0, 0]),
    ],
)
def test_a_node_whose_pod_is_too_large_to_keep_has_the_lowest_score_whatever_scores_mean(
    plugin: Counts, large: str, expected: list[int]
) -> None:
    pod, nodes = request("x", "y", "z")
    profile = Profile("s", score=[(plugin, 1)], pods=world_with_a_large_pod_on(*large).snapshot)
    assert list(profile.run_score_plugin(plugin, state(), pod, nodes)[0]) == expected


def test_a_normalize_score_that_loses_a_node_has_failed_beside_a_pod_that_is_too_large() -> None:
    class Loses(Counts):
        def normalize_score(self, _state: CycleState, _pod: core.Pod, scores: Any) -> list[int]:
            return list(scores)[1:]

    pod, nodes = request("x", "y", "z")
    plugin = Loses()
    profile = Profile("s", score=[(plugin, 1)], pods=world_with_a_large_pod_on("y").snapshot)
    with pytest.raises(PluginError, match="1 scores for 3 nodes"):
        profile.run_score_plugin(plugin, state(), pod, nodes)


@pytest.mark.parametrize("answer", [False, 0, "", ()])
def test_a_per_node_filter_that_answers_no_status_has_failed(answer: object) -> None:
    pod, nodes = request("x", "y")
    profile = Profile("s", filter=[Said("A", [], filter=answer)])
    with pytest.raises(PluginError, match='running "A" Filter plugin'):
        profile.find_nodes_that_fit(state(), pod, nodes)


def test_statuses_that_differ_in_their_detail_are_one_rejection() -> None:
    names = [f"n{number}" for number in range(70)]
    pod, nodes = request(*names)

    class Room:
        name = "Room"

        def filter(self, _state: object, _pod: object, node: core.NodeInfo) -> Status | None:
            number = int(node.name[1:])
            if number % 3 == 0:
                return None
            return Status.unschedulable(f"no room {number % 3}", f"{number} of 99")

    outcome = Profile("s", filter=[Room()]).find_nodes_that_fit(state(), pod, nodes)
    assert [each.status.reason for each in outcome.rejections] == ["no room 1", "no room 2"]
    assert [each.nodes.indices() for each in outcome.rejections] == [
        [row for row in range(70) if row % 3 == left] for left in (1, 2)
    ]
    assert outcome.kept.indices() == list(range(0, 70, 3))


def test_a_detail_is_logged_once_for_all_the_nodes_that_have_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pod, nodes = request("x", "y")
    status = Status.unschedulable("no room", "3 of 9 Gb/s")
    plugin = Said("A", [], filter=status)
    caplog.set_level("INFO", "kubextend")
    Profile("s", filter=[plugin]).find_nodes_that_fit(state(), pod, nodes)
    (record,) = [each for each in caplog.records if each.name.endswith(".details")]
    assert record.getMessage() == "pod ml/p, 2 nodes: no room (3 of 9 Gb/s)"
    assert vars(record)["uid"] == "u-p"
