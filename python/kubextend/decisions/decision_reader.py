"""Makes JSON of what the verbs recorded about a pod, and of the health of the plugins."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import orjson

from kubextend import __version__, core
from kubextend.decisions.nearest_nodes import InTime, nearest_nodes, what_the_pod_lacks
from kubextend.framework.handle import HeldPod, HeldPods
from kubextend.framework.status import Code
from kubextend.profile import Profiles
from kubextend.profile.breaker import PluginHealth
from kubextend.profile.run_in_progress import PluginCall
from kubextend.verbs.decision_records import (
    Decisions,
    PodDecisions,
    Recent,
    VerbCall,
    Verdicts,
    short,
)
from kubextend.verbs.filter_outside_request import LookAgain
from kubextend.verbs.unplaced_pods import NOT_PERMITTED

__all__ = ["API_VERSION", "DecisionReader", "Json", "ServerFacts", "waiting_json"]

API_VERSION: Final = "kubextend.dev/v1alpha1"
"""The version of the JSON; a field that means something else gets a new version."""

MOST_NODES: Final = 20_000
MOST_PODS: Final = 1_000
"""The most pods of each list of an overview; a list says how many there are."""

Json = dict[str, object]

_PASSED: Final[Json] = {"plugin": "", "reason": "", "detail": "", "unresolvable": False}


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What kubextend is and does, apart from any pod.

    Attributes:
        profiles: the profiles by scheduler name.
        verbs: the names of the verbs that kube-scheduler calls.
        not_ready: returns name of a condition -> what is missing; empty if all conditions hold.
        health: returns the health of each plugin.
        gate: the scheduling gate of kubextend's queue; "" without a queue.
        configuration_sha256: the hash of the configuration.
        queue: returns whether this replica leads the queue, and how many of the queue's pods are in
            each state; None: there is no queue.
        why_queued: returns what holds the pod with a UID back in the queue; "" if nothing is known.
        decides_since_s: returns the Unix time since which this replica leads; None: another one
            may lead. Without an election: 0.
    """

    profiles: Profiles
    verbs: Sequence[str]
    not_ready: Callable[[], Mapping[str, str]]
    health: Callable[[], Mapping[str, PluginHealth]]
    gate: str = ""
    configuration_sha256: str = ""
    queue: Callable[[], tuple[bool, Mapping[str, int]] | None] = lambda: None
    why_queued: Callable[[str], str] = lambda _uid: ""
    decides_since_s: Callable[[], float | None] = lambda: 0.0

    def as_json(self, decisions: Decisions) -> Json:
        """Return the facts as a JSON object.

        Args:
            decisions: the records.
        """
        profiles = self.profiles.by_scheduler_name
        return {
            "version": __version__,
            "verbs": list(self.verbs),
            "profiles": {name: sorted(each.plugin_names) for name, each in profiles.items()},
            "passThrough": sorted(self.profiles.pass_through),
            "notReady": dict(self.not_ready()),
            "openBreakers": sorted(name for name, each in self.health().items() if each.open),
            "queueGate": self.gate,
            "configurationSha256": self.configuration_sha256,
            "recordsSince": self._records_since(decisions),
        }

    def _records_since(self, decisions: Decisions) -> datetime | None:
        """Return since when there is a record of each pod that kube-scheduler asked about.

        None: nothing is recorded, or another replica may lead.
        """
        complete_s, decides_s = decisions.complete_since_s, self.decides_since_s()
        if complete_s is None or decides_s is None:
            return None
        return datetime.fromtimestamp(max(complete_s, decides_s), UTC)


