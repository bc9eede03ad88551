"""The bind verb: what it binds, what it answers with an Error, and what its plugins find."""

import json
from itertools import count
from typing import Any

import pytest
from tests.doors.wire import Binder, Plugin, Steps, Wire, bind_request, node, pod, raises, uid_of

from kubextend import Status
from kubextend.errors import ClusterError

P = pod("p")
BINDS = {"extender.bind": True}
WHOLE = json.loads(bind_request(P, "n"))


def plain(binder: Binder | None = None) -> Wire:
    """A server that binds without a plugin of the binding cycle."""
    wire = Wire(nodes=["n"], settings=BINDS, binder=binder)
    wire.pods.unwatched.append(P)
    return wire


def test_bind_binds_the_pod_under_its_uid() -> None:
    wire = plain()
    assert wire.bind(P, "n").body == b'{"Error":""}'
    assert wire.binder.bound == {"uid-of-p": "n"}
    lower = json.dumps({key.lower(): value for key, value in WHOLE.items()}).encode()
    wire = plain()
    assert wire.post("/bind", lower).error == ""
    assert wire.binder.bound == {"uid-of-p": "n"}


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"PodUID": ""}, "PodUID"),
        ({"PodName": None}, "PodName"),
        ({"Node": "", "PodNamespace": ""}, "PodNamespace, Node"),
        (dict.fromkeys(WHOLE, ""), "PodName, PodNamespace, PodUID, Node"),
    ],
)
def test_bind_writes_nothing_where_a_name_is_missing(changed: dict[str, Any], names: str) -> None:
    wire = plain()
    said = wire.post("/bind", json.dumps(WHOLE | changed).encode())
    assert (said.error, wire.binder.began) == (f"the bind request has no {names}", 0)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("pod ml/p has UID v, not u", 409),
        ('pods "p" is forbidden', 403),
        ("", None),
        ("a lone surrogate \ud800", None),
    ],
)
def test_what_the_api_refuses_is_an_error_and_never_a_success(
    text: str, status: int | None
) -> None:
    wire = plain(Binder(ClusterError(text, status)))
    said = wire.bind(P, "n").error
    assert said
    assert text.replace("\ud800", "?") in said
    assert wire.metric("kubextend_verb_requests_total", verb="bind", result="error") == 1


@pytest.mark.parametrize(
    ("uid", "said"), [("uid-of-p", ""), ("older", "there is no pod ml/p of this UID")]
)
def test_bind_refuses_a_pod_whose_name_another_pod_has_taken(uid: str, said: str) -> None:
    wire = Wire(Plugin(pre_bind=lambda *_: None), nodes=["n"])
    wire.pods.unwatched.append(P)
    assert wire.bind(pod("p", uid=uid), "n").error == said
    assert wire.binder.bound == ({} if said else {uid: "n"})


def test_bind_takes_a_rejection_without_a_reason_for_no_success() -> None:
    wire = Wire(Steps(pre_bind=Status.unschedulable("")), nodes=["n"])
    wire.pods.unwatched.append(P)
    assert (wire.bind(P, "n").error, wire.binder.bound) == ("UNSCHEDULABLE", {})


@pytest.mark.parametrize("ignored", [False, True])
def test_bind_prepares_a_lost_attempt_and_passes_over_a_filter_that_may_be_ignored(
    ignored: bool,
) -> None:
    breaks = Plugin("Breaks", pre_filter=raises(RuntimeError("0x7f3a")))
    wire = Wire(breaks, Steps("pre_bind"), nodes=["n"], ignored=["Breaks"] if ignored else [])
    wire.pods.unwatched.append(P)
    said = wire.bind(P, "n").error
    assert said == ("" if ignored else 'PreFilter plugin "Breaks" failed')
    assert bool(wire.binder.bound) is ignored


def test_reserve_reads_what_pre_filter_and_pre_score_wrote_in_the_last_attempt() -> None:
    numbers, read = count(1), list[object]()
    plugin = Plugin(
        pre_filter=lambda state, *_: state.write("prepared", next(numbers)),
        pre_score=lambda state, *_: state.write("scored", next(numbers)),
        score=lambda *_: 1,
        reserve=lambda state, *_: read.extend([state.read("prepared"), state.read("scored")]),
        unreserve=lambda *_: None,
    )
    wire = Wire(plugin, nodes=["n"], pods=[P])
    for _ in range(3):
        wire.filter(P)
        wire.prioritize(P)
    assert wire.bind(P, "n").error == ""
    assert read == [5, 6]


def test_a_bind_leaves_nothing_of_its_attempt_to_the_next_one() -> None:
    plugin = Steps("pre_filter", "reserve")
    wire = Wire(plugin, nodes=["n"], pods=[P], binder=Binder(ClusterError("no")))
    wire.filter(P)
    for attempts in (1, 2):
        assert wire.bind(P, "n").error == "no"
        assert plugin.calls.count("pre_filter") == attempts


def test_the_attempts_at_large_pods_take_sixteen_mebibytes_and_the_oldest_is_made_again() -> None:
    plugin = Steps("pre_filter", "reserve")
    pods = [pod(f"p{number}", annotations={"a": "x" * 2**20}) for number in range(17)]
    wire = Wire(plugin, nodes=["n"], pods=pods)
    for of in pods:
        wire.filter(of)
    for of, prepared in ((pods[0], 18), (pods[1], 18)):
        assert wire.bind(of, "n").error == ""
        assert plugin.calls.count("pre_filter") == prepared


# The time of a bind, nine minutes of Permit and one more: the last 15 s are not the API's.
TEN_MINUTES = {"extender.permitMaxWait": "9m"}


