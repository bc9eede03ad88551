"""How long the reflector waits after what; the cluster is a script and no time passes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import pytest

from kubextend.cluster import Reflector, RefusedError, UnreachableError
from kubextend.cluster import reflector as reflector_module
from kubextend.cluster.api_call import Call
from kubextend.core import NodeStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubextend.cluster.client import Cluster

CALL = Call("GET", "/api/v1/nodes", 1.0)
LIST = b'{"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":[]}'
MARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}'
NODE = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}'
ERROR = b'{"type":"ERROR","object":{"kind":"Status","code":%d,"message":"no"}}'
AWAY = UnreachableError(CALL, "refused")


class Latest(random.Random):
    """Jitter that always waits as long as it may."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Script:
    """Answers lists and watches in turn; a watch is its lines, after some seconds."""

    host = "scripted"

    def __init__(self, clock: Clock, *steps: object) -> None:
        self._clock = clock
        self._steps = list(steps)
        self.calls: list[Call] = []

    def _next(self, call: Call) -> object:
        self.calls.append(call)
        step = self._steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    def request(self, call: Call) -> bytes:
        return cast("bytes", self._next(call))

    def stream(self, call: Call) -> ScriptedWatch:
        lasts_s, lines = cast("tuple[float, list[bytes]]", self._next(call))
        return ScriptedWatch(self._clock, lasts_s, lines)


class ScriptedWatch:
    def __init__(self, clock: Clock, lasts_s: float, lines: list[bytes]) -> None:
        self._clock = clock
        self._lasts_s = lasts_s
        self._lines = lines
        self.ended: list[str] = []

    def batches(self) -> Iterator[list[bytes]]:
        if self._lines:
            yield self._lines
        self._clock.now += self._lasts_s

    def shut(self) -> None:
        self.ended.append("shut")

    def close(self) -> None:
        self.ended.append("closed")


def refused(status: int, retry_after_s: float | None = None) -> RefusedError:
    return RefusedError(CALL, status, "no", retry_after_s)


def pauses_of(*steps: object) -> tuple[list[float], Script, Reflector]:
    clock = Clock()
    script = Script(clock, *steps)
    reflector = Reflector(cast("Cluster", script), NodeStore(), clock=clock)
    reflector._rng = Latest()
    pauses = []
    for _ in steps:
        pauses.append(reflector._attempt())
        clock.now += pauses[-1]
    return pauses, script, reflector


def test_a_list_is_told_as_a_change_once_the_store_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    item = b'{"metadata":{"name":"a","resourceVersion":"6"}}'
    script = Script(Clock(), LIST.replace(b"[]", b"[%s]" % item))
    reflector = Reflector(cast("Cluster", script), NodeStore())
    told: list[int] = []
    monkeypatch.setattr(reflector._changes, "notify", lambda: told.append(len(reflector.store)))
    reflector._attempt()
    assert told == [1]


@pytest.mark.parametrize(
    ("steps", "pauses"),
    [
        ([AWAY] * 6, [0.5, 1, 2, 3, 3, 3]),
        ([refused(500)] * 8, [0.5, 1, 2, 4, 8, 16, 30, 30]),
        ([refused(503)] * 5, [0.5, 1, 2, 3, 3]),
        ([refused(429, 5.0)] * 5, [5, 5, 5, 5, 8]),
        ([AWAY] * 5 + [refused(403)] * 2, [0.5, 1, 2, 3, 3, 0.5, 1]),
        ([LIST, refused(410), LIST, refused(410), LIST], [0, 0, 0, 0.5, 0]),
        # Lists that succeed, and watches of what the API says that it does not serve.
        ([LIST, refused(404), LIST, refused(404), LIST, refused(404)], [0, 0.5, 0, 1, 0, 2]),
        ([refused(404)] * 8, [0.5, 1, 2, 4, 8, 16, 30, 30]),
        ([LIST, (45.0, [NODE]), (45.0, [NODE])], [0, 0, 0]),
        ([LIST, (0.25, []), (0.25, [NODE])], [0, 0.75, 0.75]),
        ([LIST, AWAY, AWAY, (1.0, [NODE]), AWAY], [0, 0.5, 1, 0, 0.5]),
        ([LIST, (0.0, [ERROR % 410]), LIST], [0, 0, 0]),
        ([LIST, refused(400), LIST, refused(400), LIST], [0, 0, 0, 0.5, 0]),
        ([LIST, refused(410), LIST, (45.0, [NODE]), refused(410)], [0, 0, 0, 0, 0]),
        ([LIST, (0.0, [ERROR % 500]), (0.0, [ERROR % 500])], [0, 0.5, 1]),
        ([b"<html>", b"<html>", LIST], [0.5, 1, 0]),
    ],
    ids=[
        "the API is away",
        "server errors",
        "a gateway with nothing behind it",
        "Retry-After",
        "away, then starting up",
        "gone twice",
        "not served to watches",
        "not served",
        "watches that last",
        "watches that end at once",
        "a watch that works ends the streak",
        "gone, as an event",
        "a version that the API cannot read",
        "gone again after a watch that worked",
        "server errors, as events",
        "not a list",
    ],
)
def test_each_failure_has_its_pace(steps: list[object], pauses: list[float]) -> None:
    assert pauses_of(*steps)[0] == pauses


