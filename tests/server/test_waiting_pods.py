"""Waiting pods over HTTP: pods that Permit plugins hold, and who may decide on them."""

import json
import logging
import os
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.doors.extender import (
    HOLDING,
    Answer,
    Call,
    Extender,
    binding,
    in_memory,
    pod,
    request,
)

from kubextend.errors import KubextendError
from kubextend.testing import Bindings

TOKEN = "s3cret-and-long-enough"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def world(token_file: Path, bound: Bindings | None = None) -> Extender:
    """Return an extender whose plugins Quota and Gang hold every pod that is to be bound."""
    server = {"waitingPods": {"tokenFile": str(token_file)}}
    return Extender(binder=bound or Bindings(), profiles=[HOLDING], server=server)


async def held(extender: Extender, name: str) -> Call:
    """Begin to bind a pod, which Permit holds from then on."""
    await extender.begin("/filter", request("filter", pod(name))).answer()
    bind = extender.begin("/bind", json.dumps(binding(name)).encode())
    await extender.until_held(f"u-{name}")
    return bind


async def decide(
    extender: Extender, name: str, action: str, body: bytes = b"", **headers: str
) -> Answer:
    path = f"/waiting-pods/u-{name}/{action}"
    return await extender.begin(path, body, method="POST", **BEARER | headers).answer()


async def listed(extender: Extender, headers: Mapping[str, str] = BEARER) -> Answer:
    return await extender.begin("/waiting-pods", **headers).answer()


@in_memory
async def test_a_list_says_what_each_pod_waits_for_and_until_when(token_file: Path) -> None:
    extender = world(token_file)
    assert (await listed(extender)).json == {"items": []}
    calls = [await held(extender, name) for name in ("a", "b")]
    first, second = (await listed(extender)).json["items"]
    since, deadline = (datetime.fromisoformat(first.pop(key)) for key in ("since", "deadline"))
    of = {"namespace": "ml", "name": "a", "uid": "u-a"}
    assert first == {**of, "node": "good", "pendingPlugins": ["Quota", "Gang"]}
    assert second["name"] == "b"
    # The first of the two plugins to give up.
    assert deadline - since == timedelta(seconds=30)
    assert abs(since.timestamp() - time.time()) < 30
    for call in calls:
        call.leave()
        with pytest.raises(EOFError):
            await call.answer()
    assert (await listed(extender)).json == {"items": []}


@in_memory
async def test_a_pod_is_bound_once_every_plugin_allows_it(token_file: Path) -> None:
    bound = Bindings()
    extender = world(token_file, bound)
    bind = await held(extender, "a")
    quota = b'{"plugin": "Quota"}'
    assert (await decide(extender, "a", "allow", quota)).json["pendingPlugins"] == ["Gang"]
    again = await decide(extender, "a", "allow", quota)
    assert (again.status, again.error) == (409, "pod ml/a is not held by Quota, but by Gang")
    assert extender.waiting() == ["u-a"]
    allowed = await decide(extender, "a", "allow", b"{}")
    assert (allowed.status, allowed.json["pendingPlugins"]) == (200, [])
    assert allowed.json["deadline"] is None
    assert (await bind.answer()).body == b'{"Error":""}'
    assert bound.nodes == {"u-a": "good"}


@in_memory
async def test_a_pod_that_is_rejected_is_answered_as_a_rejection_by_permit(
    token_file: Path,
) -> None:
    bound = Bindings()
    extender = world(token_file, bound)
    bind = await held(extender, "a")
    answer = await decide(extender, "a", "reject", b'{"reason": "the budget is spent"}')
    assert answer.status == 200
    assert (await bind.answer()).error == "the budget is spent"
    # kube-scheduler takes that for an error and asks again: then it hears a rejection.
    again = (await extender.begin("/filter", request("filter", pod("a"))).answer()).json
    assert again["FailedAndUnresolvableNodes"]["good"] == "the budget is spent"
    assert again["Error"] == ""
    assert bound.nodes == {}


