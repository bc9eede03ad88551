"""One request on disk, for programs of their own, and what must come back."""

from dataclasses import dataclass
from pathlib import Path

from nodes import Cluster
from remote import RemoteWork, Stopwatch
from works import FIRST_POD, Mode

__all__ = ["Asked"]


@dataclass(frozen=True)
class Asked:
    """One request about a cluster.

    Attributes:
        cluster: the nodes.
        mode: full or names.
        folder: where the files are.
    """

    cluster: Cluster
    mode: Mode
    folder: Path

    @property
    def body(self) -> Path:
        """The request."""
        return self._written("body", self.mode.body(self.cluster))

    @property
    def first_body(self) -> Path:
        """The one that brings the nodes in."""
        return self._written("first-body", self.mode.request(self.cluster, FIRST_POD))

    @property
    def node_list(self) -> Path:
        """What names stand for."""
        return self._written("nodes", self.cluster.node_list())

    @property
    def good_names(self) -> Path:
        """The nodes that are kept."""
        return self._written("good", "\n".join(self.cluster.kept_names).encode())

    @property
    def size(self) -> tuple[int, int]:
        """How many nodes and how many bytes the request has."""
        return len(self.cluster.names), self.body.stat().st_size

    def server_work(
        self, name: str, client: Stopwatch, url: str, *, right: bool = True
    ) -> RemoteWork:
        """A server's work, once it has answered right; from now on it must answer the same.

        Args:
            name: as the report calls it.
            client: asks the server.
            url: of the server.
            right: False: the server decides nothing, its answer is none.
        """
        order = {"work": name, "url": f"{url}/filter"}
        client.timed(**order, body=self.first_body, calls=1)
        return self._checked(RemoteWork(name, client, order | {"body": self.body}), right=right)

    def go_work(self, stopwatch: Stopwatch) -> RemoteWork:
        """The plain Go extender's code without a server; otherwise as ``server_work``."""
        order = {"work": "filter", "body": self.body}
        if self.mode.name == "names":
            order["nodes"] = self.node_list
        return self._checked(RemoteWork("Go extender's code", stopwatch, order), right=True)

    def _checked(self, work: RemoteWork, *, right: bool) -> RemoteWork:
        file = self.folder / f"{work.name}-answer"
        answer = work.answer(file)
        if right:
            self.mode.check(self.cluster, answer)
        return work.expecting(file)

    def _written(self, name: str, content: bytes) -> Path:
        path = self.folder / f"{self.mode.name}-{len(self.cluster.names)}-{name}"
        if not path.exists():
            path.write_bytes(content)
        return path
