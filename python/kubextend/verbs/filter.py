"""filter: which nodes a pod may run on, and why it may not run on the others."""

import logging
from functools import partial
from typing import ClassVar, NamedTuple

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.profile import FilterOutcome, Profile
from kubextend.profile.plugin_calls import AbandonedError
from kubextend.verbs.answer import REJECTS_ALL, Answer, Body, filter_error
from kubextend.verbs.attempts import Attempt
from kubextend.verbs.context import Context
from kubextend.verbs.failures import sentence
from kubextend.verbs.reasons import Entry, entries_of
from kubextend.verbs.refilter import half_of, looking_again

__all__ = ["FilterVerb"]

_LOGGER = logging.getLogger(__name__)
_NO_POD = "the request has no Pod"
_NO_NODES = "the request has neither Nodes nor NodeNames"
_NOT_SEEN_YET = "kubextend's node cache has not seen some of the nodes yet"
_NOT_PERMITTED = "a Permit plugin rejected the pod"


class FilterRequest(NamedTuple):
    """ExtenderArgs, and how often the nodes had changed before they were looked up."""

    args: core.ExtenderArgs
    changes: int


class FilterVerb:
    """The filter verb: runs the filters of the pod's profile over the nodes of the request.

    Args:
        context: what every verb decides with.
    """

    name: ClassVar[VerbName] = "filter"

    def __init__(self, context: Context) -> None:
        memory, settings = context.memory, context.settings
        self._profiles = context.profiles
        self._stores = context.stores
        self._readiness = context.readiness
        self._attempts = memory.attempts
        self._unknown = memory.unknown
        self._unknown_schedulers = context.unknown_schedulers
        self._parked = memory.parked
        self._reasons = memory.reasons
        self._rejected_permits = memory.rejected_permits
        self._failures = context.failures
        self._look_again = looking_again(memory.limits, settings.http_timeout_s)
        self._metrics = context.metrics
        self._ignorable = settings.ignorable
        self._half_time = partial(half_of, settings.http_timeout_s, memory.limits.clock)
        self._pool = memory.pool

    @property
    def in_python(self) -> bool:
        """Whether filtering runs Python code in any profile."""
        return self._profiles.filter_in_python

    def read(self, body: Body) -> FilterRequest:
        """Read ExtenderArgs, and note when the nodes were looked up.

        Raises: WireError: the body cannot be read.
        """
        changes = self._parked.changes
        return FilterRequest(self._stores.read_args(body), changes)

    def dispensable(self, request: FilterRequest) -> frozenset[str]:
        """Return the plugins whose failurePolicy is Ignore."""
        profile = self._profiles.for_pod(request.args.pod)
        return frozenset() if profile is None else profile.ignored

    def instead(self, why: str, request: FilterRequest | None = None) -> Answer:
        """Return an Error; where an Error is ignored, reject every node."""
        if request is not None and request.args.nodes is not None:
            return self._failed(why, request.args, request.args.nodes)
        return REJECTS_ALL if self._ignorable else filter_error(why)

    def answer(self, request: FilterRequest) -> Answer:
        """Return an ExtenderFilterResult: kept nodes as they came in, others with a reason."""
        args = request.args
        if args.nodes is None:
            return filter_error(_NO_NODES)
        if args.pod is None:
            return filter_error(_NO_POD)
        self._metrics.nodes(self.name).observe(len(args.nodes))
        profile = self._profiles.for_pod(args.pod)
        if profile is not None and (said := self._rejected_permits.find(args.pod.uid)):
            # Evicting pods would not change Permit's answer, so every node is unresolvable.
            reason = said.reason or _NOT_PERMITTED
            return Answer(args.filter_answer([(args.nodes.everything(), reason, True)], self._pool))
        if profile is None or not profile.rejects:
            return self._unknown_schedulers.passes(
                args.pod, Answer(args.filter_answer([], self._pool))
            )
        why_not = self._readiness.why_not(self.name, profile, names_mode=args.names_mode)
        if why_not:
            return filter_error(why_not)
        attempt = self._attempts.begin(args.pod, args.nodes)
        return self._decide(profile, args, attempt, args.nodes, request.changes)

    def _decide(
        self,
        profile: Profile,
        args: core.ExtenderArgs,
        attempt: Attempt,
        nodes: core.Nodes,
        changes: int,
    ) -> Answer:
        try:
            outcome = profile.find_nodes_that_fit(
                attempt.state, attempt.pod, nodes, self._left_out, self._half_time()
            )
            passing = outcome.passing(nodes)
            unknown = ~nodes.known
            undecided = unknown.any() and self._too_new(nodes, unknown) and not passing.any()
            # An ignored Error places the pod on any node, even on one that filters rejected just
            # now. A rejection is undone later: the watch brings the new node and the pod is woken.
            if undecided and not self._ignorable:
                self._attempts.drop(attempt)
                return filter_error(_NOT_SEEN_YET)
            if len(nodes) and not outcome.kept.any() and not attempt.nominated_alone:
                self._post_filter(profile, attempt, outcome)
        except PluginError as error:
            self._attempts.drop(attempt)
            self._failures.note(error, "filter fails")
            return self._failed(sentence(error), args, nodes)
        except (KeyboardInterrupt, AbandonedError):
            self._attempts.drop(attempt)
            raise
        except BaseException:
            self._attempts.drop(attempt)
            # Not even a panic of the core may place a pod by an ignored Error.
            _LOGGER.exception("filter failed")
            return self._failed("kubextend failed internally", args, nodes)
        entries = entries_of(unknown, outcome.rejections)
        if passing.any():
            self._parked.forget(attempt.pod)
            self._reasons.passed(attempt.pod.uid)
        else:
            self._attempts.drop(attempt)
            if not attempt.nominated_alone:
                entries = self._told(profile, args, attempt.pod, nodes, entries)
            if args.names_mode:
                # A call for all nodes that follows and passes makes this forgotten.
                self._parked.remember(profile, attempt.pod, nodes, changes)
        return Answer(args.filter_answer(entries, self._pool))

    def _post_filter(self, profile: Profile, attempt: Attempt, outcome: FilterOutcome) -> None:
        """Call PostFilter; if PostFilter fails the pod stays unschedulable, as in kube-scheduler.

        Source: kubernetes v1.36 pkg/scheduler/schedule_one.go schedulingCycle
        """
        try:
            profile.run_post_filter_plugins(
                attempt.state, attempt.pod, outcome.rejections, self._left_out
            )
        except PluginError as error:
            self._failures.note(error, "the pod stays unschedulable")

    def _told(
        self,
        profile: Profile,
        args: core.ExtenderArgs,
        pod: core.Pod,
        nodes: core.Nodes,
        entries: list[Entry],
    ) -> list[Entry]:
        # A full-mode request brings its own nodes, and they never change: a second look finds
        # nothing.
        look_again = partial(self._entries_now, profile, pod, nodes) if args.names_mode else None
        return self._reasons.steady(pod, entries, look_again)

    def _entries_now(
        self, profile: Profile, pod: core.Pod, nodes: core.Nodes
    ) -> list[Entry] | None:
        latest = nodes.latest()
        passing, outcome = self._look_again(profile, pod, latest)
        return None if passing.any() else entries_of(~latest.known, outcome.rejections)

    def _left_out(self, error: PluginError) -> None:
        self._failures.note(error, "left out")

    def _too_new(self, nodes: core.Nodes, unknown: core.Mask) -> bool:
        names = nodes.names
        return self._unknown.any_new(names[row] for row in unknown.indices())

    def _failed(self, text: str, args: core.ExtenderArgs, nodes: core.Nodes) -> Answer:
        if not self._ignorable:
            return filter_error(f"{text}; kubextend's log says how")
        return Answer(args.filter_answer([(nodes.everything(), text, True)]), "error")
