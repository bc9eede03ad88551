"""Handles pods whose schedulerName has no profile: rejects no node, and logs the name once.

kube-scheduler sends an extender requests about the pods of all its profiles. A profile may be
missing in kubextend on purpose, or because its name was changed in one configuration only.
"""

import logging
import threading
from collections import OrderedDict

from kubextend import core
from kubextend.profile import Profiles
from kubextend.verbs.answer import Answer

__all__ = ["UnknownSchedulers"]

_LOGGER = logging.getLogger(__name__)
_LIMIT = 64
# Kubernetes does not bound the name in a pod; no profile has a longer one.
_LONGEST_NAME = 253


class UnknownSchedulers:
    """Logs a warning for each scheduler name without a profile, once while the name is remembered.

    Any number of threads may use one instance.

    Args:
        profiles: the configured profiles.
        limit: how many scheduler names are remembered; beyond the limit, the name that was seen
            least recently is forgotten.
    """

    def __init__(self, profiles: Profiles, limit: int = _LIMIT) -> None:
        self._profiles = profiles
        self._limit = limit
        self._lock = threading.Lock()
        self._names: OrderedDict[str, None] = OrderedDict()

    def passes(self, pod: core.Pod, answer: Answer) -> Answer:
        """Return the answer, marked as ``unknown_scheduler`` if no profile is for the pod."""
        if self._profiles.for_pod(pod) is not None:
            return answer
        self._warn(pod)
        return answer._replace(result="unknown_scheduler")

    def __len__(self) -> int:
        """Return how many scheduler names are remembered."""
        return len(self._names)

    def _warn(self, pod: core.Pod) -> None:
        name = pod.scheduler_name[: _LONGEST_NAME + 1]
        with self._lock:
            known = name in self._names
            self._names[name] = None
            self._names.move_to_end(name)
            if len(self._names) > self._limit:
                self._names.popitem(last=False)
        if not known:
            _LOGGER.warning(
                "pod %s/%s has schedulerName %s, for which there is no profile: such pods pass "
                "through untouched; configured are %s. If that is meant, list the name under "
                "`profiles` without plugins",
                pod.namespace,
                pod.name,
                name,
                ", ".join(sorted(self._profiles.by_scheduler_name)) or "none",
                extra={"scheduler_name": name},
            )
