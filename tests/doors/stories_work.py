"""What plugin stories count where no answer shows it: lists, sums, memory, and calls of unblock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.doors.extender import Extender, pod, profile, request

from kubextend import core, testing
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
    of_plugin = profile(multiPoint=[plugin.__name__])
    decisions = {"tokenFile": str(token)}
    asked = Extender(plugin, profiles=[of_plugin], server={"decisions": decisions})
    reader = {"Authorization": "Bearer 0123456789abcdef"}
    for number in range(times):
        await asked.begin("/filter", request("filter", pod(f"p{number}"))).answer()
        found = await asked.begin(f"/decisions?pod=ml/p{number}", **reader).answer()
        assert found.status == 200, found.text


# Work and memory that tenants may cause, and that no answer shows.


@contextmanager
def reads_of_annotations() -> Iterator[list[str]]:
    """Record of which pods SySched reads the annotations."""
    read: list[str] = []
    of = sy_sched._in_annotations

    def counted(asked: core.Pod) -> Any:
        read.append(asked.name)
        return of(asked)

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
