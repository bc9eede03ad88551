"""Runs the HTTP listeners of kubextend: binds sockets, handles signals, and shuts down."""

import asyncio
import gc
import logging
import os
import resource
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

import uvicorn
from starlette.applications import Starlette

from kubextend.errors import KubextendError
from kubextend.logs import AtMost
from kubextend.metrics import HistogramFamily, Metrics, ScrapedGauge, exponential
from kubextend.server.connection import Connection, ConnectionSettings
from kubextend.server.health import Health
from kubextend.server.tls import RenewedTls, TlsFiles

__all__ = ["Listener", "Service"]

_LOGGER = logging.getLogger(__name__)
# Anyone who can connect makes these write a line: by what is no HTTP, and by what is no TLS.
for _name in ("uvicorn.error", "kubextend.server.tls.handshakes"):
    logging.getLogger(_name).addFilter(AtMost(10))

# A machine that dies closes no connection, and the bind of a held pod may wait for 15 minutes.
# Another kube-scheduler may lead 15 s later, so the kernel ends the connection after 6 + 3 * 3 s.
# Accepted sockets inherit the options. Not every system has all of them.
_PROBED: Final = {"TCP_KEEPIDLE": 6, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3}
# Kubernetes kills a container 30 s after SIGTERM; the drain delay is part of these.
_GRACE_S: Final = 25
_LAST_WORDS_S: Final = 1.0
_LAG_LOOK_S: Final = 0.25
_START_LOOK_S: Final = 0.01
# More than the connections that any listener may have.
_MOST_DESCRIPTORS: Final = 65_536

_UNKNOWN: Final = (
    "cut off while the API was asked to bind pod %s: whether it is bound is not known,"
    " look at its spec.nodeName"
)
_LAG: Final = HistogramFamily(
    "kubextend_event_loop_lag_seconds",
    "How late the event loop was to run a task that was due.",
    exponential(0.001, 2, 13),
)


@dataclass(frozen=True, slots=True)
class Listener:
    """The address of an HTTP listener, the application that it serves, and its limits on clients.

    Attributes:
        app: the application that answers.
        host: an IP address or a name.
        port: the TCP port; 0: any free port.
        keep_alive_s: how many seconds an idle connection stays open. kube-scheduler closes its idle
            connections after 90 s, and does not repeat a POST if the server closes the connection
            at the same time.
        tls: the files of the certificates; None: plain HTTP.
        most_connections: how many connections may be open; one more is closed at once.
        name: the name of the listener in metrics and log lines.
        tls_look_s: the seconds between two checks of the files in ``tls``.
    """

    app: Starlette
    host: str
    port: int
    keep_alive_s: int = 120
    tls: TlsFiles | None = None
    most_connections: int = 4096
    name: str = "verbs"
    tls_look_s: float = 10.0

    def url(self, bound: socket.socket) -> str:
        """Return the URL of the listener, given its bound socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{bound.getsockname()[1]}"

    def bound_socket(self) -> socket.socket:
        """Return a socket that listens on the address; raise KubextendError if none can."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            address = (found[0][4][0], self.port)
            bound = socket.create_server(address, family=found[0][0])
        except OSError as error:
            # The options of `kubextend serve` change the listener of the verbs alone.
            options = ", or with --host or --port" if self.name == "verbs" else ""
            message = (
                f"cannot listen on {self.host} port {self.port}: {error.strerror or error}; end"
                " what listens there, or choose another address or port in the section server of"
                f" the configuration{options}"
            )
            raise KubextendError(message) from error
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _PROBED.items():
            if hasattr(socket, option):
                bound.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return bound


