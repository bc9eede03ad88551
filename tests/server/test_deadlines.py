"""How long a client may take to ask and to read, on a clock that a test skips."""

import pytest
from tests.doors.extender import HOLDING, Extender, in_memory, node, request, skip
from tests.doors.sockets import KEEP_ALIVE_S, Line, head, posted

from kubextend.testing import Bindings

# What a client moves in a second that is not too slow; and one that is.
PACE = 64 * 1024
OK, TOO_LATE = b"HTTP/1.1 200 ", b"HTTP/1.1 408 "
LIVEZ = head("GET", "/livez")


@pytest.mark.parametrize("requests", [0, 1, 3])
@in_memory
async def test_an_idle_connection_outlives_that_of_kube_scheduler_and_is_closed_then(
    requests: int,
) -> None:
    """kube-scheduler closes a connection after 90 s, and does not repeat a POST."""
    line = Line(Extender())
    for _ in range(requests):
        await skip(50)
        await line.send(LIVEZ)
    await skip(KEEP_ALIVE_S - 1)
    assert KEEP_ALIVE_S > 90
    assert (line.closed, line.received.count(OK)) == (False, requests)
    await skip(2)
    assert line.closed


@in_memory
async def test_a_connection_stays_open_while_permit_holds_its_pod() -> None:
    extender = Extender(binder=Bindings(), profiles=[HOLDING])
    line = Line(extender)
    await line.send(posted("/filter", request("filter")))
    await line.send(posted("/bind", request("bind")))
    await extender.until_held("u-p")
    await skip(29)
    assert not line.closed
    extender.allow("u-p")
    await skip()
    assert line.received.endswith(b'{"Error":""}')
    await skip(KEEP_ALIVE_S - 1)
    assert not line.closed
    await skip(2)
    assert line.closed


@pytest.mark.parametrize("before", [b"", LIVEZ], ids=["first", "second"])
@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (head("POST", "/filter", Content_Length="9") + b"x", 30),
        (head("POST", "/filter", Content_Length="900000") + b"x", 30),
        (head("POST", "/filter", Transfer_Encoding="chunked") + b"ff\r\nx", 30),
        (head("POST", "/filter", Transfer_Encoding="chunked") + b"0\r\na: ", 30),
    ],
    ids=["body", "large body", "chunk", "trailer"],
)
@in_memory
async def test_a_request_that_is_late_is_refused(before: bytes, sent: bytes, seconds: int) -> None:
    line = Line(Extender())
    await line.send(before)
    answered = line.received
    await skip(KEEP_ALIVE_S - 1)
    await line.send(sent)
    await skip(seconds - 1)
    assert (line.received, line.closed) == (answered, False)
    # A large body may take longer by its length.
    await skip(16)
    assert line.closed
    assert line.received.removeprefix(answered).startswith(TOO_LATE)


@pytest.mark.parametrize("before", [b"", LIVEZ], ids=["first", "second"])
@in_memory
async def test_a_head_that_is_late_ends_the_connection(before: bytes) -> None:
    line = Line(Extender())
    await line.send(before)
    answered = line.received
    for piece, seconds in ((b"POST /fil", 6), (b"ter HT", 3), (b"TP", 2)):
        await line.send(piece)
        assert not line.closed
        await skip(seconds)
    assert line.closed
    assert line.received == answered


@in_memory
async def test_a_body_may_take_minutes_if_it_keeps_its_pace() -> None:
    line, body = Line(Extender()), request("filter").ljust(100 * PACE)
    await line.send(head("POST", "/filter", Content_Length=str(len(body))))
    for at in range(0, len(body), PACE):
        assert not line.closed
        await line.send(body[at : at + PACE])
        await skip(1)
    await line.answered(OK)


@in_memory
async def test_an_answer_may_take_minutes_if_its_client_keeps_the_pace() -> None:
    line, size = Line(Extender(), reads=False), 90 * PACE
    large = request("filter", nodes=[node("n", size, rdma="true")])
    await line.send(posted("/filter", large))
    await line.begun()
    while len(line.received) < size:
        assert not line.closed
        await line.read(PACE)
        await skip(1)
    await skip(KEEP_ALIVE_S - 2)
    assert not line.closed


@in_memory
async def test_a_client_that_does_not_read_its_answer_is_hung_up_on() -> None:
    extender = Extender()
    line = Line(extender, reads=False)
    await line.send(posted("/filter", request("filter", nodes=[node("n", 90 * PACE, rdma="true")])))
    await line.begun()
    await skip(29)
    assert not line.closed
    assert extender.counted("kubextend_requests_in_flight_bytes") > 90 * PACE
    await skip(90)
    assert line.closed
    assert extender.counted("kubextend_requests_in_flight_bytes") == 0


@pytest.mark.parametrize(
    "sent",
    [head("GET", "/livez", Connection="close"), b"garbage\r\n\r\n", LIVEZ + b"garbage\r\n\r\n"],
    ids=["its last answer", "a refusal", "a refusal behind an answer"],
)
@in_memory
async def test_a_connection_that_ends_waits_no_longer_than_an_idle_one_for_its_client_to_read(
    sent: bytes,
) -> None:
    line = Line(Extender(), reads=False)
    await line.send(sent)
    await line.begun()
    await skip(9)
    assert not line.closed
    await skip(KEEP_ALIVE_S - 8)
    assert line.closed
