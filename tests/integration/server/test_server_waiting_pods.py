"""Waiting pods over HTTP: pods that a Permit plugin really holds, and who may decide on them."""

import contextlib
import ctypes
import fcntl
import json
import logging
import socket
import ssl
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from live_server import (
    PATIENT_S,
    Answer,
    Bindings,
    Connection,
    NeedsRdma,
    eventually,
    head,
    node,
    read_by_now,
    serving,
)
from server_certificates import Authority, Pair

from kubextend import core
from kubextend.errors import KubextendError
from kubextend.framework.status import Status
from kubextend.metrics import Metrics
from kubextend.profile import BindingPlugins, Profile, Profiles
from kubextend.server import Access, TlsFiles, TokenFile, waiting_pod_routes
from kubextend.verbs import Verbs
from make_verbs import make_verbs

TOKEN = "s3cret-and-long-enough"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
WAIT_S = 60
# Of the Linux kernel; Python has no name for it.
SO_ATTACH_FILTER = 26


class Holds:
    """Holds every pod."""

    def __init__(self, name: str) -> None:
        self.name = name

    def permit(self, *_: object) -> tuple[Status, float]:
        return Status.wait(), WAIT_S


@dataclass
class World:
    """A server whose plugins Quota and Gang hold every pod that is to be bound."""

    url: str
    verbs: Verbs
    bindings: Bindings
    tls: ssl.SSLContext | None = None

    @contextlib.contextmanager
    def binding(self, name: str) -> Iterator[Connection]:
        """A bind of a pod whose UID is ``u-NAME``, under way; its answer is yet to be read."""
        with Connection(self.url, self.tls) as connection:
            assert connection.post("/filter", filter_request(name)).status == 200
            body = {"PodName": name, "PodNamespace": "ml", "PodUID": f"u-{name}", "Node": "n"}
            connection.send(post("/bind", json.dumps(body).encode()))
            eventually(lambda: f"u-{name}" in self.waiting())
            yield connection
        # However it ended: the next test begins with nobody waiting.
        eventually(lambda: f"u-{name}" not in self.waiting())

    def waiting(self) -> list[str]:
        return [held.pod.uid for held in self.verbs.waiting_pods]

    def get(self, path: str = "/waiting-pods", **headers: str) -> Answer:
        with Connection(self.url, self.tls) as connection:
            return connection.get(path, **headers)

    def items(self, **headers: str) -> list[dict[str, Any]]:
        answer = self.get(**headers)
        assert answer.status == 200
        items: list[dict[str, Any]] = json.loads(answer.body)["items"]
        return items

    def post(self, path: str, body: bytes = b"", **headers: str) -> Answer:
        with Connection(self.url, self.tls) as connection:
            return connection.post(path, body, **headers)

    def counted(self, name: str, **labels: str) -> float:
        return self.verbs.metrics.registry.get_sample_value(name, labels) or 0


def post(path: str, body: bytes) -> bytes:
    return head("POST", path, **{"Content-Length": str(len(body))}) + body


def filter_request(name: str) -> bytes:
    asked = {"metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}"}, "spec": {}}
    return json.dumps({"Pod": asked, "Nodes": {"items": [node("n", rdma="true")]}}).encode()


@contextlib.contextmanager
def world(
    access: Access, client: ssl.SSLContext | None = None, **serving_with: Any
) -> Iterator[World]:
    bindings = Bindings()
    holding = BindingPlugins(permit=[Holds("Quota"), Holds("Gang")])
    verbs = make_verbs(
        Profiles.of([Profile("default-scheduler", filter=[NeedsRdma()], binding=holding)]),
        binder=bindings,
    )
    routes = waiting_pod_routes(verbs.waiting_pods, access, verbs.metrics)
    with serving(verbs, more_routes=routes, **serving_with) as url:
        yield World(url, verbs, bindings, client)


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture(scope="module")
def by_token(token_file: Path) -> Iterator[World]:
    with world(Access(tokens=TokenFile(token_file))) as made:
        yield made


