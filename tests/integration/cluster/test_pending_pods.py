from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from cluster_world import eventually
from scripted_api import ScriptedApi, refusing

from kubextend.cluster import RefusedError, follow_pending_pods, list_pending_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

SELECTOR = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed"


@dataclass
class Followed:
    """What was told of pods, in order."""

    lists: list[set[str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def listed(self, pods: list[Pod]) -> None:
        self.lists.append({pod.name for pod in pods})

    def seen(self, pod: Pod) -> None:
        self.told.append(f"{pod.name} seen")

    def gone(self, uid: str) -> None:
        self.told.append(f"{uid} gone")


@pytest.fixture
def followed(cluster: Cluster, api: ScriptedApi) -> Iterator[Followed]:
    api.put_pod("there", "uid-there")
    made = Followed()
    reflector = follow_pending_pods(
        cluster, on_list=made.listed, on_pod=made.seen, on_gone=made.gone
    )
    reflector.start()
    eventually(lambda: reflector.synced)
    yield made
    reflector.stop()


def test_pods_are_listed_and_then_told_of_one_by_one(api: ScriptedApi, followed: Followed) -> None:
    assert followed.lists == [{"there"}]
    eventually(lambda: api.counts["watch"] == 1)
    api.put_pod("new", "uid-new")
    api.put_pod("new", "uid-new", labels={})  # type: ignore[arg-type]
    api.delete_pod("there")
    eventually(lambda: len(followed.told) == 3)
    assert followed.told == ["new seen", "new seen", "uid-there gone"]


def test_only_pods_without_a_node_are_asked_for(api: ScriptedApi, followed: Followed) -> None:
    del followed
    eventually(lambda: api.counts["watch"])
    selectors = {path.split("fieldSelector=")[1].split("&")[0] for _, path, _, _ in api.requests}
    assert len(selectors) == 1
    assert selectors.pop().replace("%3D", "=").replace("%2C", ",").replace("%21", "!") == SELECTOR


def test_after_a_break_everything_is_told_anew(api: ScriptedApi, followed: Followed) -> None:
    eventually(lambda: api.counts["watch"] == 1)
    api.compact()
    api.delete_pod("there")
    api.put_pod("other", "uid-other")
    api.fail("watch", refusing(410, "Expired", "too old resource version"))
    api.end_watches()
    eventually(lambda: followed.lists[-1:] == [{"other"}])


def test_all_pages_of_a_list_are_read(api: ScriptedApi, cluster: Cluster) -> None:
    for number in range(1203):
        api.put_pod(f"p{number}", f"uid-{number}")
    assert len({pod.uid for pod in list_pending_pods(cluster)}) == 1203
    assert api.counts["list"] == 3


def test_a_list_that_is_not_allowed_is_an_error(api: ScriptedApi, cluster: Cluster) -> None:
    api.fail("list", refusing(403, "Forbidden", "pods is forbidden"))
    with pytest.raises(RefusedError, match="pods is forbidden"):
        list_pending_pods(cluster)
