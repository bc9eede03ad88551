import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from verb_world import (
    RDMA,
    Activator,
    Breaks,
    Clock,
    Needs,
    Watched,
    counted,
    full_request,
    names_request,
    node,
    pod,
    unplaced_pods,
    verbs_of,
    watch_event,
)

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import Profile
from kubextend.verbs import unplaced_pods as unplaced_pods_module
from kubextend.verbs.filter_outside_request import Verdict, filter_anew
from kubextend.verbs.unplaced_pods import Attempt, UnplacedPods


def nodes_of(watched: Watched, *names: str) -> tuple[core.Pod, core.Nodes]:
    args = core.read_args(names_request(names), watched=watched.store)
    assert args.pod is not None
    assert args.nodes is not None
    return args.pod, args.nodes


def reject(
    unplaced: UnplacedPods,
    profile: Profile,
    asked: core.Pod,
    nodes: core.Nodes,
    changes: int | None = None,
) -> None:
    """The filters of the profile rejected the pod on these nodes."""
    changes = unplaced.changes if changes is None else changes
    unplaced.reject(Attempt(asked, CycleState()), profile, nodes, [], changes)


def test_an_older_attempt_that_passes_late_ends_no_newer_rejection() -> None:
    activator, watched = Activator(), Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    profile = Profile("default-scheduler", pre_filter=[Needs()])
    asked, nodes = nodes_of(watched, "n")
    older = unplaced.begin(asked)
    newer = unplaced.begin(asked)
    unplaced.reject(newer, profile, nodes, [], unplaced.changes)
    unplaced.passed(older)
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == [asked.name]


def test_a_pod_is_forgotten_after_ten_seconds() -> None:
    for waited_s, woken in [(9.9, ["pod"]), (10.1, [])]:
        clock, activator = Clock(), Activator()
        watched = Watched().listing(node("n"))
        verbs = verbs_of([Needs()], watched=watched, activator=activator, clock=clock)
        verbs.filter(names_request(["n"]))
        clock.now_s += waited_s
        watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
        verbs.nodes_changed()
        assert activator.woken == woken
        assert counted(verbs, "kubextend_pods_woken_total") == len(woken)


def test_a_pod_that_passed_meanwhile_is_not_woken() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"), node("good", RDMA))
    verbs = verbs_of([Needs()], watched=watched, activator=activator)
    verbs.filter(names_request(["n"]))
    verbs.filter(names_request(["n", "good"]))
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    verbs.nodes_changed()
    assert activator.woken == []


def test_only_the_last_of_many_rejections_counts() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"), node("m"))
    verbs = verbs_of([Needs()], watched=watched, activator=activator)
    verbs.filter(names_request(["n"]))
    verbs.filter(names_request(["m"]))
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    verbs.nodes_changed()
    assert activator.woken == []


def test_a_node_that_becomes_known_wakes_the_pod_too() -> None:
    clock, activator = Clock(), Activator()
    watched = Watched().listing(node("n"))
    verbs = verbs_of([Needs()], watched=watched, activator=activator, clock=clock)
    verbs.filter(names_request(["n", "new"]))
    clock.now_s += 11
    verbs.filter(names_request(["n", "new"]))
    watched.store.apply(watch_event("ADDED", node("new", RDMA)))
    verbs.nodes_changed()
    assert activator.woken == ["pod"]


def test_a_full_mode_rejection_is_not_remembered() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"))
    verbs = verbs_of([Needs()], watched=watched, activator=activator)
    verbs.filter(full_request([node("n")]))
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    verbs.nodes_changed()
    assert activator.woken == []


def test_a_change_between_lookup_and_rejection_is_not_lost() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    changes = unplaced.changes
    waiting, nodes = nodes_of(watched, "n")
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    reject(unplaced, Profile("default-scheduler", filter=[Needs()]), waiting, nodes, changes)
    assert activator.woken == ["pod"]
    assert not unplaced._rejected


def test_a_pod_of_which_a_filter_that_fails_can_say_nothing_is_asked_about_again() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    waiting, nodes = nodes_of(watched, "n")
    reject(unplaced, Profile("default-scheduler", filter=[Breaks()]), waiting, nodes)
    unplaced.nodes_changed()
    assert activator.woken == ["pod"]
    assert not unplaced._rejected


def test_the_pods_remembered_are_bounded_and_the_oldest_goes_first() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"))
    unplaced = unplaced_pods(activator, room_for=2)
    profile = Profile("default-scheduler", filter=[Needs()])
    for name in ("first", "second", "third"):
        args = core.read_args(names_request(["n"], pod(name)), watched=watched.store)
        assert args.pod is not None
        assert args.nodes is not None
        reject(unplaced, profile, args.pod, args.nodes, 0)
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == ["second", "third"]


