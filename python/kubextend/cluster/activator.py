"""Makes kube-scheduler try unschedulable pods again, by setting a condition on each pod's status.

kube-scheduler tries an unschedulable pod again when the pod is updated.
"""

from __future__ import annotations

import logging
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from kubextend.cluster.pod_conditions import Condition, PodConditions
from kubextend.cluster.write_queue import writes_counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubextend.core import Pod

log = logging.getLogger(__name__)

CONDITION = "kubextend.dev/Activated"
REASON = "NodesChanged"

RATE = 20.0
BURST = 50


class Activator(PodConditions):
    """Makes kube-scheduler try unschedulable pods again, by patches of the status of the pods."""

    METRICS: ClassVar = writes_counted("kubextend_activations", "Wake-ups of pods")

    rate, burst = RATE, BURST
    thread, trouble = "kubextend-activator", "pods cannot be woken"
    _generation = count(1)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Queue a patch of each pod's status that makes kube-scheduler try the pod again.

        The call never waits and never raises. A pod whose patch is already queued is patched once.
        A pod that cannot be patched is logged; the remaining pods are still patched.
        """
        for pod in pods:
            try:
                self._set(pod, self._activated)
            except Exception:
                self.stats.dropped += 1
                log.exception("pod %s/%s cannot be woken", pod.namespace, pod.name)

    def _activated(self) -> Condition:
        # The number makes each patch an update of the pod.
        message = f"nodes changed and may fit now ({next(self._generation)})"
        return Condition(CONDITION, "True", REASON, message)
