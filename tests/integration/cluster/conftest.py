from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import yaml
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


def write_kubeconfig(file: Path, server: str, token: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "there",
        "contexts": [{"name": "there", "context": {"cluster": "there", "user": "me"}}],
        "clusters": [{"name": "there", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    file.write_text(yaml.safe_dump(document))


@pytest.fixture
def cluster(kubeconfig: Path) -> Cluster:
    return connect(str(kubeconfig))


@pytest.fixture
def changes() -> list[float]:
    return []


@pytest.fixture
def reflector(cluster: Cluster, changes: list[float]) -> Iterator[Reflector]:
    """Not started yet."""
    made = Reflector(cluster, NodeStore(), lambda: changes.append(time.monotonic()))
    yield made
    made.stop()


@pytest.fixture
def eventually() -> Callable[..., None]:
    def wait(holds: Callable[[], object], within_s: float = 5.0) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < deadline, "did not come to hold in time"
            time.sleep(0.005)

    return wait
