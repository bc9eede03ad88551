"""Says in one sentence why a pod is where it is, or why it is on no node.

The sentence follows from three sources: the record of kubextend, the pod as the Kubernetes API has
it, and the pod's Events. Each source may be missing; the sentence then says what is not known.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from kubextend.verbs.unplaced_pods import NOT_PERMITTED

__all__ = ["Cause", "Explanation", "Facts", "explain"]

_Json = Mapping[str, Any]

# Sources: kubernetes v1.36 pkg/scheduler/framework/types.go FitError.Error,
# pkg/scheduler/extender.go send
_NODES: Final = re.compile(r"0/(\d+) nodes are available(?:: (.*))?", re.DOTALL)
_AFTER: Final = re.compile(r"\.? (?:no new claims to deallocate|preemption: )")
# Without a limit, a message of digits alone would take quadratic time.
_ONE_REASON: Final = re.compile(r"(\d{1,9}) (.+?)(?=, \d+ |\.?$)", re.DOTALL)
_NO_ANSWER: Final = re.compile(r'Post "(https?://[^"]*/(?:filter|prioritize|bind))"')
_BAD_STATUS: Final = re.compile(r"failed (\S+) with extender at URL (\S+), code (\d+)")
# Sentences of kubextend's own Errors.
_UNANSWERED: Final = re.compile(r'(\w+) plugin "([^"]+)" failed')
_HUNG: Final = "has not answered in time"
_UNCALLED: Final = "not called: "
_MOST_LINES: Final = 8
# Source: kubernetes v1.37 pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
_AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
# The reason of kube-scheduler's Event of an attempt that placed the pod nowhere.
_FAILED: Final = "FailedScheduling"
# kube-apiserver's reason in the condition PodScheduled of a pod that is created with a gate.
_GATED: Final = "SchedulingGated"
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class Cause(StrEnum):
    """Why a pod is where it is, as one word for programs."""

    BOUND = "Bound"
    NO_SUCH_POD = "NoSuchPod"
    DELETED = "Deleted"
    ENDED = "Ended"
    QUEUE_GATE = "QueueGate"
    OTHER_GATE = "OtherGate"
    PERMIT_WAITS = "PermitWaits"
    BINDING = "Binding"
    OBJECT_MISSING = "ObjectMissing"
    NO_SCHEDULER = "NoScheduler"
    NOT_TRIED = "NotTried"
    NOT_REACHED = "NotReached"
    NOT_READY = "NotReady"
    BREAKER_OPEN = "BreakerOpen"
    PLUGIN_HUNG = "PluginHung"
    PLUGIN_FAILED = "PluginFailed"
    PERMIT_REJECTED = "PermitRejected"
    RESERVE_REJECTED = "ReserveRejected"
    PRE_BIND_REJECTED = "PreBindRejected"
    BIND_REJECTED = "BindRejected"
    GUARD_REFUSED = "GuardRefused"
    BIND_FAILED = "BindFailed"
    REJECTED = "Rejected"
    REJECTED_BY_KUBE_SCHEDULER = "RejectedByKubeScheduler"
    NOT_KNOWN = "NotKnown"


_CAUSES: Final = {
    "kubextend is not ready: ": Cause.NOT_READY,
    "node cache has not seen some of the nodes": Cause.NOT_READY,
    "the node has no room left for the pod": Cause.GUARD_REFUSED,
    _HUNG: Cause.PLUGIN_HUNG,
}
"""Part of an Error of kubextend -> the cause."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a pod.

    Attributes:
        namespace: the namespace that was asked for.
        name: the name that was asked for.
        decisions: the PodDecisions of kubextend; None if kubextend could not be asked.
        unreached: why kubextend could not be asked; empty if it was.
        pod: the pod as the API has it; None if there is none, or if the API could not be asked.
        pod_unknown: why the API could not be asked; empty if it was.
        events: the pod's Events, oldest first.
        gate: the gate of kubextend's queue.
        rules: the compiled rules of Filter that are on the pod, as ``plugin``, ``profile``,
            ``nodes`` (the selector of nodes) and ``meeting`` (how many nodes the selector matches;
            None: that is not known).
        awaited: what kube-scheduler waits for before it tries the pod: ``missing``, and
            ``perhaps`` for what may be missing.
    """

    namespace: str
    name: str
    decisions: _Json | None = None
    unreached: str = ""
    pod: _Json | None = None
    pod_unknown: str = ""
    events: Sequence[_Json] = ()
    gate: str = "kubextend.dev/queue"
    rules: Sequence[_Json] = ()
    awaited: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def pod_group(self) -> str:
        """The name of the pod's PodGroup, by the pod or else by the record; "" for a lone pod."""
        spec: _Json = (self.pod or {}).get("spec") or {}
        recorded: _Json = (self.decisions or {}).get("pod") or {}
        group = (spec.get("schedulingGroup") or {}).get("podGroupName")
        return str(group or recorded.get("podGroup") or "")


