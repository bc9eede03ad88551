"""The filter verb: which nodes a pod may run on, and why it may not run on other nodes."""

import logging
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import FilterOutcome, Profile
from kubextend.profile.run_in_progress import AbandonedError
from kubextend.verbs.answer import REJECTS_ALL, Answer, Body, filter_error
from kubextend.verbs.answer_in_time import TimedVerb
from kubextend.verbs.decision_records import VerbCall, Verdicts
from kubextend.verbs.group_places import fit_member, is_member
from kubextend.verbs.reasons import Entry, entries_of
from kubextend.verbs.request_metrics import ATTEMPTS, NODES
from kubextend.verbs.unplaced_pods import NOT_PERMITTED, Attempt

__all__ = ["FilterVerb"]

_LOGGER = logging.getLogger(__name__)
_NO_POD = "the request has no Pod"
_NO_NODES = "the request has neither Nodes nor NodeNames"
_NOT_SEEN_YET = "kubextend's node cache has not seen some of the nodes yet"
_PASSED_THROUGH = "passThrough lists the pod's schedulerName: every node passes"
_NO_FILTER = "the pod's profile has no filter: every node passes"


class FilterRequest(NamedTuple):
    """A filter request, with what it asks about.

    Attributes:
        args: the request.
        pod: the pod of the request.
        nodes: the nodes of the request.
        changes: how often watched nodes had changed before the request was parsed.
    """

    args: core.ExtenderArgs
    pod: core.Pod
    nodes: core.Nodes
    changes: int


