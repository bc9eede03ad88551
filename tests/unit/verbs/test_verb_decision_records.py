"""The record of what verbs decided about each pod: what it says, and what it may cost."""

import array
import asyncio
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import orjson
import pytest

from kubextend import core
from kubextend.decisions import DecisionReader, ServerFacts
from kubextend.errors import PluginError
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.plugins.coscheduling import Coscheduling
from kubextend.plugins.label_match import LabelMatch
from kubextend.profile import PluginScores
from kubextend.profile.run_in_progress import PluginCall
from kubextend.testing import Cluster, make_node, make_pod
from kubextend.verbs.decision_records import (
    AskedNodes,
    Decisions,
    VerbCall,
    Verdicts,
    kept_nodes,
    kept_scores,
)
from kubextend.verbs.filter_outside_request import filter_anew

MOST_BYTES = 400_000
RULES = {"filters": [{"nodeSelector": "disk=ssd", "reason": "no ssd"}]}


def reader_of(cluster: Cluster) -> DecisionReader:
    verbs = cluster.verbs
    facts = ServerFacts(verbs.profiles, ["filter"], dict, verbs.limits.breakers.health)
    return DecisionReader(
        verbs.decisions, verbs.waiting_pods, facts, filter_anew, lambda ask: ask()
    )


def read(cluster: Cluster, name: str) -> Any:
    return json.loads(json.dumps(reader_of(cluster).pod("", "default", name), default=str))


def last_calls(cluster: Cluster, name: str = "a") -> Any:
    return read(cluster, name)["attempts"][0]["calls"]


class Raises:
    name = "Raises"

    def filter(self, *_: object) -> None:
        message = "broken"
        raise ValueError(message)


class Doubles:
    """Scores a node by its place in the list; NormalizeScore doubles that."""

    name = "Doubles"

    def score_nodes(self, _state: object, _pod: core.Pod, nodes: core.Nodes) -> list[int]:
        return list(range(len(nodes)))

    def normalize_score(self, _state: object, _pod: core.Pod, scores: list[int]) -> list[int]:
        return [2 * score for score in scores]


class RefusesPermit:
    name = "RefusesPermit"

    def permit(self, *_: object) -> Status:
        return Status.unschedulable("over budget")


def test_the_nodes_that_a_plugin_rejected_are_counted_with_plugin_and_reason() -> None:
    nodes = [make_node("a", labels={"disk": "ssd"}), make_node("b"), make_node("c")]
    cluster = Cluster(LabelMatch, nodes=nodes, args={"LabelMatch": RULES})
    cluster.filter(make_pod("a"))
    (call,) = last_calls(cluster)
    assert (call["verb"], call["nodes"]["nodes"], call["nodes"]["passed"]) == ("filter", 3, 1)
    (group,) = call["nodes"]["rejected"]
    assert (group["plugin"], group["reason"], group["nodes"]) == ("LabelMatch", "no ssd", 2)
    assert group["examples"] == ["b", "c"]


def test_a_pod_that_fits_nowhere_is_told_what_the_nearest_nodes_lack() -> None:
    cluster = Cluster(LabelMatch, nodes=2, args={"LabelMatch": RULES})
    cluster.filter(make_pod("a"))
    near = read(cluster, "a")["nearest"]
    assert [each["node"] for each in near] == ["node-0", "node-1"]
    assert near[0]["lacks"][0]["lacks"] == "labels that match disk=ssd"


def test_a_plugin_that_hangs_in_unblock_says_nothing_and_keeps_nobody_waiting() -> None:
    def too_late(_: object) -> str:
        raise TimeoutError

    cluster = Cluster(LabelMatch, nodes=1, args={"LabelMatch": RULES})
    cluster.filter(make_pod("a"))
    found: Any = replace(reader_of(cluster), in_time=too_late).pod("", "default", "a")
    (near,) = found["nearest"]
    assert [each["lacks"] for each in near["lacks"]] == [""]
    assert [each["reason"] for each in near["lacks"]] == ["no ssd"]


