"""Measures how long names-mode requests wait while the same kubextend does some large work."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import pytest
from tests.e2e.workbench import until

from asked import Asked
from figures import AS_LONG_AT_P99
from nodes import Cluster
from remote import RemoteWork, Stopwatch
from servers import Servers, ask
from works import FULL, NAMES

_NODES, _WATCHED = 5_000, 15_000
_AIM = 3.0
_CALLS = 300
_SLICE_S = 0.05


class Load(Protocol):
    """A large work that goes on for a while beside the timed requests."""

    def begin(self) -> None:
        """Begin the large work, and return once it has begun."""

    @property
    def going_on(self) -> bool:
        """Whether the large work is still going on."""

    def end(self) -> None:
        """Wait for the end of the large work, or end it."""


@dataclass(frozen=True)
class UnderLoad:
    """A work that is timed only while a load goes on.

    Attributes:
        name: the name of the work in the report.
        work: the work that is timed.
        load: the large work that goes on beside it.
    """

    name: str
    work: RemoteWork
    load: Load

    def turn(self, calls: int) -> list[float]:
        """Return the seconds of at least so many calls, each begun and ended under the load."""
        times_s: list[float] = []
        while len(times_s) < calls:
            self.load.begin()
            while self.load.going_on and len(times_s) < calls:
                part = self.work.stopwatch.timed(**self.work.order, seconds=_SLICE_S)
                times_s += part if self.load.going_on else []
        self.load.end()
        return times_s


class Repeated:
    """A load that makes a call over and over, on a thread of its own.

    Args:
        call: the function to call.
    """

    going_on = True

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._wanted = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self) -> None:
        self._idle.clear()
        self._wanted.set()

    def end(self) -> None:
        self._wanted.clear()
        self._idle.wait()

    def _run(self) -> None:
        while self._wanted.wait():
            self._call()
            if not self._wanted.is_set():
                self._idle.set()


class Relist:
    """A load in which kubextend lists all nodes or pods anew.

    Args:
        api: the URL of the stand-in for kube-apiserver.
        resource: ``nodes`` or ``pods``.
    """

    def __init__(self, api: str, resource: str) -> None:
        self._api = api
        self._resource = resource
        self._lists = 0

    def begin(self) -> None:
        self._lists = self._ended
        ask(f"{self._api}/relist/{self._resource}", "POST")
        until(lambda: self._begun_after(self._lists), "a list has begun", every_s=0.001)

    @property
    def going_on(self) -> bool:
        return self._ended == self._lists

    def end(self) -> None:
        until(lambda: not self.going_on, "the list has ended")

    @property
    def _ended(self) -> int:
        return int(ask(f"{self._api}/lists/ended/{self._resource}"))

    def _begun_after(self, lists: int) -> bool:
        return int(ask(f"{self._api}/lists/begun/{self._resource}")) > lists


@dataclass(frozen=True)
class Stage:
    """A kubextend that watches 15,000 nodes, and a client that sends it names of 5,000 nodes."""

    url: str
    api: str
    names: RemoteWork
    full: Asked
    client: Stopwatch


Loads: TypeAlias = Callable[[Stage], AbstractContextManager[Load]]


@pytest.fixture
def stage(
    clusters: Callable[[int], Cluster], servers: Servers, client: Stopwatch, tmp_path: Path
) -> Stage:
    cluster = clusters(_WATCHED)
    api = servers.api(Asked(cluster, NAMES, tmp_path).node_list)
    url, _ = servers.kubextend(servers.kubeconfig(api))
    asked = cluster.first(_NODES)
    names = Asked(asked, NAMES, tmp_path).server_work("names, alone", client, url)
    return Stage(url, api, names, Asked(asked, FULL, tmp_path), client)


@contextmanager
def full_requests(stage: Stage) -> Iterator[Load]:
    with Stopwatch("http") as other:
        full = stage.full.server_work("full", other, stage.url)
        yield Repeated(lambda: full.turn(1))


@contextmanager
def relists(stage: Stage) -> Iterator[Load]:
    yield Relist(stage.api, "nodes")


@contextmanager
def scrapes(stage: Stage) -> Iterator[Load]:
    with Stopwatch("http") as other:
        yield Repeated(lambda: other.timed(url=f"{stage.url}/metrics", calls=1))


@pytest.mark.parametrize(
    "loads", [full_requests, relists, scrapes], ids=lambda loads: loads.__name__
)
def test_names_beside_something_large(
    loads: Loads,
    stage: Stage,
    compare: Callable[..., None],
) -> None:
    said: dict[Loads, str] = {
        full_requests: "names, beside full requests",
        relists: "names, during a relist of 15,000",
        scrapes: "names, during a scrape",
    }
    with loads(stage) as load:
        ours = UnderLoad(said[loads], stage.names, load)
        body_bytes = stage.names.order["body"].stat().st_size
        compare(ours, stage.names, _NODES, body_bytes, _AIM, AS_LONG_AT_P99, _CALLS)
