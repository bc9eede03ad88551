"""What people met: one node's detail told of other nodes, and what `why` says of pods nobody tries.

What kube-scheduler keeps out of its queue is what the PreEnqueue plugins of kube-scheduler 1.37 do:
DynamicResources and GangScheduling. kube-scheduler writes no condition then.
"""

import json
import logging
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from click.testing import CliRunner

from browser import Browser
from decision_page import open_pod, sign_in, step, table
from kubextend import app, core, discovery
from kubextend.cli import main
from kubextend.framework import CycleState, Rejection, Status
from kubextend.testing import Cluster, make_node, make_pod, pod_manifest

TOKEN = "reads-and-decides-nothing"
POD = {"metadata": {"name": "p", "namespace": "ml", "uid": "u-p"}, "spec": {}}
DIFFER = "details differ by node"
FREE = {"n0": "0 free GPUs", "n1": "1 free GPU", "n2": "2 free GPUs"}


class Gpus:
    """Rejects every node, with what the node's label says as the detail."""

    name = "Gpus"

    def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> Status:
        return Status.unschedulable("too few GPUs", detail=node.labels.get("free", ""))


class Racks:
    """Rejects the nodes with the label ``rack``, and tells the rack as the detail."""

    name = "Racks"

    def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> Status | None:
        rack = node.labels.get("rack")
        return None if rack is None else Status.unschedulable("rack is full", detail=f"rack {rack}")


class AllAtOnce:
    """Rejects all nodes in one call: the first two by one Rejection, the third by another."""

    name = "AllAtOnce"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        rows = range(len(nodes))
        reason = "too few GPUs"
        first = Rejection(
            core.Mask([row < 2 for row in rows]), Status.unschedulable(reason, detail="of rack 1")
        )
        second = Rejection(
            core.Mask([row >= 2 for row in rows]), Status.unschedulable(reason, detail="of rack 2")
        )
        return [first, second]


class ByNode:
    """Rejects all nodes by one Rejection that has a detail for two of them."""

    name = "ByNode"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        status = Status.unschedulable("too few GPUs", detail="see each node")
        return [Rejection(nodes.everything(), status, details={0: "none", 2: "two"})]


class WrongDetails:
    name = "WrongDetails"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        status = Status.unschedulable("too few GPUs")
        return [Rejection(nodes.everything(), status, details=["none"])]  # type: ignore[arg-type]


class NumbersAsDetails:
    name = "NumbersAsDetails"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        status = Status.unschedulable("too few GPUs")
        return [Rejection(nodes.everything(), status, details={0: 1})]  # type: ignore[dict-item]


class NeverToday:
    """Rejects the pod at PreFilter: what it says is about the pod, and so about every node."""

    name = "NeverToday"

    def pre_filter(self, *_: object) -> Status:
        return Status.unschedulable("the pod is not due", detail="due on Monday")

    def filter(self, *_: object) -> None:
        return None


class WithOthers:
    """Rejects the nodes that have a pod, and tells that pod's name as the detail."""

    name = "WithOthers"
    needs_pods = True

    def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> Status | None:
        names = ", ".join(pod.name for pod in node.pods)
        return Status.unschedulable("node is taken", detail=f"by {names}") if names else None


class WithOthersAtOnce:
    """Does what WithOthers does, for all nodes in one call."""

    name = "WithOthersAtOnce"
    needs_pods = True

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        taken = {
            row: f"by {', '.join(pod.name for pod in node.pods)}"
            for row, node in enumerate(nodes)
            if node.pods
        }
        mask = core.Mask([row in taken for row in range(len(nodes))])
        return [Rejection(mask, Status.unschedulable("node is taken"), details=taken)]


class Notes:
    """Notes the rejections that PostFilter is shown, as name of the node -> detail."""

    name = "Notes"

    def __init__(self) -> None:
        self.shown: list[dict[int, str]] = []

    def post_filter(
        self, _state: CycleState, _pod: core.Pod, rejections: Sequence[Rejection]
    ) -> Status:
        self.shown.append(
            {
                row: each.details.get(row, "") if each.details else each.status.detail
                for each in rejections
                for row in each.nodes.indices()
            }
        )
        return Status.unschedulable("no node")


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


NODES = [node(name, free=free) for name, free in FREE.items()]


