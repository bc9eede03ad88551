"""What plugins hold of the API once its credentials were renewed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cluster_world import write_kubeconfig

from kubextend import app, config
from kubextend.cluster.api_call import Call
from kubextend.discovery import known_plugins

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_api import ScriptedApi

    from kubextend.core import Node, Pod
    from kubextend.framework import CycleState, Handle, Status


class Asking:
    """A filter that keeps its handle."""

    name = "Asking"
    handles: ClassVar[list[Handle]] = []

    def __init__(self, handle: Handle) -> None:
        self.handles.append(handle)

    def filter(self, _state: CycleState, _pod: Pod, _node: Node) -> Status | None:
        return None


def test_a_plugin_that_asks_for_the_client_has_the_one_with_the_new_credentials(
    api: ScriptedApi, kubeconfig: Path
) -> None:
    plugins = {"Asking": Asking}
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Asking"}]}}}],
    }
    built = app.build(config.parse(tree, known=known_plugins(plugins)))
    (handle,) = Asking.handles
    before = handle.kubernetes_client
    assert before.configuration.api_key["BearerToken"] == "Bearer a-token"
    api.token = "the-next-token"
    write_kubeconfig(kubeconfig, api.url, "the-next-token")
    assert built._cluster is not None
    built._cluster.api.request(Call("GET", "/api/v1/nodes", 5.0))
    after = handle.kubernetes_client
    assert after.configuration.api_key["BearerToken"] == "Bearer the-next-token"