@dataclass(frozen=True, slots=True)
class DecisionReader:
    """Reads the records of decisions for the HTTP interface, as JSON objects.

    Attributes:
        decisions: the records.
        waiting_pods: the pods that Permit holds.
        facts: what kubextend is and does, apart from any pod.
        look_again: runs the filters of a profile outside of a request.
        in_time: calls a plugin's ``unblock`` with a time limit.
    """

    decisions: Decisions
    waiting_pods: HeldPods
    facts: ServerFacts
    look_again: LookAgain
    in_time: InTime

    def pod(self, uid: str = "", namespace: str = "", name: str = "") -> Json:
        """Return the last attempts of a pod, newest first; without a record, none.

        The answer about a pod without a record says what kubextend is, so that a client can say
        why there is none. Runs filters, so it needs a thread that may wait.
        """
        record = self.decisions.find(uid, namespace, name)
        answer = self._answer("PodDecisions")
        answer["kubextend"] = self.facts.as_json(self.decisions)
        answer["pod"] = answer["waiting"] = answer["lastBind"] = None
        answer["attempts"], answer["nearest"], answer["lacks"] = [], [], []
        # A pod in the queue has no record yet.
        answer["queued"] = short(self.facts.why_queued(uid if record is None else record.uid))
        if record is None:
            return answer
        answer["pod"] = record.pod
        held = self.waiting_pods.get(record.uid)
        answer["waiting"] = None if held is None else waiting_json(held)
        if record.last_bind is not None:
            answer["lastBind"] = _call(record.last_bind)
        answer["attempts"] = [
            {"calls": [_call(call) for call in list(calls)]} for calls in reversed(record.attempts)
        ]
        return answer | self._lacks(record.recent, held)

    def _lacks(self, recent: Recent | None, held: HeldPod | None) -> Json:
        """Return what a pod lacks on every node, and on the nearest nodes.

        Nothing is known of a pod that was not asked about lately, and that Permit does not hold.
        """
        known = recent or held
        profile = None if known is None else self.facts.profiles.for_pod(known.pod)
        if known is None or profile is None:
            return {}
        holding = () if held is None else held.pending_plugins
        lacks = what_the_pod_lacks(profile, known.pod, holding, recent, self.in_time)
        near = recent and nearest_nodes(profile, recent, self.look_again, self.in_time)
        return {"lacks": lacks, "nearest": near or []}

    def nodes(self, uid: str, wanted: Mapping[str, str]) -> Json | None:
        """Return what the last attempt decided about each node; None without a record of the pod.

        Args:
            uid: the UID of the pod.
            wanted: ``reason``, ``plugin`` or ``node`` -> the value that a listed node must have.
        """
        record = self.decisions.find(uid)
        if record is None:
            return None
        answer = self._answer("NodeDecisions")
        recent = record.recent
        answer["kept"] = recent is not None
        nodes = [] if recent is None else _nodes(recent.verdicts)
        answer["items"] = [each for each in nodes if wanted.items() <= each.items()][:MOST_NODES]
        return answer

    def overview(self) -> Json:
        """Return the state of kubextend, its queue, the waiting pods and the latest pods.

        A list has at most 1,000 pods, and says how many there are.
        """
        answer = self._answer("Overview")
        answer["kubextend"] = self.facts.as_json(self.decisions)
        queue = self.facts.queue()
        answer["queue"] = None if queue is None else {"leads": queue[0], "pods": dict(queue[1])}
        held = [each for each in self.waiting_pods if each.pending_plugins]
        waiting: list[Json] = [
            {**_names(each.pod), **waiting_json(each)} for each in islice(held, MOST_PODS)
        ]
        answer["waiting"] = {"total": len(held), "items": waiting}
        total, latest = self.decisions.latest(MOST_PODS)
        waits = {each.pod.uid for each in held}
        pods = [_pod(record, waits=record.uid in waits) for record in latest]
        answer["pods"] = {"total": total, "items": pods}
        return answer

    def plugins(self) -> Json:
        """Return the health and the last durations of each plugin."""
        answer = self._answer("PluginStates")
        durations, failures = self.decisions.durations(), self.decisions.failures()
        answer["items"] = [
            {
                "name": name,
                "profiles": self._profiles_of(name),
                "breakerOpen": health.open,
                "stuckThreads": health.stuck_threads,
                "extensionPoints": _points(name, durations, failures),
            }
            for name, health in sorted(self.facts.health().items())
        ]
        return answer

    def _answer(self, kind: str) -> Json:
        return {"apiVersion": API_VERSION, "kind": kind}

    def _profiles_of(self, plugin: str) -> list[str]:
        profiles = self.facts.profiles.by_scheduler_name.values()
        return sorted(each.scheduler_name for each in profiles if plugin in each.plugin_names)