@in_memory
async def test_what_is_done_is_logged_with_who_did_it(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kubextend")
    extender = world(token_file)
    _ = await held(extender, "x"), await held(extender, "y")
    caplog.clear()
    await listed(extender)
    await listed(extender, {})
    await decide(extender, "x", "allow")
    await decide(extender, "y", "reject", b'{"reason": "no"}')
    for refused in ("kubextend_requests_refused_total", "kubextend_logins_refused_total"):
        assert extender.counted(refused, status="401") == 1
    assert [each for each in caplog.messages if "bearer token" in each] == [
        "waiting pod ml/x is allowed by a bearer token: for Quota, Gang",
        "waiting pod ml/y is rejected by a bearer token: no",
    ]
    assert TOKEN not in caplog.text


@in_memory
async def test_a_pod_that_is_decided_already_is_a_conflict_and_one_that_never_waited_not_found(
    token_file: Path,
) -> None:
    """A pod stays among those that wait for a moment after the decision."""
    extender = world(token_file)
    extender.hold_decided("p")
    quota, no = b'{"plugin": "Quota"}', b'{"reason": "no"}'
    for action, body in (("allow", b""), ("allow", quota), ("reject", no)):
        answer = await decide(extender, "p", action, body)
        assert (answer.status, answer.error) == (409, "pod ml/p is decided already")
        answer = await decide(extender, "none", action, body)
        assert (answer.status, answer.error) == (404, "no pod of UID u-none is waiting")
    assert (await listed(extender)).json == {"items": []}


@pytest.mark.parametrize(
    ("action", "body", "error"),
    [
        ("allow", b"{", "the body is no JSON: "),
        ("allow", b'["Quota"]', "the body: expected an object"),
        ("allow", b'{"plugin": 1}', "plugin: expected one line of text"),
        ("allow", b'{"plugins": []}', 'plugins: unknown field "plugins"; known fields: plugin'),
        ("reject", b"", "reason: Required value"),
        ("reject", b'{"reason": "a\\nb"}', "reason: expected one line of text"),
        ("reject", b'{"reason": "  "}', "reason: expected one line of text"),
        ("reject", b'{"reason": "%b"}' % (b"x" * 1025), "reason: must have at most 1024 char"),
    ],
)
@in_memory
async def test_a_body_that_says_something_else_is_refused_and_the_pod_waits_on(
    token_file: Path, action: str, body: bytes, error: str
) -> None:
    extender = world(token_file)
    _ = await held(extender, "p")
    answer = await decide(extender, "p", action, body)
    assert (answer.status, answer.error[: len(error)]) == (400, error)
    assert "\n" not in answer.error
    assert extender.waiting() == ["u-p"]


@in_memory
async def test_bodies_are_small_json_in_any_pieces_or_none(token_file: Path) -> None:
    extender = world(token_file)
    large = await decide(extender, "p", "reject", b" " * 65537)
    assert (large.status, large.error) == (413, "the body is larger than 65536 bytes")
    assert (
        await decide(extender, "p", "reject", b"reason=x", Content_Type="text/plain")
    ).status == 415
    bind = await held(extender, "p")
    path = "/waiting-pods/u-p/allow"
    pieces = extender.begin(path, b'{"plugin', b'":"Quota"}', **BEARER)
    assert (await pieces.answer()).json["pendingPlugins"] == ["Gang"]
    bare = extender.begin(path, method="POST", Content_Type="", **BEARER)
    assert (await bare.answer()).status == 200
    assert (await bind.answer()).error == ""


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)],
)
@in_memory
async def test_what_a_page_of_another_site_asks_for_is_refused(
    token_file: Path, site: str, status: int
) -> None:
    extender = world(token_file)
    bind = await held(extender, "p")
    form = "application/x-www-form-urlencoded"
    answer = await decide(extender, "p", "allow", Sec_Fetch_Site=site, Content_Type=form)
    assert answer.status == status
    if status == 403:
        assert extender.waiting() == ["u-p"]
    else:
        assert (await bind.answer()).error == ""


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("POST", "/waiting-pods", 405, "GET, HEAD"),
        ("GET", "/waiting-pods/u/allow", 405, "POST"),
        ("DELETE", "/waiting-pods/u/reject", 405, "POST"),
        ("GET", "/waiting-pods/", 404, None),
        ("GET", "/waiting-pods/u", 404, None),
        ("POST", "/waiting-pods/u/bind", 404, None),
    ],
)
def test_other_methods_and_paths_are_refused(
    token_file: Path, method: str, path: str, status: int, allowed: str | None
) -> None:
    answer = world(token_file).ask(path, method=method, **BEARER)
    assert (answer.status, answer.headers.get("allow")) == (status, allowed)
    assert answer.error.startswith(f"{method} {path}: ")


# Who may: tokens. For certificates see test_tls.py.

NEEDED = "Authorization: a bearer token is needed"
UNKNOWN = "Authorization: this bearer token is not known"