def test_raw_normalised_and_weighted_scores_of_any_node_are_kept() -> None:
    cluster = Cluster(Doubles(), nodes=4, weights={"Doubles": 3})
    cluster.prioritize(make_pod("a"))
    (call,) = last_calls(cluster)
    assert [each["node"] for each in call["nodes"]["best"]] == [f"node-{n}" for n in (3, 2, 1, 0)]
    uid = read(cluster, "a")["pod"]["uid"]
    (node,) = (reader_of(cluster).nodes(uid, {"node": "node-2"}) or {})["items"]  # type: ignore[misc]
    assert node["scores"] == {"Doubles": {"raw": 2, "normalized": 4, "weighted": 12}}


def test_a_plugin_that_fails_is_named_with_what_it_raised() -> None:
    cluster = Cluster(Raises(), nodes=2)
    cluster.filter(make_pod("a"))
    (call,) = last_calls(cluster)
    assert call["failed"] == {
        "plugin": "Raises",
        "extensionPoint": "Filter",
        "detail": "ValueError: broken",
    }


def test_a_bind_that_permit_rejects_names_the_plugin_and_is_done() -> None:
    cluster = Cluster(RefusesPermit(), nodes=1)
    cluster.bind(make_pod("a"), "node-0")
    (call,) = last_calls(cluster)
    assert call["rejectedBy"] == {"plugin": "RefusesPermit", "extensionPoint": "Permit"}
    assert (call["error"], call["done"], call["node"]) == ("over budget", True, "node-0")


def test_a_held_pod_is_under_way_and_says_which_members_its_gang_lacks() -> None:
    labels = {
        "scheduling.x-k8s.io/pod-group": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    first, second = make_pod("a", labels=labels), make_pod("b", labels=labels)
    cluster = Cluster(Coscheduling, nodes=2, pods=[first, second])
    cluster.bind(first, "node-0")
    found = read(cluster, "a")
    assert found["attempts"][0]["calls"][-1]["done"] is False
    assert found["waiting"]["pendingPlugins"] == ["Coscheduling"]
    assert found["lacks"][0]["lacks"].startswith("a node for 1 more pods of the pod group g")


def test_a_bind_whose_client_has_gone_says_so() -> None:
    class Holds:
        name = "Holds"

        async def permit(self, *_: object) -> tuple[Status, float]:
            return Status.wait(), 60.0

    pod = make_pod("a")
    cluster = Cluster(Holds, pods=[pod])
    names = {"PodName": "a", "PodNamespace": "default", "PodUID": pod.uid, "Node": "node-0"}

    async def given_up() -> None:
        task = asyncio.ensure_future(cluster.verbs.bind(json.dumps(names).encode()))
        while not len(cluster.verbs.waiting_pods):  # noqa: ASYNC110  nobody is told
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(given_up())
    assert last_calls(cluster)[-1]["error"].startswith("the bind request was given up")


def test_the_last_four_attempts_are_kept_newest_first() -> None:
    cluster = Cluster(LabelMatch, nodes=2, args={"LabelMatch": RULES})
    pod = make_pod("a")
    for number in range(6):
        cluster.filter(pod, ["node-0"] if number == 5 else None)
    attempts = read(cluster, "a")["attempts"]
    assert [each["calls"][0]["nodes"]["nodes"] for each in attempts] == [1, 2, 2, 2]


def test_the_nodes_that_are_told_are_those_of_the_last_attempt() -> None:
    cluster = Cluster(LabelMatch, nodes=2, args={"LabelMatch": RULES})
    pod = make_pod("a")
    cluster.filter(pod)
    cluster.filter(pod, ["node-1"])
    (node,) = (reader_of(cluster).nodes(pod.uid, {}) or {})["items"]  # type: ignore[misc]
    assert node["node"] == "node-1"


def test_what_a_bind_ended_with_counts_as_memory_and_its_plugins_count_once() -> None:
    decisions, pod, call = Decisions(), pod_of("a"), VerbCall("bind")
    decisions.add(pod, call)
    before = decisions.held_bytes
    call.error, call.plugins = "x" * 1000, {PluginCall("Holds", "Permit"): 2.0}
    decisions.bind_ended(pod.uid, call)
    assert decisions.held_bytes >= before + 1000
    assert decisions.durations() == {PluginCall("Holds", "Permit"): [2.0]}


def test_the_plugins_of_a_quick_bind_count_once() -> None:
    class Reserves:
        name = "Reserves"

        async def reserve(self, *_: object) -> None: ...

        async def unreserve(self, *_: object) -> None: ...

    cluster = Cluster(Reserves)
    cluster.schedule(make_pod("a"))
    (times,) = cluster.verbs.decisions.durations().values()
    assert len(times) == 1


def test_of_two_pods_of_one_name_the_one_with_the_later_call_is_found() -> None:
    decisions = Decisions(MOST_BYTES)
    for uid in ("before", "recreated"):
        decisions.add(pod_of("a", uid=uid), VerbCall("filter"))
    found = decisions.find(namespace="ns", name="a")
    assert found is not None
    assert found.pod.uid == "recreated"


def pod_of(name: str, namespace: str = "ns", size: int = 0, uid: str = "") -> core.Pod:
    annotations = {"a": "x" * size}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"u-{name}",
        "annotations": annotations,
    }
    event = json.dumps({"type": "ADDED", "object": {"metadata": metadata, "spec": {}}})
    found = core.PodStore().apply(event.encode()).pod
    assert found is not None
    return found


