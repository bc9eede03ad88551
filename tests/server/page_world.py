"""A server with the page for browsers, and requests that make records for the page to show."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.doors.extender import PATIENT_S, Extender, binding, node, pod, profile
from tests.doors.sockets import Connection, eventually, posted, serve

from kubextend import Status
from kubextend.testing import Bindings

READER = "reads-what-was-decided"
HOSTILE = "<img src=x onerror=\"window.owned='yes'\"><script>window.owned='yes'</script>\"'&amp;"
"""A text that means to be markup."""


class NeedsSsd:
    """Rejects nodes without ``disk=ssd``; says so to a reader once the test lets it."""

    name = "NeedsSsd"

    def __init__(self, *_: object) -> None:
        self.asked = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def filter(self, _state: object, _pod: Any, node: Any) -> Status | None:
        if node.name == HOSTILE:
            return Status.unschedulable(HOSTILE, detail=HOSTILE)
        return None if node.labels.get("disk") == "ssd" else Status.unschedulable("no ssd")

    def unblock(self, *_: object) -> str:
        self.asked += 1
        assert self.go_on.wait(PATIENT_S)
        return "an ssd"


class Spreads:
    """Gives the nodes scores from 0 to 100, each its own as long as there are so many."""

    name = "Spreads"

    def __init__(self, *_: object) -> None:
        pass

    def score(self, _state: object, _pod: object, node: Any) -> int:
        return 37 * int(node.name.partition("-")[2] or 0) % 101


class Holds:
    """Holds the pods whose name begins with ``held`` at Permit."""

    name = "Holds"

    def __init__(self, *_: object) -> None:
        pass

    def permit(self, _state: object, pod: Any, _node: str) -> tuple[Status, float]:
        return (Status.wait() if pod.name.startswith("held") else Status.success()), 60.0


class Retold:
    """Middleware that changes what ``/overview`` and ``/plugins`` tell, as a test says."""

    def __init__(self, app: ASGIApp, changes: dict[str, Callable[[Any], None]]) -> None:
        self._app = app
        self._changes = changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        change = self._changes.get(scope.get("path", ""))
        if change is None:
            await self._app(scope, receive, send)
            return
        sent: list[Message] = []

        async def keep(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, keep)
        start, *bodies = sent
        body = b"".join(each.get("body", b"") for each in bodies)
        if start["status"] == 200:
            told = json.loads(body)
            change(told)
            body = json.dumps(told).encode()
        headers = {**dict(start["headers"]), b"content-length": str(len(body)).encode()}
        await send({**start, "headers": list(headers.items())})
        await send({"type": "http.response.body", "body": body})


class World:
    """A server with the page, and what its endpoints tell.

    Attributes:
        changes: path -> what a test changes in the JSON that the server tells there.
    """

    def __init__(self, extender: Extender, url: str, changes: dict[str, Any]) -> None:
        self.extender, self.url, self.changes = extender, url, changes

    def get(self, path: str) -> Any:
        with Connection(self.url) as connection:
            return connection.get(path, Authorization=f"Bearer {READER}")

    def json(self, path: str) -> Any:
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return answer.json

    def filter(self, name: str, nodes: Sequence[object], verb: str = "filter") -> None:
        asked = pod(name)
        # A UID is as harmless as those of kube-apiserver.
        asked["metadata"]["uid"] = "u-" + "".join(filter(str.isalnum, name))
        self._post(f"/{verb}", {"Pod": asked, "Nodes": {"items": nodes}})

    def bind(self, name: str, node_name: str) -> None:
        self._post("/bind", binding(name, node_name))

    @contextlib.contextmanager
    def held(self, name: str, node_name: str) -> Iterator[None]:
        """Bind a pod that Permit holds until the block ends."""
        with Connection(self.url) as connection:
            connection.send(posted("/bind", json.dumps(binding(name, node_name)).encode()))
            eventually(self.extender.waiting)
            yield

    def _post(self, path: str, body: object) -> None:
        with Connection(self.url) as connection:
            answer = connection.post(path, json.dumps(body).encode())
            assert answer.status == 200, answer.body


def nodes(count: int) -> list[object]:
    """Return nodes of which every third has an SSD."""
    disks: list[dict[str, str]] = [{"disk": "ssd"}, {}, {}]
    return [node(f"node-{place}", 200, **disks[place % 3]) for place in range(count)]


@contextlib.contextmanager
def page_world(folder: Path) -> Iterator[World]:
    """Serve the page, whose readers have the token READER in a file of the folder."""
    file = folder / "token"
    file.write_text(READER)
    weighted = [{"name": "Spreads", "weight": 2}]
    extender = Extender(
        NeedsSsd,
        Spreads,
        Holds,
        binder=Bindings(),
        profiles=[profile(filter=["NeedsSsd"], score=weighted, permit=["Holds"])],
        server={"decisions": {"tokenFile": str(file), "page": True}},
        extender={"httpTimeout": "90s"},
    )
    changes: dict[str, Any] = {}
    extender.asgi.add_middleware(Retold, changes=changes)
    with serve(extender) as served:
        yield World(extender, served.url, changes)
