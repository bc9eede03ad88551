"""What `kubextend why` concludes from a record, a pod and its Events."""

from dataclasses import replace
from typing import Any

import pytest

from kubextend.decisions.explanation import Cause, Facts, _reasons, explain
from kubextend.verbs.unplaced_pods import NOT_PERMITTED

# kubextend has run for an hour when the pod is tried.
SERVER = {
    "queueGate": "",
    "profiles": {"trains": ["P"], "web": []},
    "notReady": {},
    "recordsSince": "2026-01-01T11:00:00.5Z",
}
TRIED = "2026-01-01T12:00:00Z"


def call(verb: str = "filter", **fields: Any) -> dict[str, Any]:
    usual = {
        "verb": verb,
        "at": "2026-01-01T00:00:00Z",
        "tookSeconds": 0.001,
        "done": True,
        "error": "",
        "note": "",
        "failed": None,
        "leftOut": [],
        "plugins": [],
        "nodes": None,
        "node": "",
        "rejectedBy": None,
        "heldSeconds": None,
        "apiSeconds": None,
    }
    return {**usual, **fields}


def rejected(count: int, told: str = "no ssd") -> dict[str, Any]:
    group = {"plugin": "P", "reason": "no ssd", "detail": "", "nodes": count, "examples": []}
    return {
        "nodes": count,
        "passed": 0,
        "rejected": [group],
        "told": [{"reason": told, "nodes": count}],
        "best": [],
    }


def facts(message: str = "", *calls: dict[str, Any], **fields: Any) -> Facts:
    conditions = [
        {
            "type": "PodScheduled",
            "status": "False",
            "message": message,
            "lastTransitionTime": TRIED,
        }
    ]
    pod = {
        "metadata": {"uid": "u"},
        "spec": {"schedulerName": "trains", **fields.pop("spec", {})},
        "status": {"conditions": conditions if message else []},
    }
    decisions = {"kubextend": SERVER, "attempts": [{"calls": list(calls)}] if calls else []}
    return Facts("ns", "p", **{"pod": pod, "decisions": decisions, **fields})


def failed_scheduling(note: str, of: str = "trains", at: str = TRIED) -> dict[str, Any]:
    return {"reason": "FailedScheduling", "from": of, "at": at, "note": note}


OURS = "0/3 nodes are available: 3 no ssd. preemption: 0/3 nodes are available: 3 No preemption."
BOTH = "0/5 nodes are available: 2 node(s) had untolerated taint {a: b}, 3 no ssd."
THEIRS = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
DOWN = 'Post "http://127.0.0.1:8888/filter": dial tcp 127.0.0.1:8888: connect: connection refused'
HUNG = {"plugin": "P", "extensionPoint": "Filter", "detail": "has not answered in time"}
UNCALLED = {"plugin": "P", "extensionPoint": "Filter", "detail": "not called: it hung, or kept"}
FAILED = {"plugin": "P", "extensionPoint": "Filter", "detail": "ValueError: x"}
PASSED = {"nodes": 1, "passed": 1, "rejected": [], "told": [], "best": []}
FAILS = 'Filter plugin "P" failed'