@dataclass
class Api:
    """A Kubernetes API that has some objects, by path, and forbids some paths.

    Attributes:
        objects: path -> object.
        forbidden: the paths that the user may not read.
        unserved: prefixes of paths of groups and versions that the API does not serve.
        asked: the paths that were asked for.
    """

    objects: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    unserved: str = "none"
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, Mapping[str, Any] | str]:
        self.asked.append(path)
        group, kind, name = (["", "", "", *path.split("/")])[-4], *path.split("/")[-2:]
        what = f'{kind}.{group} "{name}"'
        if path.startswith(self.unserved):
            return 404, "404 page not found\n"
        if path in self.forbidden:
            return 403, failure(403, "Forbidden", f"{what} is forbidden: no right to get it")
        if kind.endswith("events") or name == "events":
            return 200, {"kind": "EventList", "items": []}
        if path in self.objects:
            return 200, self.objects[path]
        return 404, failure(404, "NotFound", f"{what} not found")


def failure(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


@contextmanager
def listening(api: Api, folder: Path) -> Iterator[Path]:
    """Answer for an API, and yield a kubeconfig for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, answer = api.answer(self.path.partition("?")[0])
            body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no line for a request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [
                        {
                            "name": "c",
                            "cluster": {"server": f"http://127.0.0.1:{server.server_port}"},
                        }
                    ],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
        try:
            yield kubeconfig
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Served:
    """A kubextend that answers, and how to ask it."""

    url: str
    folder: Path

    def filter(self, nodes: Sequence[Mapping[str, Any]] = NODES) -> None:
        body = {"Pod": POD, "Nodes": {"items": nodes}}
        httpx.post(f"{self.url}/filter", json=body, timeout=60).raise_for_status()

    def ask(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=60).json()

    def groups(self) -> list[Any]:
        """What was decided of the nodes together."""
        (attempt,) = self.ask("/decisions?pod=ml/p")["attempts"]
        found: list[Any] = attempt["calls"][0]["nodes"]["rejected"]
        return found

    def details(self) -> dict[str, str]:
        """The detail of each node by its name."""
        items = self.ask("/decisions/u-p/nodes")["items"]
        return {item["node"]: item["detail"] for item in items}


@contextmanager
def served(folder: Path, *plugins: type) -> Iterator[Served]:
    """Serve a configuration of a profile ``default-scheduler`` with some Filter plugins."""
    (folder / "token").write_text(f"{TOKEN}\n")
    config = folder / "kubextend.yaml"
    enabled = [{"name": plugin.name} for plugin in plugins]  # type: ignore[attr-defined]
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubextend.dev/v1alpha1",
                "kind": "ExtenderConfiguration",
                "extender": {"nodeCacheCapable": False},
                "server": {"decisions": {"tokenFile": str(folder / "token"), "page": True}},
                "profiles": [
                    {
                        "schedulerName": "default-scheduler",
                        "plugins": {
                            "preFilter": {
                                "enabled": [
                                    {"name": each.name}  # type: ignore[attr-defined]
                                    for each in plugins
                                    if hasattr(each, "pre_filter")
                                ]
                            },
                            "filter": {"enabled": enabled},
                        },
                    }
                ],
            }
        )
    )
    known = {plugin.name: plugin for plugin in plugins}  # type: ignore[attr-defined]
    made = app.create_app(discovery.load(str(config), known))
    server = uvicorn.Server(uvicorn.Config(made, lifespan="on", log_config=None, ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield Served(f"http://127.0.0.1:{bound.getsockname()[1]}", folder)
        finally:
            server.should_exit = True
            thread.join()


def why(kubeconfig: Path, server: Served | None, *options: str) -> str:
    """Return what `kubextend why` prints of the pod; without a server, kubextend is down."""
    url = "http://127.0.0.1:9" if server is None else server.url
    token = () if server is None else ("--token-file", str(server.folder / "token"))
    config = kubeconfig.with_name("why.yaml")
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubextend.dev/v1alpha1",
                "kind": "ExtenderConfiguration",
                "profiles": [{"schedulerName": "default-scheduler"}],
            }
        )
    )
    asked = ["why", "p", "-n", "ml", "--config", str(config), "--server", url, *token, *options]
    done = CliRunner().invoke(main, [*asked, "--kubeconfig", str(kubeconfig)])
    assert done.exit_code == 0, done.output
    return done.output


# ---------------------------------------------------------------- details by node


def test_a_detail_is_told_of_its_own_node_alone(tmp_path: Path) -> None:
    with served(tmp_path, Gpus) as server:
        server.filter()
        assert server.details() == FREE
        (group,) = server.groups()
        assert (group["reason"], group["nodes"]) == ("too few GPUs", 3)
        assert group["detail"] == DIFFER


def test_a_detail_that_all_nodes_have_is_told_of_all(tmp_path: Path) -> None:
    with served(tmp_path, Gpus) as server:
        server.filter([node(name, free="none at all") for name in FREE])
        assert set(server.details().values()) == {"none at all"}
        assert [group["detail"] for group in server.groups()] == ["none at all"]


def test_a_node_without_a_detail_gets_none_of_another_node(tmp_path: Path) -> None:
    with served(tmp_path, Gpus) as server:
        server.filter([node("n0", free="0 free GPUs"), node("n1"), node("n2", free="0 free GPUs")])
        assert server.details() == {"n0": "0 free GPUs", "n1": "", "n2": "0 free GPUs"}
        assert [group["detail"] for group in server.groups()] == [DIFFER]


def test_a_node_that_two_plugins_would_reject_has_the_detail_of_the_first(tmp_path: Path) -> None:
    with served(tmp_path, Racks, Gpus) as server:
        server.filter([node("n0", rack="a", free="0"), node("n1", rack="b"), node("n2", free="2")])
        assert server.details() == {"n0": "rack a", "n1": "rack b", "n2": "2"}
        told = {group["plugin"]: group["detail"] for group in server.groups()}
        assert told == {"Racks": DIFFER, "Gpus": "2"}


def test_a_plugin_that_rejects_many_nodes_at_once_says_the_detail_of_each_set(
    tmp_path: Path,
) -> None:
    with served(tmp_path, AllAtOnce) as server:
        server.filter()
        assert server.details() == {"n0": "of rack 1", "n1": "of rack 1", "n2": "of rack 2"}
        told = [(group["detail"], group["nodes"]) for group in server.groups()]
        assert told == [("of rack 1", 2), ("of rack 2", 1)]


def test_a_plugin_that_rejects_many_nodes_at_once_may_say_the_detail_of_each(
    tmp_path: Path,
) -> None:
    with served(tmp_path, ByNode) as server:
        server.filter()
        assert server.details() == {"n0": "none", "n1": "", "n2": "two"}


def test_details_that_are_no_mapping_are_an_error_of_the_plugin(tmp_path: Path) -> None:
    with served(tmp_path, WrongDetails) as server:
        server.filter()
        (attempt,) = server.ask("/decisions?pod=ml/p")["attempts"]
        failed = attempt["calls"][0]["failed"]
        assert failed["plugin"] == "WrongDetails"
        assert "a mapping in Rejection.details" in failed["detail"]


def test_details_that_are_no_text_are_an_error_of_the_plugin(tmp_path: Path) -> None:
    with served(tmp_path, NumbersAsDetails) as server:
        server.filter()
        (attempt,) = server.ask("/decisions?pod=ml/p")["attempts"]
        failed = attempt["calls"][0]["failed"]
        assert failed["plugin"] == "NumbersAsDetails"
        assert "a str for each node in Rejection.details" in failed["detail"]


def test_the_detail_of_pre_filter_is_about_every_node(tmp_path: Path) -> None:
    with served(tmp_path, NeverToday) as server:
        server.filter()
        assert set(server.details().values()) == {"due on Monday"}


def test_why_shows_the_detail_of_the_node_that_is_asked_for(tmp_path: Path) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": POD})
    with listening(api, tmp_path) as kubeconfig, served(tmp_path, Gpus) as server:
        server.filter()
        for name, detail in FREE.items():
            lines = why(kubeconfig, server, "--node", name).splitlines()
            assert lines[-1] == f"node {name}: rejected by Gpus: too few GPUs {detail}"
            assert not any("free GPU" in line for line in lines[:-1])
        assert "nothing is on record" in why(kubeconfig, server, "--node", "n9").splitlines()[-1]
        captured = json.loads(why(kubeconfig, server, "--output", "json"))
        assert not any(detail in json.dumps(captured) for detail in FREE.values())
        assert DIFFER in captured["sentence"]


def test_the_log_has_no_detail_of_one_node_for_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with served(tmp_path, Gpus) as server:
        server.filter()
        server.filter(NODES[:1])
    said = [line for line in caplog.messages if "too few GPUs" in line]
    assert said == [
        f"pod ml/p, 3 nodes: too few GPUs ({DIFFER})",
        "pod ml/p, 1 nodes: too few GPUs (0 free GPUs)",
    ]


def test_post_filter_sees_the_detail_of_each_node() -> None:
    notes = Notes()
    nodes = [make_node(name, labels={"free": free}) for name, free in FREE.items()]
    Cluster(Gpus(), notes, nodes=nodes).filter(make_pod("p"))
    assert notes.shown == [dict(enumerate(FREE.values()))]


@pytest.mark.parametrize("plugin", [WithOthers, WithOthersAtOnce])
def test_nodes_with_nominated_pods_keep_their_own_details(plugin: type) -> None:
    notes, names = Notes(), [f"n{at}" for at in range(20)]
    nominated = [
        pod_manifest(f"to-{name}", uid=f"u-{name}", priority=10)
        | {"status": {"nominatedNodeName": name}}
        for name in names
    ]
    cluster = Cluster(plugin(), notes, nodes=[make_node(name) for name in names], pods=nominated)
    assert cluster.filter(make_pod("p")).kept == ()
    assert notes.shown == [{at: f"by to-{name}" for at, name in enumerate(names)}]


def test_the_page_shows_each_node_with_its_own_detail(tmp_path: Path) -> None:
    with served(tmp_path, Gpus) as server, Browser(tmp_path) as page:
        server.filter()
        sign_in(page, server.url, TOKEN)
        open_pod(page, "ml", "p")
        page.until("document.querySelectorAll('#nodes tbody tr[aria-rowindex]').length === 3")
        rows = {row["Node"]: row["Rejected"] for row in table(page, "#nodes")}
        assert rows == {name: f"yes: {detail}" for name, detail in FREE.items()}
        assert f"too few GPUs ({DIFFER})" in step(page, "Filter")
        assert "free GPU" not in step(page, "Filter")


# ---------------------------------------------------------------- pods that nobody tries

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaimtemplates"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups"


def pending(spec: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    return {**POD, "spec": {"schedulerName": "default-scheduler", **spec}, "status": status}


def claims(*entries: Mapping[str, str]) -> dict[str, Any]:
    return {"resourceClaims": [{"name": f"c{at}", **entry} for at, entry in enumerate(entries)]}


def made(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ml", **metadata}}


GPU = claims({"resourceClaimName": "gpu"})
OF_TEMPLATE = claims({"resourceClaimTemplateName": "gpus"})
IN_GROUP = {"schedulingGroup": {"podGroupName": "trains"}}
NOT_MADE = "no ResourceClaim was made yet of the ResourceClaimTemplate gpus"
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient cpu.",
}


@pytest.mark.parametrize(
    ("pod", "objects", "says"),
    [
        (pending(GPU), {}, "the ResourceClaim gpu does not exist"),
        (
            pending(GPU),
            {f"{CLAIMS}/gpu": made("gpu", deletionTimestamp="2026-01-01T00:00:00Z")},
            "the ResourceClaim gpu is being deleted",
        ),
        (
            pending(claims({"resourceClaimName": "gpu"}, {"resourceClaimName": "nic"})),
            {f"{CLAIMS}/gpu": made("gpu")},
            "the ResourceClaim nic does not exist",
        ),
        (pending(OF_TEMPLATE), {}, "the ResourceClaimTemplate gpus does not exist"),
        (pending(OF_TEMPLATE), {f"{TEMPLATES}/gpus": made("gpus")}, NOT_MADE),
        (
            pending(
                OF_TEMPLATE,
                resourceClaimStatuses=[{"name": "c0", "resourceClaimName": "p-gpus-x1"}],
            ),
            {f"{TEMPLATES}/gpus": made("gpus")},
            "the ResourceClaim p-gpus-x1 does not exist",
        ),
        (pending(IN_GROUP), {}, "the PodGroup trains does not exist"),
        # The condition is of an attempt from before the claim was deleted.
        (
            pending(GPU, conditions=[UNSCHEDULABLE]),
            {},
            "the ResourceClaim gpu does not exist",
        ),
        (
            pending({**GPU, **IN_GROUP}),
            {},
            "the ResourceClaim gpu does not exist; the PodGroup trains does not exist",
        ),
    ],
)
def test_why_names_the_object_that_a_pod_waits_for(
    pod: dict[str, Any], objects: dict[str, Any], says: str, tmp_path: Path
) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": pod, **objects})
    with listening(api, tmp_path) as kubeconfig:
        head, sentence, *_ = why(kubeconfig, None).splitlines()
        assert head == "pod ml/p: ObjectMissing" or head.endswith("trains: ObjectMissing")
        assert sentence.strip() == f"kube-scheduler does not try the pod: {says}"


def test_a_capture_says_the_same_without_the_cluster(tmp_path: Path) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": pending(GPU)})
    with listening(api, tmp_path) as kubeconfig:
        capture = tmp_path / "capture.json"
        capture.write_text(why(kubeconfig, None, "--output", "json"))
        said = why(kubeconfig, None)
    assert json.loads(capture.read_text())["cause"] == "ObjectMissing"
    again = CliRunner().invoke(main, ["why", "--file", str(capture)])
    assert again.output == said


@pytest.mark.parametrize(
    ("pod", "paths", "says"),
    [
        (pending(GPU), [f"{CLAIMS}/gpu"], "it may wait for the ResourceClaim gpu, which"),
        (pending(IN_GROUP), [f"{GROUPS}/trains"], "it may wait for the PodGroup trains, which"),
    ],
)
def test_an_object_that_the_user_may_not_read_may_be_what_the_pod_waits_for(
    pod: dict[str, Any], paths: list[str], says: str, tmp_path: Path
) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": pod}, forbidden=set(paths))
    with listening(api, tmp_path) as kubeconfig:
        said = why(kubeconfig, None)
    assert ": NotTried" in said.splitlines()[0]
    assert says in said
    assert "403" in said
    assert "does not exist" not in said


def test_a_claim_that_was_not_made_is_named_even_if_its_template_cannot_be_read(
    tmp_path: Path,
) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": pending(OF_TEMPLATE)})
    api.forbidden = {f"{TEMPLATES}/gpus"}
    with listening(api, tmp_path) as kubeconfig:
        assert NOT_MADE in why(kubeconfig, None)


@pytest.mark.parametrize("pod", [pending(GPU), pending(IN_GROUP)])
def test_an_api_that_serves_no_such_objects_says_nothing_about_one(
    pod: dict[str, Any], tmp_path: Path
) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": pod}, unserved="/apis/")
    with listening(api, tmp_path) as kubeconfig:
        said = why(kubeconfig, None)
    assert "it may wait for the" in said
    assert "does not exist" not in said


def test_a_gang_may_wait_for_its_pods(tmp_path: Path) -> None:
    group = {**made("trains"), "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    api = Api({"/api/v1/namespaces/ml/pods/p": pending(IN_GROUP), f"{GROUPS}/trains": group})
    with listening(api, tmp_path) as kubeconfig:
        said = why(kubeconfig, None)
    assert "NotTried" in said
    wanted = "the 4 pods without scheduling gates that the PodGroup trains demands"
    assert f"it may wait for {wanted}" in said


@pytest.mark.parametrize(
    "pod",
    [
        pending({}),
        pending(GPU),
        # No ResourceClaim is to be made for this entry.
        pending(OF_TEMPLATE, resourceClaimStatuses=[{"name": "c0"}]),
    ],
)
def test_a_scheduler_that_does_not_run_is_still_looked_for(
    pod: dict[str, Any], tmp_path: Path
) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": pod, f"{CLAIMS}/gpu": made("gpu")})
    with listening(api, tmp_path) as kubeconfig:
        said = why(kubeconfig, None)
    assert "pod ml/p: NotTried" in said
    assert "no scheduler has tried the pod yet: see whether a kube-scheduler runs" in said


def test_a_misspelt_scheduler_is_named_with_what_the_pod_may_wait_for(tmp_path: Path) -> None:
    pod = pending({**GPU, "schedulerName": "defualt-scheduler"})
    api = Api({"/api/v1/namespaces/ml/pods/p": pod}, forbidden={f"{CLAIMS}/gpu"})
    with listening(api, tmp_path) as kubeconfig, served(tmp_path, Gpus) as server:
        said = why(kubeconfig, server)
    assert "NoScheduler" in said
    assert "did you mean default-scheduler?" in said
    assert "it may wait for the ResourceClaim gpu" in said


def test_of_a_bound_pod_no_claim_is_read(tmp_path: Path) -> None:
    api = Api({"/api/v1/namespaces/ml/pods/p": pending({**GPU, "nodeName": "n1"})})
    with listening(api, tmp_path) as kubeconfig:
        assert "the pod is on node n1" in why(kubeconfig, None)
    assert not any("resourceclaims" in path for path in api.asked)


def test_a_gate_is_named_before_a_claim_that_is_missing(tmp_path: Path) -> None:
    pod = pending({**GPU, "schedulingGates": [{"name": "example.com/quota"}]})
    api = Api({"/api/v1/namespaces/ml/pods/p": pod})
    with listening(api, tmp_path) as kubeconfig:
        assert "OtherGate" in why(kubeconfig, None)
