"""Makes kube-scheduler try unschedulable pods again, by setting a condition on each pod's status.

kube-scheduler tries an unschedulable pod again when the pod is updated. The condition stays on the
pod, so it says nothing but when kubextend asked: to take it away would be another update.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from kubextend.cluster.pod_conditions import Condition, PodConditions
from kubextend.cluster.write_queue import writes_counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kubextend.core import Pod

log = logging.getLogger(__name__)

RATE = 20.0
BURST = 50


class Activator(PodConditions):
    """Makes kube-scheduler try unschedulable pods again, by patches of the status of the pods."""

    METRICS: ClassVar = writes_counted("kubextend_activations", "Wake-ups of pods")

    rate, burst = RATE, BURST
    thread, trouble = "kubextend-activator", "pods cannot be woken"

    def activate(self, pods: Iterable[Pod]) -> None:
        """Queue a patch of each pod's status that makes kube-scheduler try the pod again.

        The call never waits and never raises. A pod whose patch is already queued is patched once.
        A pod that cannot be patched is logged; the remaining pods are still patched.
        """
        for pod in pods:
            try:
                self._set(pod, _activated)
            except Exception:
                self.stats.dropped += 1
                log.exception("pod %s/%s cannot be woken", pod.namespace, pod.name)


def _activated() -> Condition:
    # The time makes each patch an update of the pod.
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    message = f"kubextend asked kube-scheduler at {moment} to try this pod again"
    return Condition("kubextend.dev/Activated", "True", "AskedToTryAgain", message)