def test_all_records_together_stay_within_the_limit() -> None:
    decisions = Decisions(MOST_BYTES)
    for number in range(2_000):
        decisions.add(pod_of(f"p{number}"), VerbCall("filter"))
    assert 0 < decisions.held_bytes <= MOST_BYTES
    assert decisions.find("u-p1999") is not None
    assert decisions.find("u-p0") is None


def test_a_namespace_of_many_pods_pushes_out_its_own_records_alone() -> None:
    decisions = Decisions(MOST_BYTES)
    decisions.add(pod_of("quiet", "quiet"), VerbCall("filter"))
    for number in range(2_000):
        decisions.add(pod_of(f"p{number}", "loud", 500), VerbCall("filter"))
    assert decisions.find("u-quiet") is not None


class QuotesThePod:
    """Rejects every node with a text of the pod's, which JSON in an annotation may hold."""

    name = "QuotesThePod"
    said: Any = "team \ud800"

    def filter(self, *_: object) -> Status:
        return Status.unschedulable("no such team", self.said)


@pytest.mark.parametrize("said", ["team \ud800", 5, None])
def test_a_detail_that_no_json_may_hold_does_not_hide_the_record(
    said: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QuotesThePod, "said", said)
    cluster = Cluster(QuotesThePod, nodes=2)
    cluster.filter(make_pod("a"))
    answer = orjson.loads(orjson.dumps(reader_of(cluster).pod("", "default", "a"), default=str))
    groups = answer["attempts"][0]["calls"][0]["nodes"]["rejected"]
    assert [group["reason"] for group in groups] == ["no such team"]
    cluster.verbs.decisions._now = lambda: 1e12
    cluster.verbs.decisions.settle_old()
    assert last_calls(cluster)[0]["nodes"]["rejected"] == groups


def test_the_texts_of_plugins_count_before_and_after_ten_minutes() -> None:
    cluster = Cluster(QuotesThePod, nodes=2)
    cluster.filter(make_pod("a"))
    decisions = cluster.verbs.decisions
    brief = decisions.held_bytes
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(QuotesThePod, "said", "x" * 100_000)
        cluster.filter(make_pod("b"))
    assert decisions.held_bytes > 2 * brief + 99_000
    decisions._now = lambda: 1e12
    decisions.settle_old()
    assert 1024 < decisions.held_bytes < 2 * brief + 2048


