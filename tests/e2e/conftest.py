"""Fixtures of the e2e tests: one control plane for the session, and stacks that tests share."""

import itertools
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from . import pod_groups
from .controlplane import ControlPlane, build_binaries
from .door import Door
from .kubeapi import Api, NewPool, NodePool
from .manifests import HELLO_WORLD, QUEUE_SORT
from .pod_groups import NewPodGroups, PodGroups
from .program_plane import plane_in
from .stack import NAMES, Mode, NewStack, Stack
from .workbench import Workbench
from .workload import NewWorkload, Workload

_BENCHES = pytest.StashKey[list[Workbench]]()
HERE = Path(__file__).parent
# Karpenter listens on all addresses: the trial of autoscalers has a network with loopback alone.
networks = [name for _, name in socket.if_nameindex()]
collect_ignore = [] if networks == ["lo"] else ["test_autoscalers.py"]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BENCHES] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every program's log beside a failure."""
    report = yield
    if report.failed and call.when != "teardown":
        for bench in item.config.stash[_BENCHES]:
            report.sections += [(f"log of {p.name}", p.tail()) for p in bench.programs]
    return report


@pytest.fixture(scope="session")
def binaries() -> Path:
    return build_binaries()


@contextmanager
def running_plane(
    request: pytest.FixtureRequest, gates: str = "", apis: str = ""
) -> Iterator[ControlPlane]:
    """Run a control plane during a block; its logs are shown beside failures."""
    temporary: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    benches = request.config.stash[_BENCHES]
    with plane_in(temporary.mktemp("control-plane"), gates, apis) as plane:
        benches.append(plane.bench)
        yield plane
        benches.remove(plane.bench)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    with running_plane(request) as plane:
        yield plane


@pytest.fixture(scope="session")
def breakable_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Start a control plane whose kube-apiserver tests may kill, and start again at their end."""
    with running_plane(request) as plane:
        yield plane


@pytest.fixture(scope="session")
def group_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Start a control plane that serves pod groups."""
    with running_plane(request, pod_groups.GATES, pod_groups.APIS) as plane:
        yield plane


@pytest.fixture(scope="module")
def own_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Start a control plane without other tests, which ends with the module."""
    with running_plane(request) as plane:
        yield plane


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> Api:
    return control_plane.api


@pytest.fixture(scope="session")
def door(control_plane: ControlPlane) -> Iterator[Door]:
    """Run the proxy between ``names_stack`` and kube-apiserver; each test leaves it open."""
    with Door(control_plane.bench.free_port(), control_plane.port) as door:
        yield door


@pytest.fixture(scope="session")
def names_stack(control_plane: ControlPlane, door: Door) -> Iterator[Stack]:
    """Run a stack in names mode, without options. Its counters include calls by other tests."""
    with Stack(control_plane, "names", api_url=door.url) as running:
        yield running


@pytest.fixture(scope="session")
def full_stack(control_plane: ControlPlane) -> Iterator[Stack]:
    """Run a stack in full mode, without options."""
    with Stack(control_plane, "full", Mode(names=False)) as running:
        yield running


@pytest.fixture(scope="module")
def new_stack(request: pytest.FixtureRequest) -> Iterator[NewStack]:
    """Return a function that starts stacks, which end with the module."""
    with ExitStack() as running:

        def start(
            name: str, mode: Mode = NAMES, *, plane: ControlPlane | None = None, **how: Any
        ) -> Stack:
            its: ControlPlane = plane or request.getfixturevalue("control_plane")
            return running.enter_context(Stack(its, name, mode, **how))

        yield start


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    """What is done after the test, the last first."""
    with ExitStack() as ends:
        yield ends


@pytest.fixture
def new_pool(request: pytest.FixtureRequest, ends: ExitStack) -> NewPool:
    """Return a function that makes pools, whose nodes are deleted after the test."""

    def make(name: str, size: int, *, api: Api | None = None, **how: Any) -> NodePool:
        pool = NodePool(api or request.getfixturevalue("api"), name, size, **how)
        ends.callback(pool.delete)
        return pool

    return make


@pytest.fixture(scope="session")
def thousand_nodes(api: Api) -> NodePool:
    return NodePool(api, "thousand", 1000)


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the examples of plugins with their entry points, and return the folder.

    Nothing is downloaded: uv brings the build backend.
    """
    folder, uv = tmp_path_factory.mktemp("examples"), Path(sys.executable).with_name("uv")
    options = ["--offline", "--no-deps", "--quiet", f"--python={sys.executable}"]
    packages = [f"--target={folder}", HELLO_WORLD, QUEUE_SORT]
    subprocess.run([uv, "pip", "install", *options, *packages], check=True)
    return folder


_namespaces = itertools.count()


@pytest.fixture
def new_workload(api: Api, ends: ExitStack) -> NewWorkload:
    """Return a function that makes workloads, whose pods are deleted after the test."""

    def make(stack: Stack, pool: NodePool, scheduler_name: str | None = None) -> Workload:
        name = scheduler_name or stack.scheduler_name
        workload = Workload(api, f"test-{next(_namespaces)}", name, pool)
        ends.callback(workload.close)
        return workload

    return make


@pytest.fixture
def new_groups(group_plane: ControlPlane, ends: ExitStack) -> NewPodGroups:
    """Return a function that makes groups, whose members are deleted after the test."""

    def make(stack: Stack, pool: NodePool) -> PodGroups:
        name = f"groups-{next(_namespaces)}"
        workload = Workload(group_plane.api, name, stack.scheduler_name, pool)
        ends.callback(workload.close)
        return PodGroups(group_plane.api, workload, pool)

    return make