# What can be done.


def test_a_list_says_what_each_pod_waits_for_and_until_when(by_token: World) -> None:
    assert by_token.items(**BEARER) == []
    with by_token.binding("a"), by_token.binding("b"):
        first, second = by_token.items(**BEARER)
        since, deadline = (datetime.fromisoformat(first.pop(key)) for key in ("since", "deadline"))
        assert first == {
            "namespace": "ml",
            "name": "a",
            "uid": "u-a",
            "node": "n",
            "pendingPlugins": ["Quota", "Gang"],
        }
        assert second["name"] == "b"
        assert deadline - since == timedelta(seconds=WAIT_S)
        assert abs(since.timestamp() - time.time()) < 30
    # Their clients went away.
    assert by_token.items(**BEARER) == []


def test_a_pod_that_every_plugin_allows_is_bound(by_token: World) -> None:
    with by_token.binding("all") as bind:
        answer = by_token.post("/waiting-pods/u-all/allow", **BEARER)
        assert answer.status == 200
        assert json.loads(answer.body)["pendingPlugins"] == []
        assert json.loads(answer.body)["deadline"] is None
        assert bind.answer().body == b'{"Error":""}'
    assert ("ml", "all", "u-all", "n") in by_token.bindings.made


def test_a_pod_that_one_plugin_allows_waits_for_the_others(by_token: World) -> None:
    with by_token.binding("one") as bind:
        answer = by_token.post("/waiting-pods/u-one/allow", b'{"plugin": "Quota"}', **BEARER)
        assert json.loads(answer.body)["pendingPlugins"] == ["Gang"]
        again = by_token.post("/waiting-pods/u-one/allow", b'{"plugin": "Quota"}', **BEARER)
        assert (again.status, again.error) == (409, "pod ml/one is not held by Quota, but by Gang")
        assert by_token.waiting() == ["u-one"]
        assert by_token.post("/waiting-pods/u-one/allow", b"{}", **BEARER).status == 200
        assert bind.answer().body == b'{"Error":""}'


def test_a_pod_that_is_rejected_is_answered_as_a_rejection_by_permit(by_token: World) -> None:
    with by_token.binding("sent-back") as bind:
        body = b'{"reason": "the budget is spent"}'
        assert by_token.post("/waiting-pods/u-sent-back/reject", body, **BEARER).status == 200
        assert bind.answer().error == "the budget is spent"
        # kube-scheduler takes that for an error and asks again: then it is told a rejection.
        asked_again = json.loads(bind.post("/filter", filter_request("sent-back")).body)
    assert asked_again["FailedAndUnresolvableNodes"] == {"n": "the budget is spent"}
    assert asked_again["Error"] == ""
    assert "sent-back" not in [name for _, name, _, _ in by_token.bindings.made]


