"""Extenders as a configuration describes them, and calls of their ASGI application in memory.

kubextend's own code builds an ``Extender`` from a configuration; stand-ins may take the place of
the Kubernetes API. The module ``sockets`` runs extenders as servers.
"""

import asyncio
import contextlib
import functools
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from starlette.types import ASGIApp, Message
from tests.doors.clocks import run, skip, until
from tests.doors.configurations import HEAD
from tests.doors.wire_parts import Answer

from kubextend import app, core
from kubextend.config import load, parse
from kubextend.decisions.captured_facts import wrong_field
from kubextend.discovery import known_plugins
from kubextend.framework.handle import ClusterPorts
from kubextend.framework.status import Status
from kubextend.profile import WaitingPod

__all__ = ["Answer", "skip", "until", "wrong_field"]

PATIENT_S = 60.0
"""The seconds to wait for what has to happen, however busy the machine is."""
VERBS = ("filter", "prioritize", "preempt", "bind")
NO_RDMA = "Node does not support RDMA"
NOBODY = b'{"NodeNameToMetaVictims":{}}'
"""The answer of preempt that evicts no pod."""


# Plugins, and what they and the verbs are asked.


class DiesError(BaseException):
    """A BaseException, as Python sees a panic of the Rust core."""


class NeedsRdma:
    """Rejects nodes without ``rdma=true``, and scores the others 100; fails as the pod says.

    A pod with the label ``then`` makes the plugin raise, die, exit or hang until ``let_go`` is set.
    """

    name = "NeedsRdma"

    def __init__(self, *_: object) -> None:
        self.let_go = threading.Event()
        self.asked = 0

    def filter(self, _state: object, pod: Any, node: Any) -> Status | None:
        self._fail(pod.labels.get("then"))
        fits = node.labels.get("rdma") == "true"
        return None if fits else Status.unresolvable(NO_RDMA)

    def score(self, _state: object, pod: Any, node: Any) -> int:
        self._fail(pod.labels.get("then"))
        return 100 if node.labels.get("rdma") == "true" else 0

    def _fail(self, then: str | None) -> None:
        self.asked += 1
        match then:
            case "raise":
                message = "at 0x7f3a"
                raise RuntimeError(message)
            case "die":
                raise DiesError
            case "exit":
                raise SystemExit(3)
            case "hang":
                assert self.let_go.wait(2 * PATIENT_S)
            case "spin":
                while not self.let_go.is_set():
                    pass


class Quota:
    """Holds every pod at Permit for a minute."""

    name = "Quota"
    steps: list[str]

    def __init__(self, *_: object) -> None:
        self.steps = []

    def reserve(self, *_: object) -> None:
        self.steps.append("reserve")

    def unreserve(self, *_: object) -> None:
        self.steps.append("unreserve")

    def permit(self, *_: object) -> tuple[Status, float]:
        return Status.wait(), 60.0


class Gang(Quota):
    """Holds every pod at Permit for half a minute."""

    name = "Gang"

    def permit(self, *_: object) -> tuple[Status, float]:
        return Status.wait(), 30.0


LABELS = {
    "name": "LabelMatch",
    "args": {
        "filters": [{"nodeSelector": "rdma=true", "reason": NO_RDMA}],
        "scores": [{"nodeSelector": "rdma=true", "score": 100}],
    },
}
"""Does what ``NeedsRdma`` does for good pods, in the core: small requests need no thread."""


def pod(name: str = "p", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"u-{name}", "labels": labels}
    return {"metadata": metadata, "spec": {}}


def node(name: str, size: int = 0, **labels: str) -> dict[str, Any]:
    """Return a node whose JSON has about so many bytes more than a node needs."""
    annotations = {"annotations": {"a": "x" * size}} if size else {}
    return {"metadata": {"name": name, "labels": labels, **annotations}, "spec": {}, "status": {}}


NODES = [node("good", rdma="true"), node("plain")]


def binding(name: str = "p", node_name: str = "good") -> dict[str, str]:
    return {"PodName": name, "PodNamespace": "ml", "PodUID": f"u-{name}", "Node": node_name}


