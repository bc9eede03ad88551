"""Stands in for a kubelet of which kube-apiserver asks nothing but the ports of pods."""

import asyncio
import base64
import contextlib
import hashlib
import ssl
import struct
from urllib.parse import parse_qs, urlsplit

from .certificates import KeyPair
from .door import Listener

# Source: RFC 6455, section 1.3
ACCEPTS = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PROTOCOL = "v4.channel.k8s.io"
BINARY, CLOSE = 0x82, 0x88
DATA, ERROR = b"\0", b"\1"
CHUNK_BYTES = 1 << 15


class Kubelet(Listener):
    """A TLS server that passes on the bytes of WebSocket requests for ports of 127.0.0.1."""

    def __init__(self, port: int, pair: KeyPair) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(pair.cert, pair.key)
        super().__init__(port, ssl=tls)
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            target = urlsplit(lines[0].split(" ")[1])
            pairs = (line.partition(": ") for line in lines[1:])
            fields = {name.lower(): value for name, _, value in pairs}
            assert PROTOCOL in fields["sec-websocket-protocol"]
            self.asked.append(target.path)
            key = fields["sec-websocket-key"].encode()
            accept = base64.b64encode(hashlib.sha1(key + ACCEPTS).digest()).decode()
            writer.write(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {accept}\r\n"
                f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n".encode()
            )
            port = int(parse_qs(target.query)["port"][0])
            for channel in (DATA, ERROR):
                writer.write(_frame(BINARY, channel + struct.pack("<H", port)))
            await _pass_both_ways(reader, writer, port)
        writer.close()


async def _pass_both_ways(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
) -> None:
    onward, out = await asyncio.open_connection("127.0.0.1", port)

    async def back() -> None:
        while data := await onward.read(CHUNK_BYTES):
            writer.write(_frame(BINARY, DATA + data))
            await writer.drain()
        writer.write(_frame(CLOSE, b""))

    returning = asyncio.ensure_future(back())
    try:
        while data := await _read_frame(reader):
            out.write(data[1:])
    finally:
        returning.cancel()
        out.close()


def _frame(kind: int, data: bytes) -> bytes:
    """Return a frame of a server, with a length of 16 bits in the long form."""
    length = struct.pack("!BH", 126, len(data)) if len(data) > 125 else bytes([len(data)])
    return bytes([kind]) + length + data


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the data of the next frame of a client; empty at the end."""
    kind, length = await reader.readexactly(2)
    length &= 0x7F
    if length > 125:
        size, form = (8, "!Q") if length == 127 else (2, "!H")
        (length,) = struct.unpack(form, await reader.readexactly(size))
    mask = await reader.readexactly(4)
    data = await reader.readexactly(length)
    if kind != BINARY:
        return b""
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
