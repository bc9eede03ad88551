"""A server with the page for browsers, and requests that make records for the page to show."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live_server import Answer, Bindings, Connection, eventually, head, node, serving

from kubextend import core
from kubextend.decisions import DecisionReader, ServerFacts
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles
from kubextend.profile.breaker import PluginHealth
from kubextend.server import Access, TokenFile, decision_routes, page_routes
from kubextend.verbs import Verbs
from kubextend.verbs.filter_outside_request import filter_anew
from make_verbs import make_verbs

READER = "reads-what-was-decided"
SHA256 = "c0ffee" + 58 * "0"


class NeedsSsd:
    """Rejects nodes without ``disk=ssd``, for the reason that it is given."""

    def __init__(self, name: str = "NeedsSsd", reason: str = "no ssd", detail: str = "") -> None:
        self.name = name
        self._status = Status.unschedulable(reason, detail=detail)

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        return [Rejection(~nodes.matches("disk=ssd"), self._status)]


class Spreads:
    """Gives the nodes scores from 0 to 100, each its own as long as there are so many."""

    name = "Spreads"

    def score_nodes(self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> Sequence[int]:
        return [37 * place % 101 for place in range(len(nodes))]


class Holds:
    """Holds the pods whose name begins with ``held`` at Permit."""

    name = "Holds"

    def permit(self, _state: CycleState, pod: core.Pod, _node: str) -> tuple[Status, float]:
        return (Status.wait() if pod.name.startswith("held") else Status.success()), 60.0


@dataclass
class Facts:
    """What a test says of the server, for the endpoints to tell.

    Attributes:
        not_ready: condition -> what is missing.
        open: the plugins whose breaker is open.
        queue: the pods of the queue by state; None: there is no queue.
    """

    not_ready: dict[str, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    queue: tuple[bool, Mapping[str, int]] | None = None


@dataclass
class World:
    """A server with the page, and what its endpoints tell."""

    url: str
    verbs: Verbs
    facts: Facts

    def get(self, path: str, token: str = READER) -> Answer:
        with Connection(self.url) as connection:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return connection.get(path, **headers)

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    def filter(self, name: str, nodes: Sequence[object]) -> None:
        self._post("/filter", {"Pod": _pod(name), "Nodes": {"items": nodes}})

    def prioritize(self, name: str, nodes: Sequence[object]) -> None:
        self._post("/prioritize", {"Pod": _pod(name), "Nodes": {"items": nodes}})

    def bind(self, name: str, node_name: str) -> None:
        self._post("/bind", _binding(name, node_name))

    @contextlib.contextmanager
    def held(self, name: str, node_name: str) -> Iterator[None]:
        """A bind of a pod that Permit holds until the block ends."""
        with Connection(self.url) as connection:
            body = json.dumps(_binding(name, node_name)).encode()
            connection.send(head("POST", "/bind", **{"Content-Length": str(len(body))}), body)
            eventually(lambda: self.json("/overview")["waiting"]["total"])
            yield

    def _post(self, path: str, body: object) -> None:
        with Connection(self.url) as connection:
            answer = connection.post(path, json.dumps(body).encode())
            assert answer.status == 200, answer.body


def uid_of(name: str) -> str:
    """Return the UID of a pod; kube-apiserver makes UIDs, so nothing odd is in them."""
    return "u-" + "".join(filter(str.isalnum, name))


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ml", "uid": uid_of(name)}, "spec": {}}


def _binding(name: str, node_name: str) -> dict[str, str]:
    return {"PodName": name, "PodNamespace": "ml", "PodUID": uid_of(name), "Node": node_name}


def nodes(count: int) -> list[object]:
    """Return nodes of which every third has an SSD; their JSON is as long as that of small ones."""
    disks: list[dict[str, str]] = [{"disk": "ssd"}, {}, {}]
    return [
        {**node(f"node-{place}", **disks[place % 3]), "spec": {"providerID": "x" * 200}}
        for place in range(count)
    ]


@contextlib.contextmanager
def page_world(folder: Path, *filters: Any, path: str = "/") -> Iterator[World]:
    """Run a server with the page, whose readers have the token READER.

    Args:
        folder: gets the file of tokens.
        filters: the filter plugins; none: one ``NeedsSsd``.
        path: the server's path.
    """
    file = folder / "token"
    file.write_text(READER)
    access = Access(tokens=TokenFile(file))
    profile = Profile(
        "default-scheduler",
        filter=[*(filters or [NeedsSsd()])],
        score=[(Spreads(), 2)],
        binding=BindingPlugins(permit=[Holds()]),
    )
    verbs = make_verbs(Profiles.of([profile]), binder=Bindings())
    told = Facts()

    def health() -> dict[str, PluginHealth]:
        real = verbs.limits.breakers.health()
        return real | {name: PluginHealth(open=True, stuck_threads=0) for name in told.open}

    facts = ServerFacts(
        verbs.profiles,
        ["filter", "prioritize", "bind"],
        lambda: told.not_ready,
        health,
        configuration_sha256=SHA256,
        queue=lambda: told.queue,
    )
    reader = DecisionReader(
        verbs.decisions, verbs.waiting_pods, facts, filter_anew, lambda call: call()
    )
    routes = [
        *decision_routes(reader, access, verbs.metrics, path=path),
        *page_routes(access, verbs.metrics, path=path),
    ]
    with serving(verbs, more_routes=routes, path=path) as url:
        yield World(url, verbs, told)