@pytest.mark.parametrize(
    ("authorization", "error"),
    [
        (None, NEEDED),
        (f"Basic {TOKEN}", NEEDED),
        (TOKEN, NEEDED),
        ("Bearer ", UNKNOWN),
        ("Bearer s3cret", UNKNOWN),
        (f"Bearer {TOKEN}x", UNKNOWN),
        (f"Bearer {TOKEN.upper()}", UNKNOWN),
        ("Bearer s\u00e9cret", UNKNOWN),
    ],
)
@in_memory
async def test_without_the_token_nothing_is_told_or_changed(
    token_file: Path, authorization: str | None, error: str
) -> None:
    extender = world(token_file)
    _ = await held(extender, "safe")
    given = {} if authorization is None else {"Authorization": authorization}
    below = "/waiting-pods/u"
    for path, pieces, more in (
        ("/waiting-pods", [], {}),
        (f"{below}-safe/allow", [b"{}"], {}),
        (f"{below}-none/allow", [b"{}"], {}),
        (f"{below}-safe/reject", [b"{"], {}),
        (f"{below}-safe/reject", [b"{"], {"Content_Length": "9999999"}),
    ):
        answer = await extender.begin(path, *pieces, **given | more).answer()
        assert (answer.status, answer.error) == (401, error)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert extender.waiting() == ["u-safe"]


def test_a_token_may_have_16_characters_and_its_scheme_any_case(token_file: Path) -> None:
    token_file.write_text("x" * 16)
    answer = world(token_file).ask("/waiting-pods", Authorization=f"bearer {'x' * 16}")
    assert answer.status == 200


def test_tokens_rotate_while_the_server_runs(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = "old-and-long-enough", "new-and-long-enough"
    token_file.write_text(f"{old}\n")
    extender = world(token_file)

    def accepted() -> list[str]:
        return [
            token
            for token in (old, new, "")
            if extender.ask("/waiting-pods", Authorization=f"Bearer {token}").status == 200
        ]

    assert accepted() == [old]
    token_file.write_text(f"{new}\r\n\n{old}\n")
    assert accepted() == [old, new]
    token_file.write_text(new)
    assert accepted() == [new]
    caplog.clear()
    token_file.write_text("\n")
    assert accepted() == []
    # A file that is missing or no good is told once, however often somebody asks.
    told = [f"no bearer token is accepted: token file {token_file} holds no token"]
    assert caplog.messages == told
    token_file.unlink()
    assert accepted() == []
    assert caplog.messages == told
    token_file.write_text(old)
    assert accepted() == [old]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        (b"", "holds no token"),
        (b" \n\n", "holds no token"),
        (b"# rotated by alice\n" + TOKEN.encode(), "has a comment in line 1"),
        (TOKEN.encode() + b"\n\n  #old\n", "has a comment in line 3"),
        (b"s3cret\n" + TOKEN.encode(), "has a token of 6 characters in line 1"),
        (b"x" * 15, "has a token of 15 characters in line 1"),
        # A reader of 64 KiB would cut this one to one letter.
        (b"x" * 65_534 + b"\n" + TOKEN.encode(), "is larger than 65536 bytes"),
    ],
)
def test_a_file_with_anything_but_tokens_is_refused_and_lets_nobody_in(
    content: bytes | None, says: str, token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    extender = world(token_file)
    token_file.unlink()
    if content is not None:
        token_file.write_bytes(content)
    with pytest.raises(KubextendError, match=says):
        world(token_file)
    tried: set[bytes] = {line.strip() for line in (content or b"").splitlines()}
    for line in {*tried, (content or b"")[65_535:65_536], TOKEN.encode()}:
        bearer = f"Bearer {line.decode()}"
        assert extender.ask("/waiting-pods", Authorization=bearer).status == 401
    assert says in caplog.text


@in_memory
async def test_a_token_file_that_hangs_holds_up_nobody_else(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    extender = world(file)
    file.unlink()
    os.mkfifo(file)
    asked = extender.begin("/waiting-pods", **BEARER)
    assert (await extender.begin("/livez").answer()).status == 200
    assert not asked.is_over
    file.write_text(TOKEN)
    assert (await asked.answer()).status == 200


def test_waiting_pods_are_served_only_where_the_configuration_says_to_whom() -> None:
    extender = Extender(binder=Bindings(), profiles=[HOLDING])
    for path in ("/waiting-pods", "/waiting-pods/u/allow"):
        assert extender.ask(path, **BEARER).status == 404
