import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kubextend import app, config, core
from kubextend.config import ExtenderConfiguration
from kubextend.discovery import known_plugins
from kubextend.errors import ClusterError, KubextendError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.status import Status
from kubextend.plugins import IN_TREE
from kubextend.profile.waiting_pods import WaitingPod
from skipping_loop import run, skip

WIRE = Path(__file__).parents[2] / "data" / "wire"
PATIENT_S = 60
JSON = {"content-type": "application/json"}
LIKES_RDMA = {"name": "LabelMatch", "args": {"scores": [{"nodeSelector": "rdma", "score": 9}]}}
LABEL = "node.kubernetes.io/rdma-enabled"


def parsed(known: Any = IN_TREE, **tree: Any) -> ExtenderConfiguration:
    return config.parse(
        {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"} | tree,
        known=known,
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


async def _get(built: app.App, path: str, headers: dict[str, str]) -> httpx.Response:
    transport = httpx.ASGITransport(app=built.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return await client.get(path, headers=headers)


def test_idle_memory_of_large_bodies_is_bounded_by_the_requests_in_flight() -> None:
    server = {"maxBodyBytes": 4 << 20, "maxInFlightBytes": 8 << 20}
    built = app.build(
        parsed(profiles=[profile(filter=[{"name": "HighCommPodFilter"}])], server=server)
    )
    pool = built.verbs.pool
    assert pool is not None
    small, large = pool.take(3 << 20), pool.take(4 << 20)
    del small
    assert 3 << 20 <= pool.idle_bytes < 4 << 20
    # With what it has in reserve this one is over the half of maxInFlightBytes.
    del large
    assert pool.idle_bytes == 0


def get(built: app.App, path: str, **headers: str) -> httpx.Response:
    return asyncio.run(_get(built, path, headers))


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
    assert "the nodes are not listed yet" in json.loads(down.verbs.filter(names))["Error"]
    assert json.loads(down.verbs.filter(full))["Error"] == ""
    assert down.verbs.prioritize(names) == b"[]"
    for body in names_and_full("preempt"):
        assert down.verbs.preempt(body) == b'{"NodeNameToMetaVictims":{}}'
    text = get(down, "/metrics").text
    assert 'kubextend_node_store_nodes{store="watched"} 0.0' in text
    assert 'kubextend_reflector_synced{resource="nodes"} 0.0' in text
    # Of what never was there is no age, and 0 would say that it is fresh.
    assert 'kubextend_reflector_age_seconds{resource="nodes"}' not in text


class StartsLater:
    """Looks at nothing before it has started; its first start fails."""

    name = "StartsLater"
    attempts = 0

    def start(self) -> None:
        self.attempts += 1
        if self.attempts == 1:
            message = "the backend is away"
            raise OSError(message)

    def filter(self, *_: Any) -> None:
        assert self.attempts > 1


def test_a_plugin_that_has_not_started_makes_us_unready_until_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"StartsLater": StartsLater}
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "profiles": [profile(filter=[{"name": "StartsLater"}])],
    }
    built = app.build(config.parse(tree, known=known_plugins(known)))
    _, full = names_and_full("filter")
    assert "[-]plugins-started failed: not started yet: StartsLater" in get(built, "/readyz").text
    assert "not started yet" in json.loads(built.verbs.filter(full))["Error"]
    monkeypatch.setattr("kubextend.profile.starts._FIRST_PAUSE_S", 0.0)

    async def served() -> None:
        async with built.asgi.router.lifespan_context(built.asgi), asyncio.timeout(PATIENT_S):
            while get_status(built):  # noqa: ASYNC110  nothing tells when it has
                await asyncio.sleep(0.01)

    asyncio.run(served())
    assert json.loads(built.verbs.filter(full))["Error"] == ""
    failures = {"plugin": "StartsLater", "extension_point": "Start"}
    name = "kubextend_plugin_failures_total"
    assert built.metrics.registry.get_sample_value(name, failures) == 1


def get_status(built: app.App) -> str:
    """Why it is not ready; empty where it is."""
    status, text = built.health.readyz(verbose=False)
    return "" if status == 200 else text


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
    verbs = app.build_verbs(config.load(None, known=IN_TREE), ports=ClusterPorts(nodes=listed))
    answer = json.loads(verbs.filter(names))
    assert answer["NodeNames"] == asked[:1]
    assert set(answer["FailedAndUnresolvableNodes"]) == set(asked[1:])


def read_pod() -> core.Pod:
    metadata = b'{"name":"p","namespace":"ml","uid":"u"}'
    pod = core.read_args(b'{"Pod":{"metadata":' + metadata + b'},"NodeNames":[]}').pod
    assert pod is not None
    return pod


def test_serving_the_application_starts_and_stops_what_talks_to_the_api(kubeconfig: Path) -> None:
    names = {"kubextend-nodes", "kubextend-events"}
    built = app.build(
        parsed(
            cluster={"kubeconfig": str(kubeconfig)},
            profiles=[profile(filter=[{"name": "HighCommPodFilter"}])],
        )
    )

    def talking() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name in names}

    async def lives() -> set[threading.Thread]:
        # Those of other tests may still be about to end.
        before = talking()
        async with built.asgi.router.lifespan_context(built.asgi):
            built.verbs.waiting_pods.add(WaitingPod(read_pod(), "n", {"Gang": 60.0}))
            return talking() - before

    own = asyncio.run(lives())
    assert {thread.name for thread in own} == names
    for thread in own:
        thread.join(PATIENT_S)
        assert not thread.is_alive()


