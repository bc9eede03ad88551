"""What the doctor examines: two configurations, a running kubextend, and a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kubextend import cluster, core, queue_controller
from kubextend.admission.rules import PodRules
from kubextend.config import Configuration
from kubextend.errors import ClusterError
from kubextend.kube_scheduler.versions import KubeVersion

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

__all__ = ["SAME_KUBECONFIG", "Examined"]

SAME_KUBECONFIG: Final = (
    "for a kubextend that runs with --kubeconfig FILE, set cluster.kubeconfig to FILE: the "
    "doctor's --kubeconfig looks at the cluster, and says nothing of kubextend's rights"
)
"""What to do if kubextend's own credentials are not those of its configuration."""


@dataclass(frozen=True)
class Examined:
    """What the doctor examines. The properties that ask the Kubernetes API raise ClusterError.

    Attributes:
        config: kubextend's configuration, without the rules that are compiled.
        scheduler: the file of kube-scheduler's configuration; None: there is none to look at.
        kubeconfig: credentials with which to look at the cluster; None: those of kubextend.
        kube_version: the version of kube-scheduler; None: that of kube-apiserver.
        rules: the rules that are compiled; None: no rule is.
    """

    config: Configuration
    scheduler: Path | None = None
    kubeconfig: str | None = None
    kube_version: KubeVersion | None = None
    rules: Sequence[PodRules] | None = None

    @property
    def needs_kubextend(self) -> bool:
        """Whether kube-scheduler calls kubextend, or kubextend's queue releases pods."""
        return bool(self.config.verbs or self.config.queues)

    @cached_property
    def own(self) -> "Cluster | None":
        """The API with kubextend's own credentials; None if kubextend does not use the API."""
        given = self.config.cluster
        if given is None:
            return None
        try:
            return cluster.connect(given.kubeconfig, given.context)
        except ClusterError as why:
            broken = str(why).partition("; ")[0]
            message = f"kubextend's own credentials cannot be used: {broken}; {SAME_KUBECONFIG}"
            raise ClusterError(message) from why

    @cached_property
    def api(self) -> "Cluster | None":
        """The API with the credentials for looking; None without any."""
        return self.own if self.kubeconfig is None else cluster.connect(self.kubeconfig)

    @property
    def own_namespace(self) -> str:
        """The namespace of kubextend's pod, if the doctor runs in it; else the queue's default."""
        return cluster.own_namespace() or queue_controller.NAMESPACE_OUTSIDE_OF_A_POD

    @cached_property
    def server_version(self) -> str | None:
        """The version of kube-scheduler, or else of kube-apiserver; None: neither is known."""
        if self.kube_version is not None:
            return str(self.kube_version)
        return None if self.api is None else cluster.server_version(self.api)

    @cached_property
    def pending_pods(self) -> list[core.Pod]:
        """The pods that are on no node.

        Raises: ClusterError: there are no credentials, or the pods cannot be listed.
        """
        if self.api is None:
            message = "there is no access to the Kubernetes API"
            raise ClusterError(message)
        return cluster.list_pending_pods(self.api)
