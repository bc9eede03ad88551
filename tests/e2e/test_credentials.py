"""The exec plugin of kubextend's kubeconfig fails or gives a wrong token, and works again.

kubextend never calls kube-apiserver without credentials: it would be system:anonymous.
"""

import re
from collections.abc import Iterator

import pytest

from .controlplane import USERS, ControlPlane
from .exec_plugin import SECRET, ExecPlugin
from .kubeapi import RDMA_LABEL, NewPool
from .stack import HIGH_COMM, Mode, NewStack, Stack
from .workbench import until
from .workload import NewWorkload, Workload

PODS = 5
SOON_S = 60.0
TOKEN = USERS["kubextend"][0]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> ExecPlugin:
    return ExecPlugin(tmp_path_factory.mktemp("login") / "plugin")


@pytest.fixture(scope="module")
def shared_stack(control_plane: ControlPlane, plugin: ExecPlugin, new_stack: NewStack) -> Stack:
    plugin.gives(TOKEN, lasts_s=10)
    kubeconfig = control_plane.kubeconfig_of(plugin.user, plugin.folder / "kube.config")
    return new_stack("login", Mode(binds=True), kubeconfig=kubeconfig)


@pytest.fixture
def stack(shared_stack: Stack, plugin: ExecPlugin) -> Iterator[Stack]:
    """The stack, whose log has no secret and no hint to help system:anonymous after the test."""
    yield shared_stack
    plugin.gives(TOKEN, lasts_s=10)
    until(shared_stack.is_ready, "kubextend is back")
    assert_helpful(shared_stack.kubextend_log())


@pytest.fixture
def workload(stack: Stack, new_pool: NewPool, new_workload: NewWorkload) -> Workload:
    return new_workload(stack, new_pool("login", 3, born_with=(RDMA_LABEL, "true", range(3))))


def assert_helpful(*texts: str) -> None:
    for text in texts:
        assert re.search(r"\bgrant", text) is None
        assert SECRET not in text


def test_a_plugin_that_fails_at_the_start_delays_pods_until_it_works(
    stack: Stack, plugin: ExecPlugin, workload: Workload
) -> None:
    stack.kill_kubextend()
    plugin.fails()
    stack.start_kubextend()
    until(stack.is_alive, "kubextend answers")
    failed = stack.attempts("error")
    names = workload.create("start", PODS, HIGH_COMM)
    until(lambda: stack.attempts("error") > failed, "kube-scheduler gets an Error")
    said = stack.client.get("/readyz?verbose").text
    assert "user e2e of context e2e in kubeconfig" in said
    failed_with = "exec: process returned 1. the identity provider is down"
    assert f"exec plugin {plugin.command}: {failed_with}" in said
    assert_helpful(said, *(workload.notes(name) for name in names))
    plugin.gives(TOKEN, lasts_s=10)
    workload.until_placed(names, SOON_S)


def test_pods_whose_bindings_get_a_401_are_bound_once_the_plugin_works(
    stack: Stack, plugin: ExecPlugin, workload: Workload, control_plane: ControlPlane
) -> None:
    plugin.gives("no-longer-a-token", lasts_s=10)
    refused = "the API does not accept user e2e of context e2e in kubeconfig"
    logged = len(stack.kubextend_log())
    failed = stack.attempts("error")
    names: list[str] = []

    def is_bound_or_failed() -> bool:
        return workload.placed().keys() >= {*names} or stack.attempts("error") > failed

    # One pod after the other, until the old token is no longer in use.
    while stack.attempts("error") == failed:
        names += workload.create(f"bind-{len(names)}", 1, HIGH_COMM)
        until(is_bound_or_failed, "the pod is bound, or kube-scheduler gets an Error")
    until(lambda: refused in stack.kubextend_log()[logged:], "the log says it")
    names += workload.create("more", PODS, HIGH_COMM)
    until(lambda: refused in workload.why_pending(names[-1]), "the pod says it")
    assert_helpful(*(workload.why_pending(name) + workload.notes(name) for name in names))
    plugin.gives(TOKEN, lasts_s=10)
    workload.until_placed(names, SOON_S)
    bound = [each["objectRef"]["name"] for each in control_plane.bindings(workload.namespace)]
    assert sorted(bound) == sorted(names)
