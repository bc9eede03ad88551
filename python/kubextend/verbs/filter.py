"""The filter verb: which nodes a pod may run on, and why it may not run on other nodes."""

import logging
from typing import ClassVar, NamedTuple

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import FilterOutcome, Profile, always
from kubextend.profile.plugin_failures import sentence
from kubextend.profile.run_in_progress import AbandonedError
from kubextend.verbs.answer import REJECTS_ALL, Answer, Body, filter_error
from kubextend.verbs.decision_records import VerbCall, Verdicts
from kubextend.verbs.group_places import fit_member, is_member
from kubextend.verbs.request_metrics import ATTEMPTS, NODES
from kubextend.verbs.stable_reasons import Entry, entries_of
from kubextend.verbs.unplaced_pods import NOT_PERMITTED, Attempt
from kubextend.verbs.verb_interface import QuickVerb

__all__ = ["FilterVerb"]

_LOGGER = logging.getLogger(__name__)
_NO_POD = "the request has no Pod"
_NO_NODES = "the request has neither Nodes nor NodeNames"
_NOT_SEEN_YET = "kubextend's node cache has not seen some of the nodes yet"
_PASSED_THROUGH = "passThrough lists the pod's schedulerName: every node passes"
_NO_FILTER = "the pod's profile has no filter: every node passes"


class FilterRequest(NamedTuple):
    """A parsed filter request, which the filters may run for twice.

    Attributes:
        args: the request.
        pod: the pod of the request: one object for all runs, so that it stands for the request.
        changes: how often watched nodes had changed before the request was parsed.
    """

    args: core.ExtenderArgs
    pod: core.Pod | None
    changes: int


