"""Records what the verbs decided about each pod lately, for people who ask why.

The verbs hand over what they have anyway: the nodes of a request, the masks of rejections, the
scores. Nothing is copied or formatted until somebody reads a record. Only the nodes of a request
with whole nodes are replaced by their names at once, because they would keep the request's body in
memory.

A pod's record begins with kube-scheduler's first call about the pod. The record ends when the pod
is deleted, or when all records take too much memory. Ten minutes after its last call, a record
loses what it has of each node, and keeps counts, examples and the best scores: the nodes of an old
request keep old states of nodes in memory.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from sys import getsizeof
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.plugin import Rejection, Scores
from kubextend.framework.status import Code
from kubextend.logs import shortened
from kubextend.profile import PluginScores
from kubextend.profile.run_in_progress import PluginCall, Run, current_run
from kubextend.verbs.memory_bounded_map import KeptPods
from kubextend.verbs.stable_reasons import UNKNOWN_NODE, Entry

__all__ = [
    "MOST_BYTES",
    "AskedNodes",
    "Decisions",
    "NodeVerdict",
    "PodDecisions",
    "VerbCall",
    "Verdicts",
    "kept_nodes",
    "kept_scores",
    "scores_json",
    "short",
]

MOST_BYTES: Final = 64 * 1024 * 1024
"""The memory of all records by default: more than 1,000 attempts with 5,000 nodes."""

_MOST_ATTEMPTS: Final = 4
_SETTLED_AFTER_S: Final = 600.0
# kube-scheduler tells the Kubernetes API of an attempt only after its last call.
_LONGEST_ATTEMPT_S: Final = 10.0
_CALL_BYTES: Final = 768
# A plugin's call with its duration.
_PLUGIN_BYTES: Final = 176
_REJECTION_BYTES: Final = 320
# A plugin may give each node another reason.
_MOST_REASONS: Final = 64
_MOST_EXAMPLES: Final = 5
_MOST_BEST: Final = 5
_MOST_TEXT_CHARS: Final = 1024
_MOST_DURATIONS: Final = 1024
_MOST_IN_INBOX: Final = 256
_LARGE_BYTES: Final = 64 << 10
_MOST_A_SECOND: Final = 200.0
# orjson writes integers from -_INTEGERS to below _INTEGERS, as Go's int64 has them.
_INTEGERS: Final = 1 << 63
_ORDER: Final[Mapping[VerbName, int]] = {"filter": 0, "preempt": 1, "prioritize": 2, "bind": 3}

Summary: TypeAlias = dict[str, object]


def short(said: object) -> str:
    """Return a text of a plugin or client, cut to 1,024 characters, that UTF-8 can encode.

    A plugin that parses JSON of a pod's annotation may quote a lone surrogate, and nobody checks
    the type of a Status' ``detail``.
    """
    text = said if isinstance(said, str) else str(said)
    cut = shortened(text, _MOST_TEXT_CHARS)
    return cut if cut.isascii() else cut.encode(errors="backslashreplace").decode()


class AskedNodes:
    """The nodes of one request, or their names.

    Args:
        count: how many nodes the request has.
        nodes: the nodes of a request that named nodes of the watched store; None: only their names
            are kept.
        packed: the names of the nodes as a JSON list, where only these are kept.
    """

    __slots__ = ("_nodes", "_packed", "count")

    def __init__(self, count: int, nodes: core.Nodes | None = None, packed: bytes = b"") -> None:
        self.count = count
        self._nodes = nodes
        self._packed = packed

    @property
    def names(self) -> list[str]:
        """The names of the nodes, in the order of the request."""
        if self._nodes is not None:
            return self._nodes.names
        names: list[str] = orjson.loads(self._packed)
        return names

    @property
    def latest(self) -> core.Nodes | None:
        """The nodes as the watched store has them now; None if the store's nodes are not kept."""
        return None if self._nodes is None else self._nodes.latest()

    @property
    def held_bytes(self) -> int:
        """The most bytes that the nodes take: several calls may share them."""
        return len(self._packed) if self._nodes is None else self._nodes.held_bytes


