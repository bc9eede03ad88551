import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from verb_world import (
    NO_RDMA,
    RDMA,
    Activator,
    Breaks,
    Clock,
    Needs,
    RejectsNamed,
    Watched,
    counted,
    full_request,
    names_request,
    node,
    pod,
    verbs_of,
    watch_event,
)

from kubextend import core
from kubextend.errors import WireError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import PluginLimits, Profile, Profiles, WaitingPods
from kubextend.profile.run_in_progress import AbandonedError
from kubextend.verbs import Verbs
from make_verbs import make_verbs

UNKNOWN = "node is not in kubextend's node cache"


def answer(verbs: Verbs, body: bytes) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(verbs.filter(body))
    assert set(result) == {
        "Nodes",
        "NodeNames",
        "FailedNodes",
        "FailedAndUnresolvableNodes",
        "Error",
    }
    return result


def rejected(result: dict[str, Any]) -> dict[str, str]:
    return (result["FailedNodes"] or {}) | (result["FailedAndUnresolvableNodes"] or {})


def test_full_mode_keeps_the_very_node_that_came_in_and_lists_every_other_one() -> None:
    good, bad = node("good", RDMA), node("bad")
    result = answer(verbs_of([Needs()]), full_request([good, bad]))
    assert result["Nodes"]["items"] == [good]
    assert result["FailedAndUnresolvableNodes"] == {"bad": NO_RDMA}
    assert result["Error"] == ""


def test_post_filter_is_told_only_where_no_node_is_left() -> None:
    told: list[str] = []

    class Told(Needs):
        def post_filter(self, _state: object, pod: core.Pod, rejections: list[Rejection]) -> None:
            told.append(f"{pod.name}: {len(rejections)}")

    plugin = Told()
    profile = Profile("default-scheduler", filter=[plugin], post_filter=[plugin])
    verbs = make_verbs(Profiles.of([profile]))
    answer(verbs, full_request([node("good", RDMA), node("bad")]))
    assert told == []
    answer(verbs, full_request([node("bad"), node("worse")]))
    assert told == ["pod: 1"]


def test_a_node_that_filters_keep_and_nobody_knows_yet_is_waited_for() -> None:
    told: list[str] = []

    class Told(RejectsNamed):
        def post_filter(self, _state: object, pod: core.Pod, _rejections: object) -> None:
            told.append(pod.name)

    plugin = Told(["bad"])
    profile = Profile("default-scheduler", filter=[plugin], post_filter=[plugin])
    watched = Watched().listing(node("bad"))
    verbs = make_verbs(Profiles.of([profile]), watched=watched)
    result = answer(verbs, names_request(["bad", "new"]))
    assert "has not seen some of the nodes yet" in result["Error"]
    assert rejected(result) == {}
    # Once it is known it may pass, so that no node is left is not said yet.
    assert told == []
    assert answer(verbs, names_request(["bad"]))["FailedNodes"] == {"bad": "its name"}
    assert told == ["pod"]


@dataclass
class Told(RejectsNamed):
    """Writes down the pods that it is told fit nowhere."""

    told: list[str] = field(default_factory=list)

    def post_filter(self, _state: object, pod: core.Pod, _rejections: object) -> None:
        self.told.append(pod.name)


def verbs_told(plugin: Told, **joined: Any) -> Verbs:
    profile = Profile("default-scheduler", filter=[plugin], post_filter=[plugin])
    watched = Watched().listing(node("bad"), node("worse"))
    return make_verbs(Profiles.of([profile]), watched=watched, **joined)


def test_post_filter_is_not_told_of_a_node_that_will_be_known_though_errors_are_ignored() -> None:
    plugin = Told(["bad"])
    verbs = verbs_told(plugin, ignorable=True)
    assert set(rejected(answer(verbs, names_request(["bad", "new"])))) == {"bad", "new"}
    assert plugin.told == []


@pytest.mark.parametrize("kept_by_filters", [True, False])
def test_post_filter_is_not_told_where_the_answer_is_an_error(kept_by_filters: bool) -> None:
    plugin = Told(["bad"] if kept_by_filters else ["bad", "new"])
    assert answer(verbs_told(plugin), names_request(["bad", "new"]))["Error"]
    assert plugin.told == []


