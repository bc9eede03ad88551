"""Plugins that reject, score, raise, hang, wait and record, for the wire door."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from tests.doors.still_time import AT_MOST_S

from kubextend import core
from kubextend.framework import Rejection, Status

_BINDING_CYCLE: Final = {"reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind"}


class Plugin:
    """A plugin with the methods of the framework that a test gives it, such as ``filter``."""

    def __init__(
        self,
        name: str = "P",
        *,
        needs_pods: bool = False,
        informers: Sequence[str] = (),
        **methods: Callable[..., Any],
    ) -> None:
        self.name = name
        self.needs_pods = needs_pods
        self.informers = tuple(informers)
        for method, does in methods.items():
            setattr(self, method, does)


def raises(error: BaseException) -> Callable[..., Any]:
    """Return a method that raises an error."""

    def call(*_: object) -> Any:
        raise error

    return call


def answers(answer: Any) -> Callable[..., Any]:
    """Return a method that returns the same answer at each call."""
    return lambda *_: answer


class Rejects(Plugin):
    """A filter that rejects the nodes of some names, which a test may change.

    Attributes:
        names: the names.
        told: the names of the pods of which PostFilter was told that they fit nowhere.
        meanwhile: called by the filter, once for each node.
    """

    def __init__(self, names: Iterable[str], status: Status, name: str) -> None:
        self.names = set(names)
        self.told: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self._status = status
        super().__init__(name, filter=self._filter, post_filter=self._post_filter)

    def _filter(self, _state: object, _pod: core.Pod, at: core.NodeInfo) -> Status | None:
        self.meanwhile()
        return self._status if at.name in self.names else None

    def _post_filter(self, _state: object, of: core.Pod, _rejections: object) -> None:
        self.told.append(of.name)


def rejects(
    *names: str, reason: str = "its name", unresolvable: bool = False, name: str = "Rejects"
) -> Rejects:
    """Return a filter that rejects the nodes of these names."""
    return Rejects(
        names, Status.unresolvable(reason) if unresolvable else Status.unschedulable(reason), name
    )


def needs(
    label: str = "rdma", reason: str = "no rdma", *, unresolvable: bool = True, name: str = "Needs"
) -> Plugin:
    """Return a filter of all nodes at once that rejects nodes without a label."""
    status = Status.unresolvable(reason) if unresolvable else Status.unschedulable(reason)
    return Plugin(
        name, filter_nodes=lambda _state, _pod, nodes: [Rejection(~nodes.matches(label), status)]
    )


def scores(name: str = "Scores", **points: int) -> Plugin:
    """Return a plugin that scores nodes by name; other nodes have the score 0."""
    return Plugin(name, score=lambda _state, _pod, at: points.get(at.name, 0))


class Steps(Plugin):
    """A plugin that records its calls, and whose methods do what a test gives them to do.

    Args:
        methods: the names of its methods, such as ``reserve``, to which ``unreserve`` belongs.
            Those of the binding cycle are async.
        says: what methods return, by name; a method that is not named returns None.

    Attributes:
        calls: the names of the methods, in the order of the calls.
        on: functions that methods call, by name.
        closed: names of methods of the binding cycle that wait while their name is here.
        reserved: how many pods are reserved, ``most_reserved`` how many were at the same time.
    """

    def __init__(
        self, *methods: str, name: str = "Steps", needs_pods: bool = False, **says: Any
    ) -> None:
        self.calls: list[str] = []
        self.on: dict[str, Callable[[], object]] = {}
        self.closed: set[str] = set()
        self.says = {"filter_nodes": [], "bind": Status.skip()} | says
        self.reserved = self.most_reserved = 0
        named = {*methods, *says, *(["unreserve"] if {"reserve"} & {*methods, *says} else [])}
        made = {each: partial(self._later, each) for each in named & _BINDING_CYCLE}
        at_once = {each: partial(self._now, each) for each in named - _BINDING_CYCLE}
        super().__init__(name, needs_pods=needs_pods, **made, **at_once)

    def _now(self, method: str, *_: object) -> Any:
        self.calls.append(method)
        self.on.get(method, lambda: None)()
        return self.says.get(method)

    async def _later(self, method: str, *_: object) -> Any:
        said = self._now(method)
        while method in self.closed:  # noqa: ASYNC110  the test opens it
            await asyncio.sleep(0)
        self.reserved += {"reserve": 1, "unreserve": -1}.get(method, 0)
        self.most_reserved = max(self.most_reserved, self.reserved)
        return said


WAIT: Final = (Status.wait(), 60.0)
"""What a Permit plugin answers to hold a pod for a minute."""


class Hang:
    """A method of a plugin that hangs until the test ends; see the fixture ``hang``.

    Attributes:
        calls: how many calls have begun.
        over: once set, every call returns.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.over = threading.Event()

    def __call__(self, *_: object) -> None:
        self.calls += 1
        stop_here(self.over)


class _Stopped:
    """Counts the threads that a test stops, which no Wire waits for."""

    def __init__(self) -> None:
        self.threads = 0
        self.lock = threading.Lock()

    def add(self, threads: int) -> None:
        with self.lock:
            self.threads += threads


STOPPED: Final = _Stopped()


def stop_here(until: threading.Event) -> None:
    """Stop this thread until the test sets an event."""
    STOPPED.add(1)
    try:
        assert until.wait(AT_MOST_S), "the test did not let a thread go"
    finally:
        STOPPED.add(-1)