def test_at_the_end_of_the_lifespan_held_pods_are_sent_back_on_any_server() -> None:
    built = app.build(parsed(profiles=[profile(filter=[{"name": "HighCommPodFilter"}])]))

    async def scenario() -> str:
        async with built.asgi.router.lifespan_context(built.asgi):
            held = WaitingPod(read_pod(), "n", {"Gang": 60.0})
            built.verbs.waiting_pods.add(held)
        assert not held.reject("", "too late")
        return (await held.wait()).reason

    assert asyncio.run(scenario()) == "kubextend is shutting down"
    assert built.health.readyz(verbose=False)[0] == 503


def test_a_queue_that_is_stuck_is_for_the_kubelet_to_start_anew(kubeconfig: Path) -> None:
    built = app.build(
        parsed(
            cluster={"kubeconfig": str(kubeconfig)},
            profiles=[profile(queueSort=[{"name": "PrioritySort"}])],
        )
    )
    assert built.health.livez(verbose=False) == (200, "ok")
    assert built._queue is not None
    built._queue.runner._busy_since_s = time.monotonic() - 3600
    assert "[-]queue failed: the queue is stuck" in built.health.livez(verbose=False)[1]


def test_after_a_failure_to_wake_pods_others_are_woken_still() -> None:
    class Fails:
        calls = 0

        def wake_due(self) -> None:
            self.calls += 1
            raise RuntimeError

    async def scenario() -> None:
        verbs: Any = Fails()
        waking = asyncio.ensure_future(app._wake_due(verbs))
        while verbs.calls < 3:
            await skip(1)
            assert not waking.done()
        waking.cancel()
        await asyncio.wait([waking])

    run(scenario())


class Door:
    """Lets no pod in, and wakes them when it is told to."""

    name = "Door"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> None: ...

    def permit(self, state: CycleState, pod: core.Pod, node_name: str) -> Status:
        return Status.unschedulable("closed")


class Woken:
    def __init__(self) -> None:
        self.names: list[str] = []

    def activate(self, pods: Iterable[core.Pod]) -> None:
        self.names += [pod.name for pod in pods]


class NeverBinds:
    def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        raise AssertionError