@pytest.mark.parametrize("kind", ["error", "note", "detail"])
def test_what_a_call_says_in_words_counts(kind: str) -> None:
    def held_bytes(said: str) -> int:
        call = VerbCall("bind", **({} if kind == "detail" else {kind: said}))  # type: ignore[arg-type]
        if kind == "detail":
            call.blame(PluginError("Raises", "Bind", said))
        decisions = Decisions()
        decisions.add(make_pod("a", uid="u"), call)
        return decisions.held_bytes

    assert held_bytes("x" * 1001) >= held_bytes("x") + 1000


@pytest.mark.parametrize(
    ("name_chars", "reasons", "plugins"),
    [(20, 1, 0), (20, 1, 5), (253, 1, 8), (20, 64, 0), (253, 64, 0), (63, 0, 20)],
)
def test_settled_records_take_about_the_bytes_that_are_counted(
    name_chars: int, reasons: int, plugins: int
) -> None:
    count = 64
    names = [f"n{row}".ljust(name_chars, "x") for row in range(count)]
    asked = AskedNodes(count, packed=orjson.dumps(names))
    masks = [core.Mask([row % reasons == own for row in range(count)]) for own in range(reasons)]
    scores = [
        PluginScores(f"Plugin{own}", 1, [50] * count, [999] * count) for own in range(plugins)
    ]
    decisions = Decisions(most_bytes=1 << 40, now=lambda: 1e12)
    tracemalloc.start()
    for number in range(40):
        pod = make_pod(f"p{number}", uid=f"u{number}")
        for attempt in range(4):
            said = [Status.unschedulable(f"{number} {attempt} {row}") for row in range(reasons)]
            rejections = [Rejection(*each) for each in zip(masks, said, strict=True)]
            told = [(each.nodes, each.status.reason, False) for each in rejections[:8]]
            call = VerbCall("prioritize", Verdicts(asked, None, rejections, told, scores))
            call.plugins = {PluginCall(each.plugin, "Score"): 0.1 for each in scores}
            decisions.add(pod, call)
    # What is still in use of the calls themselves would count too.
    del call, told, rejections, said
    decisions.settle_old()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert decisions.held_bytes / 1.5 < taken < 1.5 * decisions.held_bytes


def test_scores_from_0_to_255_take_a_byte_for_each_node() -> None:
    count = 1000
    small = core.checked_scores([number % 101 for number in range(count)])
    large = memoryview(array.array("q", range(count)))
    listed = [7] * count
    held = []
    for final, raw in [(small, small), (small, large), (listed, listed)]:
        (kept,) = kept_scores([PluginScores("Scores", 2, final, raw)])
        assert (kept.plugin, kept.weight) == ("Scores", 2)
        assert (list(kept.scores), list(kept.raw)) == (list(final), list(raw))
        held.append(Verdicts(AskedNodes(count, packed=b"[]"), scores=[kept]).held_bytes - 2)
    assert held == [count, 9 * count, 8 * count]


def test_names_that_the_store_does_not_know_are_counted_with_the_record() -> None:
    """Whoever connects to kubextend chooses how many and how long they are."""
    names = [f"{number}".ljust(number, "x") for number in range(1_000)]
    nodes = core.NodeStore().select(names)
    kept = VerbCall("filter", Verdicts(AskedNodes(len(nodes), kept_nodes(nodes, names_mode=True))))
    named = sum(len(name) for name in names)
    assert named <= kept.verdicts.held_bytes <= named + 1_000 * 64


@pytest.mark.parametrize("names_mode", [True, False])
def test_many_names_do_not_wait_uncounted(names_mode: bool) -> None:
    decisions = Decisions(most_bytes=MOST_BYTES)
    for number in range(20):
        nodes = core.NodeStore().select([f"{row}".ljust(200, "x") for row in range(1_000)])
        kept = kept_nodes(nodes, names_mode=names_mode)
        decisions.add(make_pod(f"p{number}", uid=f"u{number}"), VerbCall("filter", Verdicts(kept)))
        assert len(decisions._inbox) == 0
    assert 0 < decisions.held_bytes <= MOST_BYTES