class FilterVerb(QuickVerb[FilterRequest]):
    """The filter verb: runs the filters of the pod's profile over the nodes of the request."""

    name: ClassVar[VerbName] = "filter"

    @property
    def on_thread(self) -> bool:
        """Whether filtering runs Python code in any profile."""
        return self._context.profiles.filter_in_python

    def read(self, body: Body) -> FilterRequest:
        """Read ExtenderArgs, and note how often the watched nodes changed before.

        Raises: WireError: the body cannot be read.
        """
        changes = self._unplaced.changes
        args = self._context.stores.read_args(body)
        return FilterRequest(args, args.pod, changes)

    def dispensable(self, request: FilterRequest) -> frozenset[str]:
        """Return the names of the plugins whose failurePolicy is Ignore in the pod's profile."""
        profile = self._context.profiles.for_pod(request.pod)
        return frozenset() if profile is None else profile.ignored

    def instead(self, why: str, request: FilterRequest | None = None) -> Answer:
        """Return an Error, or, if kube-scheduler ignores Errors, a rejection of every node."""
        if request is not None and request.pod is not None:
            self._decisions.add(request.pod, VerbCall(self.name, error=why))
        if request is not None and request.args.nodes is not None:
            return self._failed(why, request.args, request.args.nodes)
        return REJECTS_ALL if self._context.settings.ignorable else filter_error(why)

    def answer(self, request: FilterRequest) -> Answer:
        """Return an ExtenderFilterResult: kept nodes as in the request, others with a reason."""
        args, pod = request.args, request.pod
        if args.nodes is None or pod is None:
            return filter_error(_NO_NODES if args.nodes is None else _NO_POD)
        self._context.metrics.histogram(NODES, self.name).observe(len(args.nodes))
        if why := self._context.unknown_schedulers.why_rejected(pod):
            return self._rejected_as_unknown(args, args.nodes, pod, why)
        profile = self._context.profiles.for_pod(pod)
        said = self._unplaced.why_not_tried(pod)
        if profile is None or said is not None or not profile.rejects:
            return self._without_filters(args, args.nodes, pod, profile, said)
        why_not = self._context.readiness.why_not(self.name, profile, names_mode=args.names_mode)
        if why_not:
            self._decisions.add(pod, VerbCall(self.name, error=why_not))
            return filter_error(why_not)
        attempt = self._unplaced.begin(pod)
        left_out = self._context.failures.left_out
        # Only nodes with nominated pods take a second run, and only where filters count pods.
        goes_on = self._context.half_time() if profile.counts_pods else always
        judging = self._context.judging(profile, attempt.pod)
        try:
            if is_member(profile, attempt.pod):
                places = self._context.memory.places
                outcome = fit_member(places, judging, attempt, args.nodes, left_out, goes_on)
            else:
                state = attempt.state
                if judging is not profile:
                    state.pods_seen = judging.pods()
                outcome = judging.find_nodes_that_fit(
                    state, attempt.pod, args.nodes, left_out, goes_on
                )
                # The later verbs of the attempt see the pods as they are then.
                state.pods_seen = None
            return self._decided(profile, request, attempt, args.nodes, outcome)
        except BaseException as error:
            self._unplaced.drop(attempt)
            if isinstance(error, KeyboardInterrupt | AbandonedError):
                raise
            self._count(profile, "error")
            why = self._noted(error)
            call = VerbCall(self.name, error=why)
            if isinstance(error, PluginError):
                call.blame(error)
            self._decisions.add(pod, call)
            return self._failed(why, args, args.nodes)

    def _decided(
        self,
        profile: Profile,
        request: FilterRequest,
        attempt: Attempt,
        nodes: core.Nodes,
        outcome: FilterOutcome,
    ) -> Answer:
        """Return the answer for the filters' outcome; remember the outcome for later requests."""
        args = request.args
        fits, unknown = outcome.passing(nodes).any(), ~nodes.known
        undecided = unknown.any() and self._too_new(nodes, unknown) and not fits
        # An ignored Error places the pod on any node, even on one that filters rejected just now.
        # A rejection is undone later: the watch brings the new node and the pod is woken.
        if undecided and not self._context.settings.ignorable:
            self._unplaced.drop(attempt)
            self._decisions.add(attempt.pod, VerbCall(self.name, error=_NOT_SEEN_YET))
            return filter_error(_NOT_SEEN_YET)
        alone = nodes.names == [attempt.pod.nominated_node_name]
        if len(nodes) and not outcome.kept.any() and not alone:
            self._post_filter(profile, attempt, outcome)
        entries = entries_of(unknown, outcome.rejections)
        self._count(profile, "feasible" if fits else "unschedulable")
        told: list[Entry] = []
        if fits:
            self._unplaced.passed(attempt)
        else:
            # A full-mode request brings its own nodes, and they never change.
            before = request.changes if args.names_mode else None
            self._unplaced.reject(attempt, profile, nodes, before)
            told = entries
        verdicts = Verdicts(nodes, args.names_mode, unknown, outcome.rejections, told)
        self._decisions.add(attempt.pod, VerbCall(self.name), verdicts)
        # Where a node is left, kube-scheduler reads no reasons, unless a later extender rejects it.
        lean = fits and self._context.settings.last_filter
        return Answer(args.filter_answer(entries, self._context.memory.pool, told=not lean))

    def _without_filters(
        self,
        args: core.ExtenderArgs,
        nodes: core.Nodes,
        pod: core.Pod,
        profile: Profile | None,
        said: Status | None,
    ) -> Answer:
        """Return the answer that needs no filter: Permit's rejection again, or every node passes.

        Args:
            args: the request.
            nodes: the nodes of the request.
            pod: the pod of the request.
            profile: the pod's profile; None: the pod is passed through.
            said: why Permit rejected the pod; None: it did not.
        """
        entries = []
        note = _PASSED_THROUGH if profile is None else _NO_FILTER
        if said is not None:
            # Evicting pods would not change Permit's answer, so every node is unresolvable.
            reason = said.reason or NOT_PERMITTED
            entries = [(nodes.everything(), reason, True)]
            note = f"{NOT_PERMITTED}: {reason}"
        self._decisions.add(pod, VerbCall(self.name, note=note))
        return Answer(args.filter_answer(entries, self._context.memory.pool))

    def _rejected_as_unknown(
        self, args: core.ExtenderArgs, nodes: core.Nodes, pod: core.Pod, why: str
    ) -> Answer:
        """Return the rejection of every node for a pod of an unknown scheduler, and record it."""
        every = nodes.everything()
        entries = [(every, why, True)]
        rejections = [Rejection(every, Status.unresolvable(why))]
        verdicts = Verdicts(nodes, args.names_mode, None, rejections, entries)
        self._decisions.add(pod, VerbCall(self.name), verdicts)
        return Answer(args.filter_answer(entries, self._context.memory.pool), "unknown_scheduler")

    def _count(self, profile: Profile, result: str) -> None:
        self._context.metrics.counter(ATTEMPTS, self.name, profile.scheduler_name, result).inc()

    def _noted(self, error: BaseException) -> str:
        """Log why a filter request failed, and return the reason to tell kube-scheduler."""
        if isinstance(error, PluginError):
            self._context.failures.note(error, "filter fails")
            return sentence(error)
        # Not even a panic of the core may place a pod by an ignored Error.
        _LOGGER.error("filter failed", exc_info=error)
        return "kubextend failed internally"

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

    def _too_new(self, nodes: core.Nodes, unknown: core.Mask) -> bool:
        names = nodes.names
        return self._context.memory.unknown.any_new(names[row] for row in unknown.indices())

    def _failed(self, text: str, args: core.ExtenderArgs, nodes: core.Nodes) -> Answer:
        if not self._context.settings.ignorable:
            return filter_error(f"{text}; kubextend's log says how")
        return Answer(args.filter_answer([(nodes.everything(), text, True)]), "error")
