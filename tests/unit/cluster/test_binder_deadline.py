"""How long a bind may take, on a clock that only calls and waits move."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kubextend.cluster import Binder, RefusedError, UnreachableError
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster


class Api:
    """Takes as long as it may for each call, and then says nothing; or refuses at once.

    Attributes:
        now_s: seconds, which calls and waits move on.
        calls: each with when it began.
        waits: between them.
    """

    def __init__(self, refusal: tuple[int, float | None] | None = None) -> None:
        self.refusal = refusal
        self.now_s = 100.0
        self.calls: list[tuple[float, str]] = []
        self.waits: list[float] = []

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert self.now_s < 1000.0, "never ends"
        self.waits.append(seconds)
        self.now_s += seconds

    def request(self, call: Call) -> bytes:
        self.calls.append((self.now_s, call.method))
        if self.refusal is not None and call.method == "POST":
            status, retry_after_s = self.refusal
            raise RefusedError(call, status, "not now", retry_after_s)
        if self.refusal is not None:
            return b'{"metadata": {"uid": "u"}, "spec": {}}'
        self.now_s += call.timeout_s
        raise UnreachableError(call, "timed out")

    def bind(
        self,
        timeout_s: float,
        wanted_s: float | None = None,
        why_not: Callable[[], str] = lambda: "",
    ) -> None:
        api = cast("Cluster", self)
        binder = Binder(api, timeout_s=timeout_s, clock=self.clock, sleep=self.sleep)
        binder.bind("default", "web", "u", "node-1", timeout_s=wanted_s, why_not=why_not)


@pytest.mark.parametrize("timeout_s", [0.6, 3.0, 20.0, 60.0])
def test_an_api_that_says_nothing_is_asked_once_more_and_given_up_at_the_deadline(
    timeout_s: float,
) -> None:
    api = Api()
    with pytest.raises(ClusterError, match="timed out"):
        api.bind(timeout_s)
    assert [method for _, method in api.calls[:2]] == ["POST", "GET"]
    assert api.now_s <= 100.0 + timeout_s + 1e-9


@pytest.mark.parametrize(
    "refusal", [(429, 60.0), (429, 0.25), (429, None), (500, None), (503, 2.0)]
)
@pytest.mark.parametrize("timeout_s", [0.05, 0.6, 3.0])
def test_an_api_that_refuses_for_now_is_given_up_at_the_deadline(
    refusal: tuple[int, float | None], timeout_s: float
) -> None:
    api = Api(refusal)
    with pytest.raises(ClusterError, match="not now") as caught:
        api.bind(timeout_s)
    assert caught.value.status == refusal[0]
    assert api.now_s < 100.0 + timeout_s


@pytest.mark.parametrize(("wanted_s", "ends_s"), [(None, 20.0), (600.0, 20.0), (3.0, 3.0)])
def test_a_binder_gives_up_when_its_caller_does_and_no_later_than_it_would_by_itself(
    wanted_s: float | None, ends_s: float
) -> None:
    api = Api((503, 0.25))
    with pytest.raises(ClusterError, match="not now"):
        api.bind(20.0, wanted_s)
    assert 100.0 + ends_s - 0.25 <= api.now_s <= 100.0 + ends_s


def test_refusals_are_waited_out_as_long_as_they_ask_and_less_and_less_often_where_not() -> None:
    asking = Api((429, 0.25))
    with pytest.raises(ClusterError):
        asking.bind(1.1)
    assert asking.waits == [0.25] * 4
    silent = Api((500, None))
    with pytest.raises(ClusterError):
        silent.bind(10.0)
    assert silent.waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0])


def test_a_pod_that_stays_free_after_a_lost_answer_is_posted_again_until_the_deadline() -> None:
    class Losing(Api):
        def request(self, call: Call) -> bytes:
            self.calls.append((self.now_s, call.method))
            if call.method == "POST":
                raise UnreachableError(call, "reset")
            return b'{"metadata": {"uid": "u"}, "spec": {}}'

    api = Losing()
    with pytest.raises(ClusterError, match="the API took no binding for pod default/web in time"):
        api.bind(1.0)
    assert [method for _, method in api.calls] == ["POST", "GET"] * 4
    assert api.now_s < 101.0


def test_a_process_that_was_paused_past_the_deadline_posts_no_more() -> None:
    class Paused(Api):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds + 20.0)

    api = Paused((429, None))
    with pytest.raises(ClusterError, match="the API took no binding for pod default/web in time"):
        api.bind(8.0)
    assert [method for _, method in api.calls] == ["POST"]


def test_nothing_is_posted_where_somebody_says_why_not() -> None:
    api = Api()
    with pytest.raises(ClusterError, match=r"^no room on node-1$"):
        api.bind(20.0, why_not=lambda: "no room on node-1")
    assert api.calls == []


def test_each_attempt_asks_again_why_not() -> None:
    api = Api((503, 1.0))
    answers = iter(["", "", "the node is full"])
    with pytest.raises(ClusterError, match=r"^the node is full$"):
        api.bind(20.0, why_not=lambda: next(answers))
    assert [method for _, method in api.calls].count("POST") == 2
