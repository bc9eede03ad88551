from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster_world import eventually as wait_until
from cluster_world import write_kubeconfig
from scripted_api import ScriptedApi

from kubextend.cluster import Reflector, connect
from kubextend.core import NodeStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kubextend.cluster.client import Cluster


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    scripted = ScriptedApi()
    scripted.up()
    yield scripted
    scripted.down()


@pytest.fixture
def kubeconfig(api: ScriptedApi, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    write_kubeconfig(file, api.url, "a-token")
    return file


@pytest.fixture
def cluster(kubeconfig: Path) -> Cluster:
    return connect(str(kubeconfig))


@pytest.fixture
def reflector(cluster: Cluster) -> Iterator[Reflector]:
    """Make a Reflector of nodes that is not started yet; stop it after the test."""
    made = Reflector(cluster, NodeStore())
    yield made
    made.stop()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    return wait_until