def rejected_each(
    unplaced: UnplacedPods, watched: Watched, *names: str, reason: str = ""
) -> list[list[str]]:
    """Filters rejected these pods on a node for this reason; the reasons that are told of each."""
    told = []
    for name in names:
        args = core.read_args(names_request(["n"], pod(name)), watched=watched.store)
        assert args.pod is not None
        assert args.nodes is not None
        profile = Profile("default-scheduler", filter=[Needs()])
        entries = [(core.Mask([True]), reason, False)] if reason else []
        attempt = Attempt(args.pod, CycleState())
        steady = unplaced.reject(attempt, profile, args.nodes, entries, unplaced.changes)
        told.append([text for _, text, _ in steady])
    return told


PODS = ("first", "second", "third")


def test_the_nodes_of_the_oldest_rejections_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unplaced_pods_module, "_MOST_WITH_NODES", 2)
    activator, watched = Activator(), Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    rejected_each(unplaced, watched, *PODS)
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == ["second", "third"]


def test_names_that_nobody_knows_push_out_the_oldest_rejections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever connects to kubextend chooses how many and how long they are."""
    monkeypatch.setattr(unplaced_pods_module, "_MOST_BYTES_OF_NODES", 300_000)
    activator, watched = Activator(), Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    for name in (*PODS, "third"):
        reject_large(unplaced, watched, name)
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == ["second", "third"]


MADE_UP = [f"{row}".ljust(1_000, "x") for row in range(100)]


def reject_large(
    unplaced: UnplacedPods, watched: Watched, name: str, made_up: Sequence[str] = MADE_UP
) -> core.Pod:
    """Let filters reject a pod on a node and on names that nobody knows: 100 KB of them."""
    args = core.read_args(names_request(["n", *made_up], pod(name)), watched=watched.store)
    assert args.pod is not None
    assert args.nodes is not None
    reject(unplaced, Profile("default-scheduler", filter=[Needs()]), args.pod, args.nodes)
    return args.pod


def let_go(unplaced: UnplacedPods, watched: Watched, of: core.Pod, how: str) -> None:
    """Make the records forget a pod's rejection in one of the ways in which they do."""
    match how:
        case "forgotten":
            unplaced.forget(of.uid)
        case "passed":
            unplaced.passed(unplaced.begin(of))
        case "woken":
            for labels in (RDMA, None):
                watched.store.apply(watch_event("MODIFIED", node("n", labels)))
                unplaced.nodes_changed()


@pytest.mark.parametrize("how", ["forgotten", "passed", "woken", "pushed out", "rejected again"])
def test_what_is_let_go_of_is_counted_no_more(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    # Two fit and three do not.
    monkeypatch.setattr(unplaced_pods_module, "_MOST_BYTES_OF_NODES", 300_000)
    activator, watched = Activator(), Watched().listing(node("n"))
    room = {"room_for": 2} if how == "pushed out" else {}
    unplaced = unplaced_pods(activator, **room)
    for number in range(5):
        again = how == "rejected again"
        rejected = reject_large(unplaced, watched, "first" if again else f"large-{number}")
        let_go(unplaced, watched, rejected, how)
    activator.woken.clear()
    for name in ("first", "second"):
        reject_large(unplaced, watched, name)
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == ["first", "second"]


def test_one_request_with_a_megabyte_of_made_up_names_pushes_out_no_other_pod() -> None:
    activator, watched = Activator(), Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    rejected_each(unplaced, watched, *PODS)
    made_up = [f"{number}".ljust(1 << 20, "x") for number in range(70)]
    reject_large(unplaced, watched, "large", made_up)
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == list(PODS)


def test_a_rejection_with_two_megabytes_of_names_is_remembered() -> None:
    activator, watched = Activator(), Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    reject_large(unplaced, watched, "large", ["x" * (2 << 20)])
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == ["large"]


def test_a_rejection_that_is_too_large_ends_the_one_before() -> None:
    activator, watched = Activator(), Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    rejected_each(unplaced, watched, "first")
    reject_large(unplaced, watched, "first", ["x" * (5 << 20)])
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    # The nodes of the last attempt are not known any more.
    assert activator.woken == []


def test_reasons_that_were_told_outlive_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    # A text that changes at each attempt makes kube-scheduler try the pod again at once.
    monkeypatch.setattr(unplaced_pods_module, "_MOST_WITH_NODES", 1)
    clock, watched = Clock(), Watched().listing(node("n"))
    unplaced = unplaced_pods(Activator(), clock=clock)
    for reason in ("one", "another", "a third", "a fourth"):
        assert rejected_each(unplaced, watched, *PODS, reason=reason) == [["one"]] * 3
        clock.now_s += 2


def test_a_pod_whose_nodes_are_let_go_of_with_a_change_unseen_is_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unplaced_pods_module, "_MOST_WITH_NODES", 2)
    clock, activator, watched = Clock(), Activator(), Watched().listing(node("n"))

    def slow(profile: Profile, asked: core.Pod, nodes: core.Nodes) -> Verdict:
        clock.now_s += 1
        return filter_anew(profile, asked, nodes)

    unplaced = unplaced_pods(activator, clock=clock, look_again=slow)
    rejected_each(unplaced, watched, "first", "second")
    watched.store.apply(watch_event("MODIFIED", node("n")))
    unplaced.nodes_changed()
    assert activator.woken == []
    # There was no time for a look at the second pod.
    rejected_each(unplaced, watched, "third", "fourth")
    assert activator.woken == ["second"]


