"""Records what the verbs decided about each pod lately, for people who ask why.

A record has the last four attempts at a pod. Of each call it has a summary, made when the answer is
made: counts of nodes by reason, examples, and the best scores. A pod's record begins with
kube-scheduler's first call about the pod, and ends when the pod is deleted, or when more pods have
had a call since than there may be records.

Of the pods that were asked about last, the record also has the nodes of the last attempt, with
every rejection and score. More of these would keep old states of nodes in memory, and names of
nodes that take over 1 MiB together are not kept.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import orjson

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.plugin import Rejection, Scores
from kubextend.framework.status import Code, Status
from kubextend.logs import shortened
from kubextend.profile import PluginScores
from kubextend.profile.run_in_progress import PluginCall, Run, current_run
from kubextend.verbs.bounded_dict import BoundedDict
from kubextend.verbs.reasons import UNKNOWN_NODE, Entry, to_keep

__all__ = ["Decisions", "PodDecisions", "Recent", "VerbCall", "Verdicts", "short"]

# Of pods that no node fits, and of all others: people ask about the former.
_MOST_RECENT: Final = 32
_MOST_ATTEMPTS: Final = 4
# kube-scheduler tells the Kubernetes API of an attempt only after its last call.
_LONGEST_ATTEMPT_S: Final = 10.0
# A plugin may give each node another reason.
_MOST_REASONS: Final = 8
_MOST_REASON_CHARS: Final = 256
_MOST_NAMED_NODES: Final = 5
_MOST_DURATIONS: Final = 1024
# JSON has integers of 64 bits, as Go's int64.
_MOST_BITS: Final = 63
_ORDER: Final[Mapping[VerbName, int]] = {"filter": 0, "preempt": 1, "prioritize": 2, "bind": 3}


def short(said: object, most: int = 1024) -> str:
    """Return a text of a plugin or client, cut to ``most`` characters, that UTF-8 can encode.

    A plugin that parses JSON of a pod's annotation may quote a lone surrogate, and nobody checks
    the type of a Status' ``detail``.
    """
    cut = shortened(str(said), most)
    return cut if cut.isascii() else cut.encode(errors="backslashreplace").decode()


class Verdicts(NamedTuple):
    """What one call of a verb decided about each node of its request.

    Attributes:
        nodes: the nodes of the request; in a record, the names of whole nodes as a JSON list.
        names_mode: whether the request named nodes that the watched store has.
        unknown: the nodes of which kubextend has no data; None: none are unknown.
        rejections: the nodes that were rejected, each in one entry.
        told: the reasons that kube-scheduler was told, which may be older ones.
        scores: the scores of each Score plugin.
    """

    nodes: core.Nodes | bytes
    names_mode: bool
    unknown: core.Mask | None = None
    rejections: Sequence[Rejection] = ()
    told: Sequence[Entry] = ()
    scores: Sequence[PluginScores] = ()

    def rejected(self) -> Sequence[Rejection]:
        """Return the rejected nodes by reason, each node once."""
        unknown = self.unknown
        if unknown is None or not unknown.any():
            return self.rejections
        known = [replace(each, nodes=each.nodes & ~unknown) for each in self.rejections]
        return [Rejection(unknown, Status.unresolvable(UNKNOWN_NODE)), *known]

    def scored(self, row: int) -> dict[str, object]:
        """Return the scores of the node in a row by plugin, and their total, as JSON."""
        scores, total = {}, 0
        for plugin, weight, final, raw in self.scores:
            score = final[row]
            given = score if raw is final else _raw_score(raw, row, score)
            scores[plugin] = {"raw": given, "normalized": score, "weighted": weight * score}
            total += weight * score
        return {"total": total, "scores": scores}


def _raw_score(raw: Scores, row: int, normalized: int) -> int:
    """Return the score of one node before NormalizeScore.

    A plugin may have changed its list of raw scores since, so that the raw score is missing; or a
    plugin's NormalizeScore took a raw score that is no integer of 64 bits. Then the raw score
    counts as the normalised one.
    """
    try:
        given = int(raw[row])
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return normalized
    return given if given.bit_length() <= _MOST_BITS else normalized


@dataclass(slots=True, eq=False)
class VerbCall:
    """One call of a verb about a pod, and what was answered.

    Attributes:
        verb: the verb.
        error: the Error that was answered; empty if the verb did its work.
        note: what happened in words, where the other attributes do not say it.
        asked: how many nodes the call had; None: it has no nodes.
        passed: how many of them passed; None: it has no nodes.
        summary: what was decided about the nodes together, as JSON, which takes a fifth of the
            memory of objects; empty without nodes.
        node: the node of a bind request.
        at_s: when the record was written, in seconds of Unix time.
        took_s: for how many seconds the verb had run by then.
        plugins: plugin and extension point -> the seconds that its calls took.
        failed: the plugin and the extension point that failed, and what the plugin raised; empty
            without a failure.
        left_out: plugins that failed and without which the verb went on, with the extension point.
        rejected_by: the plugin and the extension point that rejected the pod at bind.
        held_s: for how many seconds Permit held the pod; None: Permit did not.
        api_s: for how many seconds the Kubernetes API worked on the Binding.
        done: whether the call was answered.
    """

    verb: VerbName
    error: str = ""
    note: str = ""
    asked: int | None = None
    passed: int | None = None
    summary: str = ""
    node: str = ""
    at_s: float = 0.0
    took_s: float = 0.0
    plugins: Mapping[PluginCall, float] = field(default_factory=dict)
    failed: tuple[str, str, str] = ("", "", "")
    left_out: Sequence[PluginCall] = ()
    rejected_by: tuple[str, str] = ("", "")
    held_s: float | None = None
    api_s: float | None = None
    done: bool = True

    def timed(self, run: Run | None) -> None:
        """Note when the call is recorded, how long its run has taken, and its plugins' calls."""
        self.at_s = time.time()
        if run is not None:
            self.took_s, self.plugins = run.elapsed_s, run.spent_s

    def blame(self, error: PluginError) -> None:
        """Note which plugin failed, and how."""
        self.failed = error.plugin, error.extension_point, short(error.message)

    def summarize(self, nodes: core.Nodes, verdicts: Verdicts) -> None:
        """Note counts of nodes by plugin and reason, and the best nodes with their scores."""
        found = [(each, count) for each in verdicts.rejected() if (count := each.nodes.count())]
        told: Counter[str] = Counter()
        for mask, text, _ in verdicts.told:
            told[short(text)] += mask.count()
        # ``weigh`` divides by ten and rounds.
        parts = [(each.scores, 10 * each.weight) for each in verdicts.scores]
        best = core.highest(core.weigh(parts), _MOST_NAMED_NODES) if parts else []
        self.asked, self.passed = len(nodes), len(nodes) - sum(count for _, count in found)
        summary = {
            "nodes": self.asked,
            "passed": self.passed,
            "rejected": [_group(nodes, *each) for each in found[:_MOST_REASONS]],
            "rejectedForOtherReasons": sum(count for _, count in found[_MOST_REASONS:]),
            "told": [{"reason": text, "nodes": count} for text, count in told.items()],
            "best": [{"node": _node_name(nodes, row), **verdicts.scored(row)} for row in best],
        }
        # What ``dumps`` returns keeps its buffer, which may be ten times as long.
        self.summary = orjson.dumps(summary).decode()