@dataclass(slots=True)
class Service:
    """Runs one or two HTTP listeners, which start and end together, until a signal ends them.

    Attributes:
        listeners: the listener of the verbs, and perhaps one that answers probes until the first
            has ended.
        health: fails readiness as soon as the process is to end.
        announce: called when all listeners accept connections, with their URLs.
        metrics: shows the connections, and how late the event loop is.
        drain_s: how many seconds to serve after SIGTERM, until clients use another replica.
        sends_away: returns whether each connection is to end with its next answer, so that its
            client may find another replica.
        bindings_under_way: returns the pods whose Binding is sent and not answered; if the process
            ends now, nobody knows whether these pods are bound.
    """

    listeners: Sequence[Listener]
    health: Health
    announce: Callable[[list[str]], None]
    metrics: Metrics
    drain_s: float = 0.0
    sends_away: Callable[[], bool] = lambda: False
    bindings_under_way: Callable[[], Iterable[str]] = tuple
    _is_ending: bool = field(default=False, init=False)
    _tls: RenewedTls | None = field(default=None, init=False)
    _servers: "list[_Server]" = field(default_factory=list, init=False)

    def run(self) -> None:
        """Serve until SIGTERM, Ctrl-C or ``stop``, and then finish the requests in flight.

        Raises: KubextendError: an address is not available, or a TLS file is not valid.
        """
        raise_descriptor_limit()
        if (tls := self.listeners[0].tls) is not None:
            self._tls = RenewedTls(tls, self.metrics)
        with ExitStack() as stack:
            bound = [stack.enter_context(each.bound_socket()) for each in self.listeners]
            self._servers = list(map(self._server, self.listeners, bound))
            loop_factory = self._servers[0].config.get_loop_factory()
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(self._serve())

    def drain(self) -> None:
        """Fail readiness now, and stop after ``drain_s`` seconds; a second call stops immediately.

        Clients learn late that this replica is not ready, so the service answers them meanwhile.
        Each answer ends its connection, and the client's next connection goes to another replica.
        """
        if self._is_ending or not self.drain_s:
            self.stop()
            return
        self._is_ending = True
        self.health.shut_down()
        asyncio.get_running_loop().call_later(
            self.drain_s, setattr, self._servers[0], "should_exit", True
        )

    def stop(self) -> None:
        """Let requests in flight end, so that ``run`` returns; a second call cuts them off."""
        self._is_ending = True
        self.health.shut_down()
        for server in self._servers[:1]:
            server.force_exit = server.should_exit
            server.should_exit = True

    def _server(self, listener: Listener, bound: socket.socket) -> "_Server":
        settings = ConnectionSettings(
            listener.most_connections,
            lambda: self._is_ending or self.sends_away(),
        )
        tls = self._tls if listener.tls else None
        config = uvicorn.Config(
            listener.app,
            # uvicorn only ever calls it.
            http=cast("type[asyncio.Protocol]", partial(Connection, settings)),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=listener.keep_alive_s,
            timeout_graceful_shutdown=max(1, _GRACE_S - int(self.drain_s)),
            ssl_context_factory=None if tls is None else lambda *_: tls.context,
        )
        server = _Server(config, listener, bound)
        self.metrics.scrape(_CONNECTIONS, lambda: server, listener=listener.name)
        return server

    async def _serve(self) -> None:
        if threading.current_thread() is threading.main_thread():
            on_signal = asyncio.get_running_loop().add_signal_handler
            on_signal(signal.SIGTERM, self.drain)
            on_signal(signal.SIGINT, self.stop)
            on_signal(signal.SIGHUP, self._look_at_certificates)
        main, *probes = self._servers
        async with asyncio.TaskGroup() as group:
            beside = [self._announce_when_started(), self._watch_lag(), self._watch_certificates()]
            tasks = [group.create_task(each) for each in beside]
            for server in probes:
                group.create_task(server.serve([server.bound]))
            await main.serve([main.bound])
            self._end_without_bindings()
            for task in tasks:
                task.cancel()
            for server in probes:
                server.should_exit = True

    async def _announce_when_started(self) -> None:
        for server in self._servers:
            while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
                await asyncio.sleep(_START_LOOK_S)
        # What is loaded stays. A full collection over it would cost some request 30 ms.
        gc.collect()
        gc.freeze()
        self.announce([server.listener.url(server.bound) for server in self._servers])

    async def _watch_lag(self) -> None:
        """Count how late the event loop runs a task that is due every quarter of a second."""
        seconds, loop = self.metrics.histogram(_LAG), asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _LAG_LOOK_S
            await asyncio.sleep(_LAG_LOOK_S)
            seconds.observe(max(loop.time() - due_s, 0.0))

    async def _watch_certificates(self) -> None:
        while self._tls is not None:
            await asyncio.sleep(self.listeners[0].tls_look_s)
            await asyncio.to_thread(self._tls.look)

    def _look_at_certificates(self) -> None:
        """Handle SIGHUP: check now whether the certificate files were replaced."""
        _LOGGER.info("SIGHUP: the certificates are read again; for a new configuration restart")
        if self._tls is not None:
            asyncio.get_running_loop().run_in_executor(None, self._tls.look)

    def _end_without_bindings(self) -> None:
        """Log the pods whose Binding the API has not answered, and exit with 1 if there are any.

        The process exits at once, because a thread that waits for the API ends only with the
        process.
        """
        unknown = list(self.bindings_under_way())
        for binding in unknown:
            _LOGGER.error(_UNKNOWN, binding)
        if unknown:
            logging.shutdown()
            os._exit(1)


class _Server(uvicorn.Server):
    """A uvicorn server on a bound socket, which leaves signals to the ``Service``."""

    def __init__(self, config: uvicorn.Config, listener: Listener, bound: socket.socket) -> None:
        super().__init__(config)
        self.listener = listener
        self.bound = bound

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # The event loop accepts one connection a turn. The kernel resets those that still wait.
        for _ in range(self.config.backlog):
            if not select.select([self.bound], [], [], 0)[0]:
                break
            await asyncio.sleep(0)
        await super().shutdown(sockets)
        if self.force_exit:
            # A forced exit of uvicorn leaves requests, connections and the application as they are.
            tasks = list(self.server_state.tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_LAST_WORDS_S)
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises a signal again at its end, and the process would not exit with 0.
        yield


# Scraped with the label ``listener``.
_CONNECTIONS: Final[tuple[ScrapedGauge[_Server], ...]] = (
    ScrapedGauge(
        "kubextend_connections", "Open connections.", lambda of: len(of.server_state.connections)
    ),
    ScrapedGauge(
        "kubextend_connections_limit",
        "The most connections that may be open.",
        lambda of: of.listener.most_connections,
    ),
)


def raise_descriptor_limit() -> None:
    """Set the process's soft limit of open files to the hard limit, but to 65,536 at most.

    Each pod that Permit holds needs a file descriptor, for the connection of its bind request.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