@pytest.mark.parametrize("status", [400, 410])
@pytest.mark.parametrize("as_event", [False, True])
def test_a_version_that_is_no_good_is_not_asked_for_again(status: int, as_event: bool) -> None:
    refusal = (0.0, [ERROR % status]) if as_event else refused(status)
    _, script, reflector = pauses_of(LIST, refusal, LIST, (45.0, [NODE]))
    assert ["watch" in call.query for call in script.calls] == [False, True, False, True]
    assert reflector.stats.lists == 2


def test_a_list_comes_in_one_piece_until_a_watch_has_worked() -> None:
    gone = refused(410)
    steps = [LIST, gone, LIST, gone, LIST, gone, LIST, (45.0, [NODE]), gone, LIST]
    _, script, _ = pauses_of(*steps)
    lists = [call for call in script.calls if "watch" not in call.query]
    assert ["limit" in call.query for call in lists] == [True, True, False, False, True]


def test_an_event_and_then_410_for_ever_lists_ever_more_slowly() -> None:
    steps: list[object] = [LIST, (0.0, [NODE, ERROR % 410])] * 10
    pauses, _, _ = pauses_of(*steps)
    assert pauses[1::2] == [0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_an_error_event_that_is_not_410_resumes_where_it_was() -> None:
    _, script, reflector = pauses_of(LIST, (0.0, [NODE, ERROR % 500]), (45.0, []))
    assert [call.query.get("resourceVersion") for call in script.calls] == [None, "7", "8"]
    assert reflector.stats.lists == 1


BROKEN = (0.0, [ERROR % 500])


@pytest.mark.parametrize("broken", [BROKEN, refused(500)], ids=["an event", "an answer"])
def test_watches_that_end_in_an_error_again_and_again_lead_to_lists_ever_more_rarely(
    broken: object,
) -> None:
    steps = [LIST, broken, broken, broken, *[LIST, broken] * 5, LIST, (45.0, [NODE]), broken]
    pauses, script, _ = pauses_of(*steps)
    assert pauses == [0, 0.5, 1, 2, *[0, 4, 0, 8, 0, 16, 0, 30, 0, 30], 0, 0, 0.5]
    lists = [number for number, call in enumerate(script.calls) if "watch" not in call.query]
    assert lists == [0, 4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize("status", [403, 429, 503, 504])
def test_what_passes_leads_to_no_list_however_often_it_comes(status: int) -> None:
    for broken in (refused(status), (0.0, [ERROR % status])):
        assert pauses_of(LIST, *[broken] * 20)[2].stats.lists == 1


def test_watches_that_bring_something_before_their_error_are_resumed() -> None:
    assert pauses_of(LIST, *[(0.0, [NODE, ERROR % 500])] * 20)[2].stats.lists == 1


def test_a_watch_that_opens_and_brings_an_error_is_no_word_of_the_api() -> None:
    _, _, reflector = pauses_of(LIST, BROKEN, BROKEN)
    assert reflector.age_s() == pytest.approx(0.5 + 1.0)
    assert reflector.last_error is not None


def test_a_watch_that_brings_an_error_is_not_followed_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"):
        pauses_of(LIST, *[BROKEN] * 3, *[LIST, BROKEN] * 9)
    assert sum("followed" in record.getMessage() for record in caplog.records) == 1


def test_an_event_that_cannot_be_read_leads_to_a_new_list() -> None:
    pauses, script, _ = pauses_of(LIST, (0.0, [NODE, b'{"type":"ADDED"']), LIST)
    assert pauses == [0, 0.5, 0]
    assert "watch" not in script.calls[-1].query


def test_whole_watches_without_a_bookmark_lead_to_a_list() -> None:
    steps: list[object] = [LIST, (45.0, []), (45.0, []), (45.0, []), LIST]
    _, script, reflector = pauses_of(*steps)
    assert reflector.stats.lists == 2
    assert "watch" not in script.calls[-1].query


def test_short_watches_without_an_event_do_not() -> None:
    assert pauses_of(LIST, *[(2.0, [])] * 20)[2].stats.lists == 1


def test_the_age_is_the_time_since_the_api_said_anything() -> None:
    _, _, reflector = pauses_of(LIST, (45.0, [NODE]), AWAY, AWAY)
    assert reflector.age_s() == pytest.approx(45.0 + 0.5 + 1.0)
    assert reflector.last_error == "GET /api/v1/nodes: refused"
    assert reflector.synced


def test_a_list_without_a_version_is_not_taken() -> None:
    pauses, _, reflector = pauses_of(b'{"kind":"NodeList","metadata":{},"items":[]}')
    assert pauses == [0.5]
    assert not reflector.synced


@pytest.mark.parametrize(
    ("steps", "warnings"),
    [
        ([AWAY] * 5, 1),
        ([LIST, AWAY, (45.0, [NODE]), AWAY, (45.0, [NODE])], 0),
        ([LIST, AWAY, AWAY, AWAY, (45.0, [NODE])], 1),
        ([LIST, refused(410), LIST, (45.0, [NODE])], 0),
        ([refused(400)] * 5, 1),
        ([LIST, *[refused(410)] * 5], 1),
    ],
    ids=["down at the start", "hiccups", "an outage", "a compaction", "no API", "gone for ever"],
)
def test_an_outage_is_said_once_and_a_hiccup_not_at_all(
    steps: list[object], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    pauses_of(*steps)
    assert [record.levelname for record in caplog.records].count("WARNING") == warnings


def test_the_silence_limit_is_beyond_the_longest_watch() -> None:
    assert reflector_module.WATCH_S[1] < reflector_module.WATCH_SILENCE_S
    assert reflector_module.WATCH_SILENCE_S + 5 <= 60


@pytest.mark.parametrize(
    ("lines", "notices"),
    [([NODE], 1), ([NODE, MARK], 1), ([MARK, NODE], 1), ([MARK], 0), ([NODE, ERROR % 500], 1)],
)
def test_a_change_is_told_whatever_comes_in_one_piece_with_it(
    lines: list[bytes], notices: int
) -> None:
    clock = Clock()
    api = cast("Cluster", Script(clock, LIST, (45.0, lines)))
    reflector = Reflector(api, NodeStore(), clock=clock)
    noticed: list[None] = []
    reflector._attempt()
    reflector._changes.notify = lambda: noticed.append(None)  # type: ignore[method-assign]
    reflector._attempt()
    assert len(noticed) == notices


def test_a_watch_that_opens_while_the_reflector_is_stopped_is_shut() -> None:
    clock = Clock()
    watch = ScriptedWatch(clock, 0.0, [])

    class Stopping(Script):
        def stream(self, call: Call) -> ScriptedWatch:
            self.calls.append(call)
            reflector.stop()
            return watch

    api = Stopping(clock, LIST)
    reflector = Reflector(cast("Cluster", api), NodeStore(), clock=clock)
    reflector._attempt()
    reflector._attempt()
    assert watch.ended == ["shut", "closed"]
