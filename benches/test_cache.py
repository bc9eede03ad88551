"""Measures the cache of watched nodes: the list of 15,000, events a second, bytes a node."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from figures import Figure
from kubextend import core
from nodes import Cluster
from pairing import Work
from report import Reading

_NODES = 15_000
_PAGE = 500
_EVENTS = 2_000
_RUNS = 5
_LIST_AIM_S, _EVENTS_AIM, _BYTES_AIM = 5.0, 20_000, 6_000
_SECONDS = Figure(" s", lambda ours_s, _: ours_s, at_least=False)
_EVENTS_A_SECOND = Figure(" events/s", lambda ours_s, _: _EVENTS / ours_s, at_least=True)
_BYTES = Figure(" bytes a node", lambda ours, _: ours, at_least=False)
# A program that reads the pages of a list into a node store, and prints the bytes a node.
_HOLDS = """
import sys
from pathlib import Path
from kubextend import core

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096

store = core.NodeStore()
before = resident()
relist = store.relist()
for path in sorted(Path(sys.argv[1]).iterdir()):
    relist.page(path.read_bytes())
relist.commit()
print((resident() - before) / len(store))
"""


def test_a_list_of_nodes(clusters: Callable[[int], Cluster], compare: Callable[..., None]) -> None:
    pages = _pages(clusters(_NODES))

    def listed(store: core.NodeStore) -> bytes:
        relist = store.relist()
        for page in pages:
            relist.page(page)
        relist.commit()
        return b"%d" % len(store)

    work = Work("list, 30 pages", core.NodeStore, listed, expected=b"%d" % _NODES)
    body_bytes = sum(map(len, pages))
    compare(work, _read(pages), _NODES, body_bytes, _LIST_AIM_S, _SECONDS)


def test_heartbeats(clusters: Callable[[int], Cluster], compare: Callable[..., None]) -> None:
    _compare_events("heartbeats", b"2026-11-20T10:11:12Z", clusters(_NODES), compare)


def test_changed_labels(clusters: Callable[[int], Cluster], compare: Callable[..., None]) -> None:
    _compare_events("changed labels", b'"team":"team-', clusters(_NODES), compare)


def test_bytes_of_a_node(
    clusters: Callable[[int], Cluster], tmp_path: Path, add: Callable[..., None]
) -> None:
    for number, page in enumerate(_pages(clusters(_NODES))):
        (tmp_path / f"{number:02}").write_bytes(page)
    command = [sys.executable, "-c", _HOLDS, str(tmp_path)]
    values = [float(subprocess.check_output(command)) for _ in range(_RUNS)]  # noqa: S603  ours
    add(Reading("cache", _NODES, "memory of the process", values, _BYTES, _BYTES_AIM))


def _compare_events(
    name: str, changing: bytes, cluster: Cluster, compare: Callable[..., None]
) -> None:
    """Compare events with orjson.loads; the events change text behind ``changing`` and back."""
    store = core.NodeStore()
    store.replace(cluster.node_list())
    some = cluster.items[:: len(cluster.items) // _EVENTS][:_EVENTS]
    assert all(changing in item for item in some)
    ways = [
        [_event(item.replace(changing, _changed(changing, way)), way) for item in some]
        for way in (b"1", b"2")
    ]
    turns = 0

    def next_events() -> list[bytes]:
        nonlocal turns
        turns += 1
        return ways[turns % 2]

    def applied(events: list[bytes]) -> bytes:
        apply = store.apply
        for event in events:
            apply(event)
        return b"%d" % len(store)

    expected = b"%d" % len(cluster.items)
    ours = Work(f"{name}, {_EVENTS:,}", next_events, applied, expected=expected)
    body_bytes = sum(map(len, ways[0]))
    compare(ours, _read(ways[0]), _NODES, body_bytes, _EVENTS_AIM, _EVENTS_A_SECOND)


def _changed(text: bytes, way: bytes) -> bytes:
    return text[:-2] + way + b"Z" if text.endswith(b"Z") else text + way


def _event(item: bytes, way: bytes) -> bytes:
    head, version, rest = item.partition(b'"resourceVersion":"')
    return b'{"type":"MODIFIED","object":' + head + version + way + rest + b"}"


def _pages(cluster: Cluster) -> list[bytes]:
    metadata = json.dumps({"resourceVersion": "100"}).encode()
    return [
        b'{"kind":"NodeList","apiVersion":"v1","metadata":%b,"items":[%b]}'
        % (metadata, b",".join(cluster.items[start : start + _PAGE]))
        for start in range(0, len(cluster.items), _PAGE)
    ]


def _read(bodies: Sequence[bytes]) -> Work:
    """Return the work of building the JSON documents of all bodies with orjson."""

    def call(bodies: Sequence[bytes]) -> None:
        for body in bodies:
            orjson.loads(body)

    return Work("orjson.loads", lambda: bodies, call)