@pytest.mark.parametrize(
    ("given", "cause", "words"),
    [
        (facts(OURS, call(nodes=rejected(3))), Cause.REJECTED, "P 3 nodes: no ssd"),
        (facts(BOTH, call(nodes=rejected(3))), Cause.REJECTED, "itself rejected 2 nodes"),
        (facts(THEIRS), Cause.REJECTED_BY_KUBE_SCHEDULER, "1: Insufficient cpu"),
        # A record of an earlier attempt does not count where kube-scheduler no longer asks.
        (facts(THEIRS, call(nodes=rejected(3))), Cause.REJECTED_BY_KUBE_SCHEDULER, "own filters"),
        (facts(DOWN), Cause.NOT_REACHED, "could not reach it"),
        (facts(f"{DOWN} context deadline exceeded"), Cause.NOT_REACHED, "no answer in time"),
        (
            facts("failed filter with extender at URL http://a/filter, code 404"),
            Cause.NOT_REACHED,
            "status 404",
        ),
        (facts(FAILS, call(error=FAILS, failed=FAILED)), Cause.PLUGIN_FAILED, "ValueError"),
        (facts(FAILS, call(error=FAILS, failed=HUNG)), Cause.PLUGIN_HUNG, "Filter of P"),
        (facts(FAILS, call(error=FAILS)), Cause.PLUGIN_HUNG, "Filter of P"),
        (facts(FAILS, call(error=FAILS, failed=UNCALLED)), Cause.BREAKER_OPEN, "breaker is open"),
        (
            facts("x", call(error="kubextend is not ready: the nodes are not listed yet")),
            Cause.NOT_READY,
            "not listed",
        ),
        (
            facts("x", call("bind", error="the node has no room left for the pod: pods")),
            Cause.GUARD_REFUSED,
            "no room",
        ),
        (facts("x", call("bind", error="409", node="n")), Cause.BIND_FAILED, "node n: 409"),
        # Neither does an earlier Error, which kube-scheduler would repeat in its message.
        (
            facts(THEIRS, call(error=FAILS, failed=FAILED)),
            Cause.REJECTED_BY_KUBE_SCHEDULER,
            "Insufficient cpu",
        ),
        (
            facts(THEIRS, call("bind", error="the node has no room left for the pod", node="n")),
            Cause.REJECTED_BY_KUBE_SCHEDULER,
            "Insufficient cpu",
        ),
        (
            facts(OURS, call("preempt", error=FAILS, failed=FAILED)),
            Cause.PLUGIN_FAILED,
            "ValueError",
        ),
        (facts("", call("bind", done=False, node="n")), Cause.BINDING, "to node n"),
        (facts(), Cause.NOT_TRIED, "profile trains"),
        (facts(spec={"schedulerName": "trians"}), Cause.NO_SCHEDULER, "did you mean trains?"),
        (facts(spec={"schedulingGates": [{"name": "a/b"}]}), Cause.OTHER_GATE, "a/b"),
        (
            facts(spec={"schedulingGates": [{"name": "kubextend.dev/queue"}]}),
            Cause.QUEUE_GATE,
            "has no queue",
        ),
        (
            facts(
                spec={"schedulingGates": [{"name": "kubextend.dev/queue"}]},
                decisions={
                    "kubextend": {**SERVER, "queueGate": "kubextend.dev/queue"},
                    "queued": "waits for ns/head",
                },
            ),
            Cause.QUEUE_GATE,
            "the gate kubextend.dev/queue: waits for ns/head",
        ),
        (facts(spec={"nodeName": "n"}), Cause.BOUND, "on node n"),
        (facts(pod=None), Cause.NO_SUCH_POD, "ns/p"),
        (facts(pod=None, pod_unknown="403"), Cause.NOT_KNOWN, "nothing is known"),
        (facts("", call(nodes=PASSED)), Cause.NOT_KNOWN, "has not come back"),
    ],
)
def test_the_cause_follows_from_what_is_known(given: Facts, cause: Cause, words: str) -> None:
    found = explain(given)
    assert found.cause is cause
    assert words in found.sentence


def test_the_reasons_of_kube_scheduler_are_counted_apart_from_ours() -> None:
    found = explain(facts(BOTH, call(nodes=rejected(3))))
    assert found.kube_scheduler == {"node(s) had untolerated taint {a: b}": 2}


AFFINITY = "node(s) didn't match Pod's node affinity/selector"
UNMET = f"0/3 nodes are available: 3 {AFFINITY}. preemption: 0/3 nodes are available: 3 No."
PARTLY_UNMET = f"0/5 nodes are available: 2 {AFFINITY}, 3 no ssd."


def rule(meeting: int | None = 0, plugin: str = "LabelMatch") -> dict[str, Any]:
    return {"plugin": plugin, "profile": "trains", "nodes": "disk=ssd", "meeting": meeting}


