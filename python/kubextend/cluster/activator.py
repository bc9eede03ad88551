"""Makes kube-scheduler try unschedulable pods again, by setting a condition on each pod's status.

kube-scheduler tries an unschedulable pod again when the pod is updated.
"""

from __future__ import annotations

import logging
import time
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from kubextend.cluster.pod_conditions import Condition, PodConditions
from kubextend.cluster.write_queue import writes_counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

log = logging.getLogger(__name__)

CONDITION = "kubextend.dev/Activated"
REASON = "NodesChanged"

RATE = 20.0
BURST = 50


class Activator(PodConditions):
    """Makes kube-scheduler try unschedulable pods again, by patches of the status of the pods.

    Args:
        cluster: the connection to the Kubernetes API.
        rate: the highest mean number of patches a second.
        burst: how many patches may be sent without a pause.
        clock: returns the present time in monotonic seconds.
    """

    METRICS: ClassVar = writes_counted("kubextend_activations", "Wake-ups of pods")

    def __init__(
        self,
        cluster: Cluster,
        *,
        rate: float = RATE,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            cluster,
            rate=rate,
            burst=burst,
            clock=clock,
            name="kubextend-activator",
            trouble="pods cannot be woken",
        )
        self._generation = count(1)

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