def test_what_is_done_is_counted_and_logged_with_who_did_it(
    by_token: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kubextend")
    count = "kubextend_waiting_pod_requests_total"
    before = [by_token.counted(count, action=each) for each in ("list", "allow", "reject")]
    refused = by_token.counted("kubextend_requests_refused_total", status="401")
    with by_token.binding("x"), by_token.binding("y"):
        by_token.items(**BEARER)
        by_token.get()
        by_token.post("/waiting-pods/u-x/allow", **BEARER)
        by_token.post("/waiting-pods/u-y/reject", b'{"reason": "no"}', **BEARER)
    after = [by_token.counted(count, action=each) for each in ("list", "allow", "reject")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 1]
    assert by_token.counted("kubextend_requests_refused_total", status="401") == refused + 1
    logged = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert logged == [
        "waiting pod ml/x is allowed by a bearer token: for Quota, Gang",
        "waiting pod ml/y is rejected by a bearer token: no",
    ]
    assert TOKEN not in caplog.text


def test_requests_sent_behind_a_bind_that_waits_are_answered_after_it_in_their_order(
    by_token: World,
) -> None:
    with by_token.binding("first") as bind:
        bind.send(post("/filter", filter_request("second")), head("GET", "/livez"))
        # They could have overtaken by now.
        read_by_now(by_token.url)
        assert by_token.post("/waiting-pods/u-first/allow", **BEARER).status == 200
        bound, filtered, alive = bind.answer(), bind.answer(), bind.answer()
    assert bound.body == b'{"Error":""}'
    assert json.loads(filtered.body)["Nodes"]["items"][0]["metadata"]["name"] == "n"
    assert alive.body == b"ok"


# What is refused.


class HoldsForMinutes(Holds):
    def permit(self, *_: object) -> tuple[Status, float]:
        return Status.wait(), 10 * WAIT_S


def unacknowledged_bytes(connection: Connection) -> int:
    answer = fcntl.ioctl(connection.socket, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def let_no_packet_in(connection: Connection) -> None:
    """Make the kernel drop what comes in, so that the machine of the client seems to be dead."""
    # A client sends again what nobody acknowledged, as no dead machine does.
    eventually(lambda: not unacknowledged_bytes(connection))
    # One instruction of a packet filter: return 0, the number of bytes to keep.
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HL", 1, ctypes.addressof(instruction))
    connection.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def test_a_pod_is_no_longer_held_for_a_kube_scheduler_whose_machine_died() -> None:
    """Its connection stays open: nobody closes it, and no packet says that it is of no use."""
    holding = BindingPlugins(permit=[HoldsForMinutes("Gang")])
    verbs = make_verbs(
        Profiles.of([Profile("default-scheduler", filter=[NeedsRdma()], binding=holding)]),
        binder=(bindings := Bindings()),
    )
    with serving(verbs) as url:
        dead = World(url, verbs, bindings)
        with dead.binding("a") as connection:
            let_no_packet_in(connection)
            eventually(lambda: not dead.waiting())
    assert bindings.made == []


def test_a_pod_that_does_not_wait_is_not_found(by_token: World) -> None:
    for action, body in (("allow", b""), ("reject", b'{"reason": "no"}')):
        answer = by_token.post(f"/waiting-pods/u-none/{action}", body, **BEARER)
        assert (answer.status, answer.error) == (404, "no pod of UID u-none is waiting")


class Decided:
    """A pod that is decided and has not been taken from the list yet, as each is for a moment."""

    node_name = "n"
    since_s = 0.0
    pending_plugins = ()
    deadline_s = None

    def __init__(self) -> None:
        asked = {"Pod": {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}}, "Nodes": {}}
        pod = core.read_args(json.dumps(asked).encode()).pod
        assert pod is not None
        self.pod = pod

    def allow(self, plugin: str) -> bool:
        return False

    def reject(self, plugin: str, reason: str) -> bool:
        return False


class OneDecided:
    """Held pods that are nothing but that one."""

    def __init__(self) -> None:
        self._held = Decided()

    def get(self, uid: str) -> Decided | None:
        return self._held if uid == "u" else None

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        return False

    def __iter__(self) -> Iterator[Decided]:
        yield self._held


def test_a_pod_that_is_decided_already_is_a_conflict(token_file: Path) -> None:
    access = Access(tokens=TokenFile(token_file))
    routes = waiting_pod_routes(OneDecided(), access, Metrics(), path="/v1")
    verbs = make_verbs(Profiles.of([Profile("default-scheduler")]))
    with serving(verbs, more_routes=routes, path="/v1") as url, Connection(url) as connection:
        for action, body in (
            ("allow", b""),
            ("allow", b'{"plugin": "Quota"}'),
            ("reject", b'{"reason": "no"}'),
        ):
            answer = connection.post(f"/v1/waiting-pods/u/{action}", body, **BEARER)
            assert (answer.status, answer.error) == (409, "pod ml/p is decided already")
        assert json.loads(connection.get("/v1/waiting-pods", **BEARER).body) == {"items": []}


BODIES = {
    "no JSON": ("allow", b"{", "the body is no JSON: "),
    "no object": ("allow", b'["Quota"]', "the body: expected an object"),
    "no text": ("allow", b'{"plugin": 1}', "plugin: expected one line of text"),
    "an empty text": ("allow", b'{"plugin": ""}', "plugin: expected one line of text"),
    "another field": (
        "allow",
        b'{"plugins": []}',
        'plugins: unknown field "plugins"; known fields: plugin',
    ),
    "no reason": ("reject", b"", "reason: Required value"),
    "null for a reason": ("reject", b'{"reason": null}', "reason: Required value"),
    "two lines": ("reject", b'{"reason": "a\\nb"}', "reason: expected one line of text"),
    "blanks": ("reject", b'{"reason": "  "}', "reason: expected one line of text"),
    "a long reason": (
        "reject",
        json.dumps({"reason": "x" * 1025}).encode(),
        "reason: must have at most 1024 characters",
    ),
}


@pytest.mark.parametrize(("action", "body", "error"), BODIES.values(), ids=BODIES)
def test_a_body_that_says_something_else_is_refused_and_the_pod_waits_on(
    action: str, body: bytes, error: str, by_token: World
) -> None:
    with by_token.binding("kept"):
        answer = by_token.post(f"/waiting-pods/u-kept/{action}", body, **BEARER)
        assert answer.status == 400
        assert answer.error.startswith(error)
        assert "\n" not in answer.error
        assert by_token.waiting() == ["u-kept"]


def test_a_large_body_and_one_of_another_type_are_refused(by_token: World) -> None:
    path = "/waiting-pods/u/reject"
    large = by_token.post(path, b" " * 65537, **BEARER)
    assert (large.status, large.error) == (413, "the body is larger than 65536 bytes")
    text = by_token.post(path, b"reason=x", **BEARER | {"Content-Type": "text/plain"})
    assert text.status == 415


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)],
)
def test_what_a_page_of_another_site_asks_for_is_refused(
    site: str, status: int, by_token: World
) -> None:
    browser = {"Sec-Fetch-Site": site, "Content-Type": "application/x-www-form-urlencoded"}
    with by_token.binding("browser") as bind:
        path = "/waiting-pods/u-browser/allow"
        assert by_token.post(path, **BEARER | browser).status == status
        if status == 403:
            assert by_token.waiting() == ["u-browser"]
            assert by_token.post(path, **BEARER).status == 200
        assert bind.answer().body == b'{"Error":""}'