def kept_nodes(nodes: core.Nodes, *, names_mode: bool) -> AskedNodes:
    """Return what a record may keep of the nodes of a request.

    Args:
        nodes: the nodes of the request.
        names_mode: whether the request named nodes that the watched store has.
    """
    # Whole nodes would keep the request's body in memory.
    if names_mode:
        return AskedNodes(len(nodes), nodes.kept())
    return AskedNodes(len(nodes), packed=nodes.names_json())


def kept_scores(scores: Sequence[PluginScores]) -> list[PluginScores]:
    """Return what a record may keep of the scores of a request: most in a byte for each node.

    Memory that a record keeps is not in the processor's cache for the next request.
    """
    kept = []
    for plugin, weight, final, raw in scores:
        narrow = core.narrowed(final)
        narrow_raw = narrow if raw is final else core.narrowed(raw)
        kept.append(PluginScores(plugin, weight, narrow, narrow_raw))
    return kept


class NodeVerdict(NamedTuple):
    """What the verbs decided about one node in one attempt.

    Attributes:
        node: the name of the node.
        plugin: the plugin that rejected the node; "" if none did, or if kubextend itself did.
        reason: the reason of the rejection; "" if the node passed.
        detail: what the plugin said besides the reason.
        unresolvable: whether no eviction can cure the rejection.
        scores: plugin -> raw, normalised and weighted score; empty without scores.
    """

    node: str
    plugin: str = ""
    reason: str = ""
    detail: str = ""
    unresolvable: bool = False
    scores: Mapping[str, tuple[int, int, int]] = {}