def test_a_pod_that_a_plugin_wakes_is_tried_again_though_permit_rejected_it() -> None:
    known, woken = known_plugins({"Door": Door}), Woken()
    door = [{"name": "Door"}]
    configured = parsed(known, cluster={}, profiles=[profile(filter=door, permit=door)])
    verbs = app.build_verbs(configured, ClusterPorts(binder=NeverBinds(), activator=woken))
    (plugin,) = verbs.profiles.plugins
    assert isinstance(plugin, Door)
    metadata = {"name": "p", "namespace": "ml", "uid": "u"}
    body = {"Pod": {"metadata": metadata}, "Nodes": {"items": [{"metadata": {"name": "n"}}]}}
    bind = {"PodName": "p", "PodNamespace": "ml", "PodUID": "u", "Node": "n"}

    def rejected() -> dict[str, str] | None:
        answer = json.loads(verbs.filter(json.dumps(body).encode()))
        return answer["FailedAndUnresolvableNodes"] or None

    assert rejected() is None
    assert "closed" in json.loads(asyncio.run(verbs.bind(json.dumps(bind).encode())))["Error"]
    assert rejected() == {"n": "closed"}
    plugin.handle.activate([read_pod()])
    assert woken.names == ["p"]
    assert rejected() is None


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

    # A served verb reads the body, and finds it bad; preempt answers that with an empty map.
    bad = {"filter": 400, "preempt": 200, "prioritize": 400, "bind": 400}
    assert asyncio.run(statuses()) == {
        verb: status if verb in served else 404 for verb, status in bad.items()
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


def test_the_page_is_served_only_where_the_configuration_asks_for_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-and-long-enough")
    filtering = [profile(filter=[{"name": "HighCommPodFilter"}])]

    def built(**more: Any) -> app.App:
        server = {"path": "/v1", "decisions": {"tokenFile": str(token)} | more}
        return app.build(parsed(server=server, profiles=filtering))

    assert get(built(page=True), "/v1/ui/").status_code == 200
    assert get(built(page=True), "/v1/overview").status_code == 401
    assert get(built(), "/v1/ui/").status_code == 404


def test_readers_are_told_the_hash_of_the_configuration_in_use(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-and-long-enough")
    filtering = [profile(filter=[{"name": "HighCommPodFilter"}])]
    configured = parsed(server={"decisions": {"tokenFile": str(token)}}, profiles=filtering)
    answer = get(app.build(configured), "/overview", Authorization=f"Bearer {token.read_text()}")
    assert answer.json()["kubextend"]["configurationSha256"] == configured.sha256


def test_pods_that_permit_holds_are_sent_back_as_soon_as_kubextend_is_to_end() -> None:
    built = app.build(parsed(profiles=[profile(filter=[{"name": "HighCommPodFilter"}])]))
    pod = read_pod()

    async def scenario() -> list[str]:
        waiting_pods, throttle = built.verbs.waiting_pods, built.verbs.throttle
        for _ in range(100):
            throttle.delay_s(pod.namespace)
        assert throttle.delay_s(pod.namespace) > 0
        held = [WaitingPod(pod, node, {"Gang": 60.0}) for node in ("before", "after")]
        waiting_pods.add(held[0])
        built.health.shut_down()
        assert throttle.delay_s(pod.namespace) == 0
        waiting_pods.add(held[1])
        async with asyncio.timeout(PATIENT_S):
            return [(await each.wait()).reason for each in held]

    assert asyncio.run(scenario()) == ["kubextend is shutting down"] * 2


def test_kubextend_is_not_ready_for_the_guard_before_pods_are_listed(kubeconfig: Path) -> None:
    sections = {"cluster": {"kubeconfig": str(kubeconfig)}, "profiles": [profile()]}
    built = app.build(parsed(guard={"resources": True}, **sections))
    assert {"node-sync", "pod-sync"} <= set(built.verbs.readiness.conditions)