@pytest.mark.parametrize(
    ("meeting", "words", "todo"),
    [
        (0, "no node meets that", "a node with the labels disk=ssd"),
        (1, "1 node meets that", "the one node that meets disk=ssd has to pass"),
        (2, "2 nodes meet that", "one of the 2 nodes that meet disk=ssd has to pass"),
        (None, "how many nodes meet that is not known", "a node with the labels disk=ssd"),
    ],
)
def test_a_compiled_rule_behind_kube_schedulers_reason_is_named(
    meeting: int | None, words: str, todo: str
) -> None:
    found = explain(facts(UNMET, rules=[rule(meeting)]))
    assert found.cause is Cause.REJECTED_BY_KUBE_SCHEDULER
    assert found.plugin == "LabelMatch"
    said = "LabelMatch in the profile trains asks for nodes disk=ssd"
    assert f"The pod's node affinity has compiled rules: {said}: {words}" in found.sentence
    assert found.unblock[0].startswith(f"LabelMatch: {todo}")


def test_compiled_rules_are_named_beside_what_kubextend_rejected() -> None:
    given = facts(PARTLY_UNMET, call(nodes=rejected(3)), rules=[rule(3), rule(0, "Other")])
    found = explain(given)
    assert (found.cause, found.plugin) == (Cause.REJECTED, "P, LabelMatch, Other")
    assert "Other in the profile trains" in found.sentence


@pytest.mark.parametrize("message", [THEIRS, UNMET])
def test_a_compiled_rule_that_keeps_no_node_from_the_pod_is_no_cause(message: str) -> None:
    # All nodes meet the rule, or kube-scheduler has another reason.
    found = explain(facts(message, rules=[rule(3 if message == UNMET else 0)]))
    assert found.plugin == ""
    assert "compiled" not in found.sentence


def test_a_message_of_digits_alone_is_read_to_its_end() -> None:
    # In quadratic time this would take an hour.
    assert _reasons(f"0/5 nodes are available: {'1' * 1_000_000}") == (5, {})


def test_what_plugins_say_would_unblock_the_pod_is_told() -> None:
    given = facts(OURS, call(nodes=rejected(3)))
    assert given.decisions is not None
    given.decisions.update(  # type: ignore[attr-defined]
        lacks=[{"plugin": "G", "lacks": "2 pods"}],
        nearest=[{"node": "n", "lacks": [{"plugin": "P", "reason": "no ssd", "lacks": "disk"}]}],
    )
    assert explain(given).unblock == ["G: 2 pods", "node n lacks disk (P)"]


@pytest.mark.parametrize(
    ("lacks", "line"),
    [
        ((("P", "no ssd", ""),), "P rejects node n: no ssd"),
        (
            (("P", "no ssd", "disk=ssd"), ("Q", "another team", ""), ("R", "full", "2 cpu")),
            "node n lacks disk=ssd (P); 2 cpu (R); Q rejects node n: another team",
        ),
    ],
)
def test_a_plugin_that_cannot_say_what_is_lacking_is_told_with_its_reason(
    lacks: tuple[tuple[str, str, str], ...], line: str
) -> None:
    given = facts(OURS, call(nodes=rejected(3)))
    assert given.decisions is not None
    said = [dict(zip(("plugin", "reason", "lacks"), each, strict=True)) for each in lacks]
    given.decisions.update(nearest=[{"node": "n", "lacks": said}])  # type: ignore[attr-defined]
    assert explain(given).unblock == [line]


def test_the_nodes_that_count_are_those_of_the_last_filter_call() -> None:
    attempts = [{"calls": [call(nodes=rejected(number))]} for number in (3, 1)]
    found = explain(facts(OURS, decisions={"kubextend": SERVER, "attempts": attempts}))
    assert found.sentence == "kubextend rejected 3 nodes: P 3 nodes: no ssd"


