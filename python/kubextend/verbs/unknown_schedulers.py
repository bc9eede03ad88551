"""Rejects pods whose schedulerName has no profile and is not in passThrough, and logs each name.

kube-scheduler sends an extender requests about the pods of all its profiles. If a profile is
missing in kubextend, such as because its name was changed in one configuration only, no policy
would judge its pods.
"""

import difflib
import logging

from kubextend import core
from kubextend.logs import shortened
from kubextend.profile import Profiles

__all__ = ["UnknownSchedulers", "why_unknown"]

_LOGGER = logging.getLogger(__name__)
_MOST_LOGGED = 64
# Kubernetes does not bound the name in a pod; no profile has a longer one.
_LONGEST_NAME = 253
_MOST_NAMES = 8


def why_unknown(profiles: Profiles, pod: core.Pod) -> str:
    """Return that no profile has a pod's schedulerName; "" if one has, or if it is passed through.

    The sentence stays the same while the configuration does: kube-scheduler retries a pod whose
    reasons change.
    """
    if profiles.for_pod(pod) is not None or pod.scheduler_name in profiles.pass_through:
        return ""
    name, known = shortened(pod.scheduler_name, _LONGEST_NAME), sorted(profiles.by_scheduler_name)
    near = difflib.get_close_matches(name, known, 1)
    return (
        f'no profile of kubextend is named "{name}": its profiles are '
        f"{', '.join(known[:_MOST_NAMES]) or 'none'}; add it, or list it in passThrough"
        f"{f'; did you mean {near[0]}?' if near else ''}"
    )


class UnknownSchedulers:
    """Says why pods of unknown schedulers are rejected; logs each of the first 64 names once.

    Args:
        profiles: the configured profiles.
    """

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._logged: set[str] = set()

    def why_rejected(self, pod: core.Pod) -> str:
        """Return why a pod is rejected for its schedulerName; "" if kubextend knows the name."""
        why = why_unknown(self._profiles, pod)
        if why and why not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(why)
            _LOGGER.warning("pod %s/%s is rejected: %s", pod.namespace, pod.name, why)
        return why