NOMINATED = pod() | {"status": {"nominatedNodeName": "bad"}}


def test_the_nominated_node_alone_is_no_reason_to_say_that_the_pod_fits_nowhere() -> None:
    plugin = Told(["bad", "worse"])
    verbs = verbs_told(plugin)
    for cycle in (1, 2):
        said = answer(verbs, names_request(["bad"], NOMINATED))
        assert said["FailedNodes"] == {"bad": "its name"}
        assert plugin.told == ["pod"] * (cycle - 1)
        answer(verbs, names_request(["bad", "worse"], NOMINATED))
        assert plugin.told == ["pod"] * cycle


def test_a_call_for_the_nominated_node_that_no_call_for_all_nodes_followed_is_forgotten() -> None:
    plugin = Told(["bad", "worse"])
    verbs = verbs_told(plugin)
    answer(verbs, names_request(["bad"], NOMINATED))
    # Another extender rejected all nodes, and kube-scheduler goes on with another pod.
    answer(verbs, names_request(["other"], pod("beside")))
    answer(verbs, names_request(["bad"], NOMINATED))
    assert plugin.told == []
    answer(verbs, names_request(["bad"], NOMINATED))
    assert plugin.told == ["pod"]


def test_a_call_for_the_nominated_node_does_not_belong_to_one_that_came_long_before() -> None:
    clock, plugin = Clock(), Told(["bad", "worse"])
    verbs = verbs_told(plugin, clock=clock)
    answer(verbs, names_request(["bad"], NOMINATED))
    # Another extender rejected all nodes, and kube-scheduler tries the pod again later.
    clock.now_s += 11
    answer(verbs, names_request(["bad"], NOMINATED))
    assert plugin.told == []
    clock.now_s += 9
    answer(verbs, names_request(["bad"], NOMINATED))
    assert plugin.told == ["pod"]


def test_after_a_plugin_hung_for_the_nominated_node_the_next_call_is_about_all_nodes() -> None:
    plugin = Told(["bad"])
    verb = verbs_told(plugin).filter._verb
    verb.instead("a plugin hung", verb.read(names_request(["bad"], NOMINATED)))
    verb.answer(verb.read(names_request(["bad"], NOMINATED)))
    assert plugin.told == ["pod"]


def test_a_run_that_was_given_up_takes_no_other_pod_s_call_for_its_nominated_node_away() -> None:
    beside = pod("beside") | {"status": {"nominatedNodeName": "bad"}}

    class GivenUp(Told):
        def filter_nodes(self, state: Any, of: core.Pod, nodes: core.Nodes) -> Sequence[Rejection]:
            if of.name == "pod":
                # While this run hangs, the request is answered and kube-scheduler goes on.
                verb.instead("a plugin hung", request)
                verb.answer(verb.read(names_request(["bad"], beside)))
                raise AbandonedError
            return super().filter_nodes(state, of, nodes)

    plugin = GivenUp(["bad"])
    verb = verbs_told(plugin).filter._verb
    request = verb.read(names_request(["bad"], NOMINATED))
    with pytest.raises(AbandonedError):
        verb.answer(request)
    verb.answer(verb.read(names_request(["bad"], beside)))
    assert plugin.told == ["beside"]


def test_a_scheduler_without_a_profile_leaves_no_mark_of_a_nominated_node() -> None:
    verb = verbs_told(Told(["bad"])).filter._verb
    for number in range(100):
        of = pod(f"p{number}", scheduler=f"s{number}") | {"status": {"nominatedNodeName": "bad"}}
        request = verb.read(names_request(["bad"], of))
        assert request.nominated_alone
        verb.instead("a plugin hung", request)
        assert verb.read(names_request(["bad"], of)).nominated_alone


def test_a_node_without_a_name_is_nobody_s_nominated_node() -> None:
    verb = verbs_told(Told(["bad"])).filter._verb
    assert not verb.read(names_request([""])).nominated_alone


def test_filters_that_run_twice_for_a_request_take_it_for_the_same_call_of_the_attempt() -> None:
    plugin = Told(["bad"])
    verb = verbs_told(plugin).filter._verb
    for told in (0, 2):
        request = verb.read(names_request(["bad"], NOMINATED))
        verb.answer(request)
        # The first run was given up when it had its answer.
        verb.answer(request)
        assert plugin.told == ["pod"] * told


