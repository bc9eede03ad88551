"""Makes JSON of what the verbs recorded about a pod, and of the health of the plugins."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from kubextend import __version__, core
from kubextend.decisions.nearest_nodes import InTime, nearest_nodes, what_the_pod_lacks
from kubextend.framework.handle import HeldPod, HeldPods
from kubextend.profile import Profiles
from kubextend.profile.breaker import PluginHealth
from kubextend.profile.run_in_progress import PluginCall
from kubextend.verbs.decision_records import (
    Decisions,
    NodeVerdict,
    PodDecisions,
    VerbCall,
    scores_json,
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
        answer["queued"] = short(self.facts.why_queued(uid if record is None else record.pod.uid))
        if record is None:
            return answer
        pod = record.pod
        answer["pod"] = _recorded(pod)
        held = self.waiting_pods.get(pod.uid)
        answer["waiting"] = None if held is None else waiting_json(held)
        if record.last_bind is not None:
            answer["lastBind"] = _call(record.last_bind)
        attempts = [list(attempt) for attempt in list(record.attempts)]
        answer["attempts"] = [
            {"calls": [_call(call) for call in calls]} for calls in reversed(attempts)
        ]
        if (profile := self.facts.profiles.for_pod(pod)) is not None:
            first = attempts[-1][0]
            answer["lacks"] = what_the_pod_lacks(
                profile,
                pod,
                () if held is None else held.pending_plugins,
                first.verdicts,
                self.in_time,
            )
            if first.verdicts is not None:
                nearest = nearest_nodes(profile, pod, first.verdicts, self.look_again, self.in_time)
                answer["nearest"] = nearest
        return answer

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
        calls = [call for call in list(record.attempts)[-1] if call.verdicts is not None]
        answer["kept"] = bool(calls)
        answer["items"] = [
            _node(verdict) for verdict in _joined(calls) if _is_wanted(verdict, wanted)
        ][:MOST_NODES]
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
        pods = [_pod(record, waits=record.pod.uid in waits) for record in latest]
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


def _recorded(pod: core.Pod) -> Json:
    group = pod.scheduling_group or None
    return {**_names(pod), "schedulerName": pod.scheduler_name, "podGroup": group}


def _pod(record: PodDecisions, *, waits: bool) -> Json:
    """Return what a list of pods says about one: where the pod is on its way."""
    calls = list(record.attempts[-1])
    last, counts = calls[-1], calls[0].node_counts()
    nodes, passed = counts or (None, None)
    return {
        **_recorded(record.pod),
        "state": "Waiting" if waits else _state(calls[0], last, passed),
        "verb": last.verb,
        "at": datetime.fromtimestamp(last.at_s, UTC),
        "nodes": nodes,
        "passed": passed,
        "node": last.node,
        "said": (last.error if last.done else "") or last.note or calls[0].note,
    }


def _state(first: VerbCall, last: VerbCall, passed: int | None) -> str:
    """Return where a pod is on its way, by the first and the last call of its last attempt."""
    if not last.done:
        return "Binding"
    if last.verb == "bind":
        return "NotBound" if last.error else "Bound"
    if last.error or first.error:
        return "Failed"
    if passed == 0 or first.note.startswith(NOT_PERMITTED):
        return "Rejected"
    return "Passed"


def _call(call: VerbCall) -> Json:
    plugin, point = call.failed
    rejected_by, rejected_at = call.rejected_by
    failed = {"plugin": plugin, "extensionPoint": point, "detail": call.detail} if plugin else None
    rejected = {"plugin": rejected_by, "extensionPoint": rejected_at} if rejected_at else None
    return {
        "verb": call.verb,
        "at": datetime.fromtimestamp(call.at_s, UTC),
        "tookSeconds": round(call.took_s, 6),
        "done": call.done,
        "error": short(call.error),
        "note": short(call.note),
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
        "nodes": call.summary() or None,
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


def _joined(calls: Sequence[VerbCall]) -> Iterator[NodeVerdict]:
    """Yield each node once, with its rejection by filter and its scores by prioritize."""
    found: dict[str, NodeVerdict] = {}
    for call in calls:
        if (verdicts := call.verdicts) is None:
            continue
        for each in verdicts.each():
            before = found.get(each.node, each)
            found[each.node] = before._replace(scores=each.scores or before.scores)
    yield from found.values()


def _is_wanted(verdict: NodeVerdict, wanted: Mapping[str, str]) -> bool:
    return all(getattr(verdict, field) == value for field, value in wanted.items())


def _node(verdict: NodeVerdict) -> Json:
    return {
        **verdict._asdict(),
        "total": sum(weighted for _, _, weighted in verdict.scores.values()),
        "scores": {plugin: scores_json(each) for plugin, each in verdict.scores.items()},
    }


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