def request(verb: str, of: object = None, nodes: Sequence[object] = NODES) -> bytes:
    """Return the body of a full-mode request of a verb, as kube-scheduler sends it."""
    asked = of or pod()
    if verb == "bind":
        return json.dumps(binding()).encode()
    if verb == "preempt":
        victims = {"Pods": [{"metadata": {"uid": "v"}}], "NumPDBViolations": 0}
        candidates = {"good": victims, "plain": victims}
        return json.dumps({"Pod": asked, "NodeNameToVictims": candidates}).encode()
    return json.dumps({"Pod": asked, "Nodes": {"items": list(nodes)}, "NodeNames": None}).encode()


def names_of(answer: "Answer") -> list[str]:
    """Return the names of the nodes that a filter kept."""
    return [each["metadata"]["name"] for each in answer.json["Nodes"]["items"]]


# Configurations.


def profile(*configs: Mapping[str, Any], name: str = "", **points: Any) -> dict[str, Any]:
    """Return a profile with the plugins of each extension point, by name or as a mapping."""
    plugins = {
        point: {"enabled": [each if isinstance(each, dict) else {"name": each} for each in enabled]}
        for point, enabled in points.items()
    }
    named = name or "default-scheduler"
    return {"schedulerName": named, "plugins": plugins, "pluginConfig": [*configs]}


IN_PYTHON = profile(filter=["NeedsRdma"], score=["NeedsRdma"])
IN_CORE = profile(LABELS, filter=["LabelMatch"], score=["LabelMatch"])
HOLDING = profile(LABELS, filter=["LabelMatch"], reserve=["Quota"], permit=["Quota", "Gang"])


def sections_of(**sections: Any) -> dict[str, Any]:
    """Return a whole configuration, given its sections."""
    return HEAD | {"profiles": [IN_PYTHON]} | sections


# Extenders.


class Extender:
    """The extender of a configuration, without a server around it.

    Args:
        plugins: classes of plugins that the configuration may name, beside those of this door.
        binder: binds pods in place of the Kubernetes API.
        ports: other stand-ins for parts of the Kubernetes API, such as ``nodes``.
        default: whether the configuration is that of ``kubextend serve`` without a file.
        sections: the sections of the configuration; without ``profiles``, the one is ``IN_PYTHON``.

    Raises: KubextendError: the extender cannot be built.
    """

    def __init__(
        self,
        *plugins: Any,
        binder: Any = None,
        ports: Mapping[str, Any] | None = None,
        default: bool = False,
        **sections: Any,
    ) -> None:
        stands_in = None
        if binder is not None or ports is not None:
            stands_in = ClusterPorts(binder=binder, **(ports or {}))
            sections = {"cluster": {}} | sections
        if binder is not None:
            sections["extender"] = {"bind": True} | sections.get("extender", {})
        given = {each.name: each for each in (NeedsRdma, Quota, Gang, *plugins)}
        known = known_plugins(given)
        self.config = (
            load(None, known=known) if default else parse(sections_of(**sections), known=known)
        )
        self.app = app.build(self.config, stands_in)
        self.asgi = self.app.asgi

    def plugins(self, name: str) -> list[Any]:
        """Return the instances of a plugin, one of each profile."""
        return [each for each in self.app.verbs.profiles.plugins if each.name == name]

    def plugin(self, name: str) -> Any:
        """Return the only instance of a plugin."""
        (plugin,) = self.plugins(name)
        return plugin

    def counted(self, name: str, **labels: str) -> float:
        """Return the value of a metric; 0 if there is none."""
        return self.app.metrics.registry.get_sample_value(name, labels) or 0.0

    def has(self, name: str, **labels: str) -> bool:
        """Return whether a metric has a value."""
        return self.app.metrics.registry.get_sample_value(name, labels) is not None

    def waiting(self) -> list[str]:
        """Return the UIDs of the pods that Permit holds."""
        return [held.pod.uid for held in self.app.verbs.waiting_pods]

    async def until_held(self, uid: str) -> None:
        """Wait until Permit holds a pod."""
        await until(lambda: uid in self.waiting())

    def allow(self, uid: str) -> None:
        """Let every plugin that holds a pod allow it."""
        held = self.app.verbs.waiting_pods.get(uid)
        assert held is not None
        for plugin in held.pending_plugins:
            held.allow(plugin)

    def hold_decided(self, name: str) -> None:
        """Hold a pod that is decided already, as each held pod is for a moment."""
        asked = core.read_args(request("filter", pod(name))).pod
        assert asked is not None
        held = WaitingPod(asked, "good", {"Quota": 60.0})
        self.app.verbs.waiting_pods.add(held)
        held.allow("Quota")

    def shut_down(self) -> None:
        """Make the extender unready, as a signal does."""
        self.app.health.shut_down()

    def ask(self, path: str, body: bytes = b"", method: str = "", **headers: str) -> Answer:
        """Send a request in memory, and return its answer; POST if it has a body."""

        async def asked() -> Answer:
            call = Call(self.asgi, path, body, method=method, **headers)
            return await asyncio.wait_for(call.answer(), PATIENT_S)

        return asyncio.run(asked())

    def begin(self, path: str, *pieces: bytes, method: str = "", **headers: str) -> "Call":
        """Send a request in memory on the running loop; its body is the pieces."""
        return Call(self.asgi, path, *pieces, method=method, **headers)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the lifespan of the application, as any ASGI server does."""
        async with self.asgi.router.lifespan_context(self.asgi):
            yield


def in_memory(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine, on an event loop whose time stands still unless it skips."""

    @functools.wraps(scenario)
    def test(*args: Any, **named: Any) -> None:
        run(scenario(*args, **named))

    return test