def test_names_of_whole_nodes_take_about_the_bytes_that_are_counted() -> None:
    bodies = {"Pod": {"metadata": {}}, "Nodes": {"items": [{"metadata": {"name": "n" * 200}}] * 40}}
    nodes = core.read_args(json.dumps(bodies).encode(), core.RequestStore()).nodes
    assert nodes is not None
    tracemalloc.start()
    kept = [kept_nodes(nodes, names_mode=False) for _ in range(20)]
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 1.5 * sum(each.held_bytes for each in kept if isinstance(each, AskedNodes))


@pytest.mark.parametrize("raw", [2**63, -(2**63) - 1, 2**70, -(2**64), float("inf")])
def test_a_raw_score_that_no_json_may_hold_does_not_hide_the_record(raw: Any) -> None:
    class ScoresAnything:
        name = "ScoresAnything"

        def score_nodes(self, _state: object, _pod: core.Pod, nodes: core.Nodes) -> list[int]:
            return [raw] * len(nodes)

        def normalize_score(self, *_: object) -> list[int]:
            return [7, 7]

    cluster = Cluster(ScoresAnything(), nodes=2)
    cluster.prioritize(make_pod("a"))
    answer = orjson.loads(orjson.dumps(reader_of(cluster).pod("", "default", "a"), default=str))
    best = answer["attempts"][0]["calls"][0]["nodes"]["best"]
    assert [each["scores"]["ScoresAnything"]["raw"] for each in best] == [7, 7]


def test_a_plugin_that_is_left_out_keeps_no_frames_in_memory() -> None:
    class ScoreRaises:
        name = "ScoreRaises"

        def score(self, *_: object) -> int:
            raise ValueError

    cluster = Cluster(ScoreRaises, nodes=2)
    cluster.prioritize(make_pod("a"))
    record = cluster.verbs.decisions.find("", "default", "a")
    assert record is not None
    assert record.last.left_out == [PluginCall("ScoreRaises", "Score")]
    assert last_calls(cluster)[0]["leftOut"] == ["ScoreRaises"]


def test_a_deleted_pod_has_no_record() -> None:
    cluster = Cluster(LabelMatch, nodes=2, args={"LabelMatch": RULES})
    cluster.filter(make_pod("a"))
    uid = read(cluster, "a")["pod"]["uid"]
    cluster.verbs.decisions.forget(uid)
    assert read(cluster, "a")["attempts"] == []


def test_ten_minutes_later_the_counts_are_kept_and_the_nodes_are_not() -> None:
    now = [0.0]
    cluster = Cluster(LabelMatch, nodes=2, args={"LabelMatch": RULES})
    cluster.filter(make_pod("a"))
    decisions = cluster.verbs.decisions
    before = last_calls(cluster)[0]["nodes"]
    held_bytes = decisions.held_bytes
    decisions._now = lambda: now[0]
    now[0] = decisions.find("", "default", "a").last.at_s + 601  # type: ignore[union-attr]
    decisions.settle_old()
    assert last_calls(cluster)[0]["nodes"] == before
    assert decisions.held_bytes < held_bytes
    uid = read(cluster, "a")["pod"]["uid"]
    assert (reader_of(cluster).nodes(uid, {}) or {})["kept"] is False


def test_of_whole_nodes_only_the_names_are_kept() -> None:
    nodes = core.read_args(
        json.dumps(
            {"Pod": {"metadata": {}}, "Nodes": {"items": [{"metadata": {"name": "n"}}]}}
        ).encode(),
        core.RequestStore(),
    ).nodes
    assert nodes is not None
    kept = kept_nodes(nodes, names_mode=False)
    assert isinstance(kept, AskedNodes)
    assert (kept.names, kept.latest) == (["n"], None)


