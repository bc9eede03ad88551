"""Where everything meets: a configuration becomes verbs, a cluster, an application, a service."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette

from kubextend import cluster, core
from kubextend.config import ExtenderConfiguration, ResolvedProfile
from kubextend.framework.handle import Activator, Binder, NodeSource
from kubextend.framework.plugin import FilterPlugin, ScorePlugin
from kubextend.framework.registry import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.plugins import IN_TREE
from kubextend.profile import Profile, Profiles
from kubextend.server import (
    Check,
    Health,
    Limits,
    Listener,
    Service,
    TlsFiles,
    application,
    health_application,
)
from kubextend.verbs import Verbs

__all__ = ["App", "build", "build_verbs", "create_app", "serve"]

_LOGGER = logging.getLogger(__name__)

_Plugins = Mapping[str, RegisteredPlugin]


@dataclass(slots=True)
class _ClusterSide:
    """What reads from and writes to the Kubernetes API, and the store that it fills."""

    reflector: cluster.Reflector
    binder: cluster.Binder
    activator: cluster.Activator

    @classmethod
    def of(
        cls, config: ExtenderConfiguration, on_change: Callable[[], object]
    ) -> "_ClusterSide | None":
        """Made from the credentials that the configuration points to; no call is made yet.

        Raises: ClusterError: there are no usable credentials.
        """
        if config.cluster is None:
            return None
        api = cluster.connect(config.cluster.kubeconfig, config.cluster.context)
        return cls(
            cluster.Reflector(api, core.NodeStore(), on_change),
            cluster.Binder(api),
            cluster.Activator(api),
        )

    def start(self) -> None:
        self.reflector.start()

    def stop(self) -> None:
        self.reflector.stop()
        self.activator.stop()

    def why_not_synced(self) -> str:
        if self.reflector.synced:
            return ""
        error = self.reflector.last_error
        return f"the nodes are not listed yet{f': {error}' if error else ''}"


@dataclass(frozen=True, slots=True)
class App:
    """One kubextend, joined and not started.

    Attributes:
        asgi: the application; serving it starts and stops the cluster side.
        verbs: bytes in, bytes out, for who needs no server.
        health: what ``/readyz`` says.
        metrics: what ``/metrics`` says.
    """

    asgi: Starlette
    verbs: Verbs
    health: Health
    metrics: Metrics
    _cluster: _ClusterSide | None = field(repr=False)

    def start(self) -> None:
        """The API is followed from now on, whether it is there or not."""
        if self._cluster is not None:
            self._cluster.start()

    def stop(self) -> None:
        """Nothing talks to the API any more."""
        if self._cluster is not None:
            self._cluster.stop()


def build(config: ExtenderConfiguration, plugins: _Plugins | None = None) -> App:
    """Everything that a configuration asks for, joined.

    Args:
        config: loaded and checked.
        plugins: those that it may name; the in-tree ones where none are given.

    Raises: ClusterError: there are no usable credentials for the API it asks for.
    """
    metrics = Metrics()

    def on_change() -> None:
        verbs.nodes_changed()

    side = _ClusterSide.of(config, on_change)
    verbs = build_verbs(
        config,
        plugins,
        watched=side.reflector if side else None,
        binder=side.binder if side else None,
        activator=side.activator if side else None,
        metrics=metrics,
    )
    checks = [] if side is None else [Check("node-sync", side.why_not_synced)]
    health = Health(checks)
    if side is not None:
        metrics.watch_store("watched", side.reflector.store.stats)
        metrics.watch_snapshot(side.reflector)
    app: App

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        await asyncio.to_thread(app.start)
        try:
            yield
        finally:
            health.shut_down()
            await asyncio.to_thread(app.stop)

    asgi = application(
        verbs,
        health,
        path=config.server.path,
        limits=Limits(body_bytes=config.server.max_body_bytes),
        running=running,
    )
    app = App(asgi, verbs, health, metrics, side)
    return app


def build_verbs(  # noqa: PLR0913  one argument for each thing they are joined to
    config: ExtenderConfiguration,
    plugins: _Plugins | None = None,
    *,
    watched: NodeSource | None = None,
    binder: Binder | None = None,
    activator: Activator | None = None,
    metrics: Metrics | None = None,
) -> Verbs:
    """The verbs that a configuration asks for, with no server and no cluster of their own.

    Args:
        config: loaded and checked.
        plugins: those that it may name; the in-tree ones where none are given.
        watched: the nodes that names stand for; None: requests bring whole nodes.
        binder: binds pods; None: bind answers an Error.
        activator: wakes pods that kube-scheduler has parked; None: nobody does.
        metrics: what is counted; None: into metrics of their own.
    """
    metrics = metrics or Metrics()
    store = core.NodeStore()
    metrics.watch_store("request", store.stats)
    known = IN_TREE if plugins is None else plugins
    return Verbs(
        Profiles.of(_profile(resolved, known) for resolved in config.resolved),
        request_store=store,
        watched=watched,
        binder=binder,
        activator=activator,
        ignorable=config.extender.ignorable,
        score_scale=config.score_scale,
        metrics=metrics,
    )


def create_app(config: ExtenderConfiguration, plugins: _Plugins | None = None) -> Starlette:
    """An ASGI application for any ASGI server that runs its lifespan; otherwise like ``build``."""
    return build(config, plugins).asgi


def serve(
    config: ExtenderConfiguration,
    plugins: _Plugins | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Answers kube-scheduler until SIGTERM or Ctrl-C.

    Args:
        config: loaded and checked.
        plugins: those that it may name; the in-tree ones where none are given.
        announce: given the URL of the verbs once connections are accepted; by default it is
            printed as ``listening on URL``.

    Raises: KubextendError: no credentials, an address that is taken, a TLS file that is no good.
    """
    app = build(config, plugins)
    server = config.server
    main = Listener(
        app.asgi,
        server.host,
        server.port,
        keep_alive_s=server.keep_alive_seconds,
        tls=_tls(config),
    )
    probes = None
    if server.health_port is not None:
        probe_app = health_application(app.health, app.metrics)
        probes = Listener(probe_app, server.health_host or server.host, server.health_port)

    def started(urls: list[str]) -> None:
        (announce or _print_url)(f"{urls[0]}{server.path}")
        for url in urls[1:]:
            _LOGGER.info("health and metrics are on %s", url, extra={"health_url": url})

    Service(main, app.health, probes=probes, announce=started).run()


def _profile(resolved: ResolvedProfile, known: _Plugins) -> Profile:
    """The profile with its plugins made; one instance of each, whatever points it extends."""
    made = {name: known[name].make(args) for name, args in resolved.args.items()}
    filters = [made[enabled.name] for enabled in resolved.at("filter")]
    scores = [(made[enabled.name], enabled.weight) for enabled in resolved.at("score")]
    return Profile(
        resolved.scheduler_name,
        filter=[plugin for plugin in filters if isinstance(plugin, FilterPlugin)],
        score=[(plugin, weight) for plugin, weight in scores if isinstance(plugin, ScorePlugin)],
    )


def _tls(config: ExtenderConfiguration) -> TlsFiles | None:
    tls = config.server.tls
    if tls.cert_file is None or tls.key_file is None:
        return None
    client_ca_file = None if tls.client_ca_file is None else Path(tls.client_ca_file)
    return TlsFiles(Path(tls.cert_file), Path(tls.key_file), client_ca_file)


def _print_url(url: str) -> None:
    sys.stdout.write(f"listening on {url}\n")
    sys.stdout.flush()