def _names(pod: core.Pod) -> Json:
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _pod(record: PodDecisions, *, waits: bool) -> Json:
    """Return what a list of pods says about one: where the pod is on its way."""
    calls = record.attempts[-1]
    first, last = calls[0], calls[-1]
    return {
        **record.pod,
        "state": "Waiting" if waits else _state(first, last),
        "verb": last.verb,
        "at": datetime.fromtimestamp(last.at_s, UTC),
        "nodes": first.asked,
        "passed": first.passed,
        "node": last.node,
        "said": (last.error if last.done else "") or last.note or first.note,
    }


def _state(first: VerbCall, last: VerbCall) -> str:
    """Return where a pod is on its way, by the first and the last call of its last attempt."""
    if not last.done:
        return "Binding"
    if last.verb == "bind":
        return "NotBound" if last.error else "Bound"
    if last.error or first.error:
        return "Failed"
    if first.passed == 0 or first.note.startswith(NOT_PERMITTED):
        return "Rejected"
    return "Passed"


def _call(call: VerbCall) -> Json:
    plugin, point, detail = call.failed
    rejected_by, rejected_at = call.rejected_by
    failed = {"plugin": plugin, "extensionPoint": point, "detail": detail} if plugin else None
    rejected = {"plugin": rejected_by, "extensionPoint": rejected_at} if rejected_at else None
    return {
        "verb": call.verb,
        "at": datetime.fromtimestamp(call.at_s, UTC),
        "tookSeconds": round(call.took_s, 6),
        "done": call.done,
        "error": call.error,
        "note": call.note,
        "failed": failed,
        "leftOut": [each.plugin for each in call.left_out],
        "plugins": [
            {
                "plugin": each.plugin,
                "extensionPoint": each.extension_point,
                "seconds": round(seconds, 6),
            }
            for each, seconds in list(call.plugins.items())
        ],
        "nodes": orjson.Fragment(call.summary) if call.summary else None,
        "node": call.node,
        "rejectedBy": rejected,
        "heldSeconds": call.held_s,
        "apiSeconds": call.api_s,
    }


def waiting_json(held: HeldPod) -> Json:
    """Return what a held pod waits for, as JSON; without a deadline once it is decided."""
    deadline_s = held.deadline_s
    return {
        "node": held.node_name,
        "pendingPlugins": held.pending_plugins,
        "since": datetime.fromtimestamp(held.since_s, UTC),
        "deadline": None if deadline_s is None else datetime.fromtimestamp(deadline_s, UTC),
    }


def _nodes(calls: Sequence[Verdicts]) -> list[Json]:
    """Return each node with its rejection by filter and its scores by prioritize."""
    found: dict[str, Json] = {}
    for call in calls:
        names = orjson.loads(call.nodes) if isinstance(call.nodes, bytes) else call.nodes.names
        for row, name in enumerate(names):
            node = found.setdefault(name, {"node": name, **_PASSED})
            if call.scores or "scores" not in node:
                node.update(call.scored(row))
        for each in call.rejected():
            status = each.status
            hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            said = {"plugin": each.plugin, "reason": short(status.reason), "unresolvable": hopeless}
            for row in each.nodes.indices():
                detail = each.details.get(row, "") if each.details else status.detail
                found[names[row]].update(said, detail=short(detail))
    return list(found.values())


def _points(
    plugin: str,
    durations: Mapping[PluginCall, Sequence[float]],
    failures: Mapping[PluginCall, int],
) -> list[Json]:
    calls = {call for call in (*durations, *failures) if call.plugin == plugin}
    return [
        {
            "extensionPoint": call.extension_point,
            "failures": failures.get(call, 0),
            "calls": len(durations.get(call, ())),
            "seconds": _quantiles(durations.get(call, ())),
        }
        for call in sorted(calls, key=lambda call: call.extension_point)
    ]


def _quantiles(ordered: Sequence[float]) -> Json | None:
    """Return quantiles of durations that are sorted; None without any."""
    if not ordered:
        return None
    last = len(ordered) - 1
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[round(last * share)], 6) for name, share in shares.items()}
