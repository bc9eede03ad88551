"""What ``kubextend why`` concludes from a record, a pod and its Events."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.doors.captures import SERVER, Facts, call, event, facts, rejected, why
from tests.doors.command_line import Golden, transcript

OURS = "0/3 nodes are available: 3 no ssd. preemption: 0/3 nodes are available: 3 No preemption."
BOTH = "0/5 nodes are available: 2 node(s) had untolerated taint {a: b}, 3 no ssd."
THEIRS = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
DOWN = 'Post "http://127.0.0.1:8888/filter": dial tcp 127.0.0.1:8888: connect: connection refused'
LATE = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
HUNG = {"plugin": "P", "extensionPoint": "Filter", "detail": "has not answered in time"}
UNCALLED = {"plugin": "P", "extensionPoint": "Filter", "detail": "not called: it hung, or kept"}
FAILED = {"plugin": "P", "extensionPoint": "Filter", "detail": "ValueError: x"}
PASSED = {"nodes": 1, "passed": 1, "rejected": [], "told": [], "best": []}
PARTLY = {**rejected(1), "nodes": 2, "passed": 1}
FAILS = 'Filter plugin "P" failed'
NO_ROOM = "the node has no room left for the pod"
NOT_PERMITTED = "a Permit plugin rejected the pod"
REJECTED = call(nodes=rejected(3))
THREE_AND_ONE = [{"calls": [call(nodes=rejected(count))]} for count in (3, 1)]
UNREACHED: Facts = {"decisions": None, "unreached": "down"}
EARLIER = {"kubextend": {"queueGate": ""}, "attempts": []}
BIND_DOWN = DOWN.replace("filter", "bind")
SILENT = ("P", "no ssd", "")
PULLED = {"reason": "Pulled", "from": "trains"}
MEETING = (0, 1, 2, None)
GATE = {"schedulingGates": [{"name": "kubextend.dev/queue"}]}
QUEUE = {"kubextend": {**SERVER, "queueGate": "kubextend.dev/queue"}}
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
UNMET = f"0/3 nodes are available: 3 {AFFINITY}. preemption: 0/3 nodes are available: 3 No."
PARTLY_UNMET = f"0/5 nodes are available: 2 {AFFINITY}, 3 no ssd."


def rule(meeting: int | None = 0, plugin: str = "LabelMatch") -> dict[str, Any]:
    return {"plugin": plugin, "profile": "trains", "nodes": "disk=ssd", "meeting": meeting}


RULES = [rule(3), rule(0, "Other")]


def unrecorded(since: str | None) -> dict[str, Any]:
    """Return the answer of a kubextend without a record of the pod."""
    return {"kubextend": {**SERVER, "recordsSince": since}, "attempts": []}


def nearest(*lacks: tuple[str, str, str]) -> dict[str, Any]:
    said = [dict(zip(("plugin", "reason", "lacks"), each, strict=True)) for each in lacks]
    return {"nearest": [{"node": "n", "lacks": said}]}


def released(**fields: Any) -> Facts:
    """Return the facts of a pod whose condition is from before its gates went."""
    known = facts("Scheduling is blocked due to non-empty scheduling gates", **fields)
    known["pod"]["status"]["conditions"][0]["reason"] = "SchedulingGated"
    return known


CASES: dict[str, Facts] = {
    "all nodes rejected by kubextend": facts(OURS, REJECTED),
    "nodes rejected by both": facts(BOTH, REJECTED),
    "nodes rejected by kube-scheduler": facts(THEIRS),
    "nodes rejected by kube-scheduler, after an earlier record": facts(THEIRS, REJECTED),
    "nodes of the last filter call": facts(OURS, told={"attempts": THREE_AND_ONE}),
    "kubextend not reached": facts(DOWN),
    "kubextend too late": facts(f"{DOWN} context deadline exceeded"),
    "kubextend at another path": facts("failed filter with extender at URL http://a, code 404"),
    "plugin failed": facts(FAILS, call(error=FAILS, failed=FAILED)),
    "plugin hung": facts(FAILS, call(error=FAILS, failed=HUNG)),
    "plugin hung, not recorded": facts(FAILS, call(error=FAILS)),
    "plugin hung before": facts(FAILS, call(error=FAILS, failed=UNCALLED)),
    "plugin failed at preempt": facts(OURS, call("preempt", error=FAILS, failed=FAILED)),
    "plugin failed earlier": facts(THEIRS, call(error=FAILS, failed=FAILED)),
    "not ready": facts("x", call(error="kubextend is not ready: the nodes are not listed yet")),
    "guard refused": facts("x", call("bind", error=f"{NO_ROOM}: pods")),
    "guard refused earlier": facts(THEIRS, call("bind", error=NO_ROOM, node="n")),
    "bind failed": facts("x", call("bind", error="409", node="n")),
    "permit rejected": facts("x", call("bind", note=f"{NOT_PERMITTED}: no licence", node="n")),
    "binding": facts("", call("bind", done=False, node="n")),
    "bound": facts(spec={"nodeName": "n"}),
    "not tried": facts(),
    "scheduler misspelt": facts(spec={"schedulerName": "trians"}),
    "another gate": facts(spec={"schedulingGates": [{"name": "a/b"}]}),
    "the gate of a queue that is off": facts(spec=GATE),
    "the gate of the queue": facts(spec=GATE, told={**QUEUE, "queued": "waits for ns/head"}),
    "the gate of a queue that cannot be asked": facts(spec=GATE, **UNREACHED),
    "no such pod": facts(pod=None),
    "pod unknown": facts(pod=None, pod_unknown="403"),
    "passed, and not back yet": facts("", call(nodes=PASSED)),
    # Compiled rules are kube-scheduler's to reject by.
    **{f"compiled rule that {n} nodes meet": facts(UNMET, rules=[rule(n)]) for n in MEETING},
    "compiled rules beside a rejection": facts(PARTLY_UNMET, REJECTED, rules=RULES),
    "compiled rule that all nodes meet": facts(UNMET, rules=[rule(3)]),
    "compiled rule, and another reason": facts(THEIRS, rules=[rule(0)]),
    "compiled rule of an unknown attempt": facts(PARTLY_UNMET, **UNREACHED, rules=[rule(3)]),
    # What would unblock the pod.
    "plugins that know what is lacking": facts(
        *(OURS, REJECTED),
        told={"lacks": [{"plugin": "G", "lacks": "2 pods"}], **nearest(("P", "no ssd", "disk"))},
    ),
    "a plugin that cannot say what is lacking": facts(OURS, REJECTED, told=nearest(SILENT)),
    "one of three that cannot say what is lacking": facts(
        *(OURS, REJECTED),
        told=nearest(("P", "no ssd", "disk=ssd"), ("Q", "another team", ""), ("R", "full", "cpu")),
    ),
    # Events count where the pod has no message, and the newest one at that.
    "newest event": facts(events=[event(THEIRS), event(DOWN), PULLED]),
    "event of another scheduler": facts(events=[event(DOWN, each) for each in ("", "a-tenant")]),
    "event of a failed binding": facts("", call(nodes=PASSED), events=[event(BIND_DOWN)]),
    "event of what failed after filter": facts("", call(nodes=PARTLY), events=[event(LATE)]),
    "message of what failed after filter": facts(LATE, call(nodes=PARTLY)),
    "some nodes rejected, and no message": facts("", call(nodes=PARTLY)),
    "some nodes rejected, and a message": facts(BOTH, call(nodes=PARTLY)),
    "event without a record": facts(decisions=unrecorded(None), events=[event(OURS)]),
    # A gate that is gone.
    "released": released(),
    "released and tried": released(events=[event(THEIRS, at="2026-01-01T12:00:01Z")]),
    "released and gated again": released(spec={"schedulingGates": [{"name": "a/b"}]}),
    # Without the record of the attempt nobody knows whose filters rejected.
    "kubextend unreached": facts(OURS, **UNREACHED),
    "kubextend restarted": facts(OURS, decisions=unrecorded("2026-01-01T12:00:00.25Z")),
    "kubextend of an earlier version": facts(OURS, decisions=EARLIER),
    "kubextend that records nothing": facts(OURS, decisions=unrecorded(None)),
    "kubextend not asked": facts(THEIRS, decisions=unrecorded("2026-01-01T12:00:00Z")),
    "kubextend not asked since": facts(
        THEIRS,
        decisions=unrecorded("2026-01-01T12:30:00Z"),
        events=[event("x", at="2026-01-01T13:00:00.123456Z")],
    ),
    "node affinity without kubextend": facts(UNMET, **UNREACHED),
}


def in_short(text: str) -> str:
    """Return cause and sentence, and what would unblock the pod."""
    head, *rest = text.split("\n\n")
    unblock = [part for part in rest if part.startswith("to unblock")]
    return "\n".join([head.rstrip("\n"), *(part.rstrip("\n") for part in unblock)]) + "\n"


def test_why_names_the_cause_in_one_sentence(golden: Golden, tmp_path: Path) -> None:
    told = {name: in_short(why(tmp_path, known)) for name, known in CASES.items()}
    golden("decisions/causes.txt", transcript(told))


@pytest.mark.parametrize(
    "calls",
    [
        [REJECTED],
        # kube-scheduler asks for preemption after a filter call that rejected all nodes.
        [REJECTED, call("preempt"), call("preempt")],
        [call(error=FAILS, failed=HUNG)],
        [call("bind", error="409", node="n")],
        [call("bind", note=f"{NOT_PERMITTED}: no licence", node="n")],
    ],
)
@pytest.mark.parametrize("note", [DOWN, THEIRS])
def test_why_believes_the_record_of_kubextend_before_an_event(
    calls: list[dict[str, Any]], note: str, tmp_path: Path
) -> None:
    """Whoever may create Events in a namespace can write one in the name of the scheduler."""
    alone = why(tmp_path, facts("", *calls))
    assert why(tmp_path, facts("", *calls, events=[event(note)])) == alone


@pytest.mark.parametrize(
    ("at", "counts"),
    [
        ("2026-01-01T11:59:58.999999Z", False),
        # The call began at 11:59:59.25, and the time of an Event may be cut to seconds.
        ("2026-01-01T11:59:59Z", True),
        ("2026-01-01T12:00:01Z", True),
    ],
)
def test_why_leaves_out_an_event_from_before_the_last_call(
    at: str, counts: bool, tmp_path: Path
) -> None:
    last = call(nodes=PASSED, at="2026-01-01T12:00:00.75Z", tookSeconds=1.5)
    said = why(tmp_path, facts("", last, events=[event(DOWN, at=at)]))
    assert said.startswith(f"pod ns/p: {'NotReached' if counts else 'NotKnown'}\n")
    assert ("Event" in said) is counts


def test_why_reads_a_message_of_digits_alone_to_its_end(tmp_path: Path) -> None:
    # In quadratic time this would take an hour.
    said = why(tmp_path, facts(f"0/5 nodes are available: {'1' * 1_000_000}", REJECTED))
    assert re.match(r"pod ns/p: \w+\n", said)