def test_a_body_of_no_length_and_no_type_is_none(by_token: World) -> None:
    with by_token.binding("curl") as bind, Connection(by_token.url) as connection:
        path = "/waiting-pods/u-curl/allow"
        connection.send(f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode())
        connection.send(f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert connection.answer().status == 200
        assert bind.answer().body == b'{"Error":""}'


def test_a_body_in_chunks_is_read_as_any_other(by_token: World) -> None:
    with by_token.binding("chunked") as bind, Connection(by_token.url) as connection:
        path = "/waiting-pods/u-chunked/allow"
        connection.send(head("POST", path, **BEARER | {"Transfer-Encoding": "chunked"}))
        connection.send(b'8\r\n{"plugin\r\n', b'a\r\n":"Quota"}\r\n', b"0\r\n\r\n")
        assert json.loads(connection.answer().body)["pendingPlugins"] == ["Gang"]
        assert by_token.waiting() == ["u-chunked"]
        assert connection.post(path, b"", **BEARER).status == 200
        assert bind.answer().body == b'{"Error":""}'


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
    method: str, path: str, status: int, allowed: str | None, by_token: World
) -> None:
    with Connection(by_token.url) as connection:
        connection.send(head(method, path, **BEARER))
        answer = connection.answer()
    assert (answer.status, answer.headers.get("allow")) == (status, allowed)
    assert answer.error.startswith(f"{method} {path}: ")


# Who may: tokens.

NEEDED = "Authorization: a bearer token is needed"
UNKNOWN = "Authorization: this bearer token is not known"