def test_a_pod_that_passes_beside_its_nominated_node_is_not_woken() -> None:
    activator, plugin = Activator(), Told(["bad"])
    verbs = verbs_told(plugin, activator=activator)
    answer(verbs, names_request(["bad"], NOMINATED))
    assert answer(verbs, names_request(["bad", "worse"], NOMINATED))["NodeNames"] == ["worse"]
    plugin.names = []
    verbs.nodes_changed()
    assert activator.woken == []
    assert plugin.told == []


def test_a_pod_that_in_tree_filters_leave_its_nominated_node_alone_is_parked_like_others() -> None:
    activator, plugin = Activator(), Told(["bad"])
    verbs = verbs_told(plugin, activator=activator)
    for cycle in (1, 2):
        for told in (cycle - 1, cycle):
            answer(verbs, names_request(["bad"], NOMINATED))
            assert plugin.told == ["pod"] * told
    plugin.names = []
    verbs.nodes_changed()
    assert activator.woken == ["pod"]


def test_after_the_nominated_node_passed_the_next_call_for_it_begins_a_new_cycle() -> None:
    plugin = Told([])
    verbs = verbs_told(plugin)
    assert answer(verbs, names_request(["bad"], NOMINATED))["NodeNames"] == ["bad"]
    plugin.names = ["bad"]
    answer(verbs, names_request(["bad"], NOMINATED))
    assert plugin.told == []


def test_after_an_error_for_the_nominated_node_kube_scheduler_asks_about_all_nodes() -> None:
    """As evaluateNominatedNode has it: the error is logged, and findNodesThatFitPod goes on."""
    asked: list[str] = []

    class BreaksOnce(Told):
        def filter_nodes(self, *judged: Any) -> Sequence[Rejection]:
            asked.append("once more")
            if len(asked) == 1:
                raise RuntimeError
            return super().filter_nodes(*judged)

    plugin = BreaksOnce(["bad"])
    verbs = verbs_told(plugin)
    assert answer(verbs, names_request(["bad"], NOMINATED))["Error"]
    answer(verbs, names_request(["bad"], NOMINATED))
    assert plugin.told == ["pod"]


def test_reasons_stay_as_they_are_for_a_pod_that_has_its_nominated_node_alone() -> None:
    texts = iter(["first look", "first", "second look", "second"])

    class Varies(RejectsNamed):
        def filter_nodes(self, _state: object, _pod: object, nodes: core.Nodes) -> list[Rejection]:
            return [Rejection(nodes.everything(), Status.unschedulable(next(texts)))]

    verbs = verbs_of([Varies([])], watched=Watched().listing(node("bad")))
    said = [answer(verbs, names_request(["bad"], NOMINATED)) for _ in range(4)]
    assert [each["FailedNodes"]["bad"] for each in said[1::2]] == ["first", "first"]


