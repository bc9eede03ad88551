"""What the log says of plugins that fail: their own frames, once, and then a count."""

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from tests.doors.stories import Plugin
from tests.doors.stories_work import asked_what_pods_lack
from tests.doors.wire import answers

from kubextend import Status, testing

Log = pytest.LogCaptureFixture


def raises(*_: Any) -> Any:
    message = "bad"
    raise ValueError(message)


def raises_for_bad_pods(_state: Any, pod: Any, *_: Any) -> None:
    if pod.labels.get("bad"):
        raises()


rejects, nothing = answers(Status.unschedulable("no")), answers(None)


def failures_in(caplog: Log) -> list[str]:
    """Return what the log says of failing plugins, with tracebacks, as any handler writes it."""
    formatter = logging.Formatter()
    return [formatter.format(each) for each in caplog.records if "running " in each.getMessage()]


def frames_of(text: str) -> list[str]:
    return re.findall(r'File "([^"]+)"', text)


def test_a_plugin_that_raises_is_in_the_log_with_its_frames_once_and_then_a_count(
    caplog: Log,
) -> None:
    cluster = testing.Cluster(Plugin(filter=raises_for_bad_pods))
    pods = [testing.make_pod(name, uid=name, labels={"bad": "yes"}) for name in ("a", "b")]
    for _ in range(30):
        for bad in pods:
            assert cluster.schedule(bad).error.endswith("; kubextend's log says how")
        cluster.advance(10)
    # Each pod is tried every 10 s, so a line a minute comes with each twelfth call.
    first, *later = failures_in(caplog)
    assert "ValueError: bad" in first
    assert frames_of(first) == [__file__, __file__]
    assert len(first.splitlines()) <= 10
    assert all(len(line.splitlines()) == 1 and "ValueError: bad" in line for line in later)
    told = [int(count) for count in re.findall(r"(\d+) times so far", " ".join(later))]
    assert told == [1 + 12 * minute for minute in (1, 2, 3, 4)]
    assert len(cluster.failures) == 60


def test_another_error_another_line_and_another_plugin_have_their_own_frames(caplog: Log) -> None:
    def fails(_state: Any, pod: Any, *_: Any) -> None:
        if pod.name == "type":
            raise KeyError(pod.name)
        if pod.name == "line":
            raise ValueError(pod.name)
        raise ValueError(pod.name)

    cluster = testing.Cluster(Plugin("P", pre_filter=fails))
    other = testing.Cluster(Plugin("Q", pre_filter=fails))
    for each, name in ((cluster, "p"), (cluster, "type"), (cluster, "line"), (other, "p")):
        each.schedule(testing.make_pod(name))
    assert [len(frames_of(line)) for line in failures_in(caplog)] == [1, 1, 1, 1]


# How many other kinds of errors come in between, and whether the log then tells of the first again.
@pytest.mark.parametrize(("others", "again"), [(100, []), (300, [True])])
def test_kinds_of_errors_that_never_end_are_forgotten(
    others: int, again: list[bool], caplog: Log
) -> None:
    def fails(_state: Any, pod: Any, *_: Any) -> None:
        kind = type(f"Error{pod.name}", (Exception,), {})
        raise kind

    cluster = testing.Cluster(Plugin(filter=fails), nodes=1)
    for number in [*range(1 + others), 0, 0]:
        cluster.filter(testing.make_pod(f"p{number}"))
    told = [line for line in failures_in(caplog) if "Errorp0:" in line]
    assert [bool(frames_of(line)) for line in told] == [True, *again]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    "method", ["reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind", "start", "stop"]
)
def test_no_traceback_has_frames_of_kubextend_or_of_the_loop(
    method: str, kind: str, caplog: Log
) -> None:
    async def raises_async(*_: Any) -> None:
        raises()

    pair = {"reserve": nothing, "unreserve": nothing, "filter": nothing}
    given = {**pair, method: raises if kind == "sync" else raises_async}
    ends = {"pre_bind": rejects} if method == "unreserve" else {}
    with testing.Cluster(Plugin(**{**given, **ends})) as cluster:
        cluster.schedule(testing.make_pod("p"))
    [first] = failures_in(caplog)
    assert set(frames_of(first)) == {__file__}
    assert "ValueError: bad" in first


@pytest.mark.parametrize("method", ["pre_filter", "post_filter", "pre_score", "score"])
def test_filtering_and_scoring_leave_no_frames_of_kubextend(method: str, caplog: Log) -> None:
    given = {"filter": rejects if method == "post_filter" else nothing, "score": lambda *_: 0}
    cluster = testing.Cluster(Plugin(**{**given, method: raises}))
    pod = testing.make_pod("p")
    cluster.filter(pod)
    cluster.prioritize(pod)
    first = failures_in(caplog)[0]
    assert frames_of(first) == [__file__]


def test_an_unblock_that_raises_is_in_the_log_once(tmp_path: Path, caplog: Log) -> None:
    made = type("P", (), {"name": "P", "filter": rejects, "unblock": raises})
    asyncio.run(asked_what_pods_lack(tmp_path, made, times=3))
    told = [line for line in failures_in(caplog) if "unblock" in line]
    assert [bool(frames_of(line)) for line in told] == [True]
    assert set(frames_of(told[0])) == {__file__}


def test_a_plugin_that_asks_too_much_of_kubextend_sees_its_own_line_in_the_log(caplog: Log) -> None:
    def reads_pods(_state: Any, _pod: Any, node: Any) -> None:
        assert node.pods is not None

    testing.Cluster(Plugin(filter=reads_pods)).schedule(testing.make_pod("p"))
    [first] = failures_in(caplog)
    assert frames_of(first) == [__file__]
    assert "needs_pods = True" in first
