"""What plugin stories count where no answer shows it: lists, sums, memory, and calls of unblock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.doors.stories import configuration

from kubextend import app, core, testing
from kubextend.framework import CycleState, Handle
from kubextend.plugins import sy_sched

__all__ = [
    "asked_what_pods_lack",
    "profiles_remembered",
    "reads_of_annotations",
    "sums_of_requests",
]


async def asked_what_pods_lack(folder: Path, plugin: type, *, times: int) -> None:
    """Filter pods with a server that has no cluster, and ask for the decisions about each."""
    token = folder / "token"
    token.write_text("0123456789abcdef\n")
    tree = {
        "extender": {"nodeCacheCapable": False},
        "server": {"decisions": {"tokenFile": str(token)}},
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": plugin.__name__}]}},
            }
        ],
        "cluster": None,
    }
    made = httpx.ASGITransport(app=app.create_app(configuration(tree, plugin)))
    headers = {"authorization": "Bearer 0123456789abcdef"}
    nodes = {"items": [testing.node_manifest("n")]}
    async with httpx.AsyncClient(transport=made, base_url="http://kubextend") as client:
        for number in range(times):
            body = {"Pod": testing.pod_manifest(f"p{number}"), "Nodes": nodes, "NodeNames": None}
            await client.post("/filter", json=body)
            found = await client.get(f"/decisions?pod=default/p{number}", headers=headers)
            assert found.status_code == 200, found.text


# Work and memory that tenants may cause, and that no answer shows.


@contextmanager
def reads_of_annotations() -> Iterator[list[str]]:
    """Record of which pods SySched reads the annotations."""
    read: list[str] = []
    of = sy_sched._in_annotations

    def counted(pod: core.Pod) -> Any:
        read.append(pod.name)
        return of(pod)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sy_sched, "_in_annotations", counted)
        yield read


def profiles_remembered(cluster: testing.Cluster) -> dict[str, int]:
    """Return how many names of profiles SySched remembers, by the UIDs of pods."""
    [plugin] = cluster.plugins
    return {uid: len(names) for uid, (_, names) in plugin._of_pods.items()}


class _CountedPods:
    """A snapshot of pods; records how many sums each call of ``requested_in`` returns."""

    def __init__(self, pods: core.PodSnapshot, sums: list[int]) -> None:
        self._pods, self._sums = pods, sums

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pods, name)

    def requested_in(self, *args: Any) -> dict[str, int]:
        found = self._pods.requested_in(*args)
        self._sums.append(len(found))
        return found


@contextmanager
def sums_of_requests() -> Iterator[list[int]]:
    """Record how many sums of requests plugins get at each call that sums those of namespaces."""
    sums: list[int] = []
    of = Handle.pods

    def pods(handle: Handle, state: CycleState | None = None) -> Any:
        found = of(handle, state)
        return None if found is None else _CountedPods(found, sums)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Handle, "pods", pods)
        yield sums