def test_neither_filter_nor_prioritize_records_a_call_that_has_no_turn() -> None:
    cluster = Cluster(LabelMatch, Doubles(), nodes=2, args={"LabelMatch": RULES})
    decisions = cluster.verbs.decisions
    decisions.has_turn = lambda *_, **__: False  # type: ignore[method-assign]
    cluster.filter(make_pod("a"))
    assert len(decisions) == 0
    cluster.prioritize(make_pod("b"))
    assert len(decisions) == 0


def test_a_pod_without_a_node_is_recorded_when_other_pods_have_used_up_the_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kubextend.verbs.decision_records.time.monotonic", lambda: 100.0)
    nodes = [make_node("ssd", labels={"disk": "ssd"}), make_node("other")]
    cluster = Cluster(LabelMatch, nodes=nodes, args={"LabelMatch": RULES})
    decisions = cluster.verbs.decisions
    while decisions.has_turn("filter"):
        pass
    cluster.filter(make_pod("fits"))
    cluster.filter(make_pod("rejected"), ["other"])
    assert decisions.find(namespace="default", name="fits") is None
    assert last_calls(cluster, "rejected")[0]["nodes"]["passed"] == 0


def test_nothing_is_recorded_where_the_record_is_turned_off() -> None:
    cluster = Cluster(LabelMatch, nodes=2, args={"LabelMatch": RULES})
    cluster.verbs.decisions.records = False
    cluster.filter(make_pod("a"))
    assert len(cluster.verbs.decisions) == 0


def test_the_nodes_of_two_hundred_calls_a_second_are_kept_and_then_as_time_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("kubextend.verbs.decision_records.time.monotonic", lambda: now[0])
    decisions = Decisions()
    turns = [decisions.has_turn("filter") for _ in range(300)]
    assert turns.count(True) == 200
    now[0] += 0.5
    turns = [decisions.has_turn("filter") for _ in range(300)]
    assert turns.count(True) == 100
    # What nobody used for a while is not saved up.
    now[0] += 60.0
    turns = [decisions.has_turn("filter") for _ in range(300)]
    assert turns.count(True) == 200


def test_the_records_are_complete_since_the_last_call_without_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("kubextend.verbs.decision_records.time.time", lambda: now[0])
    decisions = Decisions(MOST_BYTES, now=lambda: now[0])
    assert decisions.complete_since_s == 1_000.0
    pods = 0
    while len(decisions) == pods:
        now[0] = 1_900.0 + pods
        large = make_pod(f"p{pods}", annotations={"a": "x" * 20_000})
        decisions.add(large, VerbCall("filter"))
        pods += 1
    assert pods > 2
    now[0] = 2_000.0
    # The record of the first pod is gone; kube-scheduler tells of an attempt after its last call.
    assert decisions.complete_since_s == 1_910.0
    for _ in range(300):
        decisions.has_turn("filter")
    assert decisions.complete_since_s == 2_010.0
    assert Decisions(0).complete_since_s is None


def test_the_answer_about_a_pod_says_since_when_there_are_records() -> None:
    cluster = Cluster(LabelMatch, nodes=1, args={"LabelMatch": RULES})
    cluster.verbs.decisions._complete_since_s = 60.0
    reader = reader_of(cluster)

    def since(decides_since_s: float | None) -> Any:
        facts = replace(reader.facts, decides_since_s=lambda: decides_since_s)
        answer: Any = replace(reader, facts=facts).pod("", "default", "a")
        found = answer["kubextend"]["recordsSince"]
        return found and found.timestamp()

    assert since(0.0) == 60.0
    # Before this replica led, kube-scheduler asked another one.
    assert since(90.0) == 90.0
    assert since(None) is None


def test_calls_about_large_pods_do_not_wait_uncounted() -> None:
    decisions = Decisions(MOST_BYTES)
    for number in range(20):
        large = make_pod(f"p{number}", annotations={"a": "x" * 100_000})
        decisions.add(large, VerbCall("filter"))
        assert len(decisions._inbox) == 0
    assert decisions.held_bytes <= MOST_BYTES
