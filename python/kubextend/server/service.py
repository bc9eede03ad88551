"""Listening: sockets, uvicorn, signals, and the way down."""

import asyncio
import contextlib
import gc
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette

from kubextend.errors import KubextendError
from kubextend.server.health import Health
from kubextend.server.protocol import BoundedProtocol
from kubextend.server.tls import TlsFiles

__all__ = ["Listener", "Service"]

_BACKLOG = 2048
# Kubernetes kills a container 30 s after it told it to end.
_GRACE_S = 25


@dataclass(frozen=True, slots=True)
class Listener:
    """One address and what is served there.

    Attributes:
        app: what is served.
        host: an address or a name.
        port: 0 for any free one.
        keep_alive_s: how long an idle connection stays. kube-scheduler keeps its own for 90 s and
            does not repeat a POST that hits a connection closed in that moment.
        tls: None for plain HTTP.
    """

    app: Starlette
    host: str
    port: int
    keep_alive_s: int = 120
    tls: TlsFiles | None = None

    def url(self, port: int) -> str:
        """Where a client finds it, given the port that it really has."""
        scheme = "http" if self.tls is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}"


class Service:
    """One or two listeners that live and end together.

    Args:
        main: the verbs.
        health: told at once when the end has come.
        probes: a second listener, which goes on answering until the first has ended.
        announce: given the URLs, that of ``main`` first, once all of them accept connections.
    """

    def __init__(
        self,
        main: Listener,
        health: Health,
        *,
        probes: Listener | None = None,
        announce: Callable[[list[str]], None] = lambda _urls: None,
    ) -> None:
        self._listeners = [main] if probes is None else [main, probes]
        self._health = health
        self._announce = announce
        self._servers: list[_Server] = []

    def run(self) -> None:
        """Serves until SIGTERM, Ctrl-C or ``stop``, then until what is in flight has ended.

        Raises: KubextendError: an address cannot be had, or a TLS file is no good.
        """
        with contextlib.ExitStack() as sockets:
            self._servers = [
                _Server(listener, sockets.enter_context(_bound_socket(listener)))
                for listener in self._listeners
            ]
            loop_factory = self._servers[0].config.get_loop_factory()
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(self._serve())

    def stop(self) -> None:
        """What is in flight ends, then ``run`` returns; told a second time, it is cut off."""
        self._health.shut_down()
        for server in self._servers[:1]:
            server.force_exit = server.should_exit
            server.should_exit = True

    async def _serve(self) -> None:
        main, *probes = self._servers
        with _on_signals(self.stop):
            async with asyncio.TaskGroup() as group:
                for server in probes:
                    group.create_task(server.run_on_socket())
                group.create_task(self._announce_when_started())
                await main.run_on_socket()
                for server in probes:
                    server.should_exit = True

    async def _announce_when_started(self) -> None:
        for server in self._servers:
            await server.accepting.wait()
        # What was loaded stays: a full collection over it would cost 30 ms in some request.
        gc.collect()
        gc.freeze()
        self._announce([server.url for server in self._servers])


class _Server(uvicorn.Server):
    """A uvicorn server on a socket that is bound already; signals are left to the service."""

    def __init__(self, listener: Listener, bound: socket.socket) -> None:
        super().__init__(_uvicorn_config(listener))
        self.url = listener.url(bound.getsockname()[1])
        self.accepting = asyncio.Event()
        self._socket = bound

    async def run_on_socket(self) -> None:
        await self.serve(sockets=[self._socket])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn leaves the application no chance to end what it started.
            await self.lifespan.shutdown()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises the signal again at its end, and the process would not exit with 0.
        yield


def _uvicorn_config(listener: Listener) -> uvicorn.Config:
    return uvicorn.Config(
        listener.app,
        http=BoundedProtocol,
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=listener.keep_alive_s,
        timeout_graceful_shutdown=_GRACE_S,
        ssl_context_factory=None if listener.tls is None else _always(listener.tls.context()),
    )


def _always(
    context: ssl.SSLContext,
) -> Callable[[uvicorn.Config, Callable[[], ssl.SSLContext]], ssl.SSLContext]:
    """The context as the factory that uvicorn asks for one."""
    return lambda _config, _default: context


def _bound_socket(listener: Listener) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        return socket.create_server((address[0], listener.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot listen on {listener.host} port {listener.port}: {reason}"
        raise KubextendError(message) from error


@contextlib.contextmanager
def _on_signals(end: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call ``end``, where Python lets them: on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
