import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kubextend import app, config, core
from kubextend.config import ExtenderConfiguration
from kubextend.errors import ClusterError, KubextendError
from kubextend.plugins import IN_TREE
from kubextend.profile.waiting_pods import WaitingPod

WIRE = Path(__file__).parents[2] / "data" / "wire"
PATIENT_S = 60
JSON = {"content-type": "application/json"}
LIKES_RDMA = {"name": "LabelMatch", "args": {"scores": [{"nodeSelector": "rdma", "score": 9}]}}
LABEL = "node.kubernetes.io/rdma-enabled"


def parsed(**tree: Any) -> ExtenderConfiguration:
    return config.parse(
        {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"} | tree,
        known=IN_TREE,
    )


def profile(args: dict[str, Any] | None = None, **points: list[dict[str, Any]]) -> dict[str, Any]:
    plugins = {point: {"enabled": enabled} for point, enabled in points.items()}
    configs = {} if args is None else {"pluginConfig": [args]}
    return {"schedulerName": "default-scheduler", "plugins": plugins} | configs


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Credentials for an API that is down."""
    entries = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{closed_port()}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(entries))
    return file


@pytest.fixture
def down(kubeconfig: Path) -> Iterator[app.App]:
    """An app whose Kubernetes API is down, started."""
    built = app.build(
        parsed(
            cluster={"kubeconfig": str(kubeconfig)},
            profiles=[profile(filter=[{"name": "HighCommPodFilter"}])],
        )
    )
    built.follow()
    asyncio.run(built.start())
    yield built
    built.stop()


async def _get(built: app.App, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=built.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return await client.get(path)


def get(built: app.App, path: str) -> httpx.Response:
    return asyncio.run(_get(built, path))


def names_and_full(verb: str) -> list[bytes]:
    return [(WIRE / mode / f"{verb}.json").read_bytes() for mode in ("names", "full")]


def test_the_embedded_default_answers_real_full_mode_requests() -> None:
    verbs = app.build(config.load(None, known=IN_TREE)).verbs
    _, full = names_and_full("filter")
    labelled = {
        item["metadata"]["name"]
        for item in json.loads(full)["Nodes"]["items"]
        if item["metadata"]["labels"].get(LABEL) == "true"
    }
    answer = json.loads(verbs.filter(full))
    assert {item["metadata"]["name"] for item in answer["Nodes"]["items"]} == labelled
    assert answer["Error"] == ""


def test_with_the_api_down_we_are_alive_and_not_ready_and_names_get_errors(
    down: app.App,
) -> None:
    assert get(down, "/livez").status_code == 200
    ready = get(down, "/readyz")
    assert ready.status_code == 503
    assert "[-]node-sync failed: the nodes are not listed yet" in ready.text
    names, full = names_and_full("filter")
    assert "not listed the nodes yet" in json.loads(down.verbs.filter(names))["Error"]
    assert json.loads(down.verbs.filter(full))["Error"] == ""
    assert down.verbs.prioritize(names) == b"[]"
    for body in names_and_full("preempt"):
        assert down.verbs.preempt(body) == b'{"NodeNameToMetaVictims":{}}'
    text = get(down, "/metrics").text
    assert 'kubextend_node_store_nodes{store="watched"} 0.0' in text
    assert "kubextend_node_snapshot_synced 0.0" in text
    assert "kubextend_node_snapshot_age_seconds 1" not in text


def test_credentials_that_are_not_there_are_an_error_at_once(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    configured = parsed(
        cluster={"kubeconfig": str(file)},
        profiles=[profile(filter=[{"name": "HighCommPodFilter"}])],
    )
    with pytest.raises(ClusterError):
        app.build(configured)


def test_a_configured_plugin_gets_its_arguments_and_its_weight() -> None:
    label_match = {
        "name": "LabelMatch",
        "args": {
            "filters": [{"nodeSelector": "disk=ssd", "reason": "no ssd"}],
            "scores": [{"nodeSelector": "zone=a", "score": 50}],
        },
    }
    configured = profile(
        filter=[{"name": "LabelMatch"}], score=[{"name": "LabelMatch", "weight": 4}]
    ) | {"pluginConfig": [label_match]}
    verbs = app.build_verbs(parsed(profiles=[configured]))
    nodes = [
        {"metadata": {"name": "a", "labels": {"disk": "ssd", "zone": "a"}}},
        {"metadata": {"name": "b", "labels": {"zone": "b"}}},
    ]
    body = json.dumps({"Pod": {"metadata": {}}, "Nodes": {"items": nodes}}).encode()
    assert json.loads(verbs.filter(body))["FailedAndUnresolvableNodes"] == {"b": "no ssd"}
    # A tenth of weight times score.
    assert json.loads(verbs.prioritize(body)) == [
        {"Host": "a", "Score": 20},
        {"Host": "b", "Score": 0},
    ]


class Listed:
    """Nodes from a file, in the place of a cluster."""

    synced = True

    def __init__(self, *nodes: object) -> None:
        self.store = core.NodeStore()
        listed = {"kind": "NodeList", "metadata": {}, "items": nodes}
        self.store.replace(json.dumps(listed).encode())

    def age_s(self) -> float | None:
        return None


def test_verbs_without_a_server_answer_recorded_names_from_listed_nodes() -> None:
    names, _ = names_and_full("filter")
    asked = json.loads(names)["NodeNames"]
    listed = Listed(
        *(
            {"metadata": {"name": name, "labels": {LABEL: str(i == 0).lower()}}}
            for i, name in enumerate(asked)
        )
    )
    verbs = app.build_verbs(config.load(None, known=IN_TREE), watched=listed)
    answer = json.loads(verbs.filter(names))
    assert answer["NodeNames"] == asked[:1]
    assert set(answer["FailedAndUnresolvableNodes"]) == set(asked[1:])


def test_serving_the_application_starts_and_stops_the_node_watch(kubeconfig: Path) -> None:
    built = app.create_app(
        parsed(
            cluster={"kubeconfig": str(kubeconfig)},
            profiles=[profile(filter=[{"name": "HighCommPodFilter"}])],
        )
    )

    def watches() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "kubextend-nodes"}

    async def lives() -> set[threading.Thread]:
        # Those of other tests may still be about to end.
        before = watches()
        async with built.router.lifespan_context(built):
            return watches() - before

    (own,) = asyncio.run(lives())
    own.join(PATIENT_S)
    assert not own.is_alive()


@pytest.mark.parametrize(
    ("tree", "served"),
    [
        ({"profiles": [profile(filter=[{"name": "HighCommPodFilter"}])]}, {"filter", "preempt"}),
        ({"profiles": [profile(score=[{"name": "LabelMatch"}], args=LIKES_RDMA)]}, {"prioritize"}),
        (
            {
                "profiles": [profile(score=[{"name": "LabelMatch"}], args=LIKES_RDMA)],
                "extender": {"bind": True},
            },
            {"prioritize", "bind"},
        ),
    ],
    ids=["a filter", "a score", "a score and bind"],
)
def test_only_the_verbs_of_the_configuration_are_served(
    tree: dict[str, Any], served: set[str], kubeconfig: Path
) -> None:
    configured = parsed(cluster={"kubeconfig": str(kubeconfig)}, **tree)
    assert set(configured.verbs) == served
    built = app.build(configured)

    async def statuses() -> dict[str, int]:
        transport = httpx.ASGITransport(app=built.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return {
                verb: (await client.post(f"/{verb}", content=b"{", headers=JSON)).status_code
                for verb in ("filter", "preempt", "prioritize", "bind")
            }

    # A served verb reads the body, and finds it bad.
    assert asyncio.run(statuses()) == {
        verb: 400 if verb in served else 404 for verb in ("filter", "preempt", "prioritize", "bind")
    }


def test_waiting_pods_are_served_only_where_the_configuration_says_to_whom(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-and-long-enough")
    filtering = [profile(filter=[{"name": "HighCommPodFilter"}])]
    server = {"path": "/v1", "waitingPods": {"tokenFile": str(token)}}
    configured = parsed(server=server, profiles=filtering)
    assert get(app.build(configured), "/v1/waiting-pods").status_code == 401
    assert get(app.build(parsed(profiles=filtering)), "/waiting-pods").status_code == 404
    token.unlink()
    with pytest.raises(KubextendError, match=str(token)):
        app.build(configured)


def test_pods_that_permit_holds_are_sent_back_as_soon_as_kubextend_is_to_end() -> None:
    built = app.build(parsed(profiles=[profile(filter=[{"name": "HighCommPodFilter"}])]))
    pod = core.read_args(b'{"Pod":{"metadata":{"name":"p","uid":"u"}},"NodeNames":[]}').pod
    assert pod is not None

    async def scenario() -> list[str]:
        waiting_pods = built.verbs.waiting_pods
        held = [WaitingPod(pod, node, {"Gang": 60.0}) for node in ("before", "after")]
        waiting_pods.add(held[0])
        built.health.shut_down()
        waiting_pods.add(held[1])
        async with asyncio.timeout(PATIENT_S):
            return [(await each.wait()).reason for each in held]

    assert asyncio.run(scenario()) == ["kubextend is shutting down"] * 2
