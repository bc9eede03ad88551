"""Plugins that hang: the answers that kube-scheduler gets in time, and the breaker afterwards.

kube-scheduler's timeout is ten minutes here, which a test skips once the plugin hangs: a verb is
answered after 80 % of it, and the next request goes on without the plugin.
"""

import asyncio
import weakref
from contextvars import ContextVar
from typing import Any

import pytest
from tests.doors.wire import (
    Answer,
    Hang,
    Plugin,
    Steps,
    Wire,
    answers,
    names_request,
    needs,
    node,
    pod,
    preempt_request,
    raises,
    rejects,
    scores,
    whole_request,
)

NODES = [node("good", labels={"rdma": ""}), node("plain")]
P = pod("p")
TEN_MINUTES = {"extender.httpTimeout": "10m", "extender.permitMaxWait": "9m"}
NAMES = names_request(P, ["good", "plain"])
FILTERS = {"pre_filter": "PreFilter", "filter_nodes": "Filter", "filter": "Filter"}


def wire_of(odd: Plugin, settings: Any = (), **parts: Any) -> Wire:
    """The plugin that hangs comes before one that rejects, and before one that scores."""
    given = {"nodes": NODES, "pods": [P], "settings": TEN_MINUTES | dict(settings)}
    return Wire(odd, needs(), scores(good=50), **given | parts)


def hung(wire: Wire, path: str, body: bytes) -> Answer:
    """Return the answer to a request for which a plugin hangs."""
    call = wire.begin(path, body)
    wire.skip(479)
    assert not call.done
    wire.skip(2)
    return call.answer()


def is_open(wire: Wire, plugin: str = "Odd") -> float:
    return wire.metric("kubextend_plugin_breaker_open", plugin=plugin)


@pytest.mark.parametrize("method", FILTERS)
def test_a_filter_that_hangs_is_answered_for_in_time(hang: Hang, method: str) -> None:
    wire = wire_of(Plugin("Odd", **{method: hang}))
    error = f'{FILTERS[method]} plugin "Odd" failed; kubextend\'s log says how'
    assert hung(wire, "/filter", NAMES).error == error
    # From now on it is left uncalled, and the answer is there at once.
    assert wire.filter(P).error == error
    assert (hang.calls, is_open(wire)) == (1, 1)
    assert wire.metric("kubextend_plugin_stuck_threads", plugin="Odd") == 1
    assert wire.metric("kubextend_verb_requests_total", verb="filter", result="error") == 2


@pytest.mark.parametrize("method", FILTERS)
def test_a_filter_that_hangs_and_may_be_ignored_is_left_out_next_time(
    hang: Hang, method: str
) -> None:
    wire = wire_of(Plugin("Odd", **{method: hang}), ignored=["Odd"])
    assert hung(wire, "/filter", NAMES).error
    assert wire.filter(P).kept == ["good"]
    assert hang.calls == 1


def test_a_filter_that_hangs_has_hung_though_its_client_is_gone(hang: Hang) -> None:
    wire = wire_of(Plugin("Odd", filter=hang), ignored=["Odd"])
    wire.begin("/filter", NAMES).leave()
    wire.skip(390)
    assert is_open(wire) == 0
    wire.skip(100)
    assert is_open(wire) == 1
    assert wire.metric("kubextend_verb_requests_total", verb="filter", result="error") == 1


@pytest.mark.parametrize("body", [NAMES, whole_request(P, NODES)])
def test_a_filter_that_hangs_rejects_all_nodes_where_errors_are_ignored(
    hang: Hang, body: bytes
) -> None:
    wire = wire_of(Plugin("Odd", filter=hang), {"extender.ignorable": True})
    said = hung(wire, "/filter", body)
    why = 'Filter plugin "Odd" failed'
    assert (said.unresolvable, said.error) == ({"good": why, "plain": why}, "")


