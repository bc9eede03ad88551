import asyncio
import json
import threading
from typing import Any

import pytest
from verb_world import Binder, counted, names_request, pod, verbs_of

from kubextend import core
from kubextend.errors import ClusterError, WireError
from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles
from kubextend.verbs import Verbs
from make_verbs import make_verbs

WHOLE = {"PodName": "p", "PodNamespace": "ml", "PodUID": "uid-of-p", "Node": "n"}


def request(**fields: Any) -> bytes:
    return json.dumps(WHOLE | fields).encode()


def error(verbs: Verbs, body: bytes) -> str:
    result = json.loads(asyncio.run(verbs.bind(body)))
    assert list(result) == ["Error"]
    text: str = result["Error"]
    return text


def test_the_pod_is_bound_under_its_uid() -> None:
    binder = Binder()
    assert (
        asyncio.run(verbs_of(binder=binder, pod_reader=Reader()).bind(request())) == b'{"Error":""}'
    )
    assert binder.bound == [("ml", "p", "uid-of-p", "n")]


def test_lower_case_keys_bind_too() -> None:
    binder = Binder()
    body = json.dumps({key.lower(): value for key, value in WHOLE.items()}).encode()
    assert error(verbs_of(binder=binder, pod_reader=Reader()), body) == ""
    assert binder.bound == [("ml", "p", "uid-of-p", "n")]


MISSING = [
    (request(PodUID=""), "PodUID"),
    (request(PodName=None), "PodName"),
    (request(Node="", PodNamespace=""), "PodNamespace, Node"),
    (b"{}", "PodName, PodNamespace, PodUID, Node"),
    (b"null", "PodName, PodNamespace, PodUID, Node"),
]


@pytest.mark.parametrize(("body", "names"), MISSING)
def test_nothing_is_written_where_a_name_is_missing(body: bytes, names: str) -> None:
    binder = Binder()
    assert error(verbs_of(binder=binder), body) == f"the bind request has no {names}"
    assert binder.bound == []


def test_without_a_cluster_the_answer_says_what_to_configure() -> None:
    assert "configure `cluster`" in error(verbs_of(), request())


REFUSALS = [
    ("pod ml/p has UID v, not u", 409),
    ('pods "p" is forbidden', 403),
    ("", None),
    ("a lone surrogate \ud800", None),
]


@pytest.mark.parametrize(("text", "status"), REFUSALS)
def test_what_the_api_refuses_is_an_error_and_never_a_success(
    text: str, status: int | None
) -> None:
    verbs = verbs_of(binder=Binder(ClusterError(text, status)), pod_reader=Reader())
    given = error(verbs, request())
    assert given
    assert text.replace("\ud800", "?") in given
    assert counted(verbs, "kubextend_verb_requests_total", verb="bind", result="error") == 1


@pytest.mark.parametrize("body", [b"", b"[]", b'{"PodName":1}', b'{"PodName":"p"'])
def test_what_cannot_be_read_raises(body: bytes) -> None:
    binder = Binder()
    with pytest.raises(WireError):
        asyncio.run(verbs_of(binder=binder).bind(body))
    assert binder.bound == []


class Reader:
    """The API has a pod of this name, and another UID."""

    def __init__(self) -> None:
        self.asked_on: list[threading.Thread] = []

    def get(self, _namespace: str, name: str) -> core.Pod:
        self.asked_on.append(threading.current_thread())
        found = core.read_args(names_request([], pod(name))).pod
        assert found is not None
        return found


class Binds:
    name = "Binds"

    def __init__(self, answer: Status | None = None) -> None:
        self._answer = answer

    def pre_bind(self, *_: Any) -> Status | None:
        return self._answer


def plugin_verbs(plugin: Binds, binder: Binder, reader: Reader, **more: Any) -> Verbs:
    """Verbs of a profile with one plugin in the binding cycle."""
    profile = Profile("default-scheduler", binding=BindingPlugins(pre_bind=[plugin]), **more)
    return make_verbs(Profiles.of([profile]), binder=binder, pod_reader=reader)


@pytest.mark.parametrize(
    ("uid", "said"), [("uid-of-p", ""), ("older", "there is no pod ml/p of this UID")]
)
def test_a_pod_that_took_the_name_of_the_one_that_was_asked_about_is_not_bound(
    uid: str, said: str
) -> None:
    binder = Binder()
    assert error(plugin_verbs(Binds(), binder, Reader()), request(PodUID=uid)) == said
    assert binder.bound == ([] if said else [("ml", "p", uid, "n")])


def test_the_event_loop_does_not_wait_for_the_api_to_say_which_pod_it_is() -> None:
    reader, binder = Reader(), Binder()
    assert error(plugin_verbs(Binds(), binder, reader), request(PodUID="uid-of-p")) == ""
    assert len(reader.asked_on) == 1
    assert reader.asked_on[0] is not threading.current_thread()


def test_a_rejection_without_a_reason_is_not_taken_for_a_success() -> None:
    binder = Binder()
    verbs = plugin_verbs(Binds(Status.unschedulable("")), binder, Reader())
    assert error(verbs, request(PodUID="uid-of-p")) == "UNSCHEDULABLE"
    assert binder.bound == []


def test_a_lost_attempt_is_made_anew_past_a_pre_filter_that_may_be_ignored() -> None:
    class BreaksBefore:
        name = "BreaksBefore"

        def pre_filter(self, *_: Any) -> None:
            raise RuntimeError

    binder, before = Binder(), BreaksBefore()
    for ignored, bound in [(frozenset[str](), 0), (frozenset({"BreaksBefore"}), 1)]:
        verbs = plugin_verbs(Binds(), binder, Reader(), pre_filter=[before], ignored=ignored)
        assert bool(error(verbs, request(PodUID="uid-of-p"))) is not bool(bound)
        assert len(binder.bound) == bound