@pytest.mark.parametrize(
    ("authorization", "error"),
    [
        (None, NEEDED),
        ("", NEEDED),
        (f"Basic {TOKEN}", NEEDED),
        (TOKEN, NEEDED),
        ("Bearer", UNKNOWN),
        ("Bearer ", UNKNOWN),
        ("Bearer s3cret", UNKNOWN),
        (f"Bearer {TOKEN}x", UNKNOWN),
        (f"Bearer {TOKEN.upper()}", UNKNOWN),
        ("Bearer s\u00e9cret", UNKNOWN),
    ],
)
def test_without_the_token_nothing_is_told_or_changed(
    authorization: str | None, error: str, by_token: World
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    with by_token.binding("safe"):
        for answer in (
            by_token.get(**headers),
            by_token.post("/waiting-pods/u-safe/allow", **headers),
            by_token.post("/waiting-pods/u-none/allow", **headers),
            by_token.post("/waiting-pods/u-safe/reject", b"{", **headers),
            by_token.post("/waiting-pods/u-safe/reject", **headers | {"Content-Length": "9999999"}),
        ):
            assert (answer.status, answer.error) == (401, error)
            assert answer.headers["www-authenticate"] == "Bearer"
        assert by_token.waiting() == ["u-safe"]


def test_the_scheme_may_be_in_any_case(by_token: World) -> None:
    assert by_token.get(Authorization=f"bearer {TOKEN}").status == 200


def test_tokens_rotate_while_the_server_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    old, new = "old-and-long-enough", "new-and-long-enough"
    path.write_text(f"{old}\n")
    with world(Access(tokens=TokenFile(path))) as made:

        def accepted() -> list[str]:
            tokens = (old, new, "")
            return [
                token for token in tokens if made.get(Authorization=f"Bearer {token}").status == 200
            ]

        assert accepted() == [old]
        path.write_text(f"{new}\r\n\n{old}\n")
        assert accepted() == [old, new]
        path.write_text(new)
        assert accepted() == [new]
        caplog.clear()
        path.write_text("\n")
        assert accepted() == []
        assert [record.getMessage() for record in caplog.records] == [
            f"no bearer token is accepted: token file {path} holds no token"
        ]
        path.unlink()
        assert accepted() == []
        assert len(caplog.records) == 1
        path.write_text(old)
        assert accepted() == [old]


@pytest.mark.parametrize("content", [None, b"", b" \n\n"])
def test_a_token_file_of_no_use_is_named_at_once(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KubextendError, match=str(path)):
        TokenFile(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"# rotated by alice\n" + TOKEN.encode(), "has a comment in line 1"),
        (TOKEN.encode() + b"\n\n  #old\n", "has a comment in line 3"),
        (b"s3cret\n" + TOKEN.encode(), "has a token of 6 characters in line 1"),
        (b"x" * 15, "has a token of 15 characters in line 1"),
        # What a reader of 64 KiB would cut to one letter.
        (b"x" * 65_534 + b"\n" + TOKEN.encode(), "is larger than 65536 bytes"),
    ],
)
def test_a_file_with_anything_but_tokens_is_refused_and_lets_nobody_in(
    content: bytes, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(KubextendError, match=says):
        TokenFile(path)
    path.write_text(TOKEN)
    tokens = TokenFile(path)
    path.write_bytes(content)
    lines = {line.strip() for line in content.splitlines()} | {content[65_535:65_536], b""}
    assert not any(tokens.holds(line) for line in lines)
    assert says in caplog.text


def test_a_token_of_16_characters_is_long_enough(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("x" * 16)
    assert TokenFile(path).holds(b"x" * 16)


def test_a_token_file_that_hangs_holds_up_nobody_else(tmp_path: Path) -> None:
    class Hangs(TokenFile):
        def holds(self, token: bytes) -> bool:
            asked.set()
            return go_on.wait(PATIENT_S) and super().holds(token)

    asked, go_on = threading.Event(), threading.Event()
    path = tmp_path / "token"
    path.write_text(TOKEN)
    with world(Access(tokens=Hangs(path))) as made, Connection(made.url) as hanging:
        hanging.send(head("GET", "/waiting-pods", **BEARER))
        assert asked.wait(PATIENT_S)
        with Connection(made.url) as other:
            assert other.get("/livez").status == 200
        go_on.set()
        assert hanging.answer().status == 200


# Who may: certificates.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="module")
def by_name(authority: Authority, token_file: Path) -> Iterator[World]:
    pair = authority.sign("server")
    tls = TlsFiles(pair.cert_file, pair.key_file, authority.file)
    access = Access(frozenset({"ops", "ops.example"}), TokenFile(token_file))
    with world(access, client(authority, authority.sign("system:kube-scheduler")), tls=tls) as made:
        yield made


def client(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.file)
    if pair is not None:
        context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


@pytest.mark.parametrize(
    "names", [("ops",), ("somebody", "ops.example"), ("somebody", "elsewhere", "ops")]
)
def test_a_listed_name_of_a_certificate_is_enough(
    names: tuple[str, ...], by_name: World, authority: Authority
) -> None:
    context = client(authority, authority.sign(*names))
    with by_name.binding("tls") as bind, Connection(by_name.url, context) as connection:
        (item,) = json.loads(connection.get("/waiting-pods").body)["items"]
        assert item["name"] == "tls"
        assert connection.post("/waiting-pods/u-tls/allow", b"").status == 200
        assert bind.answer().body == b'{"Error":""}'


def test_the_certificate_of_kube_scheduler_calls_verbs_and_decides_nothing(by_name: World) -> None:
    with by_name.binding("verbs"):
        refusals = [by_name.get(), by_name.post("/waiting-pods/u-verbs/allow")]
        assert by_name.waiting() == ["u-verbs"]
    message = (
        "the client's certificate has the names system:kube-scheduler, "
        "none of server.waitingPods.allowedNames"
    )
    assert [(answer.status, answer.error) for answer in refusals] == [(403, message)] * 2


@pytest.mark.parametrize("names", [("OPS",), ("ops2", "ops.example.org"), ("*.example",)])
def test_a_name_that_is_only_alike_is_not_enough(
    names: tuple[str, ...], by_name: World, authority: Authority
) -> None:
    context = client(authority, authority.sign(*names))
    with Connection(by_name.url, context) as connection:
        assert connection.get("/waiting-pods").status == 403


def test_a_token_helps_whose_name_is_not_listed_and_a_wrong_one_does_not(by_name: World) -> None:
    assert by_name.get(**BEARER).status == 200
    assert by_name.get(Authorization="Bearer wrong").status == 401


def test_without_a_certificate_there_is_no_connection(by_name: World, authority: Authority) -> None:
    with (
        pytest.raises((ssl.SSLError, ConnectionError, EOFError)),
        Connection(by_name.url, client(authority)) as connection,
    ):
        connection.get("/waiting-pods", **BEARER)


def test_where_no_certificate_is_asked_for_the_token_goes_over_tls(
    authority: Authority, token_file: Path
) -> None:
    pair = authority.sign("server")
    tls = TlsFiles(pair.cert_file, pair.key_file)
    # One that was never checked against a CA has no name here, whatever it says.
    context = client(authority, authority.sign("ops"))
    access = Access(frozenset({"ops"}), TokenFile(token_file))
    with world(access, context, tls=tls) as made:
        assert made.get().status == 401
        assert made.get(**BEARER).status == 200


def test_names_say_nothing_over_plain_http() -> None:
    with world(Access(frozenset({"ops"}))) as made:
        answer = made.get(**BEARER)
        assert (answer.status, answer.error) == (
            403,
            "the client's certificate has no name, none of server.waitingPods.allowedNames",
        )


def test_a_server_that_nobody_may_decide_on_has_no_such_path(url: str) -> None:
    with Connection(url) as connection:
        for path in ("/waiting-pods", "/waiting-pods/u/allow"):
            assert connection.get(path, **BEARER).status == 404