class Verdicts(NamedTuple):
    """What one call of a verb decided about each node of its request.

    Attributes:
        nodes: the nodes of the request.
        unknown: the nodes of which kubextend has no data; None: none are unknown.
        rejections: the nodes that were rejected; of two entries with a node the first counts.
        told: the reasons that kube-scheduler was told, which may be older ones.
        scores: the scores of each Score plugin.
    """

    nodes: AskedNodes
    unknown: core.Mask | None = None
    rejections: Sequence[Rejection] = ()
    told: Sequence[Entry] = ()
    scores: Sequence[PluginScores] = ()

    @property
    def held_bytes(self) -> int:
        """The bytes that the verdicts take, about."""
        masks = len(self.rejections) * (_REJECTION_BYTES + self.nodes.count // 8)
        texts = sum(
            getsizeof(held)
            for each in self.rejections
            for held in (
                each.status.reason,
                each.status.detail,
                each.details,
                *each.details.values(),
            )
        )
        scores = sum(
            self._bytes_of(each.scores)
            + (0 if each.raw is each.scores else self._bytes_of(each.raw))
            for each in self.scores
        )
        return self.nodes.held_bytes + masks + texts + scores

    def _bytes_of(self, scores: Scores) -> int:
        return self.nodes.count * (1 if isinstance(scores, bytes) else 8)

    @property
    def passed(self) -> int:
        """The number of nodes that nobody rejected."""
        masks = [] if self.unknown is None else [self.unknown]
        masks += [rejection.nodes for rejection in self.rejections]
        return self.nodes.count - (reduce(or_, masks).count() if masks else 0)

    def each(self) -> Iterator[NodeVerdict]:
        """Yield what was decided about each node, in the order of the request."""
        rejected: dict[int, NodeVerdict] = {}
        for mask, verdict, details in self._reasons():
            for row in mask.indices():
                own = verdict._replace(detail=short(details.get(row, ""))) if details else verdict
                rejected.setdefault(row, own)
        for row, name in enumerate(self.nodes.names):
            scores = {each.plugin: _at(each, row) for each in self.scores}
            yield rejected.get(row, _PASSED)._replace(node=name, scores=scores)

    def summary(self) -> Summary:
        """Return counts of nodes by plugin and reason, and the best nodes with their scores."""
        names = self.nodes.names
        left = core.Mask([True] * self.nodes.count)
        groups: list[dict[str, object]] = []
        more = 0
        for mask, verdict, _ in self._reasons():
            mine = mask & left
            left = left & ~mine
            if not (count := mine.count()):
                continue
            if len(groups) == _MOST_REASONS:
                more += count
                continue
            examples = [names[row] for row in mine.indices()[:_MOST_EXAMPLES]]
            groups.append(_group(verdict, count, examples))
        told: dict[str, int] = {}
        for mask, text, _ in self.told:
            told[text] = told.get(text, 0) + mask.count()
        return {
            "nodes": self.nodes.count,
            "passed": left.count(),
            "rejected": groups,
            "rejectedForOtherReasons": more,
            "told": [{"reason": text, "nodes": count} for text, count in told.items()],
            "best": self._best(names),
        }

    def _reasons(self) -> Iterator[tuple[core.Mask, NodeVerdict, Mapping[int, str]]]:
        """Yield sets of nodes, what was decided about them, and the details that differ by node."""
        if self.unknown is not None and self.unknown.any():
            yield self.unknown, NodeVerdict("", "", UNKNOWN_NODE, unresolvable=True), {}
        for rejection in self.rejections:
            status = rejection.status
            hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            texts = short(status.reason), short(status.detail)
            verdict = NodeVerdict("", rejection.plugin, *texts, hopeless)
            yield rejection.nodes, verdict, rejection.details

    def _best(self, names: Sequence[str]) -> list[dict[str, object]]:
        if not self.scores:
            return []
        sums = [
            sum(each.weight * each.scores[row] for each in self.scores) for row in range(len(names))
        ]
        rows = sorted(range(len(names)), key=lambda row: -sums[row])[:_MOST_BEST]
        return [
            {
                "node": names[row],
                "total": sums[row],
                "scores": {each.plugin: scores_json(_at(each, row)) for each in self.scores},
            }
            for row in rows
        ]


class VerbCall:
    """One call of a verb about a pod, and what was answered.

    Args:
        verb: the verb.
        verdicts: what was decided about the nodes; None: nothing was.
        error: the Error that was answered; empty if the verb did its work.
        note: what happened in words, where the other attributes do not say it.

    Attributes:
        verdicts: what was decided about the nodes; None if nothing was, or after ten minutes.
        settled: the summary of verdicts that are no longer kept, as JSON; empty: there is none.
        node: the node of a bind request.
        at_s: when the record was written, in seconds of Unix time.
        took_s: for how many seconds the verb had run by then.
        plugins: plugin and extension point -> the seconds that its calls took.
        detail: what the plugin that failed raised; empty without a failure.
        failed: the plugin and the extension point that failed; empty without a failure.
        left_out: plugins that failed and without which the verb went on, with the extension point.
        rejected_by: the plugin and the extension point that rejected the pod at bind.
        held_s: for how many seconds Permit held the pod; None: Permit did not.
        api_s: for how many seconds the Kubernetes API worked on the Binding.
        done: whether the call was answered.
    """

    # Values of the class cost a request nothing.
    settled: bytes = b""
    node: str = ""
    at_s: float = 0.0
    took_s: float = 0.0
    plugins: Mapping[PluginCall, float] = MappingProxyType({})
    detail: str = ""
    failed: tuple[str, str] = ("", "")
    left_out: Sequence[PluginCall] = ()
    rejected_by: tuple[str, str] = ("", "")
    held_s: float | None = None
    api_s: float | None = None
    done: bool = True

    def __init__(
        self, verb: VerbName, verdicts: Verdicts | None = None, error: str = "", note: str = ""
    ) -> None:
        self.verb: VerbName = verb
        self.verdicts = verdicts
        self.error = short(error) if error else ""
        self.note = short(note) if note else ""
        self._held_bytes = 0

    def timed(self, run: Run | None) -> None:
        """Note when the call is recorded, how long its run has taken, and its plugins' calls."""
        self.at_s = time.time()
        if run is not None:
            self.took_s, self.plugins = run.elapsed_s, run.spent_s

    def measure_again(self) -> None:
        """Count the bytes anew when they are asked for next, because the call has changed."""
        self._held_bytes = 0

    def blame(self, error: PluginError) -> None:
        """Note which plugin failed, and how."""
        self.failed = error.plugin, error.extension_point
        self.detail = short(error.message)

    @property
    def held_bytes(self) -> int:
        """The bytes that the call takes, about."""
        if not self._held_bytes:
            verdicts = self.verdicts
            nodes = getsizeof(self.settled) if verdicts is None else verdicts.held_bytes
            texts = getsizeof(self.error) + getsizeof(self.note) + getsizeof(self.detail)
            self._held_bytes = _CALL_BYTES + _PLUGIN_BYTES * len(self.plugins) + texts + nodes
        return self._held_bytes

    def summary(self) -> Summary:
        """Return counts of nodes by plugin and reason; empty if the call has no nodes."""
        # Another thread may settle the call at this moment.
        verdicts = self.verdicts
        return _summary_of(self.settled) if verdicts is None else verdicts.summary()

    def node_counts(self) -> tuple[int, int] | None:
        """Return how many nodes the call had, and how many passed; None: it has no nodes."""
        # Another thread may settle the call at this moment.
        verdicts = self.verdicts
        if verdicts is not None:
            return verdicts.nodes.count, verdicts.passed
        counts: Any = _summary_of(self.settled)
        return (counts["nodes"], counts["passed"]) if counts else None

    def settle(self) -> None:
        """Replace what is kept of each node by the summary."""
        if self.verdicts is not None:
            # JSON takes as many bytes as it is long, and dicts many times that.
            self.settled = _packed(self.verdicts.summary())
            self.verdicts = None
            self.measure_again()


_PASSED: Final = NodeVerdict("")


def scores_json(scores: tuple[int, int, int]) -> dict[str, int]:
    """Return a raw, a normalised and a weighted score as a JSON object."""
    return dict(zip(("raw", "normalized", "weighted"), scores, strict=True))


def _packed(value: object) -> bytes:
    """Return a value as JSON that takes as many bytes as it is long.

    What orjson returns keeps its buffer, which takes 4 KiB or up to ten times the length.
    """
    return bytes(memoryview(orjson.dumps(value)))


def _summary_of(settled: bytes) -> Summary:
    """Return a summary that is kept as JSON; empty without one."""
    summary: Summary = orjson.loads(settled) if settled else {}
    return summary


def _group(verdict: NodeVerdict, count: int, examples: list[str]) -> dict[str, object]:
    return {
        "plugin": verdict.plugin,
        "reason": verdict.reason,
        "detail": verdict.detail,
        "unresolvable": verdict.unresolvable,
        "nodes": count,
        "examples": examples,
    }


def _at(scores: PluginScores, row: int) -> tuple[int, int, int]:
    """Return the raw, normalised and weighted score of one node.

    A plugin may have changed its list of raw scores since, so that the raw score is missing; or a
    plugin's NormalizeScore took a raw score that is no integer of 64 bits. Then the raw score
    counts as the normalised one.
    """
    score = scores.scores[row]
    try:
        raw = int(scores.raw[row])
    except (IndexError, TypeError, ValueError, OverflowError):
        raw = score
    if not -_INTEGERS <= raw < _INTEGERS:
        raw = score
    return raw, score, scores.weight * score


@dataclass(slots=True, eq=False)
class PodDecisions:
    """The last attempts of one pod.

    Attributes:
        pod: the pod as a request brought it last.
        attempts: the calls of each attempt, oldest first.
        last_bind: the last call of bind, of whichever attempt: it says which plugin rejected the
            pod, while filter repeats the rejection.
    """

    pod: core.Pod
    attempts: deque[list[VerbCall]] = field(default_factory=lambda: deque(maxlen=_MOST_ATTEMPTS))
    last_bind: VerbCall | None = None

    @property
    def held_bytes(self) -> int:
        """The bytes that the record takes, about."""
        return self.pod.held_bytes + sum(
            call.held_bytes for attempt in self.attempts for call in attempt
        )

    @property
    def last(self) -> VerbCall:
        """The last call of the last attempt."""
        return self.attempts[-1][-1]

    def add(self, call: VerbCall) -> None:
        """Add a call to the last attempt, or begin an attempt with the call."""
        if call.verb == "bind":
            self.last_bind = call
        attempts = self.attempts
        if attempts and _ORDER[call.verb] > _ORDER[attempts[-1][-1].verb]:
            attempts[-1].append(call)
        else:
            attempts.append([call])


class Decisions:
    """The records of all pods, within a limit of memory; any number of threads may use them.

    Beyond the limit, the namespace whose records take most memory loses its oldest record.

    Args:
        most_bytes: the most bytes of all records; 0: nothing is recorded.
        now: returns seconds of Unix time.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, now: Callable[[], float] = time.time) -> None:
        self.records = most_bytes > 0
        self._now = now
        self._complete_since_s = now()
        self._lock = threading.Lock()
        # Calls wait here until somebody reads, until the next second, or until there are many.
        self._inbox: deque[tuple[core.Pod, VerbCall]] = deque()
        # How many calls may still be kept with their nodes, and when that was so.
        self._left: dict[tuple[VerbName, bool], tuple[float, float]] = {}
        self._pods: KeptPods[PodDecisions] = KeptPods(most_bytes)
        # The records that still have nodes; the one with the oldest last call comes first.
        self._unsettled: dict[str, PodDecisions] = {}
        self._durations: dict[PluginCall, deque[float]] = {}
        self._failures: dict[PluginCall, int] = {}

    @property
    def complete_since_s(self) -> float | None:
        """The Unix time since which every pod that a verb was called for has a record.

        None: nothing is recorded. A call that is not recorded, and a record that is dropped for its
        memory, make the time later.
        """
        self._sort()
        return self._complete_since_s if self.records else None

    def has_turn(self, verb: VerbName, *, urgent: bool = False) -> bool:
        """Return whether the nodes of a call may be recorded, and count the call if so.

        Of each verb, at most 200 calls a second are recorded, and 200 more that are urgent.
        kube-scheduler makes no more calls about thousands of nodes. More records would slow the
        requests of a client that calls more often: memory that a record keeps is not in the
        processor's cache for the next request. Threads that ask at once may count as one.

        Args:
            verb: the verb.
            urgent: whether people will ask about the pod, because no node passed.
        """
        kind = verb, urgent
        now_s = time.monotonic()
        left, at_s = self._left.get(kind, (_MOST_A_SECOND, now_s))
        left += _MOST_A_SECOND * (now_s - at_s)
        if left < 1.0:
            self._complete_since_s = self._now() + _LONGEST_ATTEMPT_S
            return False
        self._left[kind] = min(left, _MOST_A_SECOND) - 1.0, now_s
        return True

    def add(self, pod: core.Pod, call: VerbCall) -> None:
        """Record a call of a verb about a pod; the call's run is the current one.

        A pod without a UID is not recorded.
        """
        if self.records:
            call.timed(current_run())
            self._inbox.append((pod, call))
            # Nothing counts the memory of what waits, so large pods and calls do not wait.
            large = pod.held_bytes + call.held_bytes > _LARGE_BYTES
            if large or len(self._inbox) >= _MOST_IN_INBOX:
                self._sort()

    def _sort(self) -> None:
        """Put the calls of the inbox into the records of their pods."""
        with self._lock:
            while self._inbox:
                pod, call = self._inbox.popleft()
                self._put(pod, call)

    def _put(self, pod: core.Pod, call: VerbCall) -> None:
        if not (uid := pod.uid):
            return
        record = self._pods.get(uid)
        if record is None:
            record = PodDecisions(pod)
        record.pod = pod
        record.add(call)
        for gone in self._pods.put(record):
            self._unsettled.pop(gone.pod.uid, None)
            ended_s = gone.last.at_s + _LONGEST_ATTEMPT_S
            self._complete_since_s = max(self._complete_since_s, ended_s)
        self._unsettled.pop(uid, None)
        if self._pods.get(uid) is record:
            self._unsettled[uid] = record
        if call.verb != "bind":
            self._count(call)

    def bind_ended(self, uid: str, call: VerbCall) -> None:
        """Count the plugins of a call of bind, which was recorded when it began, and its memory."""
        self._count(call)
        call.measure_again()
        with self._lock:
            self._pods.recount(uid)

    def _count(self, call: VerbCall) -> None:
        """Count the durations and failures of the plugins of a call."""
        for plugin, seconds in call.plugins.items():
            durations = self._durations.get(plugin)
            if durations is None:
                durations = self._durations.setdefault(plugin, deque(maxlen=_MOST_DURATIONS))
            durations.append(seconds)
        if call.failed[0]:
            failed = PluginCall(*call.failed)
            self._failures[failed] = self._failures.get(failed, 0) + 1
        for failed in call.left_out:
            self._failures[failed] = self._failures.get(failed, 0) + 1

    def find(self, uid: str = "", namespace: str = "", name: str = "") -> PodDecisions | None:
        """Return the record of a pod by UID, or by namespace and name; None without a record.

        Of several pods of one name, the latest counts.
        """
        self._sort()
        with self._lock:
            if uid:
                return self._pods.get(uid)
            records = [*self._pods.values()]
        for record in reversed(records):
            if record.pod.name == name and record.pod.namespace == namespace:
                return record
        return None

    def latest(self, most: int) -> tuple[int, list[PodDecisions]]:
        """Return how many pods have a record, and the records of the last ``most``, newest first.

        A pod is as new as its last call.
        """
        self._sort()
        with self._lock:
            return len(self._pods), self._pods.latest(most)

    def forget(self, uid: str) -> None:
        """Forget a deleted pod. Any thread may call; the call never waits for a plugin."""
        self._sort()
        with self._lock:
            self._pods.pop(uid)
            self._unsettled.pop(uid, None)

    def settle_old(self) -> None:
        """Drop the nodes of calls that are older than ten minutes; call this each second."""
        self._sort()
        oldest_s = self._now() - _SETTLED_AFTER_S
        while True:
            with self._lock:
                uid = next(iter(self._unsettled), None)
                if uid is None or self._unsettled[uid].last.at_s > oldest_s:
                    return
                record = self._unsettled.pop(uid)
                calls = [call for attempt in record.attempts for call in attempt]
            for call in calls:
                call.settle()
            with self._lock:
                if self._pods.get(uid) is record and uid not in self._unsettled:
                    self._pods.recount(uid)

    def durations(self) -> dict[PluginCall, list[float]]:
        """Return the last durations of each plugin at each extension point, in seconds."""
        self._sort()
        return {call: sorted(durations) for call, durations in [*self._durations.items()]}

    def failures(self) -> dict[PluginCall, int]:
        """Return how often each plugin failed at each extension point since the start."""
        self._sort()
        return dict(self._failures)

    @property
    def held_bytes(self) -> int:
        """The bytes that all records take, as far as they are counted."""
        self._sort()
        return self._pods.held_bytes

    def __len__(self) -> int:
        """Return how many pods have a record."""
        self._sort()
        return len(self._pods)
