from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doors import kube_api


@pytest.fixture
def clock() -> Iterator[kube_api.SkippingTime]:
    with kube_api.skipping() as made:
        yield made


@pytest.fixture
def api(clock: kube_api.SkippingTime) -> Iterator[kube_api.ScriptedApi]:
    """A Kubernetes API in the time that skips."""
    del clock
    with kube_api.scripted() as made:
        yield made


@pytest.fixture
def kubeconfig(api: kube_api.ScriptedApi, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    kube_api.write_kubeconfig(file, api.url, "a-token")
    return file


@pytest.fixture
def nodes(kubeconfig: Path) -> Iterator[kube_api.Follower]:
    """The nodes, which are not followed before ``start``."""
    with kube_api.following(kubeconfig) as made:
        yield made


@pytest.fixture
def known(
    api: kube_api.ScriptedApi, nodes: kube_api.Follower, clock: kube_api.SkippingTime
) -> kube_api.Follower:
    """The nodes after the first list, of the node ``one``, in an open watch."""
    api.put_node("one", zone="a")
    nodes.start()
    clock.until(lambda: nodes.synced)
    return nodes