def _group(nodes: core.Nodes, rejection: Rejection, count: int) -> dict[str, object]:
    status = rejection.status
    return {
        "plugin": rejection.plugin,
        "reason": short(status.reason, _MOST_REASON_CHARS),
        "detail": short(status.detail, _MOST_REASON_CHARS),
        "unresolvable": status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "nodes": count,
        "examples": [_node_name(nodes, row) for row in rejection.nodes.indices(_MOST_NAMED_NODES)],
    }


def _node_name(nodes: core.Nodes, row: int) -> str:
    """Return the name of a node, cut if it is longer than Kubernetes lets a name be."""
    return shortened(nodes[row].name, _MOST_REASON_CHARS)


class Recent(NamedTuple):
    """What a record has of a pod that was asked about lately.

    Attributes:
        pod: the pod as a request brought it last.
        verdicts: what each call of the last attempt decided about nodes, in the order of the calls.
    """

    pod: core.Pod
    verdicts: tuple[Verdicts, ...]


@dataclass(slots=True, eq=False)
class PodDecisions:
    """The last attempts of one pod.

    Attributes:
        uid: the UID of the pod.
        pod: ``namespace``, ``name``, ``uid``, ``schedulerName`` and ``podGroup`` (the PodGroup in
            ``spec.schedulingGroup`` or None) of the pod, as JSON.
        attempts: the calls of each attempt, oldest first.
        last_bind: the last call of bind, of whichever attempt: it says which plugin rejected the
            pod, while filter repeats the rejection.
        recent: the nodes of the last attempt; None: there are none, or they are no longer kept.
    """

    uid: str
    pod: Mapping[str, str | None]
    attempts: list[list[VerbCall]] = field(default_factory=list)
    last_bind: VerbCall | None = None
    recent: Recent | None = None

    def add(self, pod: core.Pod, call: VerbCall, verdicts: Verdicts | None) -> None:
        """Add a call to the last attempt, or begin an attempt with the call."""
        if call.verb == "bind":
            self.last_bind = call
        attempts = self.attempts
        if attempts and _ORDER[call.verb] > _ORDER[attempts[-1][-1].verb]:
            attempts[-1].append(call)
        else:
            self.attempts = [*attempts[1 - _MOST_ATTEMPTS :], [call]]
            self.recent = None
        if call.asked is not None:
            before = self.recent.verdicts if self.recent else ()
            asked = sum(each.asked is not None for each in self.attempts[-1])
            # The nodes of some calls alone would hide what the others decided about theirs.
            if verdicts is not None and len(before) == asked - 1:
                self.recent = Recent(pod, (*before, verdicts))
            else:
                self.recent = None