def test_the_newest_event_of_a_failed_scheduling_counts_where_the_pod_has_no_message() -> None:
    events = [failed_scheduling(note) for note in (THEIRS, DOWN)]
    found = explain(facts(events=[*events, {"reason": "Pulled", "from": "trains"}]))
    assert found.cause is Cause.NOT_REACHED
    assert found.sentence.endswith(
        "; an Event of trains says so, which anybody could write who may create Events in the "
        "namespace ns"
    )


def test_an_event_that_is_not_of_the_scheduler_of_the_pod_says_nothing() -> None:
    events = [failed_scheduling(DOWN, of) for of in ("", "default-scheduler", "a-tenant")]
    assert explain(facts(events=events)).cause is Cause.NOT_TRIED


@pytest.mark.parametrize(
    ("calls", "cause"),
    [
        ([call(nodes=rejected(3))], Cause.REJECTED),
        # kube-scheduler asks for preemption after a filter call that rejected all nodes.
        ([call(nodes=rejected(3)), call("preempt")], Cause.REJECTED),
        ([call(nodes=rejected(3)), call("preempt"), call("preempt")], Cause.REJECTED),
        ([call(error=FAILS, failed=HUNG)], Cause.PLUGIN_HUNG),
        ([call("bind", error="409", node="n")], Cause.BIND_FAILED),
        ([call("bind", note=f"{NOT_PERMITTED}: no licence", node="n")], Cause.PERMIT_REJECTED),
    ],
)
@pytest.mark.parametrize("note", [DOWN, THEIRS])
def test_no_event_says_otherwise_than_the_record_of_kubextend(
    calls: list[dict[str, Any]], cause: Cause, note: str
) -> None:
    """Whoever may create Events in a namespace can write one in the name of the scheduler."""
    found = explain(facts("", *calls, events=[failed_scheduling(note)]))
    assert found.cause is cause
    assert "Event" not in found.sentence


def test_an_event_of_a_failed_binding_counts_after_a_call_that_passed_nodes() -> None:
    down = DOWN.replace("filter", "bind")
    found = explain(facts("", call(nodes=PASSED), events=[failed_scheduling(down)]))
    assert found.cause is Cause.NOT_REACHED


LATE = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
PARTLY = {**rejected(1), "nodes": 2, "passed": 1}


def test_what_failed_after_filter_passed_a_node_is_told_and_not_what_filter_rejected() -> None:
    found = explain(facts("", call(nodes=PARTLY), events=[failed_scheduling(LATE)]))
    assert found.cause is Cause.NOT_KNOWN
    assert found.sentence.startswith(f"the scheduler says: {LATE}; an Event of trains says so")
    assert explain(facts(LATE, call(nodes=PARTLY))).sentence == f"the scheduler says: {LATE}"


def test_nodes_that_filter_rejected_are_no_cause_while_it_passed_others() -> None:
    found = explain(facts("", call(nodes=PARTLY)))
    assert found.cause is Cause.NOT_KNOWN
    assert "has not come back" in found.sentence
    # The message counts the rejected node: kube-scheduler or another extender rejected the rest.
    assert explain(facts(BOTH, call(nodes=PARTLY))).cause is Cause.REJECTED


@pytest.mark.parametrize(
    ("at", "counts"),
    [
        ("2026-01-01T11:59:58.999999Z", False),
        ("2026-01-01T11:59:58Z", False),
        # The call began at 11:59:59.25, and the time of an Event may be cut to seconds.
        ("2026-01-01T11:59:59Z", True),
        ("2026-01-01T11:59:59.300000Z", True),
        ("2026-01-01T12:00:01Z", True),
    ],
)
def test_an_event_from_before_the_last_call_says_nothing(at: str, counts: bool) -> None:
    last = call(nodes=PASSED, at="2026-01-01T12:00:00.75Z", tookSeconds=1.5)
    found = explain(facts("", last, events=[failed_scheduling(DOWN, at=at)]))
    assert found.cause is (Cause.NOT_REACHED if counts else Cause.NOT_KNOWN)
    assert ("Event" in found.sentence) is counts