def test_a_request_that_gets_no_thread_in_its_time_is_rejected_where_errors_are_ignored(
    hang: Hang,
) -> None:
    settings = {"extender.ignorable": True, "extender.httpTimeout": "5s"}
    odd = Plugin("Odd", pre_filter=hang, reserve=answers(None), unreserve=answers(None))
    wire = wire_of(odd, settings)
    # The filters of binds have 5 s, and hold all threads: the request is over after 4 s.
    threads = int(wire.metric("kubextend_threads_limit", pool="verb"))
    pods = [pod(f"p{number}") for number in range(threads)]
    wire.show_pod(*pods)
    for of in pods:
        wire.begin_bind(of, "good")
    wire.until(lambda: hang.calls == threads)
    call = wire.begin("/filter", NAMES)
    wire.skip(4.5)
    said = call.answer()
    assert (said.kept, said.rejected, said.error) == ([], {}, "")


def test_the_time_that_a_body_took_is_gone_from_the_time_for_the_answer(hang: Hang) -> None:
    wire = wire_of(Plugin("Odd", filter=hang))
    call = wire.begin("/filter", NAMES[:20], content_length=str(len(NAMES)))
    wire.skip(20)
    call.send(NAMES[20:])
    wire.until(lambda: hang.calls)
    wire.skip(459)
    assert not call.done
    wire.skip(2)
    assert call.done
    assert 'plugin "Odd" failed' in call.answer().error


def test_an_idle_thread_keeps_nothing_of_its_last_call() -> None:
    """A body or an answer may have megabytes."""
    kept = ContextVar[object]("kept")
    alive: list[weakref.ref[Steps]] = []

    def keep(*_: Any) -> None:
        large = Steps()
        alive.append(weakref.ref(large))
        kept.set(large)

    wire = wire_of(Plugin("Odd", filter=keep))
    assert wire.filter(P, ["good"]).kept == ["good"]
    wire.until(lambda: alive[0]() is None)


@pytest.mark.parametrize("method", ["pre_score", "score_nodes", "score"])
def test_a_score_that_hangs_is_left_out_next_time_and_the_others_count(
    hang: Hang, method: str
) -> None:
    methods = {"score": answers(0)} | {method: hang}
    if method == "score_nodes":
        del methods["score"]
    wire = wire_of(Plugin("Odd", **methods))
    assert hung(wire, "/prioritize", NAMES).scores == {}
    assert wire.prioritize(P).scores == {"good": 5, "plain": 0}
    assert hang.calls == 1


@pytest.mark.parametrize("ignored", [[], ["Odd"]])
def test_nobody_is_evicted_where_a_filter_hangs(hang: Hang, ignored: list[str]) -> None:
    wire = wire_of(Plugin("Odd", filter=hang), ignored=ignored)
    body = preempt_request(P, {"good": ["v"], "plain": ["w"]})
    assert hung(wire, "/preempt", body).victims == {}


def test_what_took_the_time_is_blamed_and_not_what_was_called_last(hang: Hang) -> None:
    def take_long(*_: Any) -> None:
        wire.clock.now_s += 300

    wire = Wire(
        Plugin("Slow", pre_filter=take_long),
        Plugin("Last", filter=hang),
        nodes=NODES,
        settings=TEN_MINUTES,
    )
    call = wire.begin("/filter", NAMES)
    wire.skip(190)
    assert call.answer().error.startswith('PreFilter plugin "Slow" failed')
    assert (is_open(wire, "Slow"), is_open(wire, "Last")) == (1, 0)


def test_a_thread_that_comes_back_changes_nothing_and_its_plugin_is_called_again_after_a_while(
    hang: Hang,
) -> None:
    wire = wire_of(Plugin("Odd", filter=hang))
    hung(wire, "/filter", NAMES)
    hang.over.set()
    wire.until(lambda: not wire.metric("kubextend_plugin_stuck_threads", plugin="Odd"))
    requests = "kubextend_verb_requests_total"
    assert wire.metric(requests, verb="filter", result="ok") == 0
    assert wire.metric(requests, verb="filter", result="error") == 1
    wire.skip(28)
    assert wire.filter(P).error
    wire.skip(2)
    assert wire.filter(P).kept == ["good"]
    assert is_open(wire) == 0


