"""Decides whether a verb may call plugins now: all that they read is listed, plugins started.

The probe ``/readyz?verbose`` lists the conditions under the names that this module uses.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from kubextend.config import VerbName
from kubextend.framework.handle import ClusterPorts
from kubextend.profile import Profile

__all__ = ["INFORMERS_SYNCED", "NODES_LISTED", "PLUGINS_STARTED", "PODS_LISTED", "Readiness"]

_LOGGER = logging.getLogger(__name__)

NODES_LISTED = "node-sync"
PODS_LISTED = "pod-sync"
INFORMERS_SYNCED = "informer-sync"
PLUGINS_STARTED = "plugins-started"

_NO_CACHE = (
    "the request brings node names, but kubextend has no node cache: set nodeCacheCapable: false "
    "in kube-scheduler's extender entry, or configure `cluster` in kubextend"
)
# These verbs name their nodes in both modes, and look them up among the watched ones.
_NAMES_ALONE = frozenset({"preempt", "bind"})


class Readiness:
    """Checks what verbs need before they call plugins: listed objects and started plugins.

    Where a profile needs a leader, this replica has to be the leader, too.

    Args:
        cluster: the watched nodes, pods and other objects, and the leader.
        informers: the resources that plugins of any profile read, except for plugins whose
            failurePolicy is Ignore.
        not_started: returns the names of the plugins whose ``start`` has not succeeded yet.
    """

    def __init__(
        self,
        cluster: ClusterPorts,
        informers: Iterable[str] = (),
        not_started: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._watched = cluster.nodes
        self._pods = cluster.pods
        self._leader = cluster.leader
        self._informers = cluster.informers
        self._all_informers = frozenset(informers)
        self._not_started = not_started
        self._logged: dict[str, str] = {}

    @property
    def conditions(self) -> Mapping[str, Callable[[], str]]:
        """Return a function for each condition's name; it returns what is missing, or "".

        To be the leader is no condition, because a replica that could take over at once is ready.
        """
        conditions = {PLUGINS_STARTED: lambda: _not_started(sorted(self._not_started()))}
        if self._watched is not None:
            conditions[NODES_LISTED] = self._why_no_nodes
        if self._pods is not None:
            conditions[PODS_LISTED] = self._why_no_pods
        if self._all_informers:
            conditions[INFORMERS_SYNCED] = lambda: self._why_no_objects(self._all_informers)
        return conditions

    def why_not(self, verb: VerbName, profile: Profile, *, names_mode: bool = False) -> str:
        """Return why the verb may not call the profile's plugins now; empty: the verb may.

        Args:
            verb: the verb.
            profile: the profile whose plugins the verb would call.
            names_mode: whether the request has names of nodes in place of whole nodes.
        """
        if names_mode and self._watched is None:
            return _NO_CACHE
        why = self._missing(verb, profile, names_mode=names_mode)
        self._log(verb, profile.scheduler_name, why)
        return f"kubextend is not ready: {why}" if why else ""

    def _missing(self, verb: VerbName, profile: Profile, *, names_mode: bool) -> str:
        """Return the first missing condition that the profile needs; empty if none is missing."""
        if profile.needs_leader and self._leader is not None and (why := self._leader.why_not()):
            return why
        needs_pods = profile.needs_pods
        if (names_mode or needs_pods or verb in _NAMES_ALONE) and (why := self._why_no_nodes()):
            return why
        if needs_pods and (why := self._why_no_pods()):
            return why
        if profile.informers and (why := self._why_no_objects(profile.informers)):
            return why
        late = profile.plugin_names.intersection(self._not_started())
        return _not_started(sorted(late)) if late else ""

    def _why_no_nodes(self) -> str:
        listed = self._watched is None or self._watched.synced
        return "" if listed else "the nodes are not listed yet"

    def _why_no_pods(self) -> str:
        return "" if self._pods is None or self._pods.synced else "the pods are not listed yet"

    def _why_no_objects(self, informers: frozenset[str]) -> str:
        if self._informers is None:
            listed = ", ".join(sorted(informers))
            return f"plugins read {listed}, which kubextend cannot watch: configure `cluster`"
        return self._informers.why_not_synced(informers)

    def _log(self, verb: VerbName, scheduler_name: str, why: str) -> None:
        """Log when a profile's missing condition changes, and not once for each pod."""
        if why == self._logged.get(scheduler_name, ""):
            return
        self._logged[scheduler_name] = why
        if why:
            _LOGGER.warning("%s decides nothing for profile %s: %s", verb, scheduler_name, why)
        else:
            _LOGGER.info("%s decides for profile %s", verb, scheduler_name)


def _not_started(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"not started yet: {listed}" if listed else ""
