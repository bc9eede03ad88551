"""A kube-scheduler for queued pods, and kubextends that come and go while it runs."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import yaml

from .controlplane import ControlPlane
from .kubeapi import Api, Object
from .queue_policies import SCHEDULER
from .stack import Mode, Scheduler, Stack, run_kubextend

NAMESPACE = "kubextend-system"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = f"{LEASES}/kubextend-queue"
# After a kill nobody gives the lease back, so the next holder waits for its end.
TAKE_OVER_S = 90.0


def sorted_by(plugin: str, scheduler: str = SCHEDULER) -> Object:
    """A profile with a queue in the order of a plugin, and nothing else."""
    return {
        "schedulerName": scheduler,
        "plugins": {"queueSort": {"enabled": [{"name": plugin}]}},
    }


def queue_scheduler(plane: ControlPlane, name: str, **settings: object) -> Scheduler:
    """Start the kube-scheduler of queued pods. No verb is called, so it needs no kubextend.

    Args:
        plane: its control plane.
        name: of its files.
        settings: further fields of its configuration.
    """
    ours, written = (plane.bench.folder / f"{name}-{kind}.yaml" for kind in ("kubextend", "kube"))
    config = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {},
        "profiles": [sorted_by("PrioritySort")],
    }
    ours.write_text(json.dumps(config))
    kubeconfig = plane.kubeconfig("system:kube-scheduler")
    options: list[str | Path] = ["--kubeconfig", kubeconfig, "--no-leader-elect"]
    output = yaml.safe_load(run_kubextend("scheduler-config", "--config", ours, *options))
    client = {**output["clientConnection"], **_part(settings, "clientConnection")}
    written.write_text(json.dumps({**output, **settings, "clientConnection": client}))
    return Scheduler(plane, name, written)


class QueueStack(Stack):
    """One kubextend with a queue; it gives its lease back at the end."""

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        profile: Object,
        *,
        out_of_tree: Sequence[str] = (),
        python_path: Sequence[Path] = (),
        **queue: object,
    ) -> None:
        super().__init__(
            plane,
            name,
            Mode(names=True),
            profile=profile,
            out_of_tree=out_of_tree,
            python_path=python_path,
            queue={"lease": {"namespace": NAMESPACE}, **queue},
            scheduler=False,
        )
        self._api = plane.api

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        forget_lease(self._api)

    def leads(self) -> bool:
        return self.counts().total("kubextend_queue_leader") == 1

    def releases(self) -> int:
        """How many pods this process released."""
        return int(self.counts().total("kubextend_queue_releases_total", result="released"))


def forget_lease(api: Api) -> None:
    """Let the next kubextend begin at once, however the last one ended."""
    with suppress(httpx.HTTPError):
        api.call("DELETE", LEASE)


def _part(settings: Object, name: str) -> Object:
    return dict(settings.get(name) or {})