@dataclass
class Zone:
    """At most so many pods on all nodes together; counting them takes a second."""

    most: int
    clock: Clock = field(default_factory=Clock)
    store: core.PodStore = field(default_factory=core.PodStore)
    asked: int = 0
    name: str = "Zone"
    needs_pods = True
    synced = True

    def filter_nodes(self, state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        self.asked += 1
        self.clock.now_s += 1
        pods = Handle(WaitingPods(), ClusterPorts(pods=self)).pods(state)
        assert pods is not None
        there = sum(len(pods.pods_on(name)) for name in nodes.names)
        return [Rejection(nodes.everything(), FULL)] if there >= self.most else []


FULL = Status.unschedulable("the zone is full")
# The first attempt and the one with all nominated pods; others follow while half of 5 s is left.
TIMES = [(11, 2, 10), (10, 3, 1), (1, 3, 0)]


@pytest.mark.parametrize(("most", "attempts", "kept"), TIMES)
def test_nodes_are_judged_alone_where_that_may_help_and_for_half_of_the_time(
    most: int, attempts: int, kept: int
) -> None:
    zone = Zone(most)
    names = [f"n{number}" for number in range(10)]
    for name in names:
        waits = pod(f"for-{name}") | {"status": {"nominatedNodeName": name}}
        zone.store.apply(watch_event("ADDED", waits))
    profile = Profile(
        "default-scheduler", filter=[zone], counts_pods=True, pods=zone.store.snapshot
    )
    verbs = make_verbs(
        Profiles.of([profile]),
        watched=Watched().listing(*map(node, names)),
        pods=zone,
        limits=PluginLimits(zone.clock),
        http_timeout_s=5.0,
    )
    result = answer(verbs, names_request(names))
    assert zone.asked == attempts
    assert result["NodeNames"] == names[:kept]
    assert rejected(result) == dict.fromkeys(names[kept:], "the zone is full")


def test_names_mode_keeps_names_and_lists_every_other_one() -> None:
    watched = Watched().listing(node("good", RDMA), node("bad"))
    result = answer(verbs_of([Needs()], watched=watched), names_request(["bad", "good"]))
    assert result["NodeNames"] == ["good"]
    assert result["Nodes"] is None
    assert result["FailedAndUnresolvableNodes"] == {"bad": NO_RDMA}


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (Status.unschedulable("full"), "FailedNodes"),
        (Status.unresolvable("full"), "FailedAndUnresolvableNodes"),
    ],
)
def test_the_status_decides_whether_preemption_may_help(status: Status, field: str) -> None:
    result = answer(verbs_of([Needs(status=status)]), full_request([node("n")]))
    assert result[field] == {"n": "full"}
    assert rejected(result) == {"n": "full"}


def test_the_first_filter_that_rejects_a_node_gives_the_reason() -> None:
    filters = [Needs("a=1", Status.unresolvable("no a")), Needs("b=1", Status.unresolvable("no b"))]
    nodes = [node("both", {"a": "1", "b": "1"}), node("a", {"a": "1"}), node("none")]
    result = answer(verbs_of(filters), full_request(nodes))
    assert rejected(result) == {"a": "no b", "none": "no a"}


def test_at_most_eight_texts_go_out() -> None:
    filters = [
        Needs(f"k{number}", Status.unresolvable(f"no k{number}"), name=f"N{number}")
        for number in range(12)
    ]
    nodes = [
        node(f"n{missing}", {f"k{number}": "" for number in range(12) if number != missing})
        for missing in range(12)
    ]
    result = rejected(answer(verbs_of(filters), full_request(nodes)))
    assert set(result) == {f"n{missing}" for missing in range(12)}
    assert len(set(result.values())) == 8
    assert result["n0"] == "no k0"


PASSED_THROUGH = [
    ("a pod that is passed through", [Needs()], pod(scheduler="passed-through")),
    ("a profile without filters", [], pod()),
]


@pytest.mark.parametrize(("why", "filters", "of"), PASSED_THROUGH)
def test_what_no_filter_is_for_passes_untouched(why: str, filters: list[Any], of: object) -> None:
    del why
    nodes = [node("a"), node("b", RDMA)]
    verbs = verbs_of(filters)
    assert answer(verbs, full_request(nodes, of))["Nodes"]["items"] == nodes
    assert answer(verbs, names_request(["x", "y"], of))["NodeNames"] == ["x", "y"]
    unsynced = verbs_of(filters, watched=Watched(synced=False))
    assert answer(unsynced, names_request(["x", "y"], of))["NodeNames"] == ["x", "y"]


ERRORS = [
    (
        "both null",
        None,
        b'{"Pod":{},"Nodes":null,"NodeNames":null}',
        "the request has neither Nodes nor NodeNames",
    ),
    ("nothing at all", None, b"{}", "the request has neither Nodes nor NodeNames"),
    ("null", None, b"null", "the request has neither Nodes nor NodeNames"),
    ("no pod", None, names_request(["a"], None), "the request has no Pod"),
    ("no pod, full", None, full_request([node("a")], None), "the request has no Pod"),
    ("no cache", None, names_request(["a"]), "nodeCacheCapable: false"),
    ("no cache", None, names_request(["a"]), "configure `cluster`"),
    ("not synced", Watched(synced=False), names_request(["a"]), "the nodes are not listed yet"),
]


