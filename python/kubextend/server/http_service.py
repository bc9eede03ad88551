"""Runs the HTTP listeners of kubextend: binds sockets, handles signals, and shuts down."""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, cast

import uvicorn
from uvicorn.server import ServerState

from kubextend.errors import KubextendError
from kubextend.metrics import Family, Histogram, HistogramFamily, Metrics, ScrapedGauge, exponential
from kubextend.server.application import Application
from kubextend.server.connection.deadlines import Deadlines
from kubextend.server.connection.handshakes import MOST_HANDSHAKES, Handshakes
from kubextend.server.connection.http_connection import ConnectionSettings, HttpConnection
from kubextend.server.connection.tls import TlsFiles, TlsReloader
from kubextend.server.health import Health
from kubextend.server.reply import REFUSED

__all__ = ["Ending", "Listener", "Service"]

_VERBS = "verbs"
# The options of `kubextend serve` change the listener of the verbs alone.
_OR_OPTIONS = ", or with --host or --port"
_BACKLOG = 2048
# A machine that dies closes no connection, and the bind of a held pod may wait for 15 minutes.
# Another kube-scheduler may lead 15 s later, so the kernel ends the connection after 6 + 3 * 3 s.
# Accepted sockets inherit the options.
_PROBED = tuple(
    (level, getattr(socket, option), value)
    for level, option, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 6),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 3),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    )
    # Not every system has all of them.
    if hasattr(socket, option)
)
# Kubernetes kills a container 30 s after SIGTERM; the drain delay is part of these.
_GRACE_S = 25
_LAST_WORDS_S = 1
_SAID_AGAIN_S = 10.0
_HANDSHAKE_S = 5.0
_DESCRIPTORS_LOOK_S = 5.0
_LAG_LOOK_S = 0.25
# More than the connections that any listener may have.
_MOST_DESCRIPTORS = 65_536

_LOGGER = logging.getLogger(__name__)