class FilterVerb(TimedVerb[FilterRequest | Answer]):
    """The filter verb: runs the filters of the pod's profile over the nodes of the request."""

    name: ClassVar[VerbName] = "filter"

    def read(self, body: Body) -> FilterRequest | Answer:
        """Read ExtenderArgs, and note how often the watched nodes changed before.

        Returns: the answer to a request that asks about nothing.
        Raises: WireError: the body cannot be read.
        """
        changes = self._context.unplaced.changes
        args = self._context.read_args(body)
        pod, nodes = args.pod, args.nodes
        if nodes is None or pod is None:
            return filter_error(_NO_NODES if nodes is None else _NO_POD)
        return FilterRequest(args, pod, nodes, changes)

    def decide(self, body: Body, read: list[FilterRequest | Answer]) -> Answer:
        """Return an ExtenderFilterResult: kept nodes as in the request, others with a reason."""
        read.append(asked := self.read(body))
        if isinstance(asked, Answer):
            return asked
        self._context.metrics.histogram(NODES, self.name).observe(len(asked.nodes))
        profile = self._profile_or_answer(asked)
        if isinstance(profile, Answer):
            return profile
        pod, nodes, unplaced = asked.pod, asked.nodes, self._context.unplaced
        left_out, judging = self._context.failures.left_out, self._context.judging(profile, pod)
        attempt = unplaced.begin(pod)
        state = attempt.state
        try:
            if is_member(profile, pod):
                outcome = fit_member(self._context.places, judging, attempt, nodes, left_out)
            else:
                state.pods_seen = None if judging is profile else judging.pods()
                outcome = judging.find_nodes_that_fit(state, pod, nodes, left_out)
            # The later verbs of the attempt see the pods as they are then.
            state.pods_seen = None
            return self._decided(asked, profile, attempt, outcome)
        except BaseException as error:
            unplaced.drop(attempt)
            if isinstance(error, KeyboardInterrupt | AbandonedError):
                raise
            self._count(profile, "error")
            return self._failed(asked, error)

    def _profile_or_answer(self, asked: FilterRequest) -> Profile | Answer:
        """Return the profile whose filters decide, or the answer that needs no filter."""
        args, pod, nodes, _ = asked
        if why := self._context.unknown_schedulers.why_rejected(pod):
            every = nodes.everything()
            rejection, entries = Rejection(every, Status.unresolvable(why)), [(every, why, True)]
            self._record(asked, [rejection], None, entries)
            return self._told(asked, entries)._replace(result="unknown_scheduler")
        if (said := self._context.unplaced.why_not_tried(pod)) is not None:
            # Evicting pods would not change Permit's answer, so every node is unresolvable.
            reason = said.reason or NOT_PERMITTED
            self._decisions.add(pod, VerbCall(self.name, note=f"{NOT_PERMITTED}: {reason}"))
            return self._told(asked, [(nodes.everything(), reason, True)])
        profile = self._context.profiles.for_pod(pod)
        if profile is None or not profile.rejects:
            note = _PASSED_THROUGH if profile is None else _NO_FILTER
            self._decisions.add(pod, VerbCall(self.name, note=note))
            return self._told(asked, [])
        ready = self._context.readiness
        if why_not := ready.why_not(self.name, profile, names_mode=args.names_mode):
            self._decisions.add(pod, VerbCall(self.name, error=why_not))
            return filter_error(why_not)
        return profile

    def _decided(
        self, asked: FilterRequest, profile: Profile, attempt: Attempt, outcome: FilterOutcome
    ) -> Answer:
        """Return the answer for the filters' outcome; remember the outcome for later requests."""
        args, pod, nodes, changes = asked
        context, extender = self._context, self._context.config.extender
        fits, unknown = outcome.passing(nodes).any(), ~nodes.known
        new = context.unknown.any_new(nodes, unknown)
        # An ignored Error places the pod on any node, even on one that filters rejected just now.
        # A rejection is undone later: the watch brings the new node and the pod is woken.
        if new and not fits and not extender.ignorable:
            context.unplaced.drop(attempt)
            self._decisions.add(pod, VerbCall(self.name, error=_NOT_SEEN_YET))
            return filter_error(_NOT_SEEN_YET)
        self._count(profile, "feasible" if fits else "unschedulable")
        entries = entries_of(unknown, outcome.rejections)
        if fits:
            context.unplaced.passed(attempt)
            self._record(asked, outcome.rejections, unknown)
            # kube-scheduler reads no reasons then, unless a later extender rejects what is left.
            return self._told(asked, entries, lean=extender.last_filter)
        # kube-scheduler asks about the nominated node alone before it asks about all nodes.
        alone = len(nodes) == 1 and nodes.names[0] == pod.nominated_node_name
        if len(nodes) and not outcome.kept.any() and not alone:
            self._post_filter(profile, attempt, outcome)
        # A full-mode request brings its own nodes, and they never change.
        context.unplaced.reject(attempt, profile, nodes, changes if args.names_mode else None)
        # kube-scheduler tries a rejected pod group after its backoff, and for nothing else.
        if not pod.scheduling_group:
            names_mode = args.names_mode
            entries = context.sent.steady(pod, nodes, entries, alone=alone, names_mode=names_mode)
        self._record(asked, outcome.rejections, unknown, entries)
        return self._told(asked, entries)

    def _post_filter(self, profile: Profile, attempt: Attempt, outcome: FilterOutcome) -> None:
        """Call the PostFilter plugins; a failure changes no answer, as in kube-scheduler.

        Source: kubernetes v1.36 pkg/scheduler/schedule_one.go schedulingCycle
        """
        try:
            profile.run_post_filter_plugins(
                attempt.state, attempt.pod, outcome.rejections, self._context.failures.left_out
            )
        except PluginError as error:
            self._context.failures.note(error, "the pod stays unschedulable")

    def _told(self, asked: FilterRequest, entries: list[Entry], *, lean: bool = False) -> Answer:
        return Answer(asked.args.filter_answer(entries, self._context.pool, told=not lean))

    def _failed(self, asked: FilterRequest, error: BaseException) -> Answer:
        """Log and record why a filter request failed, and return the answer."""
        if isinstance(error, PluginError):
            return self._error(self._blamed(asked.pod, error, "filter fails"), asked)
        # Not even a panic of the core may place a pod by an ignored Error.
        _LOGGER.error("filter failed", exc_info=error)
        return self.instead("kubextend failed internally", asked)

    def instead(self, why: str, asked: FilterRequest | Answer | None = None) -> Answer:
        """Return an Error, or, if kube-scheduler ignores Errors, a rejection of every node."""
        if isinstance(asked, FilterRequest):
            self._decisions.add(asked.pod, VerbCall(self.name, error=why))
            return self._error(why, asked)
        return REJECTS_ALL if self._context.config.extender.ignorable else filter_error(why)

    def _error(self, text: str, asked: FilterRequest) -> Answer:
        if not self._context.config.extender.ignorable:
            return filter_error(f"{text}; kubextend's log says how")
        return self._told(asked, [(asked.nodes.everything(), text, True)])._replace(result="error")

    def _count(self, profile: Profile, result: str) -> None:
        self._context.metrics.counter(ATTEMPTS, self.name, profile.scheduler_name, result).inc()

    def _record(
        self,
        asked: FilterRequest,
        rejections: Sequence[Rejection],
        unknown: core.Mask | None,
        told: Sequence[Entry] = (),
    ) -> None:
        """Record what was decided about each node, for people who ask why."""
        verdicts = Verdicts(asked.nodes, asked.args.names_mode, unknown, rejections, told)
        self._decisions.add(asked.pod, VerbCall(self.name), verdicts)
