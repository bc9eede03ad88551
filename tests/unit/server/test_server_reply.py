"""Answers: how a large one goes out."""

import asyncio

from starlette.types import Message

from kubextend.server.reply import reply


def test_others_have_their_turn_after_each_mib_of_a_large_answer() -> None:
    """A client that reads as fast as the server writes never makes the server wait."""
    order: list[str] = []

    async def send(message: Message) -> None:
        order.append(f"{len(message.get('body', b'')) >> 20} MiB")
        if message.get("more_body"):
            asyncio.get_running_loop().call_soon(order.append, "others")

    asyncio.run(reply(send, 200, bytes(3 << 20)))
    assert order == ["0 MiB", *["1 MiB", "others"] * 3, "0 MiB"]