def _names(pod: core.Pod) -> dict[str, str | None]:
    names = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {**names, "schedulerName": pod.scheduler_name, "podGroup": pod.scheduling_group or None}


class Decisions:
    """The records of the pods that had a call last; any number of threads may use them.

    Args:
        most_pods: the most pods that have a record; 0: nothing is recorded.

    Attributes:
        records: whether anything is recorded.
        complete_since_s: the Unix time since which every pod that a verb was called for has a
            record: a record that makes room for another makes the time later. None: nothing is
            recorded.
    """

    def __init__(self, most_pods: int = 4096) -> None:
        self.records = most_pods > 0
        self.complete_since_s = time.time() if self.records else None
        self._lock = threading.Lock()
        # The pod with the oldest last call comes first.
        self._pods: BoundedDict[PodDecisions] = BoundedDict(most_pods)
        # By whether the pod fits nowhere: the records that have nodes, in the same order.
        self._recent: dict[bool, BoundedDict[PodDecisions]] = {
            fits_nowhere: BoundedDict(_MOST_RECENT) for fits_nowhere in (True, False)
        }
        self._durations: dict[PluginCall, deque[float]] = {}
        self._failures: Counter[PluginCall] = Counter()

    def add(self, pod: core.Pod, call: VerbCall, verdicts: Verdicts | None = None) -> None:
        """Record a call of a verb about a pod; the call's run is the current one.

        A pod without a UID is not recorded.
        """
        if not self.records or not (uid := pod.uid):
            return
        call.timed(current_run())
        call.error, call.note = short(call.error), short(call.note)
        if verdicts is not None and not isinstance(verdicts.nodes, bytes):
            nodes = verdicts.nodes
            call.summarize(nodes, verdicts)
            kept = to_keep(nodes, names_mode=verdicts.names_mode)
            verdicts = None if kept is None else verdicts._replace(nodes=kept)
        with self._lock:
            record = self._taken(uid) or PodDecisions(uid, _names(pod))
            record.add(pod, call, verdicts)
            self._put(record)
        if call.done:
            self.ended(call)

    def _taken(self, uid: str) -> PodDecisions | None:
        """Take a record out, if there is one, and return it."""
        for recent in self._recent.values():
            recent.pop(uid, None)
        return self._pods.pop(uid, None)

    def _put(self, record: PodDecisions) -> None:
        """Make a record the newest, in the place of the oldest if there are too many."""
        if record.recent is not None:
            recent = self._recent[record.attempts[-1][0].passed == 0]
            for older in recent.put(record.uid, record):
                older.recent = None
        for oldest in self._pods.put(record.uid, record):
            self._taken(oldest.uid)
            ended_s = oldest.attempts[-1][-1].at_s + _LONGEST_ATTEMPT_S
            self.complete_since_s = max(self.complete_since_s or 0.0, ended_s)

    def ended(self, call: VerbCall) -> None:
        """Count the durations and failures of the plugins of a call that has been answered."""
        failed = [PluginCall(*call.failed[:2])] if call.failed[0] else []
        with self._lock:
            for plugin, seconds in call.plugins.items():
                durations = self._durations.setdefault(plugin, deque(maxlen=_MOST_DURATIONS))
                durations.append(seconds)
            for plugin in (*failed, *call.left_out):
                self._failures[plugin] += 1

    def find(self, uid: str = "", namespace: str = "", name: str = "") -> PodDecisions | None:
        """Return the record of a pod by UID, or by namespace and name; None without a record.

        Of several pods of one name, the latest counts.
        """
        with self._lock:
            if uid:
                return self._pods.get(uid)
            records = [*reversed(self._pods.values())]
        wanted = {"namespace": namespace, "name": name}
        return next((each for each in records if wanted.items() <= each.pod.items()), None)

    def latest(self, most: int) -> tuple[int, list[PodDecisions]]:
        """Return how many pods have a record, and the records of the last ``most``, newest first.

        A pod is as new as its last call.
        """
        with self._lock:
            return len(self._pods), [*reversed(self._pods.values())][:most]

    def forget(self, uid: str) -> None:
        """Forget a deleted pod. Any thread may call; the call never waits for a plugin."""
        with self._lock:
            self._taken(uid)

    def durations(self) -> dict[PluginCall, list[float]]:
        """Return the last durations of each plugin at each extension point, in seconds, sorted."""
        with self._lock:
            return {call: sorted(durations) for call, durations in self._durations.items()}

    def failures(self) -> dict[PluginCall, int]:
        """Return how often each plugin failed at each extension point since the start."""
        return dict(self._failures)
