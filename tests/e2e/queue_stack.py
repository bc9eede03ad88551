"""Runs a kube-scheduler for queued pods, and kubextend processes with a queue beside it."""

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
# A killed kubextend does not give the lease back, so the next holder waits for the lease's end.
TAKE_OVER_S = 90.0


def sorted_by(plugin: str, scheduler: str = SCHEDULER) -> Object:
    """Return a profile with one queueSort plugin, and no other plugin."""
    return {
        "schedulerName": scheduler,
        "plugins": {"queueSort": {"enabled": [{"name": plugin}]}},
    }


def queue_scheduler(plane: ControlPlane, name: str, **settings: object) -> Scheduler:
    """Start the kube-scheduler of queued pods, which calls no verb and so needs no kubextend.

    Args:
        plane: the control plane.
        name: the name of the scheduler's files.
        settings: further fields of the scheduler's configuration.
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
    """A kubextend with a queue and without a kube-scheduler; its lease is deleted at the end."""

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
        """Return how many pods this kubextend process has released from the queue."""
        return int(self.counts().total("kubextend_queue_releases_total", result="released"))


def forget_lease(api: Api) -> None:
    """Delete the queue's lease, so that the next kubextend leads without waiting."""
    with suppress(httpx.HTTPError):
        api.call("DELETE", LEASE)


def _part(settings: Object, name: str) -> Object:
    return dict(settings.get(name) or {})
