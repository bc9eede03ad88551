"""The exec plugin of kubextend's kubeconfig fails, hangs or gives a wrong token, and works again.

kube-apiserver answers a wrong token with 401. kubextend never calls it without credentials: it
would be system:anonymous, whom RBAC gives no right.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .controlplane import USERS, ControlPlane
from .exec_plugin import SECRET, ExecPlugin
from .kubeapi import NodePool
from .stack import HIGH_COMM, Mode, Stack, refused_kubextend
from .workbench import until, within
from .workload import NewWorkload

PODS = 5
SOON_S = 60.0
TOKEN = USERS["kubextend"][0]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> ExecPlugin:
    return ExecPlugin(tmp_path_factory.mktemp("login") / "plugin")


@pytest.fixture(scope="module")
def shared_stack(
    control_plane: ControlPlane, plugin: ExecPlugin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    plugin.gives(TOKEN, lasts_s=10)
    file = tmp_path_factory.mktemp("login") / "kube.config"
    kubeconfig = control_plane.kubeconfig_of(plugin.user, file)
    running = Stack(control_plane, "login", Mode(binds=True), kubeconfig=kubeconfig)
    yield running
    running.close()


@pytest.fixture
def stack(shared_stack: Stack, plugin: ExecPlugin) -> Iterator[Stack]:
    """The stack, whose log has no secret and no hint to help system:anonymous after the test."""
    yield shared_stack
    plugin.gives(TOKEN, lasts_s=10)
    until(shared_stack.is_ready, "kubextend is back")
    assert_helpful(shared_stack.kubextend_log())


@pytest.fixture(scope="module")
def pool(control_plane: ControlPlane) -> Iterator[NodePool]:
    pool = NodePool(control_plane.api, "login", 3)
    pool.enable_rdma(*pool.names)
    yield pool
    pool.delete()


def assert_helpful(*texts: str) -> None:
    for text in texts:
        assert re.search(r"\bgrant", text) is None
        assert SECRET not in text


def test_a_plugin_that_fails_at_the_start_delays_pods_until_it_works(
    stack: Stack, plugin: ExecPlugin, pool: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(stack, pool)
    stack.kill_kubextend()
    plugin.fails()
    stack.start_kubextend()
    until(stack.is_alive, "kubextend answers")
    failed = stack.attempts("error")
    names = workload.create("start", PODS, HIGH_COMM)
    until(lambda: stack.attempts("error") > failed, "kube-scheduler gets an Error")
    said = stack.client.get("/readyz?verbose").text
    assert "user e2e of context e2e in kubeconfig" in said
    assert f"exec plugin {plugin.command} ended with status 1: the identity provider is" in said
    assert_helpful(said, *(workload.notes(name) for name in names))
    plugin.gives(TOKEN, lasts_s=10)
    workload.until_placed(names, SOON_S)


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(ExecPlugin.fails, id="fails"),
        pytest.param(lambda plugin: plugin.does("sleep 30"), id="hangs"),
        pytest.param(lambda plugin: plugin.does("echo Welcome"), id="garbage"),
    ],
)
def test_a_plugin_that_fails_as_a_token_ends_changes_nothing_while_the_token_is_accepted(
    ends: Callable[[ExecPlugin], None],
    stack: Stack,
    plugin: ExecPlugin,
    pool: NodePool,
    new_workload: NewWorkload,
) -> None:
    workload = new_workload(stack, pool)
    ends(plugin)
    runs = plugin.runs
    until(lambda: plugin.runs > runs + 1, "the plugin is asked again")
    workload.until_placed(workload.create("old", PODS, HIGH_COMM), SOON_S)
    plugin.gives(TOKEN, lasts_s=10)
    workload.until_placed(workload.create("new", PODS, HIGH_COMM), SOON_S)


def test_pods_whose_bindings_get_a_401_are_bound_once_the_plugin_works(
    stack: Stack,
    plugin: ExecPlugin,
    pool: NodePool,
    new_workload: NewWorkload,
    control_plane: ControlPlane,
) -> None:
    workload = new_workload(stack, pool)
    plugin.gives("no-longer-a-token", lasts_s=10)
    refused = "the API does not accept user e2e of context e2e in kubeconfig"
    logged = len(stack.kubextend_log())
    failed = stack.attempts("error")
    names: list[str] = []

    def is_bound_or_failed() -> bool:
        return workload.placed().keys() >= {*names} or stack.attempts("error") > failed

    # One pod after the other, until the old token is no longer in use.
    for _ in range(100):
        if stack.attempts("error") > failed:
            break
        names += workload.create(f"bind-{len(names)}", 1, HIGH_COMM)
        until(is_bound_or_failed, "the pod is bound, or kube-scheduler gets an Error")
    until(lambda: refused in stack.kubextend_log()[logged:], "the log says it")
    names += workload.create("more", PODS, HIGH_COMM)
    until(lambda: refused in workload.why_pending(names[-1]), "the pod says it")
    plugin.fails()
    runs = plugin.runs
    until(lambda: plugin.runs > runs, "the plugin fails")
    assert_helpful(*(workload.why_pending(name) + workload.notes(name) for name in names))
    plugin.gives(TOKEN, lasts_s=10)
    with within(SOON_S, "to be bound again"):
        workload.until_placed(names, SOON_S)
    bound = [each["objectRef"]["name"] for each in control_plane.bindings(workload.namespace)]
    assert sorted(bound) == sorted(names)


def test_who_has_no_credentials_is_told_to_get_some(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    file = control_plane.kubeconfig_of({}, tmp_path / "nobody.config")
    told = refused_kubextend("ungate", "--dry-run", "--kubeconfig", file)
    assert f"the API wants credentials, and user e2e of context e2e in kubeconfig {file}" in told
    assert_helpful(told)