def test_a_pod_nobody_asked_about_for_an_hour_is_forgotten() -> None:
    clock = Clock()
    unplaced = unplaced_pods(clock=clock)
    for name, ages_s, left in (("early", 3500, 1), ("late", 200, 1), ("none", 3601, 0)):
        asked = core.read_args(names_request([], pod(name))).pod
        assert asked is not None
        if name != "none":
            unplaced.begin(asked)
        clock.now_s += ages_s
        unplaced.wake_due()
        assert len(unplaced) == left


def test_without_an_activator_nothing_is_remembered() -> None:
    watched = Watched().listing(node("n"))
    unplaced = unplaced_pods()
    waiting, nodes = nodes_of(watched, "n")
    reject(unplaced, Profile("default-scheduler", filter=[Needs()]), waiting, nodes, 0)
    assert not unplaced._rejected


def test_a_pod_is_woken_once_however_many_threads_see_the_change() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"))
    verbs = verbs_of([Needs()], watched=watched, activator=activator)
    verbs.filter(names_request(["n"]))
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    threads = [threading.Thread(target=verbs.nodes_changed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert activator.woken == ["pod"]


def test_a_filter_that_fails_and_may_be_ignored_neither_wakes_a_pod_nor_keeps_it_parked() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"))
    unplaced = unplaced_pods(activator)
    waiting, nodes = nodes_of(watched, "n")
    profile = Profile(
        "default-scheduler", filter=[Breaks(), Needs()], ignored=frozenset({"Breaks"})
    )
    reject(unplaced, profile, waiting, nodes)
    unplaced.nodes_changed()
    # Left out, it can say nothing; the other one rejects.
    assert activator.woken == []
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == ["pod"]


def test_a_change_while_the_filters_look_is_not_lost() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"))

    class Overtaken(Needs):
        """The watch brings a node that fits while the old one is looked at."""

        def filter_nodes(self, *asked: Any) -> Sequence[Rejection]:
            if watched.store.apply(watch_event("MODIFIED", node("n", RDMA))).changed:
                verbs.nodes_changed()
            return super().filter_nodes(*asked)

    verbs = verbs_of([Overtaken()], watched=watched, activator=activator)
    assert json.loads(verbs.filter(names_request(["n"])))["NodeNames"] == []
    assert activator.woken == ["pod"]


def test_a_rejection_that_came_while_an_older_one_was_judged_stays_remembered() -> None:
    activator = Activator()
    watched = Watched().listing(node("n", RDMA), node("m"))
    waiting, passing = nodes_of(watched, "n")
    _, failing = nodes_of(watched, "m")
    profile = Profile("default-scheduler", filter=[Needs()])

    def look_again(*judged: Any) -> Verdict:
        if len(looks) == 0:
            looks.append("older")
            reject(unplaced, profile, waiting, failing, unplaced.changes)
        return filter_anew(*judged)

    looks: list[str] = []
    unplaced = unplaced_pods(activator, look_again=look_again)
    reject(unplaced, profile, waiting, passing)
    unplaced.nodes_changed()
    assert activator.woken == []
    watched.store.apply(watch_event("MODIFIED", node("m", RDMA)))
    unplaced.nodes_changed()
    assert activator.woken == ["pod"]


def test_what_is_expected_while_filters_look_leads_to_another_look() -> None:
    looks: list[int] = []

    def look_again(*judged: Any) -> Verdict:
        looks.append(1)
        if len(looks) == 1:
            unplaced.expect_change()
        return filter_anew(*judged)

    watched = Watched().listing(node("n"))
    unplaced = unplaced_pods(Activator(), look_again=look_again)
    waiting, nodes = nodes_of(watched, "n")
    reject(unplaced, Profile("default-scheduler", filter=[Needs()]), waiting, nodes, 0)
    unplaced.expect_change()
    for _ in range(3):
        unplaced.wake_due()
    assert len(looks) == 2


class Slow:
    """Takes its time for each pod, rejects it, and writes down whom it was asked about."""

    name = "Slow"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asked: list[str] = []

    def filter_nodes(self, _state: object, asked: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        self.asked.append(asked.name)
        self._clock.now_s += 0.0625
        return [Rejection(nodes.everything(), Status.unschedulable("no"))]


class Crowd:
    """Ten pods that a slow filter has just rejected."""

    def __init__(self) -> None:
        self.clock, self.activator = Clock(), Activator()
        self.plugin = Slow(self.clock)
        watched = Watched().listing(node("n"))
        self.unplaced = unplaced_pods(self.activator, clock=self.clock)
        profile = Profile("default-scheduler", filter=[self.plugin])
        self.names = [f"p{number}" for number in range(10)]
        for name in self.names:
            args = core.read_args(names_request(["n"], pod(name)), watched=watched.store)
            assert args.pod is not None
            assert args.nodes is not None
            reject(self.unplaced, profile, args.pod, args.nodes, 0)


def test_after_a_change_pods_are_looked_at_in_turn_for_a_fifth_of_each_second() -> None:
    crowd = Crowd()
    crowd.unplaced.nodes_changed()
    assert crowd.plugin.asked == crowd.names[:4]
    for seen in (8, 10, 10):
        crowd.clock.now_s += 1
        crowd.unplaced.wake_due()
        assert crowd.plugin.asked == crowd.names[:seen]
    crowd.unplaced.nodes_changed()
    assert crowd.plugin.asked == crowd.names + crowd.names[:4]


def test_changes_one_after_the_other_keep_no_pod_from_its_turn_and_take_no_more_time() -> None:
    crowd = Crowd()
    for _ in range(3):
        for _ in range(20):
            crowd.unplaced.nodes_changed()
        crowd.clock.now_s += 1
        crowd.unplaced.wake_due()
    turns = [crowd.plugin.asked.count(name) for name in crowd.names]
    assert sum(turns) == 16
    assert set(turns) == {1, 2}


def test_a_pod_whose_turn_has_not_come_when_it_is_forgotten_is_woken() -> None:
    crowd = Crowd()
    crowd.unplaced.nodes_changed()
    crowd.clock.now_s += 11
    crowd.unplaced.wake_due()
    assert crowd.activator.woken == crowd.names[4:]
    assert not crowd.unplaced._rejected
    crowd.unplaced.nodes_changed()
    crowd.unplaced.wake_due()
    assert crowd.plugin.asked == crowd.names[:4]
    assert crowd.activator.woken == crowd.names[4:]


def test_pods_that_are_rejected_right_before_a_change_while_filters_look_have_their_turn() -> None:
    clock, activator = Clock(), Activator()
    watched = Watched().listing(node("n"))
    profile = Profile("default-scheduler", filter=[Needs()])

    def remember(name: str) -> None:
        args = core.read_args(names_request(["n"], pod(name)), watched=watched.store)
        assert args.pod is not None
        assert args.nodes is not None
        reject(unplaced, profile, args.pod, args.nodes, unplaced.changes)

    def slow() -> None:
        clock.now_s += 0.3

    def overtaken() -> None:
        # kube-scheduler asks once more about the pod that is looked at, and about another.
        remember("second")
        remember("late")
        watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
        # The reflector's thread: pods are behind already, so it notes the change and goes on.
        unplaced.nodes_changed()

    def look_again(*judged: Any) -> Verdict:
        if meanwhile:
            meanwhile.pop(0)()
        return filter_anew(*judged)

    meanwhile = [slow, overtaken]
    unplaced = unplaced_pods(activator, look_again=look_again, clock=clock)
    remember("first")
    remember("second")
    unplaced.nodes_changed()
    for _ in range(2):
        clock.now_s += 1
        unplaced.wake_due()
    assert sorted(activator.woken) == ["first", "late", "second"]
    assert not unplaced._rejected


def test_pods_are_forgotten_in_time_though_no_node_changes() -> None:
    crowd = Crowd()
    crowd.clock.now_s += 11
    crowd.unplaced.wake_due()
    assert not crowd.unplaced._rejected
    assert crowd.activator.woken == crowd.plugin.asked == []
