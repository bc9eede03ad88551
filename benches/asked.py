"""Writes a request to files for other programs, and makes works that check their answers."""

from dataclasses import dataclass
from pathlib import Path

from nodes import Cluster
from remote import RemoteWork, Stopwatch
from works import FIRST_POD, Mode

__all__ = ["Asked"]


@dataclass(frozen=True)
class Asked:
    """A filter request about the nodes of a cluster, as files.

    Attributes:
        cluster: the nodes.
        mode: full or names mode.
        folder: the folder of the files.
    """

    cluster: Cluster
    mode: Mode
    folder: Path

    @property
    def body(self) -> Path:
        """The file with the body of the request that is timed."""
        return self._written("body", self.mode.body(self.cluster))

    @property
    def first_body(self) -> Path:
        """The file with the body of an earlier request, which brings in the nodes."""
        return self._written("first-body", self.mode.request(self.cluster, FIRST_POD))

    @property
    def node_list(self) -> Path:
        """The file with the NodeList of the cluster, for requests in names mode."""
        return self._written("nodes", self.cluster.node_list())

    @property
    def good_names(self) -> Path:
        """The file with the names of the nodes that the filter keeps."""
        return self._written("good", "\n".join(self.cluster.kept_names).encode())

    @property
    def size(self) -> tuple[int, int]:
        """The number of nodes and the number of bytes of the request."""
        return len(self.cluster.names), self.body.stat().st_size

    def server_work(
        self, name: str, client: Stopwatch, url: str, *, right: bool = True
    ) -> RemoteWork:
        """Check a server's answer; return the work of asking it, which expects the same answer.

        Args:
            name: the name of the work in the report.
            client: the program that sends the requests.
            url: the URL of the server.
            right: whether to check the answer; False for a server that decides nothing.
        """
        order = {"work": name, "url": f"{url}/filter"}
        client.timed(**order, body=self.first_body, calls=1)
        return self._checked(RemoteWork(name, client, order | {"body": self.body}), right=right)

    def go_work(self, stopwatch: Stopwatch) -> RemoteWork:
        """Check the plain Go extender's code without a server; return the work of calling it."""
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