@dataclass(slots=True)
class Explanation:
    """Why a pod is where it is.

    Attributes:
        cause: the cause as one word.
        sentence: the cause in a sentence.
        plugin: the plugin that is the cause; empty if none is.
        kube_scheduler: what kube-scheduler's own filters rejected: reason -> number of nodes.
        unblock: what would let the pod run.
    """

    cause: Cause
    sentence: str
    plugin: str = ""
    kube_scheduler: dict[str, int] = field(default_factory=dict)
    unblock: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as a JSON object."""
        return {
            "cause": str(self.cause),
            "sentence": self.sentence,
            "plugin": self.plugin,
            "kubeScheduler": [
                {"reason": reason, "nodes": count} for reason, count in self.kube_scheduler.items()
            ],
            "unblock": self.unblock,
        }


def explain(facts: Facts) -> Explanation:
    """Return why the pod is where it is, or why it is on no node."""
    story = _Story(facts)
    found = story.of_the_pod() or story.of_a_hold()
    found = found or story.of_missing_objects() or story.of_no_attempt()
    found = found or story.with_source(story.of_a_failure() or story.of_rejections())
    if found.cause not in {Cause.BOUND, Cause.NO_SUCH_POD, Cause.DELETED, Cause.ENDED}:
        found.unblock += [each for each in _unblocks(facts) if each not in found.unblock]
    return found


class _Story:
    """Looks for the cause in the facts, from what is certain to what has to be concluded."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._decisions: _Json = facts.decisions or {}
        self._pod: _Json = facts.pod or {}
        self._spec: _Json = self._pod.get("spec") or {}
        self._status: _Json = self._pod.get("status") or {}
        self._name = f"{facts.namespace}/{facts.name}"
        self._calls: list[_Json] = [
            call
            for attempt in reversed(self._decisions.get("attempts") or ())
            for call in attempt["calls"]
        ]

    def of_the_pod(self) -> Explanation | None:
        """Return the cause if the pod itself shows it: it is bound, deleted, ended or not there."""
        facts = self._facts
        if facts.pod is None and not facts.pod_unknown:
            return Explanation(Cause.NO_SUCH_POD, f"there is no pod {self._name}")
        if node := self._spec.get("nodeName"):
            return Explanation(Cause.BOUND, f"the pod is on node {node}{self._best(node)}")
        if self._status.get("phase") in {"Succeeded", "Failed"}:
            return Explanation(Cause.ENDED, f"the pod has ended: {self._status['phase']}")
        if (self._pod.get("metadata") or {}).get("deletionTimestamp"):
            return Explanation(Cause.DELETED, "the pod is being deleted, and nobody places it")
        return None

    def of_a_hold(self) -> Explanation | None:
        """Return the cause if a gate or Permit holds the pod, or if a bind is under way."""
        gates = [gate.get("name", "") for gate in self._spec.get("schedulingGates") or ()]
        server: _Json = self._decisions.get("kubextend") or {}
        own = server.get("queueGate") or self._facts.gate
        others = [gate for gate in gates if gate != own]
        if others:
            listed = ", ".join(others[:_MOST_LINES])
            sentence = f"the scheduling gate {listed} holds the pod; kubextend does not remove it"
            todo = f"whoever set the gate {listed} has to remove it"
            return Explanation(Cause.OTHER_GATE, sentence, unblock=[todo])
        if gates:
            sentence = f"the pod waits in kubextend's scheduling queue, behind the gate {own}"
            if self._facts.decisions is not None and not server.get("queueGate"):
                sentence += "; but this kubextend has no queue, so nobody removes the gate"
            elif queued := self._decisions.get("queued"):
                sentence += f": {queued}"
            todo = "kubextend queue shows the pod's place and what holds it back"
            return Explanation(Cause.QUEUE_GATE, sentence, unblock=[todo])
        if waiting := self._decisions.get("waiting"):
            plugins = ", ".join(waiting["pendingPlugins"])
            sentence = (
                f"Permit of {plugins} holds the pod for node {waiting['node']} since "
                f"{waiting['since']}, until {waiting['deadline']} at the latest"
            )
            return Explanation(Cause.PERMIT_WAITS, sentence, plugins)
        if self._calls and not self._calls[-1]["done"]:
            sentence = f"kubextend is binding the pod to node {self._calls[-1]['node']} now"
            return Explanation(Cause.BINDING, sentence)
        return None

    def of_missing_objects(self) -> Explanation | None:
        """Return the cause if the pod names an object that is not there.

        kube-scheduler keeps such a pod out of its queue and says so nowhere, so whatever the pod's
        condition and Events say is of an earlier attempt.
        """
        missing = "; ".join(self._facts.awaited.get("missing", ())[:_MOST_LINES])
        if not missing:
            return None
        return Explanation(Cause.OBJECT_MISSING, f"kube-scheduler does not try the pod: {missing}")

    def of_no_attempt(self) -> Explanation | None:
        """Return the cause if no scheduler has tried the pod yet."""
        if self._facts.pod is None or self._condition() or self._calls or self._message():
            return None
        wanted = self._scheduler()
        server: _Json = self._decisions.get("kubextend") or {}
        profiles: list[str] = sorted(server.get("profiles") or {})
        perhaps = " and ".join(self._facts.awaited.get("perhaps", ())[:_MOST_LINES])
        may_wait = f"it may wait for {perhaps}; " if perhaps else ""
        if profiles and wanted not in (*profiles, *(server.get("passThrough") or ())):
            near = difflib.get_close_matches(wanted, profiles, 1)
            guess = f"; did you mean {near[0]}?" if near else ""
            sentence = (
                f"no scheduler has tried the pod: {may_wait}its schedulerName is {wanted}, and "
                f"kubextend's profiles are {', '.join(profiles[:_MOST_LINES])}{guess}"
            )
            todo = f"a kube-scheduler with a profile {wanted}, or another schedulerName"
            return Explanation(Cause.NO_SCHEDULER, sentence, unblock=[todo])
        sentence = (
            f"no scheduler has tried the pod yet: {may_wait}see whether a kube-scheduler runs with "
            f"the profile {wanted}"
        )
        if self._is_released():
            sentence = (
                "the pod has lost its scheduling gates, and no scheduler has tried the pod since: "
                f"{may_wait}has a kube-scheduler with the profile {wanted} started?"
            )
        return Explanation(Cause.NOT_TRIED, sentence)

    def of_a_failure(self) -> Explanation | None:
        """Return the cause if the last attempt failed, so that nobody judged all nodes."""
        return self._of_no_answer() or self._of_the_last_call()

    def with_source(self, found: Explanation) -> Explanation:
        """Return an explanation whose sentence says if an Event alone is behind it."""
        if self._event():
            found.sentence += (
                f"; an Event of {self._scheduler()} says so, which anybody could write who may "
                f"create Events in the namespace {self._facts.namespace}"
            )
        return found

    def _of_no_answer(self) -> Explanation | None:
        """Return the cause if kube-scheduler got no answer of an extender."""
        message = self._message()
        if found := _BAD_STATUS.search(message):
            what, url, status = found.groups()
            sentence = f"the extender at {url} answered {what} with status {status}"
            return Explanation(Cause.NOT_REACHED, sentence)
        if found := _NO_ANSWER.search(message):
            late = "deadline exceeded" in message or "Timeout" in message
            how = "got no answer in time" if late else "could not reach it"
            sentence = f"kube-scheduler asked the extender at {found[1]}, and {how}: {message}"
            return Explanation(Cause.NOT_REACHED, sentence)
        return None

    def _of_the_last_call(self) -> Explanation | None:
        if not self._calls:
            return None
        call = self._calls[-1]
        if call["error"] and call["verb"] != "preempt" and _NODES.match(self._message()):
            # kube-scheduler repeats an Error in its message. Here it has judged all nodes since,
            # and has not asked kubextend.
            return None
        if rejected := call["rejectedBy"]:
            return self._rejected_at_bind(call, rejected, call["error"])
        if call["note"].startswith(NOT_PERMITTED):
            plugin = self._permit_plugin()
            sentence = _sentence("Permit", plugin, call["note"])
            return Explanation(Cause.PERMIT_REJECTED, sentence, plugin)
        return _of_error(call) if call["error"] else None

    def _rejected_at_bind(self, call: _Json, rejected: _Json, error: str) -> Explanation:
        plugin, point = rejected["plugin"], rejected["extensionPoint"]
        causes = {
            "Permit": Cause.PERMIT_REJECTED,
            "Reserve": Cause.RESERVE_REJECTED,
            "PreBind": Cause.PRE_BIND_REJECTED,
        }
        sentence = f"{_sentence(point, plugin, error)} (node {call['node']})"
        return Explanation(causes.get(point, Cause.BIND_REJECTED), sentence, plugin)

    def _permit_plugin(self) -> str:
        """Return the plugin that rejected the pod in its last bind; "" if it is not known."""
        rejected: _Json = (self._decisions.get("lastBind") or {}).get("rejectedBy") or {}
        return str(rejected.get("plugin") or "")

    def of_rejections(self) -> Explanation:
        """Return the cause if nodes were rejected, by kubextend, kube-scheduler or both."""
        ours, told, passed = self._ours()
        total, reasons = _reasons(self._message())
        theirs = {reason: count for reason, count in reasons.items() if reason not in told}
        rejected = sum(group["nodes"] for group in ours)
        rules = self._rules_that_nodes_miss(theirs, total)
        by_rule = list(dict.fromkeys(rule["plugin"] for rule in rules))
        plugins = list(dict.fromkeys(group["plugin"] for group in ours if group["plugin"]))
        todo = [_of_rule(rule) for rule in rules]
        # A message without reasons is about what came after filter, if filter passed a node.
        if ours and (told & reasons.keys() or not (reasons or passed or self._event())):
            groups = "; ".join(_group(group) for group in ours[:_MOST_LINES])
            sentence = f"kubextend rejected {_nodes(rejected)}: {groups}"
            if theirs:
                sentence += f". kube-scheduler itself rejected {_nodes(sum(theirs.values()))}"
            sentence += _rules(rules)
            plugin = ", ".join(dict.fromkeys((*plugins, *by_rule)))
            return Explanation(Cause.REJECTED, sentence, plugin, theirs, todo)
        if unknown := self._why_nobody_knows_who_rejected(theirs, total):
            sentence = (
                f"{self._source()} says: {self._message()}; whether kube-scheduler's or "
                f"kubextend's filters rejected is not known, because {unknown}"
            )
            plugin = ", ".join(by_rule)
            return Explanation(Cause.NOT_KNOWN, sentence + _rules(rules), plugin, unblock=todo)
        if theirs or total:
            listed = "; ".join(f"{count}: {reason}" for reason, count in theirs.items())
            sentence = (
                f"kube-scheduler's own filters rejected {_nodes(total)}: {listed}"
                if listed
                else f"kube-scheduler found no node: {self._message()}"
            )
            if not self._calls and not self._facts.unreached:
                sentence += ". kubextend was not asked about the pod"
            sentence += _rules(rules)
            plugin = ", ".join(by_rule)
            return Explanation(Cause.REJECTED_BY_KUBE_SCHEDULER, sentence, plugin, theirs, todo)
        if self._message():
            return Explanation(Cause.NOT_KNOWN, f"the scheduler says: {self._message()}")
        return Explanation(Cause.NOT_KNOWN, self._waiting_for())

    def _why_nobody_knows_who_rejected(self, theirs: Mapping[str, int], total: int) -> str:
        """Return why it is not known whose filters rejected the nodes; "": they are known.

        kubextend tells kube-scheduler its reasons, which the message does not keep apart. So the
        message alone does not tell who rejected. Where kubextend has kept all records since before
        the attempt, and has none of the pod, kube-scheduler did not ask kubextend.

        Args:
            theirs: reason in the message that no record has -> number of nodes.
            total: the number of all nodes; 0: the message is not about nodes.
        """
        # No plugin of kubextend gives the reason of kube-scheduler's own NodeAffinity.
        if not total or self._calls or theirs.keys() == {_AFFINITY}:
            return ""
        if self._facts.decisions is None:
            return "kubextend could not be asked"
        since = (self._decisions.get("kubextend") or {}).get("recordsSince")
        if since and self._tried_at() >= _moment(since):
            return ""
        return "kubextend has no record of the pod, as after a restart"

    def _tried_at(self) -> datetime:
        """Return a time at or before the end of the last attempt, as late as it is known."""
        # A later attempt that fails as well changes only the condition's message.
        times = [self._condition().get("lastTransitionTime")]
        times += [each.get("at") for each in self._failures()]
        return max(_moment(each) for each in times)

    def _rules_that_nodes_miss(self, theirs: Mapping[str, int], total: int) -> list[_Json]:
        """Return the compiled rules on the pod that some nodes do not meet, if that is a reason.

        Args:
            theirs: kube-scheduler's own reason -> number of nodes.
            total: the number of all nodes.
        """
        if _AFFINITY not in theirs:
            return []
        rules = [
            rule for rule in self._facts.rules if rule["meeting"] is None or rule["meeting"] < total
        ]
        return rules[:_MOST_LINES]

    def _waiting_for(self) -> str:
        """Return what is known if the API shows no reason."""
        if self._calls and self._calls[-1]["verb"] in {"filter", "prioritize"}:
            last = self._calls[-1]
            return (
                f"kubextend answered {last['verb']} at {last['at']}, and kube-scheduler has not "
                "come back about the pod since"
            )
        return "nothing is known of the pod"

    def _ours(self) -> tuple[list[_Json], set[str], int]:
        """Return what the last filter call rejected, the reasons told, and how many it passed."""
        for call in reversed(self._calls):
            if call["verb"] == "filter" and call["nodes"]:
                told = {each["reason"] for each in call["nodes"]["told"]}
                groups = call["nodes"]["rejected"]
                reasons = told | {group["reason"] for group in groups}
                return groups, reasons, call["nodes"].get("passed") or 0
        return [], set(), 0

    def _condition(self) -> _Json:
        """Return the condition PodScheduled as a scheduler has written it; {}: none has."""
        return {} if self._is_released() else self._pod_scheduled()

    def _is_released(self) -> bool:
        """Return whether the pod has lost its scheduling gates, and no scheduler has tried it."""
        gated = self._pod_scheduled().get("reason") == _GATED
        return gated and not self._spec.get("schedulingGates")

    def _pod_scheduled(self) -> _Json:
        conditions: Sequence[_Json] = self._status.get("conditions") or ()
        found = (each for each in conditions if each.get("type") == "PodScheduled")
        return next(found, {})

    def _message(self) -> str:
        return str(self._condition().get("message") or self._event().get("note") or "")

    def _source(self) -> str:
        return f"an Event of {self._scheduler()}" if self._event() else "the PodScheduled condition"

    def _event(self) -> _Json:
        """Return the scheduler's last Event about a failed attempt; {}: none, or more is known.

        A failed binding is only in an Event until the pod's next attempt. But whoever may create
        Events can write one in the scheduler's name. So an Event counts only if neither the
        condition nor the record says how the last attempt ended, and if it is not of an earlier
        attempt.
        """
        if self._condition().get("message") or self._has_ended():
            return {}
        newest = next(reversed(self._failures()), {})
        if self._calls and _moment(newest.get("at")).timestamp() < _began(self._calls[-1]):
            return {}
        return newest

    def _has_ended(self) -> bool:
        """Return whether the record says how the last attempt ended.

        kube-scheduler asks for preemption after the call that rejected all nodes.
        """
        for call in reversed(self._calls):
            if _has_ended(call):
                return True
            if call["verb"] != "preempt":
                break
        return False

    def _failures(self) -> list[_Json]:
        """Return the Events about failed attempts in the name of the pod's scheduler."""
        wanted = (_FAILED, self._scheduler())
        events = self._facts.events
        return [each for each in events if (each.get("reason"), each.get("from")) == wanted]

    def _scheduler(self) -> str:
        return self._spec.get("schedulerName") or "default-scheduler"

    def _best(self, node: str) -> str:
        """Return the scores of a bound pod's node, as far as they are on record."""
        for call in reversed(self._calls):
            best = (call["nodes"] or {}).get("best") or ()
            for rank, each in enumerate(best, 1):
                if each["node"] == node:
                    scores = ", ".join(
                        f"{plugin} {score['weighted']}" for plugin, score in each["scores"].items()
                    )
                    return f", number {rank} of kubextend's scores: {each['total']} ({scores})"
        return ""