class Call:
    """A request in memory, of a server that tells its application no more than ASGI asks for.

    Args:
        asgi: the application.
        loop: the loop that the application runs on; None: the running one.
        path: the path, with a query if it has one.
        pieces: the body; a body of more than one piece comes in chunks, without a length.
        method: the method; empty: POST if there is a piece, else GET.
        headers: further headers, and other values of ``Content-Type`` and ``Content-Length``.
    """

    def __init__(
        self,
        asgi: ASGIApp,
        path: str,
        *pieces: bytes,
        method: str = "",
        loop: asyncio.AbstractEventLoop | None = None,
        **headers: str,
    ) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._sent: list[Message] = []
        given = {key.replace("_", "-").lower(): value for key, value in headers.items()}
        length = {"content-length": str(len(pieces[0]))} if len(pieces) == 1 else {}
        if len(pieces) > 1 and "content-length" not in given:
            length = {"transfer-encoding": "chunked"}
        fields = {"host": "x", "content-type": "application/json"} | length | given
        below, _, asked = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method or ("POST" if any(pieces) else "GET"),
            "scheme": "http",
            "path": below,
            "raw_path": below.encode(),
            "query_string": asked.encode(),
            "root_path": "",
            "headers": [(key.encode(), value.encode("latin-1")) for key, value in fields.items()],
        }
        for piece in pieces:
            self._messages.put_nowait({"type": "http.request", "body": piece, "more_body": True})
        if "content-length" not in given:
            self._messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        called: Any = asgi(scope, self._messages.get, self._keep)
        self._task = (loop or asyncio.get_running_loop()).create_task(called)

    def send(self, rest: bytes) -> None:
        """Send the rest of a body whose ``Content-Length`` was more than came with the head."""
        self._messages.put_nowait({"type": "http.request", "body": rest, "more_body": False})

    def leave(self) -> None:
        """Tell the application that the client is gone."""
        self._messages.put_nowait({"type": "http.disconnect"})

    def cancel(self) -> None:
        """Cancel the request, as a server does that ends."""
        self._task.cancel()

    @property
    def is_over(self) -> bool:
        return self._task.done()

    async def answer(self) -> Answer:
        """Return the answer; raise EOFError if the application answers nothing."""
        await self._task
        if not self._sent:
            raise EOFError
        start, *bodies = self._sent
        headers = {key.decode(): value.decode() for key, value in start["headers"]}
        body = b"".join(message.get("body", b"") for message in bodies)
        return Answer(start["status"], body, headers)

    async def _keep(self, message: Message) -> None:
        self._sent.append(message)