_LAG: Final = HistogramFamily(
    "kubextend_event_loop_lag_seconds",
    "How late the event loop was to run a task that was due.",
    exponential(0.001, 2, 13),
)
_CONNECTIONS_REFUSED: Final = Family(
    "kubextend_connections_refused",
    "Connections that were closed because their listener had as many as it may.",
    ("listener",),
)
_FAILED_HANDSHAKES: Final = Family(
    "kubextend_tls_handshakes_failed", "Connections that ended because their TLS handshake failed."
)
_CERTIFICATE_RELOADS: Final = Family(
    "kubextend_certificate_reloads",
    "TLS files that were found changed, by whether they could be used: ok, error.",
    ("result",),
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
        deadlines: how long clients may take to send a request and to read the answer.
        most_connections: how many connections may be open; one more replaces the connection that
            is idle for the longest time, or is closed immediately if none is idle.
        name: the name of the listener in metrics and log lines.
        tls_look_s: the seconds between two checks of the files in ``tls``.
    """

    app: Application
    host: str
    port: int
    keep_alive_s: int = 120
    tls: TlsFiles | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    most_connections: int = 4096
    name: str = _VERBS
    tls_look_s: float = 10.0

    def url(self, port: int) -> str:
        """Return the URL of the listener, given the port of its bound socket."""
        scheme = "http" if self.tls is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a service ends, and when it sends its clients to another replica.

    Attributes:
        drain_s: how many seconds to serve after SIGTERM, until clients use another replica.
        sends_away: returns whether each connection is to end with its next answer, so that its
            client may find another replica.
        bindings_under_way: returns the pods whose Binding is sent and not answered; if the process
            ends now, nobody knows whether these pods are bound.
    """

    drain_s: float = 0.0
    sends_away: Callable[[], bool] = lambda: False
    bindings_under_way: Callable[[], Iterable[str]] = tuple


class Service:
    """Runs one or two HTTP listeners, which start and end together, until a signal ends them.

    Args:
        main: the listener of the verbs.
        health: fails readiness as soon as the process is to end.
        probes: a second listener, which answers probes until ``main`` has ended.
        announce: called when all listeners accept connections, with their URLs, that of ``main``
            first.
        metrics: counts refusals and reloads of certificates.
        ending: how the service ends.
    """

    def __init__(
        self,
        main: Listener,
        health: Health,
        *,
        probes: Listener | None = None,
        announce: Callable[[list[str]], None] = lambda _urls: None,
        metrics: Metrics | None = None,
        ending: Ending = Ending(),
    ) -> None:
        self._listeners = [main] if probes is None else [main, probes]
        self._health = health
        self._announce = announce
        self._metrics = metrics or Metrics()
        self._metrics.scrape(_CERTIFICATE, lambda: self._servers)
        self._failed_handshakes = self._metrics.counter(_FAILED_HANDSHAKES)
        # A rate of a counter that is not there before its first event does not show that event.
        self._reloads = [
            self._metrics.counter(_CERTIFICATE_RELOADS, result) for result in ("error", "ok")
        ]
        self._ending = ending
        self._draining = False
        # Kind of log line -> when the next line may be written, in seconds of the event loop's
        # clock.
        self._said_again_s: dict[str, float] = {}
        self._servers: list[_Server] = []

    def run(self) -> None:
        """Serve until SIGTERM, Ctrl-C or ``stop``, and then finish the requests in flight.

        Raises: KubextendError: an address is not available, or a TLS file is not valid.
        """
        raise_descriptor_limit()
        with contextlib.ExitStack() as sockets:
            self._servers = [
                self._server(listener, sockets.enter_context(_bound_socket(listener)))
                for listener in self._listeners
            ]
            loop_factory = self._servers[0].config.get_loop_factory()
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(self._serve())

    def drain(self) -> None:
        """Fail readiness now, and stop after ``drain_s`` seconds; a second call stops immediately.

        Clients learn late that this replica is not ready, so the service answers them meanwhile.
        Each answer ends its connection, and the client's next connection goes to another replica.
        """
        if self._draining or not self._ending.drain_s:
            self.stop()
            return
        self._draining = True
        self._health.shut_down()
        asyncio.get_running_loop().call_later(self._ending.drain_s, self._stop_unless_stopping)

    def stop(self) -> None:
        """Let requests in flight end, so that ``run`` returns; a second call cuts them off."""
        self._health.shut_down()
        for server in self._servers[:1]:
            server.force_exit = server.should_exit
            server.should_exit = True

    def _stop_unless_stopping(self) -> None:
        if not self._servers[0].should_exit:
            self.stop()

    def _server(self, listener: Listener, bound: socket.socket) -> "_Server":
        settings = ConnectionSettings(
            listener.app,
            listener.deadlines,
            listener.app.in_flight,
            listener.keep_alive_s,
            listener.most_connections,
            is_draining=lambda: self._draining or self._ending.sends_away(),
            on_refused=lambda status: self._metrics.counter(REFUSED, str(int(status))).inc(),
            on_full=partial(self._note_full, listener),
        )
        tls, handshakes = None, None
        if listener.tls is not None:
            tls = TlsReloader(listener.tls, lambda loaded: self._reloads[loaded].inc())
            handshakes = Handshakes(
                tls,
                _HANDSHAKE_S,
                on_full=partial(self._note_many_handshakes, listener),
                on_failed=partial(self._note_failed_handshake, listener),
            )
        config = _uvicorn_config(
            listener, settings, handshakes, max(1, _GRACE_S - int(self._ending.drain_s))
        )
        server = _Server(listener, bound, config, tls, self._end_without_bindings)
        self._metrics.scrape(server.METRICS, lambda: server, listener=listener.name)
        return server

    def _end_without_bindings(self) -> None:
        """Log the pods whose Binding the API has not answered, and exit with 1 if there are any.

        The process exits at once, because a thread that waits for the API ends only with the
        process.
        """
        unknown = list(self._ending.bindings_under_way())
        for binding in unknown:
            _LOGGER.error(
                "cut off while the API was asked to bind pod %s: whether it is bound is not known,"
                " look at its spec.nodeName",
                binding,
            )
        if unknown:
            logging.shutdown()
            os._exit(1)

    def _is_to_be_said(self, kind: str) -> bool:
        """Return whether a log line of this kind may be written now: at most one in ten seconds."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._said_again_s.get(kind, 0.0):
            return False
        self._said_again_s[kind] = now_s + _SAID_AGAIN_S
        return True

    def _note_full(self, listener: Listener) -> None:
        self._metrics.counter(_CONNECTIONS_REFUSED, listener.name).inc()
        if self._is_to_be_said("full"):
            _LOGGER.error(
                "a connection to the %s was closed: %d are open, and no more may be",
                listener.name,
                listener.most_connections,
            )

    def _note_many_handshakes(self, listener: Listener) -> None:
        self._metrics.counter(_CONNECTIONS_REFUSED, listener.name).inc()
        if self._is_to_be_said("many handshakes"):
            _LOGGER.error(
                "a TLS handshake on the %s was ended for a newer one: %d are under way, and no more"
                " may be",
                listener.name,
                MOST_HANDSHAKES,
            )

    def _note_failed_handshake(self, listener: Listener, why: str) -> None:
        self._failed_handshakes.inc()
        if self._is_to_be_said("failed handshake"):
            _LOGGER.warning(
                "a TLS handshake on the %s failed: %s; kube-scheduler's log has its side",
                listener.name,
                why,
            )

    def _look_at_certificates(self) -> None:
        """Handle SIGHUP: check now whether the certificate files were replaced."""
        _LOGGER.info("SIGHUP: the certificates are read again; for a new configuration restart")
        for server in self._servers:
            if server.tls is not None:
                asyncio.get_running_loop().run_in_executor(None, server.tls.look)

    async def _serve(self) -> None:
        main, *probes = self._servers
        handlers = {
            signal.SIGTERM: self.drain,
            signal.SIGINT: self.stop,
            signal.SIGHUP: self._look_at_certificates,
        }
        with _on_signals(handlers):
            async with asyncio.TaskGroup() as group:
                for server in probes:
                    group.create_task(server.run_on_socket())
                group.create_task(self._announce_when_started())
                watching = [
                    group.create_task(_watch_descriptors(_DESCRIPTORS_LOOK_S)),
                    group.create_task(_watch_lag(self._metrics.histogram(_LAG))),
                ]
                watching += [
                    group.create_task(server.tls.watch(listener.tls_look_s))
                    for listener, server in zip(self._listeners, self._servers, strict=True)
                    if server.tls is not None
                ]
                await main.run_on_socket()
                for task in watching:
                    task.cancel()
                for server in probes:
                    server.should_exit = True

    async def _announce_when_started(self) -> None:
        for server in self._servers:
            await server.accepting.wait()
        # What is loaded stays. A full collection over it would cost some request 30 ms.
        gc.collect()
        gc.freeze()
        self._announce([server.url for server in self._servers])


class _Server(uvicorn.Server):
    """A uvicorn server on a bound socket, which leaves signals to the ``Service``."""

    most_connections: int
    # Scraped with the label ``listener``.
    METRICS: ClassVar[tuple["ScrapedGauge[_Server]", ...]] = (
        ScrapedGauge(
            "kubextend_connections",
            "Open connections.",
            lambda server: len(server.server_state.connections),
        ),
        ScrapedGauge(
            "kubextend_connections_limit",
            "The most connections that may be open.",
            lambda server: server.most_connections,
        ),
    )

    def __init__(
        self,
        listener: Listener,
        bound: socket.socket,
        config: uvicorn.Config,
        tls: TlsReloader | None,
        when_cut_off: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.url = listener.url(bound.getsockname()[1])
        self.most_connections = listener.most_connections
        self.tls = tls
        self.accepting = asyncio.Event()
        self._socket = bound
        self._when_cut_off = when_cut_off

    async def run_on_socket(self) -> None:
        await self.serve(sockets=[self._socket])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:
            await self._cut_off()
            self._when_cut_off()
            # A forced exit of uvicorn skips the end of the application's lifespan.
            await self.lifespan.shutdown()

    async def _cut_off(self) -> None:
        """Cancel every request, and end every connection of this server now."""
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS_S)
        for connection in list(self.server_state.connections):
            cast("HttpConnection", connection).abort()
        await asyncio.sleep(0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn raises a signal again at its end, and the process would not exit with 0.
        yield


_CERTIFICATE: Final[tuple[ScrapedGauge[list[_Server]]]] = (
    ScrapedGauge(
        "kubextend_certificate_not_after_seconds",
        "When the certificate of the verbs' listener ends, in seconds of Unix time; 0 without.",
        lambda servers: max((each.tls.not_after_s for each in servers if each.tls), default=0.0),
    ),
)


def _uvicorn_config(
    listener: Listener,
    settings: ConnectionSettings,
    handshakes: Handshakes | None,
    grace_s: int,
) -> uvicorn.Config:
    def protocol(server_state: ServerState, **_: object) -> asyncio.Protocol:
        made = partial(HttpConnection, settings, server_state)
        return made() if handshakes is None else handshakes.before(made)

    return uvicorn.Config(
        listener.app,
        # uvicorn only ever calls it.
        http=cast("type[asyncio.Protocol]", protocol),
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=grace_s,
    )


def _bound_socket(listener: Listener) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        bound = socket.create_server((address[0], listener.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        message = (
            f"cannot listen on {listener.host} port {listener.port}: {reason}; end what listens"
            " there, or choose another address or port in the section server of the configuration"
            f"{_OR_OPTIONS if listener.name == _VERBS else ''}"
        )
        raise KubextendError(message) from error
    for level, option, value in _PROBED:
        bound.setsockopt(level, option, value)
    return bound


@contextlib.contextmanager
def _on_signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Call the handlers for their signals inside the block, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


def raise_descriptor_limit() -> None:
    """Raise the process's soft limit of open files to the hard limit, but to 65,536 at most.

    Each pod that Permit holds needs a file descriptor, for the connection of its bind request.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _watch_lag(seconds: Histogram) -> None:
    """Count how late the event loop runs a task that is due every quarter of a second."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + _LAG_LOOK_S
        await asyncio.sleep(_LAG_LOOK_S)
        seconds.observe(max(loop.time() - due_s, 0.0))


async def _watch_descriptors(every_s: float) -> None:
    """Log an error while no file descriptor is left: uvloop drops connections silently."""
    while True:
        await asyncio.sleep(every_s)
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE}:
                raise
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            _LOGGER.error(  # noqa: TRY400  expected
                "no file descriptor is left of %d (ulimit -n): connections are dropped", limit
            )