def test_an_event_is_not_called_the_condition() -> None:
    found = explain(facts(decisions=answer(None), events=[failed_scheduling(OURS)]))
    assert found.cause is Cause.NOT_KNOWN
    assert found.sentence.startswith(f"an Event of trains says: {OURS}; whether")


RELEASED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastTransitionTime": TRIED,
}


def test_a_pod_without_the_gates_that_its_condition_speaks_of_is_not_tried() -> None:
    given = facts()
    assert given.pod is not None
    given.pod["status"]["conditions"] = [RELEASED]
    found = explain(given)
    assert found.cause is Cause.NOT_TRIED
    assert "has a kube-scheduler with the profile trains started?" in found.sentence
    # An attempt is in an Event before it is in the condition.
    events = [failed_scheduling(THEIRS, at="2026-01-01T12:00:01Z")]
    later = explain(replace(given, events=events))
    assert later.cause is Cause.REJECTED_BY_KUBE_SCHEDULER
    given.pod["spec"]["schedulingGates"] = [{"name": "a/b"}]
    assert explain(given).cause is Cause.OTHER_GATE


def answer(since: str | None) -> dict[str, Any]:
    """Return what a kubextend without a record of the pod answers."""
    return {"kubextend": {**SERVER, "recordsSince": since}, "attempts": []}


@pytest.mark.parametrize(
    ("decisions", "why"),
    [
        (None, "kubextend could not be asked"),
        # kubextend has restarted since, is of an earlier version, or records nothing.
        (answer("2026-01-01T12:00:00.25Z"), "kubextend has no record of the pod"),
        ({"kubextend": {"queueGate": ""}, "attempts": []}, "kubextend has no record of the pod"),
        (answer(None), "kubextend has no record of the pod"),
    ],
)
def test_without_the_record_of_the_attempt_nobody_knows_whose_filters_rejected(
    decisions: Any, why: str
) -> None:
    unreached = "connection refused" if decisions is None else ""
    found = explain(facts(OURS, decisions=decisions, unreached=unreached))
    assert (found.cause, found.kube_scheduler) == (Cause.NOT_KNOWN, {})
    assert found.sentence == (
        f"the PodScheduled condition says: {OURS}; whether kube-scheduler's or kubextend's filters "
        f"rejected is not known, because {why}{'' if decisions is None else ', as after a restart'}"
    )


@pytest.mark.parametrize(
    ("since", "events"),
    [
        ("2026-01-01T12:00:00Z", ()),
        # The condition keeps the time of its first attempt; the Event is of a later one.
        (
            "2026-01-01T12:30:00Z",
            (failed_scheduling("x", at="2026-01-01T13:00:00.123456Z"),),
        ),
    ],
)
def test_a_kubextend_with_records_since_before_the_attempt_was_not_asked(
    since: str, events: Any
) -> None:
    found = explain(facts(THEIRS, decisions=answer(since), events=events))
    assert found.cause is Cause.REJECTED_BY_KUBE_SCHEDULER
    assert found.sentence.endswith("kubextend was not asked about the pod")


def test_node_affinity_is_the_reason_of_kube_scheduler_though_kubextend_is_not_reached() -> None:
    found = explain(facts(UNMET, decisions=None, unreached="connection refused"))
    assert found.cause is Cause.REJECTED_BY_KUBE_SCHEDULER
    assert "not asked" not in found.sentence


def test_compiled_rules_are_named_where_nobody_knows_whose_filters_rejected() -> None:
    given = facts(PARTLY_UNMET, decisions=None, unreached="down", rules=[rule(3)])
    found = explain(given)
    assert (found.cause, found.plugin) == (Cause.NOT_KNOWN, "LabelMatch")
    assert "asks for nodes disk=ssd: 3 nodes meet that" in found.sentence


def test_a_kubextend_that_does_not_answer_is_not_said_to_have_no_queue() -> None:
    gated = {"schedulingGates": [{"name": "kubextend.dev/queue"}]}
    found = explain(facts(spec=gated, decisions=None, unreached="connection refused"))
    assert found.cause is Cause.QUEUE_GATE
    assert "no queue" not in found.sentence