@pytest.mark.parametrize(("why", "watched", "body", "text"), ERRORS)
def test_what_cannot_be_decided_is_an_error_and_never_a_rejection(
    why: str, watched: Watched | None, body: bytes, text: str
) -> None:
    del why
    verbs = verbs_of([Needs()], watched=watched)
    result = answer(verbs, body)
    assert text in result["Error"]
    assert rejected(result) == {}
    assert result["Nodes"] is None
    assert result["NodeNames"] is None
    assert counted(verbs, "kubextend_verb_requests_total", verb="filter", result="error") == 1


def test_full_mode_is_served_before_the_first_sync() -> None:
    verbs = verbs_of([Needs()], watched=Watched(synced=False))
    result = answer(verbs, full_request([node("good", RDMA)]))
    assert result["Nodes"]["items"] == [node("good", RDMA)]


def test_a_full_request_never_overwrites_what_was_watched() -> None:
    watched = Watched().listing(node("n"))
    verbs = verbs_of([Needs()], watched=watched)
    answer(verbs, full_request([node("n", RDMA), node("m", RDMA)]))
    assert rejected(answer(verbs, names_request(["n"]))) == {"n": NO_RDMA}
    assert "m" not in watched.store


def test_unknown_names_are_rejected_where_a_known_node_passes() -> None:
    watched = Watched().listing(node("good", RDMA), node("bad"))
    result = answer(verbs_of([Needs()], watched=watched), names_request(["new", "good", "bad"]))
    assert result["NodeNames"] == ["good"]
    assert rejected(result) == {"new": UNKNOWN, "bad": NO_RDMA}


def test_an_unknown_name_that_a_filter_would_let_pass_is_still_rejected() -> None:
    watched = Watched().listing(node("good"))
    result = answer(verbs_of([Needs("!rdma")], watched=watched), names_request(["new", "good"]))
    assert result["NodeNames"] == ["good"]
    assert rejected(result) == {"new": UNKNOWN}


def test_unknown_names_are_an_error_for_ten_seconds_where_no_known_node_passes() -> None:
    clock = Clock()
    watched = Watched().listing(node("bad"))
    verbs = verbs_of([Needs()], watched=watched, clock=clock)
    body = names_request(["bad", "new"])
    for at_s, is_error in [(0.0, True), (9.9, True), (10.0, False), (300.0, False)]:
        clock.now_s = 1000.0 + at_s
        result = answer(verbs, body)
        assert bool(result["Error"]) is is_error
        assert rejected(result) == ({} if is_error else {"new": UNKNOWN, "bad": NO_RDMA})


def test_where_errors_are_ignored_unknown_names_do_not_open_the_nodes_that_were_rejected() -> None:
    activator = Activator()
    watched = Watched().listing(node("bad"))
    verbs = verbs_of([Needs()], watched=watched, activator=activator, ignorable=True)
    result = answer(verbs, names_request(["bad", "new"]))
    assert result["Error"] == ""
    assert not result["NodeNames"]
    assert result["FailedAndUnresolvableNodes"] == {"new": UNKNOWN, "bad": NO_RDMA}
    watched.store.apply(watch_event("ADDED", node("new", RDMA)))
    verbs.nodes_changed()
    assert activator.woken == ["pod"]


def test_before_the_first_sync_it_is_an_error_even_where_errors_are_ignored() -> None:
    # As while kubextend is away: nothing is known that could be rejected, and nobody would wake.
    verbs = verbs_of([Needs()], watched=Watched(synced=False), ignorable=True)
    assert "the nodes are not listed yet" in answer(verbs, names_request(["a"]))["Error"]


def test_a_name_first_seen_where_others_passed_has_used_its_ten_seconds() -> None:
    clock = Clock()
    watched = Watched().listing(node("good", RDMA))
    verbs = verbs_of([Needs()], watched=watched, clock=clock)
    assert not answer(verbs, names_request(["good", "new"]))["Error"]
    clock.now_s += 11
    assert rejected(answer(verbs, names_request(["new"]))) == {"new": UNKNOWN}


def test_a_node_is_known_as_soon_as_the_watch_brings_it() -> None:
    watched = Watched().listing()
    verbs = verbs_of([Needs()], watched=watched)
    assert answer(verbs, names_request(["new"]))["Error"]
    watched.store.apply(watch_event("ADDED", node("new", RDMA)))
    assert answer(verbs, names_request(["new"]))["NodeNames"] == ["new"]


