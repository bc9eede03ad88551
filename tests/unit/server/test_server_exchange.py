"""One request and its answer: what an application may send, and what it hears."""

import asyncio
from collections.abc import Iterable

import pytest
from connection_world import Echo, answer, connected, get, on_turned_clock, post, settled
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.server import ServerState


def heard(app: ASGIApp, *sent: bytes) -> tuple[bytes, bool]:
    """What a client hears that sends these pieces, and whether the connection is over then."""

    async def scenario() -> tuple[bytes, bool]:
        wire = connected(app)
        await wire.send(*sent)
        return wire.received, wire.closed

    return on_turned_clock(scenario())


def sends(*messages: Message) -> ASGIApp:
    """An application that sends these."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


def start(headers: Iterable[tuple[bytes, bytes]] = (), status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(piece: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


class DiesError(BaseException):
    """What a panic of the core looks like."""


@pytest.mark.parametrize("error", [ValueError, SystemExit, DiesError])
def test_an_application_that_fails_is_answered_for_and_the_connection_ends(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    received, closed = heard(app, get("/livez"))
    assert received.startswith(b"HTTP/1.1 500 ")
    assert received.endswith(b'{"Error":"kubextend failed internally; its log says where"}')
    assert closed
    assert "GET /livez failed" in caplog.text


@pytest.mark.parametrize("begun", [False, True])
def test_a_request_that_the_end_of_the_server_cancels_is_told_so_and_no_failure(
    begun: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if begun:
            await send(start([length(3)]))
        await asyncio.Event().wait()

    async def scenario() -> bytes:
        server = ServerState()
        wire = connected(app, state=server)
        await wire.send(get("/metrics"))
        for task in list(server.tasks):
            task.cancel()
        await settled()
        assert wire.closed
        return wire.received

    received = on_turned_clock(scenario())
    if begun:
        assert received == b""
    else:
        assert received.startswith(b"HTTP/1.1 503 ")
        assert received.endswith(b'{"Error":"kubextend is shutting down"}')
    assert caplog.text == ""


@pytest.mark.parametrize(
    "messages",
    [
        [start([length(3)]), body(b"ab")],
        [start([length(3)]), body(b"abcd")],
        [start([length(3)]), body(b"ab", more=True)],
        [start([length(3)])],
    ],
    ids=["shorter", "longer", "without an end", "without a body"],
)
def test_an_answer_of_another_length_than_it_says_ends_the_connection(
    messages: list[Message],
) -> None:
    received, closed = heard(sends(*messages), get("/a"), get("/b"))
    assert closed
    assert received.count(b"HTTP/1.1 ") <= 1
    assert not received.endswith(b"abcd")


@pytest.mark.parametrize(
    "header", [(b"x", b"a\r\nforged: 1"), (b"x\r\nforged", b"1"), (b"x", b"\n")]
)
def test_a_header_of_two_lines_is_never_written(header: tuple[bytes, bytes]) -> None:
    received, closed = heard(sends(start([header, length(0)]), body(b"")), get("/a"))
    assert received.startswith(b"HTTP/1.1 500 ")
    assert b"forged" not in received
    assert closed


def test_an_answer_of_unknown_length_ends_with_the_connection() -> None:
    app = sends(start(), body(b"ab", more=True), body(b"cd"))
    received, closed = heard(app, get("/a"), get("/b"))
    assert received == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabcd"
    assert closed


def test_the_answer_to_head_has_no_body() -> None:
    app = sends(start([length(4)]), body(b"abcd"))
    head = b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n"
    one = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"
    assert heard(app, head, head) == (one * 2, False)


@pytest.mark.parametrize("reads", [True, False])
def test_a_client_that_waits_for_100_continue_hears_it_where_its_body_is_read(reads: bool) -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        if reads:
            await receive()
        await answer(send, b"ab")

    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n"
    received, closed = heard(app, head, b"{}")
    assert closed is not reads
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\n") is reads
    assert received.endswith(b"\r\n\r\nab")
    # A body that was not asked for may never come.
    assert (b"connection: close" in received) is not reads


def test_a_client_of_http_1_0_knows_no_100_continue() -> None:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await answer(send, b"ab")

    head = b"POST /a HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    received, _ = heard(app, head, b"{}")
    assert received.startswith(b"HTTP/1.1 200 ")


def test_all_who_receive_hear_that_the_client_is_gone() -> None:
    heard_of: list[str] = []

    async def scenario() -> None:
        async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
            await receive()

            async def listen() -> None:
                heard_of.append((await receive())["type"])

            await asyncio.gather(listen(), listen())

        wire = connected(app)
        await wire.send(get("/a"))
        assert heard_of == []
        await wire.leave()
        await settled()

    on_turned_clock(scenario())
    assert heard_of == ["http.disconnect"] * 2


def test_the_body_is_received_in_pieces_that_say_when_it_ends() -> None:
    received: list[Message] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        while not received or received[-1]["more_body"]:
            received.append(await receive())
        await answer(send, b"ab")

    heard(app, post("/a", 4), b"x", b"yz", b"!")
    assert b"".join(message["body"] for message in received) == b"xyz!"
    assert [message["more_body"] for message in received] == [True] * (len(received) - 1) + [False]


def test_a_path_is_decoded_and_its_raw_form_is_kept() -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await Echo()(scope, receive, send)

    heard(app, get("/a%20b?c=%20d"))
    assert (scopes[0]["path"], scopes[0]["raw_path"]) == ("/a b", b"/a%20b")
    assert scopes[0]["query_string"] == b"c=%20d"
