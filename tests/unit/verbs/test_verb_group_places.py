"""The members of a pod group, of which filter keeps one node each where filters count pods.

kube-scheduler 1.37 calls filter for each member in turn, then bind for each, or begins again.
"""

import asyncio
import json
import logging
import threading
from typing import Any

import pytest
from group_world import FULL, Cluster, Room, member
from verb_world import Scores, counted, group_preempt_request, names_request, watch_event

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import WaitingPods
from kubextend.verbs import group_places
from kubextend.verbs.group_places import GroupPlaces
from skipping_loop import run, skip, until

# What is logged when a bind waits for the binds of a group.
WAITS = "may soon be bound"


def names(count: int, prefix: str = "m") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


class Alone(Room):
    """Lets m0 onto an empty node alone, and other pods onto every node."""

    def filter(self, _state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
        return Status.unschedulable(FULL) if pod.name == "m0" and node.pods else None


def labelled(cluster: Cluster, count: int) -> list[str]:
    """Make the manifests of members with a label, which the watch does not show; return names."""
    for name in names(count):
        cluster.manifests[name] = member(name)
        cluster.manifests[name]["metadata"]["labels"] = {"app": "web"}
    return names(count)


def stored(cluster: Cluster, name: str) -> core.Pod:
    return next(each for each in cluster.pods.store.pods() if each.name == name)


def test_a_gang_of_five_gets_the_five_nodes_with_one_filter_call_for_each_member() -> None:
    cluster = Cluster()
    gang = cluster.create(names(5))
    placed = cluster.place(gang, min_count=5)
    assert sorted(placed.values()) == sorted(cluster.nodes)
    assert set(placed) == set(gang)
    assert cluster.calls == 5


def test_of_a_gang_of_six_for_five_nodes_no_member_is_bound() -> None:
    cluster = Cluster()
    gang = cluster.create(names(6))
    for _ in range(3):
        assert cluster.place(gang, min_count=6) == {}
    assert cluster.binder.bound == []
    assert cluster.calls == 18


def test_the_log_names_the_group_of_a_member_that_fits_no_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster(nodes=("n0",))
    cluster.filter_passes(cluster.create(names(2)))
    assert "pod m1 of pod group ml/g fits no node" in caplog.messages


def test_each_pass_begins_without_the_places_of_the_one_before() -> None:
    cluster = Cluster()
    gang = cluster.create(names(6))
    assert len(cluster.filter_passes(gang)) == 5
    # A dry run of preemption follows at once, and asks about the same members.
    assert len(cluster.filter_passes(gang)) == 5
    cluster.delete("m5")
    assert len(cluster.place(gang[:5], min_count=5)) == 5


def test_no_place_of_an_earlier_pass_keeps_a_member_from_a_node_that_is_better_now() -> None:
    class Best(Scores):
        def score_nodes(self, *args: Any) -> list[int]:
            return [100 if name == best else 0 for name in args[2].names]

    best = "n0"
    cluster = Cluster(nodes=("n0", "n1"), score=[(Best(0), 1)])
    cluster.create(names(3))
    assert cluster.filter_passes(names(3)) == {"m0": "n0", "m1": "n1"}
    best = "n1"
    assert cluster.filter_passes(names(3)) == {"m0": "n1", "m1": "n0"}


def test_a_plugin_that_asks_the_handle_sees_earlier_members_on_their_nodes() -> None:
    class Asks(Room):
        def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[Any]:
            pods = handle.pods(state)
            assert pods is not None
            labelled = handle.labelled_pods("ml", "app", "web", state)
            on = {each.name: each.node_name for each in labelled if each.uid != pod.uid}
            there = {each.name: n for n in nodes.names for each in pods.pods_on(n)}
            seen.append((there, {name: at for name, at in on.items() if at}))
            taken = core.Mask([name in there.values() for name in nodes.names])
            return [Rejection(taken, Status.unschedulable(FULL))]

    seen: list[tuple[dict[str, str], dict[str, str]]] = []
    cluster = Cluster(nodes=("n0", "n1", "n2"), room=Asks())
    handle = Handle(WaitingPods(), ClusterPorts(pods=cluster.pods))
    handle = handle.of("Room", needs_pods=True)
    cluster.pods.showing(*(cluster.manifests[name] for name in labelled(cluster, 3)))
    cluster.filter_passes(names(3))
    expected: list[dict[str, str]] = [{}, {"m0": "n0"}, {"m0": "n0", "m1": "n1"}]
    assert seen == [(each, each) for each in expected]


def test_a_bind_looks_at_the_node_as_filter_saw_it_without_later_members() -> None:
    cluster = Cluster(nodes=("n0",), room=Alone())
    assert len(cluster.place(cluster.create(names(2)), min_count=2)) == 2


def test_a_bind_looks_at_the_node_without_later_members_that_are_bound_already() -> None:
    cluster = Cluster(nodes=("n0",), room=Alone())
    placed = cluster.filter_passes(cluster.create(names(3)))
    assert [cluster.bind(name, placed[name]) for name in ("m2", "m1", "m0")] == ["", "", ""]


def test_a_bind_finds_later_members_by_their_label_without_their_nodes() -> None:
    class All(Room):
        def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
            del pod, node
            found = handle.labelled_pods("ml", "app", "web", state)
            return None if len(found) == 3 else Status.unschedulable("too few pods")

    cluster = Cluster(nodes=("n0",), room=All())
    handle = Handle(WaitingPods(), ClusterPorts(pods=cluster.pods)).of("Room", needs_pods=True)
    cluster.pods.showing(*(cluster.manifests[name] for name in labelled(cluster, 3)))
    placed = cluster.filter_passes(names(3))
    assert [cluster.bind(name, placed[name]) for name in ("m2", "m1", "m0")] == ["", "", ""]


def test_a_bind_looks_at_the_node_without_members_of_the_groups_next_pass() -> None:
    cluster = Cluster(nodes=("n0",), room=Room({"n0": 2}))
    cluster.create(names(3))
    placed = cluster.filter_passes(names(2))
    assert cluster.bind("m1", placed["m1"]) == ""
    cluster.room.places = {"n0": 3}
    # A surplus member, after the first bind.
    assert cluster.filter("m2") == ["n0"]
    assert cluster.bind("m2", "n0") == ""
    cluster.room.places = {"n0": 1}
    assert cluster.bind("m0", placed["m0"]) == ""


def test_members_that_are_all_bound_late_are_bound_in_any_order() -> None:
    cluster = Cluster(nodes=("n0",), room=Alone())
    placed = cluster.filter_passes(cluster.create(names(2)))
    # Volumes.
    cluster.clock.now_s += 300
    cluster.verbs.wake_due()
    assert [cluster.bind(name, placed[name]) for name in ("m1", "m0")] == ["", ""]


def test_a_member_that_the_watch_does_not_show_yet_is_found_by_its_label() -> None:
    class OneWithTheLabel(Room):
        def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
            found = handle.labelled_pods("ml", "app", "web", state)
            others = [each for each in found if each.node_name and each.uid != pod.uid]
            assert node.name
            return Status.unschedulable(FULL) if others else None

    cluster = Cluster(nodes=("n0", "n1"), room=OneWithTheLabel())
    handle = Handle(WaitingPods(), ClusterPorts(pods=cluster.pods)).of("Room", needs_pods=True)
    assert cluster.filter_passes(labelled(cluster, 2)) == {"m0": "n0"}


def test_a_member_that_is_asked_about_first_again_begins_a_pass_without_its_earlier_place() -> None:
    cluster = Cluster(nodes=("n0", "n1"))
    cluster.create(names(3))
    assert cluster.filter_passes(names(3)) == {"m0": "n0", "m1": "n1"}
    # Filters of kube-scheduler reject m0 from now on, so that each pass begins with m2.
    assert cluster.filter("m2") == []
    cluster.clock.now_s += 61
    cluster.verbs.wake_due()
    assert cluster.filter_passes(["m2", "m1"]) == {"m2": "n0", "m1": "n1"}


def preempting(nodes: tuple[str, ...] = ("n0",), http_timeout_s: float = 600.0) -> Cluster:
    """Return nodes, a pod that preempts, and on n0 a victim and the place of a member.

    A node has room for one pod.
    """
    room = Room({"n0": 2})
    cluster = Cluster(nodes=nodes, room=room, http_timeout_s=http_timeout_s)
    cluster.create(["victim", "preempts"], group="")
    cluster.seen_bound("victim", "n0")
    cluster.create(["m0"])
    assert cluster.filter("m0") == ["n0"]
    cluster.room.places = {"n0": 1}
    return cluster


def preempt(cluster: Cluster, body: bytes) -> tuple[list[str], float]:
    """Return the nodes that preempt offers, and for how many seconds it waited before."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        cluster.clock.now_s += seconds

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("kubextend.verbs.preempt.time.sleep", sleep)
        answer = json.loads(cluster.verbs.preempt(body))
    return list(answer["NodeNameToMetaVictims"]), sum(waited)


def offered(cluster: Cluster) -> tuple[list[str], float]:
    """Return the nodes that preempt offers to the pod that preempts, and how long it waited."""
    request = {
        "Pod": cluster.manifests["preempts"],
        "NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "uid-of-victim"}]}},
    }
    return preempt(cluster, json.dumps(request).encode())


def test_a_pod_is_evicted_at_once_for_a_node_that_no_member_has() -> None:
    cluster = preempting()
    cluster.delete("m0")
    assert offered(cluster) == (["n0"], 0)


def test_a_pod_waits_for_the_node_of_a_member_whose_pass_fails() -> None:
    cluster = preempting()
    cluster.clock.now_s += 0.125
    assert offered(cluster) == (["n0"], 0.375)


def test_a_pod_is_evicted_for_no_node_that_a_member_got(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = preempting()
    places = cluster.verbs._places
    decide = places.decide

    def bound_meanwhile(undecided: Any) -> None:
        places.bind_begins("uid-of-m0")
        decide(undecided)

    monkeypatch.setattr(places, "decide", bound_meanwhile)
    assert offered(cluster) == ([], 0.5)


def test_a_pod_that_is_offered_no_node_anyway_does_not_wait_for_a_member() -> None:
    cluster = preempting()
    cluster.room.places = {"n0": 0}
    assert offered(cluster) == ([], 0)


def test_a_pod_that_is_offered_no_node_because_of_bound_members_does_not_wait() -> None:
    cluster = preempting()
    cluster.room.places = {"n0": 2}
    assert cluster.bind("m0", "n0") == ""
    cluster.room.places = {"n0": 1}
    assert offered(cluster) == ([], 0)


def test_a_pod_does_not_wait_for_a_member_for_more_than_a_quarter_of_the_timeout() -> None:
    cluster = preempting(http_timeout_s=1.9)
    assert offered(cluster) == ([], 0)
    cluster = preempting(http_timeout_s=2.0)
    assert offered(cluster) == (["n0"], 0.5)


def test_a_pod_whose_candidate_a_member_took_during_the_request_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(nodes=("n0",), room=Room({"n0": 2}))
    cluster.create(["victim", "preempts"], group="")
    cluster.seen_bound("victim", "n0")
    cluster.create(["m0"])
    places = cluster.verbs._places
    look = places.pods_with_places

    def look_later(*args: Any) -> core.PodSnapshot | None:
        monkeypatch.undo()
        assert cluster.filter("m0") == ["n0"]
        cluster.room.places = {"n0": 1}
        return look(*args)

    monkeypatch.setattr(places, "pods_with_places", look_later)
    assert offered(cluster) == (["n0"], 0.5)


def test_a_pod_waits_for_a_member_though_another_candidate_cannot_be_named() -> None:
    # The answer names no victims on other nodes, so nothing is offered for n1.
    cluster = preempting(("n0", "n1"))
    victims = {
        "n0": {"uid-of-victim": "n0"},
        "n1": {"uid-of-beside": "n1", "uid-of-victim": "n0"},
    }
    body = group_preempt_request(victims, cluster.manifests["preempts"])
    assert preempt(cluster, body) == (["n0"], 0.5)


def test_a_pod_does_not_wait_for_a_candidate_that_cannot_be_named() -> None:
    cluster = preempting(("n0", "n1"))
    victims = {"n0": {"uid-of-victim": "n0", "uid-of-beside": "n1"}}
    body = group_preempt_request(victims, cluster.manifests["preempts"])
    assert preempt(cluster, body) == ([], 0)


def test_a_wait_for_one_group_ends_no_pass_that_came_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> str:
        lone = asyncio.create_task(cluster.binding("lone", "n0"))
        await until(lambda: WAITS in caplog.text)
        later = cluster.create(names(2, "o"), group="other")
        assert cluster.filter_passes(later) == {"o0": "n1", "o1": "n2"}
        await skip(0.5)
        return await lone

    cluster = Cluster(nodes=("n0", "n1", "n2"))
    cluster.create(["lone", "thief"], group="")
    assert "n0" in cluster.filter("lone")
    cluster.create(["m0"])
    assert cluster.filter("m0") == ["n0"]
    assert run(scenario()) == ""
    # The other group's pass is as undecided as before.
    assert cluster.verbs._places.undecided(stored(cluster, "thief"))


def test_of_a_replica_that_ceases_to_lead_no_place_is_left() -> None:
    cluster = Cluster(nodes=("n0",))
    cluster.create(["m0"])
    assert cluster.filter("m0") == ["n0"]
    cluster.verbs.cease_to_lead("another replica leads")
    assert len(cluster.verbs._places) == 0


def test_a_profile_whose_filters_count_no_pods_keeps_all_nodes_of_a_member() -> None:
    cluster = Cluster(counts_pods=False)
    cluster.create(names(2))
    assert cluster.filter("m0") == list(cluster.nodes)
    assert cluster.filter("m1") == list(cluster.nodes)


def test_a_lone_pod_keeps_all_nodes_and_sees_no_places() -> None:
    cluster = Cluster()
    cluster.create(names(3))
    cluster.create(["lone"], group="")
    cluster.filter_passes(names(3))
    assert cluster.filter("lone") == list(cluster.nodes)


def test_the_node_with_the_highest_score_is_kept_and_of_equal_ones_the_first() -> None:
    class ByName(Scores):
        def score_nodes(self, *args: Any) -> list[int]:
            seen.append(args[2].names)
            return [{"n3": 93, "n1": 94, "n4": 94}.get(name, 0) for name in args[2].names]

    seen: list[list[str]] = []
    cluster = Cluster(score=[(ByName(0), 1)])
    cluster.create(names(3))
    assert [cluster.filter(name) for name in names(3)] == [["n1"], ["n4"], ["n3"]]
    # As in kube-scheduler, Score is called for the nodes that filters left.
    assert seen[2] == ["n0", "n2", "n3"]


def test_a_plugin_that_scores_node_by_node_sees_the_places_of_earlier_members() -> None:
    class Spreads:
        name = "Spreads"
        needs_pods = True

        def score(self, _state: Any, _pod: Any, node: core.NodeInfo) -> int:
            return 50 - len(node.pods)

    cluster = Cluster(room=Room({"n0": 3, "n1": 3, "n2": 3}), score=[(Spreads(), 1)])
    cluster.create(names(3))
    # kube-scheduler has assumed the earlier members on their nodes by then.
    assert [cluster.filter(name) for name in names(3)] == [["n0"], ["n1"], ["n2"]]


def test_a_score_plugin_that_fails_is_left_out() -> None:
    class Fails(Scores):
        def score_nodes(self, *_: Any) -> list[int]:
            raise RuntimeError

    cluster = Cluster(score=[(Fails(0, name="Fails"), 1)])
    cluster.create(names(2))
    assert [cluster.filter(name) for name in names(2)] == [["n0"], ["n1"]]
    assert counted(
        cluster.verbs,
        "kubextend_plugin_failures_total",
        plugin="Fails",
        extension_point="Score",
    )


def test_what_filter_says_of_the_nodes_that_it_did_not_choose_may_be_cured_by_preemption() -> None:
    cluster = Cluster(nodes=("n0", "n1", "n2"))
    cluster.create(names(2))
    cluster.filter("m0")
    body = names_request(cluster.nodes, of=member("m1"))
    answer = json.loads(cluster.verbs.filter(body))
    assert answer["NodeNames"] == ["n1"]
    assert answer["FailedNodes"] == {
        "n0": FULL,
        "n2": "another node was chosen",
    }


def test_a_nominated_node_that_is_full_is_asked_about_before_all_nodes_in_the_same_pass() -> None:
    cluster = Cluster(nodes=("n0", "n1", "n2"))
    cluster.create(names(3))
    cluster.filter("m0")
    cluster.manifests["m1"] = member("m1", nominatedNodeName="n0")
    assert cluster.filter("m1", ["n0"]) == []
    assert cluster.filter("m1") == ["n1"]
    assert cluster.filter("m2") == ["n2"]


def test_a_member_whose_filters_run_again_without_a_plugin_that_hung_stays_in_its_pass() -> None:
    hangs, over = threading.Event(), threading.Event()

    class Hangs:
        name = "Hangs"

        def filter_nodes(self, _state: CycleState, pod: core.Pod, _nodes: core.Nodes) -> list[Any]:
            if pod.name == "m1":
                hangs.set()
                assert over.wait(60)
            return []

    async def asked() -> bytes:
        body = names_request(cluster.nodes, of=cluster.manifests["m1"])
        answer = asyncio.create_task(
            cluster.verbs.filter.answer(body, cluster.clock(), lambda _: None)
        )
        assert await asyncio.to_thread(hangs.wait, 60)
        await skip(cluster.http_timeout_s * 0.6)
        return bytes((await answer).body)

    cluster = Cluster(nodes=("n0", "n1"), dispensable=[Hangs()])
    gang = cluster.create(names(3))
    assert cluster.filter("m0") == ["n0"]
    try:
        assert json.loads(run(asked()))["NodeNames"] == ["n1"]
    finally:
        over.set()
    assert cluster.filter("m2") == []
    assert cluster.place(gang, min_count=3) == {}


def test_a_member_that_is_asked_about_its_nominated_node_alone_in_two_passes_splits_neither() -> (
    None
):
    cluster = Cluster(nodes=("n0", "n1"))
    cluster.create(names(3))
    cluster.manifests["m1"] = member("m1", nominatedNodeName="n0")
    assert cluster.filter("m0") == ["n0"]
    # Another extender rejects m1 on all nodes before kubextend is asked.
    assert cluster.filter("m1", ["n0"]) == []
    for _ in range(2):
        assert cluster.filter("m0") == ["n0"]
        assert cluster.filter("m1", ["n0"]) == []
        assert cluster.filter("m1") == ["n1"]
        assert cluster.filter("m2") == []


def test_a_member_for_whose_nominated_node_a_plugin_hung_stays_in_its_pass() -> None:
    cluster = Cluster(nodes=("n0", "n1"))
    gang = cluster.create(names(3))
    cluster.manifests["m1"] = member("m1", nominatedNodeName="n0")
    verb = cluster.verbs.filter._verb
    assert cluster.filter("m0") == ["n0"]
    request = verb.read(names_request(["n0"], of=cluster.manifests["m1"]))
    cluster.verbs._places.ask(request.pod, nominated_alone=True)
    verb.instead("a plugin hung", request)
    # Filters of kube-scheduler leave no other node.
    assert cluster.filter("m1", ["n0"]) == []
    assert cluster.filter("m0") == ["n0"]
    assert cluster.filter("m1", ["n0"]) == []
    assert cluster.filter("m1") == ["n1"]
    assert cluster.place(gang, min_count=3) == {}


def test_a_call_for_the_nominated_node_alone_follows_no_other_such_call_in_a_pass() -> None:
    cluster = Cluster(nodes=("n0", "n1"))
    cluster.create(names(3))
    cluster.manifests["m1"] = member("m1", nominatedNodeName="n1")
    assert cluster.filter("m0") == ["n0"]
    assert cluster.filter("m1", ["n1"]) == ["n1"]
    # The pass has failed. Filters of kube-scheduler reject m0 from now on.
    assert cluster.filter("m1", ["n1"]) == ["n1"]
    assert cluster.filter("m2") == ["n0"]


def test_a_member_that_is_nominated_to_a_node_and_has_a_place_counts_once() -> None:
    cluster = Cluster(nodes=("n0", "n1"), room=Room({"n0": 2, "n1": 1}))
    for name in names(3):
        cluster.manifests[name] = member(name, nominatedNodeName="n0")
        cluster.pods.store.apply(watch_event("ADDED", cluster.manifests[name]))
    assert cluster.filter("m0", ["n0"]) == []
    assert cluster.filter("m0") == ["n1"]
    # m2 is still nominated to n0, and so m1 is the second there.
    assert cluster.filter("m1", ["n0"]) == ["n0"]
    assert cluster.filter("m2", ["n0"]) == ["n0"]


def test_a_member_that_is_deleted_leaves_its_place_to_the_later_ones() -> None:
    cluster = Cluster(nodes=("n0",))
    cluster.create(names(2))
    assert cluster.filter("m0") == ["n0"]
    cluster.delete("m0")
    assert cluster.filter("m1") == ["n0"]


def test_a_member_whose_bind_begins_is_assumed_and_later_members_still_see_it() -> None:
    cluster = Cluster(nodes=("n0", "n1"))
    cluster.create(names(3))
    assert cluster.filter_passes(["m0", "m1"]) == {"m0": "n0", "m1": "n1"}
    assert cluster.bind("m0", "n0") == ""
    # A surplus member comes while m1 is not bound yet.
    assert cluster.filter("m2") == []
    cluster.seen_bound("m0", "n0")
    assert cluster.bind("m1", "n1") == ""
    cluster.seen_bound("m1", "n1")
    assert counted(cluster.verbs, "kubextend_pod_group_members") == 1


def test_a_surplus_member_that_is_asked_about_again_leaves_the_others_their_places() -> None:
    cluster = Cluster(nodes=("n0", "n1"), room=Room({"n0": 0, "n1": 0}))
    cluster.create(names(4))
    assert cluster.filter("m0") == []
    cluster.room.places = {}
    # The policy is basic: kube-scheduler goes on after m0, and binds the members with a node.
    assert cluster.filter_passes(["m1", "m2", "m3"]) == {"m1": "n0", "m2": "n1"}
    # Volumes may delay the binds of m1 and m2 for longer than the half second.
    for _ in range(3):
        cluster.clock.now_s += 2
        assert cluster.filter_passes(["m0", "m3"]) == {}
    assert cluster.bind("m1", "n0") == ""
    cluster.clock.now_s += 300
    assert cluster.filter("m0") == []
    assert cluster.bind("m2", "n1") == ""


def test_a_pod_that_is_to_be_bound_gives_way_to_a_group_whose_binds_are_on_their_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> tuple[str, str]:
        lone = asyncio.create_task(cluster.binding("lone", "n0"))
        await until(lambda: WAITS in caplog.text)
        first = await cluster.binding("m0", "n0")
        await skip(0.5)
        return first, await lone

    cluster = Cluster(nodes=("n0",))
    cluster.create(["lone"], group="")
    cluster.create(["m0"])
    assert cluster.filter("lone") == ["n0"]
    assert cluster.filter("m0") == ["n0"]
    assert run(scenario()) == ("", FULL)
    assert [name for _, name, _, _ in cluster.binder.bound] == ["m0"]


def test_a_pod_that_is_to_be_bound_waits_half_a_second_for_the_binds_of_a_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> str:
        lone = asyncio.create_task(cluster.binding("lone", "n0"))
        await until(lambda: WAITS in caplog.text)
        await skip(0.5)
        return await lone

    cluster = Cluster(nodes=("n0",))
    cluster.create(["lone"], group="")
    cluster.create(names(2))
    cluster.filter("lone")
    assert len(cluster.filter_passes(names(2))) == 1
    assert run(scenario()) == ""
    # The pass counts as failed, so its places do not matter to anybody else.
    assert not cluster.verbs._places.undecided(stored(cluster, "lone"))


def test_a_second_group_is_rejected_while_the_first_may_still_be_bound() -> None:
    cluster = Cluster()
    first, second = cluster.create(names(5)), cluster.create(names(5, "o"), group="other")
    placed = cluster.filter_passes(first)
    assert cluster.filter_passes(second) == {}
    for name in first:
        assert cluster.bind(name, placed[name]) == ""
    assert cluster.filter_passes(second) == {}
    for name in first:
        cluster.delete(name)
    assert len(cluster.place(second, min_count=5)) == 5


def test_a_second_group_gets_the_nodes_of_a_group_that_is_not_bound_in_half_a_second() -> None:
    cluster = Cluster()
    cluster.filter_passes(cluster.create(names(6)))
    second = cluster.create(names(5, "o"), group="other")
    # filter rejects at once: while it waited, kube-scheduler would ask about nobody else.
    assert cluster.filter("o0") == []
    cluster.clock.now_s += 0.5
    assert len(cluster.place(second, min_count=5)) == 5


def test_groups_of_one_name_in_two_namespaces_are_two_groups() -> None:
    cluster = Cluster(nodes=("n0", "n1"))
    cluster.create(names(2))
    cluster.manifests["m1"]["metadata"]["namespace"] = "web"
    assert cluster.filter("m0") == ["n0"]
    cluster.clock.now_s += 2
    assert cluster.filter("m1") == ["n0"]


def test_a_member_whose_bind_is_refused_is_placed_anew_beside_the_others() -> None:
    cluster = Cluster(nodes=("n0", "n1", "n2"))
    gang = cluster.create(names(2))
    placed = cluster.filter_passes(gang)
    assert cluster.bind("m1", placed["m1"]) == ""
    cluster.binder.error = ClusterError("the API is away")
    assert cluster.bind("m0", placed["m0"]) == "the API is away"
    cluster.binder.error = None
    # Without m0 there are two nodes with room.
    assert cluster.filter("m0") == ["n0"]
    assert cluster.bind("m0", "n0") == ""


def test_members_that_are_forgotten_for_want_of_memory_leave_no_place_to_a_later_member(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    gang = cluster.create(names(4))
    monkeypatch.setattr(cluster.verbs._places._members, "_most_bytes", 5000)
    found = cluster.filter_passes(gang)
    assert 0 < len(found) < 4
    assert "pod group ml/g: the members take too much memory" in caplog.text
    # The next pass begins anew, and ends in the same way.
    assert cluster.filter_passes(gang) == {}
    assert cluster.filter_passes(gang) == found
    assert len(cluster.verbs._places) < 4


def test_many_members_of_one_namespace_do_not_push_out_those_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(nodes=tuple(names(50, "n")))
    cluster.create(names(2, "o"), group="other")
    for name in names(2, "o"):
        cluster.manifests[name]["metadata"]["namespace"] = "web"
    assert cluster.filter("o0") == ["n0"]
    monkeypatch.setattr(cluster.verbs._places._members, "_most_bytes", 10_000)
    for number in range(30):
        cluster.create([f"m{number}"], group=f"g{number}")
        cluster.filter(f"m{number}")
    assert cluster.filter("o1") not in ([], ["n0"])


def test_what_is_of_no_use_any_more_is_forgotten_after_ten_minutes() -> None:
    cluster = Cluster()
    cluster.filter_passes(cluster.create(names(6)))
    assert counted(cluster.verbs, "kubextend_pod_group_members") == 6
    cluster.clock.now_s += 601
    cluster.verbs.wake_due()
    assert counted(cluster.verbs, "kubextend_pod_group_members") == 0
    assert cluster.verbs._places._passes == {}


def test_a_rejected_member_is_not_woken_when_nodes_change_and_a_lone_pod_is() -> None:
    cluster = Cluster(room=Room(dict.fromkeys(names(5, "n"), 0)))
    cluster.create(["m0"])
    cluster.create(["lone"], group="")
    assert cluster.filter("m0") == []
    assert cluster.filter("lone") == []
    cluster.room.places = {}
    cluster.verbs.nodes_changed()
    assert cluster.activator.woken == ["lone"]
    assert counted(cluster.verbs, "kubextend_pods_woken_total") == 1
    cluster.verbs.unplaced.activate([stored(cluster, "m0"), stored(cluster, "lone")])
    assert cluster.activator.woken == ["lone", "lone"]


def test_a_pod_that_is_assumed_while_a_member_is_decided_is_not_overlooked() -> None:
    filtering, go = threading.Event(), threading.Event()

    class Slow(Room):
        def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
            said = super().filter(state, pod, node)
            if pod.name == "m0" and node.name == "n0" and not filtering.is_set():
                filtering.set()
                assert go.wait(60)
            return said

    async def scenario() -> tuple[list[str], str]:
        asked = asyncio.create_task(asyncio.to_thread(cluster.filter, "m0"))
        assert await asyncio.to_thread(filtering.wait, 60)
        error = await cluster.binding("lone", "n0")
        go.set()
        return await asked, error

    cluster = Cluster(nodes=("n0", "n1"), room=Slow())
    cluster.create(["lone"], group="")
    cluster.create(["m0"])
    cluster.filter("lone")
    assert run(scenario()) == (["n1"], "")


def test_a_place_that_is_taken_while_a_bind_looks_again_is_not_overlooked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    looking, go = threading.Event(), threading.Event()

    class Slow(Room):
        def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
            said = super().filter(state, pod, node)
            if pod.name == "lone" and watched.is_set() and not looking.is_set():
                looking.set()
                assert go.wait(60)
            return said

    async def scenario() -> tuple[str, list[str]]:
        binding = asyncio.create_task(cluster.binding("lone", "n0"))
        assert await asyncio.to_thread(looking.wait, 60)
        kept = await asyncio.to_thread(cluster.filter, "m0")
        go.set()
        await until(lambda: WAITS in caplog.text)
        assert await cluster.binding("m0", "n0") == ""
        await skip(0.5)
        return await binding, kept

    watched = threading.Event()
    cluster = Cluster(nodes=("n0", "n1"), room=Slow())
    cluster.create(["lone"], group="")
    cluster.create(["m0"])
    cluster.filter("lone")
    watched.set()
    assert run(scenario()) == (FULL, ["n0"])


def test_a_node_whose_pods_keep_changing_is_given_to_no_member() -> None:
    class Busy(Room):
        def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> Status | None:
            said = super().filter(state, pod, node)
            (late,) = cluster.create([f"late{len(cluster.manifests)}"], group="")
            cluster.seen_bound(late, "n0")
            return said

    cluster = Cluster(nodes=("n0",), room=Busy({"n0": 100}))
    cluster.create(["m0"])
    body = names_request(cluster.nodes, of=cluster.manifests["m0"])
    answer = json.loads(cluster.verbs.filter(body))
    assert answer["FailedNodes"] == {"n0": "the pods on the chosen node kept changing"}
    cluster.create(["lone"], group="")
    assert cluster.bind("lone", "n0") == "the pods on the node kept changing"
    assert cluster.pods.store.assumed() == []


def test_a_run_that_was_given_up_when_it_had_a_place_leaves_the_others_their_places() -> None:
    first, second, lone = two_members_and_a_lone_pod()
    places = GroupPlaces()
    places.take(places.ask(first), "n0")
    places.take(places.ask(second), "n1")
    again = places.ask(second)
    assert [other.name for other, _ in places._counting_for(second)] == ["m0"]
    assert places.groups_on(lone, "n1") == []
    places.take(again, "n1")
    assert places.groups_on(lone, "n0") == places.groups_on(lone, "n1") == ["ml/g"]


def test_a_run_that_was_given_up_takes_no_place() -> None:
    places = GroupPlaces()
    store = core.PodStore()
    store.apply(watch_event("ADDED", member("m0")))
    (pod,) = store.pods()
    late = places.ask(pod)
    assert places.ask(pod) is not late
    places.take(late, "n0")
    assert places.groups_on(pod, "n0") == []
    assert places._counting_for(store.pods()[0]) == []


def two_members_and_a_lone_pod() -> tuple[core.Pod, ...]:
    store = core.PodStore()
    for each in (member("m0"), member("m1"), member("lone", group="")):
        store.apply(watch_event("ADDED", each))
    by_name = {pod.name: pod for pod in store.pods()}
    return by_name["m0"], by_name["m1"], by_name["lone"]


def test_a_member_that_is_asked_about_again_after_a_bind_began_ends_no_place_of_the_others() -> (
    None
):
    first, second, lone = two_members_and_a_lone_pod()
    places = GroupPlaces()
    places.take(places.ask(first), "n0")
    places.take(places.ask(second), "n1")
    # The bind of the first is refused, and the second's is still to come.
    places.bind_begins(first.uid)
    places.ask(first)
    assert places.groups_on(lone, "n1") == ["ml/g"]


def test_a_member_of_a_pass_that_was_bound_does_not_see_places_of_later_passes() -> None:
    first, second, _ = two_members_and_a_lone_pod()
    places = GroupPlaces()
    places.take(places.ask(first), "n0")
    places.bind_begins(first.uid)
    places.take(places.ask(second), "n1")
    assert places.groups_on(second, "n0") == ["ml/g"]
    assert places.groups_on(first, "n1") == []


def test_a_pass_goes_on_where_a_further_member_was_asked_about_during_the_wait() -> None:
    now = [0.0]
    first, second, lone = two_members_and_a_lone_pod()
    places = GroupPlaces(lambda: now[0])
    places.take(places.ask(first), "n0")
    undecided = places.undecided(lone)
    now[0] += 0.4
    places.take(places.ask(second), "n1")
    now[0] += 0.1
    places.decide(undecided)
    assert places.groups_on(lone, "n0") == ["ml/g"]


def test_nobody_takes_a_place_between_the_look_at_a_node_and_the_act() -> None:
    first, second, _ = two_members_and_a_lone_pod()
    places = GroupPlaces()
    others = places.ask(first)
    places.ask(second)
    done: list[str] = []

    def take() -> None:
        places.take(others, "n0")
        done.append("another thread took the node")

    taker = threading.Thread(target=take)

    def look() -> None:
        taker.start()
        # Without a lock the thread ends now.
        taker.join(0.2)

    assert places.if_unchanged(second, "n0", None, look, lambda: done.append("acted"))
    taker.join()
    assert done == ["acted", "another thread took the node"]


def test_no_member_after_the_most_of_a_pass_gets_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_places, "_MOST_MEMBERS", 2)
    cluster = Cluster()
    assert len(cluster.filter_passes(cluster.create(names(4)))) == 2


def test_no_member_after_the_most_of_a_pass_gets_a_place_after_its_nominated_node_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_places, "_MOST_MEMBERS", 2)
    cluster = Cluster()
    cluster.create(names(3))
    cluster.manifests["m2"] = member("m2", nominatedNodeName="n4")
    assert len(cluster.filter_passes(names(2))) == 2
    assert cluster.filter("m2", ["n4"]) == []
    assert cluster.filter("m2") == []
    # The next pass begins anew.
    assert len(cluster.filter_passes(names(2))) == 2