@pytest.mark.parametrize(
    "error", [RuntimeError("at 0x7f3a"), ValueError(), KeyError("k"), StopIteration()]
)
def test_a_failing_filter_fails_the_attempt_and_is_named(error: BaseException) -> None:
    verbs = verbs_of([Needs(), Breaks(error)])
    result = answer(verbs, full_request([node("good", RDMA)]))
    assert '"Breaks"' in result["Error"]
    assert "0x7f3a" not in result["Error"]
    assert rejected(result) == {}
    failures = counted(
        verbs, "kubextend_plugin_failures_total", plugin="Breaks", extension_point="Filter"
    )
    assert failures == 1


@pytest.mark.parametrize("reason", [5, None, ["a"], "\ud800"], ids=repr)
def test_a_reason_that_no_answer_can_hold_is_the_plugins_failure(reason: Any) -> None:
    rejecting = Needs(status=Status.unresolvable(reason))
    for ignorable, failed in [(False, set()), (True, {"a"})]:
        verbs = verbs_of([rejecting], ignorable=ignorable)
        result = answer(verbs, full_request([node("a")]))
        assert ('"Needs"' in result["Error"]) is not ignorable
        assert set(rejected(result)) == failed
        failures = counted(
            verbs, "kubextend_plugin_failures_total", plugin="Needs", extension_point="Filter"
        )
        assert failures == 1


def test_a_failing_filter_rejects_everything_where_the_scheduler_ignores_errors() -> None:
    verbs = verbs_of([Breaks()], ignorable=True)
    texts = set()
    for _ in range(2):
        result = answer(verbs, full_request([node("a"), node("b", RDMA)]))
        assert result["Error"] == ""
        assert result["Nodes"]["items"] == []
        assert set(result["FailedAndUnresolvableNodes"]) == {"a", "b"}
        texts |= set(result["FailedAndUnresolvableNodes"].values())
    assert texts == {'Filter plugin "Breaks" failed'}
    assert counted(verbs, "kubextend_verb_requests_total", verb="filter", result="error") == 2


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b'{"Pod":3}', b'{"Pod":{},"NodeNames":[1]}'])
def test_what_cannot_be_read_raises_and_is_counted(body: bytes) -> None:
    verbs = verbs_of([Needs()])
    with pytest.raises(WireError):
        verbs.filter(body)
    labels = {"verb": "filter", "result": "bad_request"}
    assert counted(verbs, "kubextend_verb_requests_total", **labels) == 1


def test_no_nodes_in_give_no_nodes_out() -> None:
    result = answer(verbs_of([Needs()]), full_request([]))
    assert result["Nodes"]["items"] == []
    assert result["Error"] == ""


def test_a_lower_case_request_of_an_old_scheduler_is_served() -> None:
    body = json.dumps({"pod": pod(), "nodes": {"items": [node("good", RDMA), node("bad")]}})
    result = answer(verbs_of([Needs()]), body.encode())
    assert [kept["metadata"]["name"] for kept in result["Nodes"]["items"]] == ["good"]
    assert rejected(result) == {"bad": NO_RDMA}


def test_calls_and_nodes_are_counted() -> None:
    verbs = verbs_of([Needs()])
    answer(verbs, full_request([node("a"), node("b")]))
    assert counted(verbs, "kubextend_verb_requests_total", verb="filter", result="ok") == 1
    assert counted(verbs, "kubextend_verb_nodes_sum", verb="filter") == 2


def test_a_pod_rejected_on_stale_labels_is_woken_when_a_node_changes() -> None:
    activator = Activator()
    watched = Watched().listing(node("n"), node("m"))
    verbs = verbs_of([Needs()], watched=watched, activator=activator)
    answer(verbs, names_request(["n"], pod("waiting")))
    verbs.nodes_changed()
    assert activator.woken == []
    watched.store.apply(watch_event("MODIFIED", node("m", RDMA)))
    verbs.nodes_changed()
    assert activator.woken == []
    watched.store.apply(watch_event("MODIFIED", node("n", RDMA)))
    verbs.nodes_changed()
    verbs.nodes_changed()
    assert activator.woken == ["waiting"]
    assert counted(verbs, "kubextend_pods_woken_total") == 1