def _has_ended(call: _Json) -> bool:
    """Return whether a call ended an attempt: by an Error, or because no node or plugin passed."""
    passed = (call["nodes"] or {}).get("passed") if call["verb"] == "filter" else None
    told = call["error"] or call["rejectedBy"] or call["note"].startswith(NOT_PERMITTED)
    return bool(told) or passed == 0


def _began(call: _Json) -> float:
    """Return when a call began, in whole seconds, because some Events have no finer time."""
    # A record is written when the call ends. kube-scheduler may have given up before.
    return float((_moment(call["at"]).timestamp() - call["tookSeconds"]) // 1)


def _of_error(call: _Json) -> Explanation:
    """Return the explanation of a call that was answered by an Error, and not by a rejection."""
    error = call["error"]
    if failed := call["failed"]:
        return _failure(failed)
    if found := _UNANSWERED.search(error):
        point, plugin = found.groups()
        sentence = f"{point} of {plugin} did not answer in time"
        return Explanation(Cause.PLUGIN_HUNG, sentence, plugin)
    for part, cause in _CAUSES.items():
        if part in error:
            return Explanation(cause, error)
    if call["verb"] == "bind":
        sentence = f"the pod was not bound to node {call['node']}: {error}"
        return Explanation(Cause.BIND_FAILED, sentence)
    return Explanation(Cause.PLUGIN_FAILED, error)


def _failure(failed: _Json) -> Explanation:
    plugin, point, detail = failed["plugin"], failed["extensionPoint"], failed["detail"]
    if detail.startswith(_UNCALLED):
        sentence = f"{plugin} is not called for 30 s: its breaker is open, as it hung"
        return Explanation(Cause.BREAKER_OPEN, sentence, plugin)
    if _HUNG in detail:
        sentence = f"{point} of {plugin} did not answer in time"
        return Explanation(Cause.PLUGIN_HUNG, sentence, plugin)
    return Explanation(Cause.PLUGIN_FAILED, f"{point} of {plugin} failed: {detail}", plugin)


def _rules(rules: Sequence[_Json]) -> str:
    """Return what compiled rules on the pod ask for, to be added to a sentence."""
    said = [
        f"{rule['plugin']} in the profile {rule['profile']} asks for nodes {rule['nodes']}: "
        f"{_meeting(rule['meeting'])}"
        for rule in rules
    ]
    if not said:
        return ""
    return f". The pod's node affinity has compiled rules: {'; '.join(said)}"


def _meeting(count: int | None) -> str:
    if count is None:
        return "how many nodes meet that is not known"
    if not count:
        return "no node meets that"
    return f"{_nodes(count)} meet{'s' if count == 1 else ''} that"


def _of_rule(rule: _Json) -> str:
    """Return what would let a pod with a compiled rule run."""
    plugin, nodes, meeting = rule["plugin"], rule["nodes"], rule["meeting"]
    if meeting:
        one = "the one node that meets" if meeting == 1 else f"one of the {meeting} nodes that meet"
        return f"{plugin}: {one} {nodes} has to pass kube-scheduler's other filters"
    return f"{plugin}: a node with the labels {nodes}"


def _sentence(point: str, plugin: str, text: str) -> str:
    return f"{point} of {plugin or 'a plugin'} rejected the pod: {text}"


def _group(group: _Json) -> str:
    detail = f" ({group['detail']})" if group["detail"] else ""
    return f"{group['plugin'] or 'kubextend'} {_nodes(group['nodes'])}: {group['reason']}{detail}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _moment(text: object) -> datetime:
    """Return a time in RFC 3339 as a datetime; without one, a time before all others."""
    return datetime.fromisoformat(str(text)) if text else _NEVER


def _reasons(message: str) -> tuple[int, dict[str, int]]:
    """Return how many nodes kube-scheduler saw, and reason -> number of nodes."""
    found = _NODES.match(message)
    if found is None:
        return 0, {}
    text = _AFTER.split(found[2] or "")[0].rstrip(". ")
    return int(found[1]), {reason: int(count) for count, reason in _ONE_REASON.findall(text)}


def _unblocks(facts: Facts) -> Iterator[str]:
    """Yield what would let the pod run, as the plugins say it."""
    decisions: _Json = facts.decisions or {}
    for each in decisions.get("lacks") or ():
        yield f"{each['plugin']}: {each['lacks']}"
    for near in decisions.get("nearest") or ():
        node, said = near["node"], near["lacks"]
        lacks = [f"{each['lacks']} ({each['plugin']})" for each in said if each["lacks"]]
        # A plugin without a method ``unblock`` has given a reason, and says nothing else.
        reasons = [
            f"{each['plugin']} rejects node {node}: {each['reason']}"
            for each in said
            if not each["lacks"]
        ]
        first = [f"node {node} lacks {'; '.join(lacks)}"] if lacks else []
        yield "; ".join([*first, *reasons])
