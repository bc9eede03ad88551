import asyncio
import json
from typing import Any

import pytest
from verb_world import Binder, counted, verbs_of

from kubextend.errors import ClusterError, WireError
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
