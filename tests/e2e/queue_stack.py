"""Runs a kube-scheduler for queued pods, and kubextend processes with a queue beside it."""

from contextlib import suppress
from typing import Any

import httpx

from .controlplane import ControlPlane
from .kubeapi import Api, Object
from .queue_policies import SCHEDULER
from .stack import Mode, Scheduler, Stack, configuration, scheduler_configuration

NAMESPACE = "kubextend-system"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = f"{LEASES}/kubextend-queue"
# A killed kubextend does not give the lease back, so the next holder waits for the lease's end.
TAKE_OVER_S = 90.0


def sorted_by(plugin: str, scheduler: str = SCHEDULER) -> Object:
    """Return a profile with one queueSort plugin, and no other plugin."""
    plugins = {"queueSort": {"enabled": [{"name": plugin}]}}
    return {"schedulerName": scheduler, "plugins": plugins}


def queue_scheduler(plane: ControlPlane, name: str, **settings: Any) -> Scheduler:
    """Start the kube-scheduler of queued pods, which calls no verb and so needs no kubextend."""
    ours = configuration(plane.bench.folder / f"{name}-ours.yaml", sorted_by("PrioritySort"))
    output = scheduler_configuration(plane, ours)
    client = {**output["clientConnection"], **settings.get("clientConnection", {})}
    return Scheduler(plane, name, {**output, **settings, "clientConnection": client})


class QueueStack(Stack):
    """A kubextend with a queue and without a kube-scheduler; its lease is deleted at the end."""

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        profile: Object,
        *,
        stack: Object | None = None,
        **queue: object,
    ) -> None:
        queue = {"lease": {"namespace": NAMESPACE}, **queue}
        options = {"queue": queue, "scheduler": False, **(stack or {})}
        super().__init__(plane, name, Mode(names=True), profile=profile, **options)
        self._api = plane.api

    def __exit__(self, *_: object) -> None:
        self.close()
        forget_lease(self._api)

    def leads(self) -> bool:
        return self.counts().total("kubextend_queue_leader") == 1

    def releases(self) -> int:
        return int(self.counts().total("kubextend_queue_releases_total", result="released"))


def forget_lease(api: Api) -> None:
    """Delete the queue's lease, so that the next kubextend leads without waiting."""
    with suppress(httpx.HTTPError):
        api.call("DELETE", LEASE)