@pytest.mark.parametrize(("reserve_s", "left_s"), [(0, 585), (60, 525), (500, 85)])
def test_the_api_has_what_is_left_of_the_time_since_the_request_came(
    reserve_s: float, left_s: float
) -> None:
    plugin = Steps("reserve")
    wire = Wire(plugin, nodes=["n"], pods=[P], settings=TEN_MINUTES)

    def take_long() -> None:
        wire.clock.now_s += reserve_s

    plugin.on["reserve"] = take_long
    assert wire.bind(P, "n").error == ""
    assert wire.binder.timeouts_s == [left_s]


# The chosen node may go while a pod is on its way there.

DELETED = "the node was deleted"
NOT_KNOWN = "the node is not among those that kubextend watches"
CORDONED = "the node is cordoned, and the pod does not tolerate that"


def n(uid: str = "1", **fields: Any) -> dict[str, Any]:
    made = node("n", **fields)
    made["metadata"]["uid"] = uid
    return made


def recreate(wire: Wire) -> None:
    wire.gone_node("n")
    wire.show_node(n("2"))


def relist(uid: str) -> Any:
    return lambda wire: wire.list_nodes(n(uid), node("other"))


HAPPENS = {
    "deleted": (lambda wire: wire.gone_node("n"), DELETED),
    "recreated": (recreate, DELETED),
    "listed anew with another UID": (relist("2"), DELETED),
    "missing in a list": (lambda wire: wire.list_nodes(node("other")), DELETED),
    "gone and back in lists": (lambda wire: (relist("2")(wire), relist("1")(wire)), DELETED),
    "listed anew": (relist("1"), ""),
    "cordoned": (lambda wire: wire.show_node(n(unschedulable=True)), CORDONED),
    "another is deleted": (lambda wire: wire.gone_node("other"), ""),
}


@pytest.mark.parametrize("happens", HAPPENS)
def test_a_held_pod_is_bound_only_to_a_node_that_is_still_there(happens: str) -> None:
    do, error = HAPPENS[happens]
    plugin = Steps("reserve", "pre_bind", permit=(Status.wait(), 60.0))
    wire = Wire(plugin, nodes=[n(), node("other")], pods=[P])
    call = wire.begin_bind(P, "n")
    wire.wait_until_held(P)
    do(wire)
    # A node that went ends the wait at once.
    assert call.done is (error == DELETED)
    if not call.done:
        wire.held(P).allow("Steps")  # type: ignore[union-attr]
    assert call.answer().error == error
    assert plugin.calls == ["reserve", "permit", "unreserve" if error else "pre_bind"]
    assert wire.binder.bound == ({} if error else {uid_of(P): "n"})
    assert wire.assumed() == ({} if error else {"p": "n"})
    # No Permit plugin rejected it, so that the next attempt is a real one.
    assert wire.filter(P).rejected == {}


@pytest.mark.parametrize("happens", ["deleted", "recreated"])
@pytest.mark.parametrize("step", ["pre_filter", "reserve", "permit", "pre_bind"])
def test_a_node_that_goes_in_the_middle_of_a_step_gets_no_binding(step: str, happens: str) -> None:
    plugin = Steps("pre_filter", "reserve", "permit", "pre_bind")
    wire = Wire(plugin, nodes=[n(), node("other")], pods=[P])

    def go() -> None:
        wire.delete_node_in_the_watch("n")
        if happens == "recreated":
            wire.nodes.show(n("2"))

    plugin.on[step] = go
    assert wire.bind(P, "n").error in {DELETED, NOT_KNOWN}
    assert wire.binder.bound == {}
    assert plugin.reserved == 0
    assert ("pre_bind" in plugin.calls) is (step == "pre_bind")


def test_a_node_that_is_known_only_after_the_bind_began_takes_the_pod() -> None:
    plugin = Steps("reserve")
    wire = Wire(plugin, nodes=["other"], pods=[P])
    plugin.closed.add("reserve")
    call = wire.begin_bind(P, "n")
    wire.until(lambda: plugin.calls)
    wire.show_node(n())
    plugin.closed.clear()
    assert call.answer().error == ""


TAINT = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("tolerations", "tolerated"),
    [
        ([], False),
        ([{"operator": "Exists"}], True),
        ([{"key": TAINT, "operator": "Exists"}], True),
        ([{"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": TAINT, "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": TAINT}], True),
        ([{"key": TAINT, "operator": "Equal", "value": "x"}], False),
        ([{"key": "another", "operator": "Exists"}], False),
        ([{"key": "another", "operator": "Exists"}, {"key": TAINT}], True),
    ],
)
@pytest.mark.parametrize("takes_part", ["reserve", "filter"])
def test_a_cordoned_node_takes_pods_that_tolerate_that(
    tolerations: list[dict[str, str]], tolerated: bool, takes_part: str
) -> None:
    of = pod("p", tolerations=tolerations)
    serves_bind = {"extender": {"bind": True}}
    cordoned = [n(unschedulable=True)]
    wire = Wire(Steps(takes_part), nodes=cordoned, pods=[of], settings=serves_bind)
    assert wire.bind(of, "n").error == ("" if tolerated else CORDONED)


def test_pods_that_are_sent_back_because_kubextend_ends_are_not_held_against_them() -> None:
    wire = Wire(Steps(permit=(Status.wait(), 60.0)), nodes=["n"], pods=[P])
    call = wire.begin_bind(P, "n")
    wire.wait_until_held(P)
    wire.shut_down()
    assert call.answer().error == "kubextend is shutting down"
    assert wire.bind(P, "n").error == "kubextend is shutting down"
    assert wire.filter(P).kept == ["n"]
