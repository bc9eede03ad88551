"""filter: which of the nodes a pod may run on, and why not on the others."""

import logging
from collections.abc import Callable, Iterator, Sequence

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Code
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from kubextend.verbs.answer import Answer, filter_error
from kubextend.verbs.attempts import Attempt, Attempts
from kubextend.verbs.parked import ParkedPods
from kubextend.verbs.stores import Stores
from kubextend.verbs.unknown import UnknownNames
from kubextend.verbs.verdict import filter_known

__all__ = ["FilterVerb"]

_LOGGER = logging.getLogger(__name__)
_NO_POD = "the request has no Pod"
_NO_NODES = "the request has neither Nodes nor NodeNames"
_NOT_SEEN_YET = "kubextend's node cache has not seen some of the nodes yet"
_UNKNOWN = "node is not in kubextend's node cache"
_OTHER_REASONS = "node was rejected for another reason"
_MOST_REASONS = 8

_Entry = tuple[core.Mask, str, bool]


class FilterVerb:
    """Runs the filters of the pod's profile over the nodes of the request.

    Args:
        profiles: by scheduler name.
        stores: where the nodes come from.
        attempts: where the CycleState of this attempt is found by the verbs that follow.
        unknown: since when a name is unknown.
        parked: told of every pod that was rejected everywhere.
        metrics: what is counted.
        ignorable: kube-scheduler ignores an Error of ours, so a failing plugin has to reject.
    """

    def __init__(  # noqa: PLR0913  one argument for each thing it is joined to
        self,
        profiles: Profiles,
        stores: Stores,
        *,
        attempts: Attempts,
        unknown: UnknownNames,
        parked: ParkedPods,
        metrics: Metrics,
        ignorable: bool,
    ) -> None:
        self._profiles = profiles
        self._stores = stores
        self._attempts = attempts
        self._unknown = unknown
        self._parked = parked
        self._metrics = metrics
        self._ignorable = ignorable

    def __call__(self, body: bytes) -> Answer:
        """ExtenderFilterResult: kept nodes as they came in, every other one with its reason.

        Raises: WireError: the body cannot be read.
        """
        changes = self._parked.changes
        args = self._stores.read_args(body)
        if args.nodes is None:
            return filter_error(_NO_NODES)
        if args.pod is None:
            return filter_error(_NO_POD)
        self._metrics.nodes("filter").observe(len(args.nodes))
        profile = self._profiles.for_pod(args.pod)
        if profile is None or not profile.rejects:
            return Answer(args.filter_answer([]))
        if args.names_mode and (why := self._stores.why_names_fail()):
            return filter_error(why)
        attempt = self._attempts.begin(args.pod)
        return self._decide(profile, args, attempt, args.nodes, changes)

    def _decide(
        self,
        profile: Profile,
        args: core.ExtenderArgs,
        attempt: Attempt,
        nodes: core.Nodes,
        changes: int,
    ) -> Answer:
        try:
            passing, outcome = filter_known(profile, attempt.state, attempt.pod, nodes)
        except PluginError as error:
            self._attempts.drop(attempt)
            self._metrics.plugin_failures(error.plugin, error.extension_point).inc()
            _LOGGER.error("%s", error, exc_info=error)  # noqa: TRY400
            # Only the name goes out: a text that varies makes kube-scheduler ask for ever.
            failed = f'{error.extension_point} plugin "{error.plugin}" failed'
            return self._failed(failed, args, nodes)
        except KeyboardInterrupt:
            raise
        except BaseException:
            # A panic of the core: not even that may place a pod on an ignored Error.
            _LOGGER.exception("filter failed")
            return self._failed("kubextend failed internally", args, nodes)
        unknown = ~nodes.known
        if unknown.any() and self._too_new(nodes, unknown) and not passing.any():
            return filter_error(_NOT_SEEN_YET)
        if passing.any():
            self._parked.forget(attempt.pod)
        else:
            self._attempts.drop(attempt)
            if args.names_mode:
                self._parked.remember(profile, attempt.pod, nodes, changes)
        return Answer(args.filter_answer(list(_entries(unknown, outcome.rejections))))

    def _too_new(self, nodes: core.Nodes, unknown: core.Mask) -> bool:
        names = nodes.names
        return self._unknown.any_new(names[row] for row in unknown.indices())

    def _failed(self, text: str, args: core.ExtenderArgs, nodes: core.Nodes) -> Answer:
        if not self._ignorable:
            return filter_error(f"{text}; kubextend's log says how")
        return Answer(args.filter_answer([(nodes.everything(), text, True)]), "error")


def _entries(unknown: core.Mask, rejections: Sequence[Rejection]) -> Iterator[_Entry]:
    """What the core writes: the first entry that names a node decides its reason."""
    reason_for = _at_most(_MOST_REASONS)
    if unknown.any():
        yield unknown, reason_for(_UNKNOWN), True
    for rejection in rejections:
        status = rejection.status
        unresolvable = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        yield rejection.nodes, reason_for(status.reason), unresolvable


def _at_most(most: int) -> Callable[[str], str]:
    """A filter of texts that lets so many different ones through, then always says the same."""
    seen: set[str] = set()

    def reason_for(text: str) -> str:
        if text in seen or len(seen) < most - 1:
            seen.add(text)
            return text
        return _OTHER_REASONS

    return reason_for
