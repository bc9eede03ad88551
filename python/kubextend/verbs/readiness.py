"""Decides whether a verb may call plugins now: all that they read is listed, plugins started.

The probe ``/readyz?verbose`` lists the conditions under the names that this module uses.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from kubextend.config import VerbName
from kubextend.framework.handle import ClusterPorts
from kubextend.profile import Profile, Profiles

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
        profiles: all profiles.
        not_started: returns the names of the plugins whose ``start`` has not succeeded yet.
    """

    def __init__(
        self, cluster: ClusterPorts, profiles: Profiles, not_started: Callable[[], Iterable[str]]
    ) -> None:
        self._cluster = cluster
        each_profile = profiles.by_scheduler_name.values()
        self._all_informers = frozenset().union(*(each.informers for each in each_profile))
        self._not_started = not_started
        self._logged: dict[str, str] = {}

    @property
    def conditions(self) -> Mapping[str, Callable[[], str]]:
        """Return a function for each condition's name; it returns what is missing, or "".

        To be the leader is no condition, because a replica that could take over at once is ready.
        """
        conditions = {PLUGINS_STARTED: lambda: _late(self._not_started())}
        if self._cluster.nodes is not None:
            conditions[NODES_LISTED] = self._why_no_nodes
        if self._cluster.pods is not None:
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
        if names_mode and self._cluster.nodes is None:
            return _NO_CACHE
        names_alone = names_mode or verb in _NAMES_ALONE
        why = self._missing(profile, names_alone=names_alone)
        if why != self._logged.get(profile.scheduler_name, ""):
            # Log when a profile's missing condition changes, and not once for each pod.
            self._logged[profile.scheduler_name] = why
            if why:
                what = "%s decides nothing for profile %s: %s"
                _LOGGER.warning(what, verb, profile.scheduler_name, why)
            else:
                _LOGGER.info("%s decides for profile %s", verb, profile.scheduler_name)
        return f"kubextend is not ready: {why}" if why else ""

    def _missing(self, profile: Profile, *, names_alone: bool) -> str:
        """Return the first missing condition that the profile needs; empty if none is missing."""
        leader = self._cluster.leader
        needs_pods, informers = profile.needs_pods, profile.informers
        return (
            (leader.why_not() if profile.needs_leader and leader is not None else "")
            or (self._why_no_nodes() if names_alone or needs_pods else "")
            or (self._why_no_pods() if needs_pods else "")
            or (self._why_no_objects(informers) if informers else "")
            or _late(profile.plugin_names.intersection(self._not_started()))
        )

    def _why_no_nodes(self) -> str:
        nodes = self._cluster.nodes
        return "" if nodes is None or nodes.synced else "the nodes are not listed yet"

    def _why_no_pods(self) -> str:
        pods = self._cluster.pods
        return "" if pods is None or pods.synced else "the pods are not listed yet"

    def _why_no_objects(self, informers: frozenset[str]) -> str:
        if self._cluster.informers is None:
            listed = ", ".join(sorted(informers))
            return f"plugins read {listed}, which kubextend cannot watch: configure `cluster`"
        return self._cluster.informers.why_not_synced(informers)


def _late(names: Iterable[str]) -> str:
    """Return which plugins have not started; "" if all have."""
    listed = ", ".join(sorted(names))
    return f"not started yet: {listed}" if listed else ""
