import asyncio
import json
from typing import Any

import pytest
from verb_world import Binder, counted, names_request, pod, verbs_of

from kubextend import core
from kubextend.errors import ClusterError, WireError
from kubextend.profile import BindingPlugins, Profile, Profiles
from kubextend.verbs import Verbs

WHOLE = {"PodName": "p", "PodNamespace": "ml", "PodUID": "u", "Node": "n"}


def request(**fields: Any) -> bytes:
    return json.dumps(WHOLE | fields).encode()


def error(verbs: Verbs, body: bytes) -> str:
    result = json.loads(asyncio.run(verbs.bind(body)))
    assert list(result) == ["Error"]
    text: str = result["Error"]
    return text


def test_the_pod_is_bound_under_its_uid() -> None:
    binder = Binder()
    assert asyncio.run(verbs_of(binder=binder).bind(request())) == b'{"Error":""}'
    assert binder.bound == [("ml", "p", "u", "n")]


def test_lower_case_keys_bind_too() -> None:
    binder = Binder()
    body = json.dumps({key.lower(): value for key, value in WHOLE.items()}).encode()
    assert error(verbs_of(binder=binder), body) == ""
    assert binder.bound == [("ml", "p", "u", "n")]


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
    verbs = verbs_of(binder=Binder(ClusterError(text, status)))
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

    def get(self, _namespace: str, name: str) -> core.Pod:
        found = core.read_args(names_request([], pod(name))).pod
        assert found is not None
        return found


class Binds:
    name = "Binds"

    def pre_bind(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("uid", "said"), [("uid-of-p", ""), ("older", "there is no pod ml/p of this UID")]
)
def test_a_pod_that_took_the_name_of_the_one_that_was_asked_about_is_not_bound(
    uid: str, said: str
) -> None:
    binder = Binder()
    profile = Profile("default-scheduler", binding=BindingPlugins(pre_bind=[Binds()]))
    verbs = Verbs(
        Profiles.of([profile]),
        request_store=core.NodeStore(),
        binder=binder,
        pod_reader=Reader(),
    )
    assert error(verbs, request(PodUID=uid)) == said
    assert binder.bound == ([] if said else [("ml", "p", uid, "n")])