def test_two_stuck_threads_fail_livez(hang: Hang) -> None:
    wire = wire_of(Plugin("Odd", filter=hang))
    calls = [wire.begin("/filter", NAMES) for _ in range(2)]
    wire.skip(490)
    assert all(call.answer().error for call in calls)
    livez = wire.get("/livez")
    assert livez.status == 503
    assert '2 threads are stuck in plugin "Odd"' in livez.body.decode()
    # Until the kubelet restarts it, other replicas answer.
    assert wire.get("/readyz").status == 503


# In bind plugins get nothing of the last 20 s of its time, of the last 15 s nothing but Unreserve
# and PostBind gets any, and of the last 5 s nobody.
PLUGINS_S, CLEANUP_S = 580, 595
CYCLE = {"reserve": "Reserve", "permit": "Permit", "pre_bind": "PreBind", "bind": "Bind"}


async def hang_async(*_: Any) -> None:
    await asyncio.Event().wait()


def hung_bind(wire: Wire, until_s: float) -> str:
    wire.filter(P)
    call = wire.begin_bind(P, "good")
    wire.skip(until_s - 1)
    assert not call.done
    wire.skip(1)
    return call.answer().error


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("method", CYCLE)
def test_a_bind_whose_plugin_hangs_is_an_error_in_time_and_unreserves(
    hang: Hang, method: str, asynchronous: bool
) -> None:
    unreserved: list[str] = []
    methods = {"reserve": answers(None), method: hang_async if asynchronous else hang}
    methods["unreserve"] = lambda *_: unreserved.append("Odd")
    wire = wire_of(Plugin("Odd", **methods))
    error = f'{CYCLE[method]} plugin "Odd" failed'
    assert hung_bind(wire, PLUGINS_S) == error
    wire.filter(P)
    # It is called no more; what it may have reserved is given up although its breaker is open.
    assert "Odd" in wire.bind(P, "good").error
    assert hang.calls == (0 if asynchronous else 1)
    assert (wire.binder.bound, wire.assumed()) == ({}, {})
    assert is_open(wire) == 1
    assert unreserved


def test_a_hanging_unreserve_does_not_hold_up_the_answer(hang: Hang) -> None:
    breaks = raises(RuntimeError("no"))
    odd = Plugin("Odd", reserve=answers(None), unreserve=hang, pre_bind=breaks)
    assert hung_bind(wire_of(odd), CLEANUP_S) == 'PreBind plugin "Odd" failed'


def test_a_pre_filter_that_hangs_at_bind_has_the_time_of_a_filter(hang: Hang) -> None:
    odd = Plugin("Odd", pre_filter=hang, reserve=answers(None), unreserve=answers(None))
    wire = wire_of(odd, {"extender.httpTimeout": "5s"})
    # No filter came before: the attempt is lost.
    call = wire.begin_bind(P, "good")
    wire.skip(6)
    assert call.done
    assert call.answer().error == 'PreFilter plugin "Odd" failed'


def test_a_wake_up_that_meets_a_hanging_filter_lets_kube_scheduler_ask(hang: Hang) -> None:
    # Nobody can say whether the pod passes; an Error is tried again, a parked pod is not.
    plugin = rejects("plain")
    wire = Wire(plugin, nodes=["plain"], settings={"extender.httpTimeout": "200ms"})
    wire.filter(P)
    plugin.meanwhile = hang
    wire.show_node(node("plain", labels={"changed": ""}))
    assert (wire.activator.woken, hang.calls) == (["p"], 1)


def test_a_bind_that_is_given_up_names_the_plugin_in_the_log_with_its_stack(
    hang: Hang, caplog: pytest.LogCaptureFixture
) -> None:
    hung_bind(wire_of(Plugin("Odd", pre_bind=hang)), PLUGINS_S)
    (record,) = [each for each in caplog.records if each.stack_info]
    assert record.getMessage().startswith('plugin "Odd" has not answered in time')
    assert "stop_here" in str(record.stack_info)
