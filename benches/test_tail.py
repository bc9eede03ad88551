"""What names-mode requests wait for while the same kubextend does something large beside them."""

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
    """Something large that goes on for a while."""

    def begin(self) -> None:
        """It has begun."""

    @property
    def going_on(self) -> bool:
        """Whether it still does."""

    def end(self) -> None:
        """It is over."""


@dataclass(frozen=True)
class UnderLoad:
    """A work, timed only while something else goes on.

    Attributes:
        name: as the report calls it.
        work: what is timed.
        load: what else goes on.
    """

    name: str
    work: RemoteWork
    load: Load

    def turn(self, calls: int) -> list[float]:
        """Seconds of at least so many calls, each begun and ended under the load."""
        times_s: list[float] = []
        while len(times_s) < calls:
            self.load.begin()
            while self.load.going_on and len(times_s) < calls:
                part = self.work.stopwatch.timed(**self.work.order, seconds=_SLICE_S)
                times_s += part if self.load.going_on else []
        self.load.end()
        return times_s


class Repeated:
    """A call that is made again and again.

    Args:
        call: what is called, on a thread of its own.
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
    """The 15,000 nodes are listed anew."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._lists = 0

    def begin(self) -> None:
        self._lists = self._ended
        ask(f"{self._api}/relist", "POST")
        until(lambda: self._begun_after(self._lists), "a list has begun", every_s=0.001)

    @property
    def going_on(self) -> bool:
        return self._ended == self._lists

    def end(self) -> None:
        until(lambda: not self.going_on, "the list has ended")

    @property
    def _ended(self) -> int:
        return int(ask(f"{self._api}/lists/ended"))

    def _begun_after(self, lists: int) -> bool:
        return int(ask(f"{self._api}/lists/begun")) > lists


@dataclass(frozen=True)
class Stage:
    """A kubextend that watches 15,000 nodes, and a client that asks it about 5,000 by name."""

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
    yield Relist(stage.api)


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
