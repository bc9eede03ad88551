"""Builds, checks and runs the extender server that a configuration describes."""

import asyncio
import logging
import os
import platform
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.routing import Route

from kubextend import __version__, cluster, core
from kubextend.config import Configuration, model
from kubextend.decisions import DecisionReader, ServerFacts
from kubextend.errors import ConfigError, Issue, KubextendError, PluginError
from kubextend.framework.handle import MAX_POD_BYTES, NO_CLUSTER, ClusterPorts, InThread
from kubextend.framework.informer import Resource
from kubextend.metrics import Metrics, ScrapedGauge
from kubextend.profile import PluginStarts, WaitingPods
from kubextend.profile.stops import stop_async, stop_sync, stops_async
from kubextend.profile.threads import THREADS
from kubextend.queue_controller import QueueController
from kubextend.scheduling_queue import SchedulingQueue
from kubextend.server.access import Access, tokens_in
from kubextend.server.api_threads import ApiThreads
from kubextend.server.application import application, health_application
from kubextend.server.health import Health, HealthCheck
from kubextend.server.memory import keep_freed_memory
from kubextend.server.people import decision_routes, page_routes, waiting_pod_routes
from kubextend.server.service import Listener, Service
from kubextend.server.tls import TlsFiles
from kubextend.verbs import Verbs
from kubextend.verbs.build_verbs import build_verbs, waiting_pods_of
from kubextend.verbs.context import NODE_STORE
from kubextend.verbs.filter_outside_request import looking_again
from kubextend.verbs.readiness import (
    INFORMERS_SYNCED,
    NODES_LISTED,
    PLUGINS_STARTED,
    PODS_LISTED,
    Readiness,
)

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

__all__ = [
    "App",
    "build",
    "build_verbs",
    "check",
    "create_app",
    "idle_warning",
    "serve",
]

_LOGGER = logging.getLogger(__name__)

# A plugin that computes holds the interpreter for this long before health and other verbs get a
# turn. At Python's 5 ms one busy thread brings their p99 to 28 ms, at this interval to 4 ms.
_SWITCH_INTERVAL_S = 1e-4

# Far more than the kubelet, Prometheus and some people need; the rest is for the verbs.
_MOST_PROBES = 1024
_PROBES_KEEP_ALIVE_S = 5


@dataclass(slots=True)
class _ClusterSide:
    """The objects that read and write the Kubernetes API, and the stores that the readers fill."""

    api: "Cluster"
    nodes: cluster.Reflector[core.NodeStore]
    pods: cluster.Reflector[core.PodStore] | None
    pod_reader: cluster.PodReader
    binder: cluster.Binder
    outbox: cluster.Outbox
    activator: cluster.Activator
    events: cluster.EventRecorder
    leader: cluster.Leader | None
    informers: cluster.Informers
    marker: cluster.WaitingPodMarker | None

    @classmethod
    def of(
        cls,
        config: Configuration,
        waiting_pods: WaitingPods,
        verbs: Callable[[], Verbs],
        failed: Callable[[PluginError], object],
        not_started: Callable[[], frozenset[str]],
    ) -> "_ClusterSide | None":
        """Make the readers and writers of the Kubernetes API without calling the API yet.

        Args:
            config: a loaded and checked configuration.
            waiting_pods: the pods that Permit plugins hold.
            verbs: returns the verbs, whose methods are called when nodes or pods change; called
                only after the watches have started.
            failed: called when a plugin fails in the background.
            not_started: returns the names of the plugins that have not started.

        Returns: None if the configuration does not use the Kubernetes API.
        Raises: ClusterError: there are no usable credentials, or a leader is to be elected and
        the environment does not name this pod.
        """
        if config.cluster is None:
            return None
        api = cluster.connect(config.cluster.kubeconfig, config.cluster.context)
        outbox = cluster.Outbox(api)
        events = cluster.EventRecorder(outbox)
        waiting_pods.tell(
            lambda held: events.waiting(held.pod, held.node_name, held.pending_plugins)
        )

        def on_change() -> None:
            verbs().nodes_changed()

        def forget(uid: str) -> None:
            verbs().forget(uid)

        def node_deleted(name: str) -> None:
            verbs().bind.node_deleted(name)

        def nodes_listed() -> None:
            verbs().bind.nodes_listed()

        pods = None
        if config.needs_pods:
            pods = cluster.follow_pods(
                api,
                core.PodStore(max_pod_bytes=MAX_POD_BYTES, **config.kept_parts),
                on_change,
                awaited=lambda: [waiting.pod.uid for waiting in waiting_pods],
                on_deleted=lambda uid: verbs().pod_deleted(uid),
                on_bound=forget,
            )
        return cls(
            api,
            cluster.follow_nodes(
                api,
                core.NodeStore(**config.kept_parts),
                on_change,
                on_deleted=node_deleted,
                on_listed=nodes_listed,
            ),
            pods,
            cluster.PodReader(api),
            cluster.Binder(api),
            outbox,
            cluster.Activator(outbox),
            events,
            _leader(config, api, pods, verbs),
            cluster.Informers(
                api,
                map(Resource.of, config.informers),
                on_change,
                failed,
                not_started,
            ),
            _marker(config, outbox, waiting_pods),
        )

    def start(self) -> None:
        self.nodes.start()
        if self.pods is not None:
            self.pods.start()
        self.informers.start()

    def stop(self) -> None:
        self.informers.stop()
        self.nodes.stop()
        if self.pods is not None:
            self.pods.stop()
        self.outbox.stop()

    def ports(self, in_thread: InThread) -> ClusterPorts:
        """Return the objects by which verbs and plugins read and change the cluster.

        Args:
            in_thread: runs a call that waits for the Kubernetes API.
        """
        return ClusterPorts(
            nodes=self.nodes,
            pods=self.pods,
            pod_reader=self.pod_reader,
            binder=self.binder,
            activator=self.activator,
            leader=self.leader,
            informers=self.informers,
            events=self.events,
            kubernetes_client=lambda: self.api.api_client,
            in_thread=in_thread,
        )

    def tell(self, metrics: Metrics) -> None:
        """Add the counts of stores, watches, pod patches and Events to every scrape of metrics."""
        metrics.scrape(NODE_STORE, self.nodes.store.stats, store="watched")
        metrics.scrape(self.nodes.METRICS, lambda: self.nodes, resource="nodes")
        if (pods := self.pods) is not None:
            metrics.scrape(pods.METRICS, lambda: pods, resource="pods")
        for informer in self.informers:
            informer.add_metrics(metrics)
        if (leader := self.leader) is not None:
            metrics.scrape(leader.METRICS, lambda: leader)
        metrics.scrape(self.activator.METRICS, lambda: self.activator.stats)
        metrics.scrape(self.events.METRICS, lambda: self.events.stats)
        if (marker := self.marker) is not None:
            metrics.scrape(marker.METRICS, lambda: marker.stats)

    def last_errors(self) -> dict[str, Callable[[], str | None]]:
        """Return name of a readiness check -> function that returns its watch's last error."""
        errors = {
            NODES_LISTED: lambda: self.nodes.last_error,
            INFORMERS_SYNCED: self.informers.last_error,
        }
        if (pods := self.pods) is not None:
            errors[PODS_LISTED] = lambda: pods.last_error
        return errors


@dataclass(frozen=True, slots=True)
class _LeadersWork:
    """What the verbs do while this replica leads, as the leader's election asks for it."""

    verbs: Callable[[], Verbs]

    def is_ready(self) -> bool:
        return not any(why() for why in self.verbs().readiness.conditions.values())

    def is_busy(self) -> bool:
        return self.verbs().bind.is_busy

    def cease(self, why: str) -> None:
        self.verbs().cease_to_lead(why)


def _leader(
    config: Configuration,
    api: "Cluster",
    pods: cluster.Reflector[core.PodStore] | None,
    verbs: Callable[[], Verbs],
) -> cluster.Leader | None:
    """Make the part that elects a leader; None where the configuration asks for none.

    Raises: ClusterError: the environment does not name this pod.
    """
    lease = config.server.lease
    if lease is None:
        return None
    pod = cluster.own_pod()
    name = cluster.LeaseName(lease.namespace or pod.namespace, lease.name)
    return cluster.Leader(api, name, pod, pods, _LeadersWork(verbs))


def _marker(
    config: Configuration, outbox: cluster.Outbox, waiting_pods: WaitingPods
) -> cluster.WaitingPodMarker | None:
    """Make the part that marks held pods; None where no autoscaler counts them."""
    if not config.marks_held_pods:
        return None
    marker = cluster.WaitingPodMarker(outbox)
    waiting_pods.tell(
        lambda held: marker.hold(held.pod, held.node_name, held.pending_plugins),
        lambda held: marker.release(held.pod.uid),
    )
    return marker


def _readiness_checks(
    readiness: Readiness, starts: PluginStarts, side: _ClusterSide | None
) -> list[HealthCheck]:
    """Return the checks of the probe ``/readyz``; a failing check says what is missing and why."""
    errors: dict[str, Callable[[], str | None]] = {} if side is None else side.last_errors()
    errors[PLUGINS_STARTED] = starts.why_not
    checks = [
        HealthCheck(name, partial(_with_cause, why_not, errors.get(name, lambda: None)))
        for name, why_not in readiness.conditions.items()
    ]
    if side is not None and side.leader is not None:
        checks.append(HealthCheck("leader-label", side.leader.why_not_ready))
    return checks


def _with_cause(why_not: Callable[[], str], error: Callable[[], str | None]) -> str:
    why, cause = why_not(), error()
    return f"{why}: {cause}" if why and cause else why


def _why_not_synced(noun: str, reflector: cluster.Reflector[Any]) -> str:
    if reflector.synced:
        return ""
    error = reflector.last_error
    return f"the {noun} are not listed yet{f': {error}' if error else ''}"


@dataclass(frozen=True, slots=True)
class App:
    """A kubextend server with all its parts, not started yet.

    Attributes:
        asgi: the ASGI application; its lifespan starts and stops the other parts.
        verbs: the extender verbs for callers without a server; each takes the body of a request and
            returns the body of the response.
        health: the answers of ``/readyz`` and ``/livez``.
        metrics: the content of ``/metrics``.
    """

    asgi: Starlette
    verbs: Verbs
    health: Health
    metrics: Metrics
    _starts: PluginStarts = field(repr=False)
    _workers: ApiThreads = field(repr=False)
    _cluster: _ClusterSide | None = field(repr=False)
    _queue: QueueController | None = field(repr=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Return the lifespan of the server: the other parts start with it, and stop after it."""
        await asyncio.to_thread(self.follow)
        # A plugin that does not start must not delay probes and signals.
        tasks = [asyncio.create_task(work) for work in (self.start(), _wake_due(self.verbs))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.health.shut_down()
            try:
                await self.stop_async_plugins()
                await asyncio.to_thread(self.stop)
            finally:
                self._workers.stop()

    def follow(self) -> None:
        """Start to list and watch nodes and pods; kube-apiserver need not be reachable yet."""
        if self._cluster is not None:
            self._cluster.start()

    async def start(self) -> None:
        """Start every plugin, repeat failed starts until all succeed, then start the queue.

        The replica stands for election once its plugins are started.
        """
        if self._leader is not None:
            self._leader.start()
        await self._starts.run()
        if self._queue is not None:
            await asyncio.to_thread(self._queue.start)

    @property
    def _leader(self) -> cluster.Leader | None:
        return None if self._cluster is None else self._cluster.leader

    def sends_away(self) -> bool:
        """Return whether clients had better call another replica, since this one does not lead."""
        return self._leader is not None and not self._leader.leads

    async def stop_async_plugins(self) -> None:
        """Await the method ``stop`` of each plugin whose ``stop`` is ``async``.

        A ``stop`` that takes longer than ten seconds is given up.
        """
        plugins, failures = self.verbs.profiles.plugins, self.verbs.limits.failures
        stops = [stop_async(plugin, failures) for plugin in plugins if stops_async(plugin)]
        await asyncio.gather(*stops)

    def stop(self) -> None:
        """Stop the queue, the plugins and every call to the Kubernetes API.

        The method ``stop_async_plugins`` stops the plugins whose ``stop`` is ``async``.
        """
        if self._queue is not None:
            # Before the Lease is given back, by which both act.
            self._queue.stop()
        if self._leader is not None:
            self._leader.stop()
        for plugin in self.verbs.profiles.plugins:
            if not stops_async(plugin):
                stop_sync(plugin, self.verbs.limits.failures)
        if self._cluster is not None:
            self._cluster.stop()


def build(config: Configuration, ports: ClusterPorts | None = None) -> App:
    """Build the server that a configuration describes, without starting it.

    Args:
        config: a loaded and checked configuration.
        ports: the objects by which verbs and plugins reach the cluster; None: those of the
            Kubernetes API that the configuration names, if it names one.

    Raises:
        ClusterError: there are no usable credentials for the API.
        KubextendError: a plugin cannot be made, or the file with bearer tokens cannot be read or
            holds no token.
    """
    metrics = Metrics()
    waiting_pods = waiting_pods_of(config)
    workers = ApiThreads()

    def not_started() -> frozenset[str]:
        names: frozenset[str] = starts.names()
        return names

    def passed_over(error: PluginError) -> None:
        verbs.limits.failures.note(error, "a watched object is passed over")

    side: _ClusterSide | None = None
    if ports is None:
        side = _ClusterSide.of(config, waiting_pods, lambda: verbs, passed_over, not_started)
        ports = NO_CLUSTER if side is None else side.ports(workers.wait_for)
    else:
        ports = replace(ports, in_thread=workers.wait_for)
    verbs = build_verbs(
        config, ports, metrics=metrics, waiting_pods=waiting_pods, not_started=not_started
    )
    starts = PluginStarts(
        verbs.profiles.plugins,
        verbs.limits,
        verbs.limits.failures.note,
        on_started=(lambda: None) if side is None else side.informers.plugin_started,
    )
    queue = None if side is None else _queue(config, verbs, side)
    checks = _readiness_checks(verbs.readiness, starts, side)
    alive = [HealthCheck("plugins", verbs.limits.breakers.why_not_alive)]
    if queue is not None:
        checks.append(
            HealthCheck("queue-sync", partial(_why_not_synced, "pending pods", queue.pods))
        )
        alive.append(HealthCheck("queue", queue.runner.why_not_alive))

    def let_go() -> None:
        waiting_pods.close("kubextend is shutting down")
        verbs.throttle.close()
        if side is not None and side.leader is not None:
            side.leader.resign()

    health = Health(checks, alive, let_go)
    _tell(metrics, config, waiting_pods, workers, side)
    app: App
    asgi = application(
        verbs,
        health,
        config.server,
        more_routes=[
            *_waiting_pod_routes(config, waiting_pods),
            *_decision_routes(config, verbs, queue, None if side is None else side.leader),
        ],
        running=lambda: app.running(),  # noqa: PLW0108  the application is made below
    )
    app = App(asgi, verbs, health, metrics, starts, workers, side, queue)
    return app


_INFO: Final[tuple[ScrapedGauge[Configuration], ...]] = (
    ScrapedGauge(
        "kubextend_build_info",
        "1, with the versions of kubextend and of Python.",
        lambda _: {(__version__, platform.python_version()): 1},
        ("version", "python"),
    ),
    ScrapedGauge(
        "kubextend_configuration_info",
        "1, with a hash of the configuration that runs.",
        lambda config: {config.sha256: 1},
        ("sha256",),
    ),
)


def _tell(
    metrics: Metrics,
    config: Configuration,
    waiting_pods: WaitingPods,
    workers: ApiThreads,
    side: _ClusterSide | None,
) -> None:
    """Add what the parts of a server count to every scrape of the metrics."""
    metrics.scrape(waiting_pods.METRICS, lambda: waiting_pods)
    metrics.scrape(THREADS, workers.use, pool="api")
    metrics.scrape(_INFO, lambda: config)
    if side is not None:
        side.tell(metrics)


def _queue(config: Configuration, verbs: Verbs, side: _ClusterSide) -> QueueController | None:
    """Return the queue, which hears of the pods that Permit holds; None: no profile has a queue."""
    if not config.queues:
        return None
    queue = QueueController.of(
        config,
        verbs.profiles,
        side.api,
        verbs.metrics,
        side.events,
        pods=side.pods,
        election=None if side.leader is None else side.leader.election,
    )
    runner = queue.runner
    verbs.waiting_pods.tell(
        lambda held: runner.tell(SchedulingQueue.held_in_permit, held.pod.uid),
        lambda held: runner.tell(SchedulingQueue.left_permit, held.pod.uid),
    )
    return queue


async def _wake_due(verbs: Verbs) -> None:
    """Make kube-scheduler retry, each second, the pods that a verb wants to see again by now."""
    while True:
        await asyncio.sleep(1)
        try:
            await asyncio.to_thread(verbs.wake_due)
        except Exception:
            _LOGGER.exception("waking pods failed")


def check(config: Configuration) -> None:
    """Check on this machine whether the function ``serve`` could start with a configuration.

    The check skips files that are not on this machine: the configuration's notes name them. The
    check makes no network call.

    Args:
        config: a loaded and checked configuration.

    Raises: ConfigError: ``serve`` would end at its start; the error has every reason.
    """
    issues = []
    for path, make in _made_at_start(config):
        try:
            make()
        except KubextendError as error:
            issues.append(Issue(path, str(error)))
    if issues:
        raise ConfigError(issues)


def _made_at_start(
    config: Configuration,
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield paths of a configuration, each with a function that raises if ``serve`` would."""
    client = None if config.cluster is None else cluster.unconnected_client
    ports = ClusterPorts(kubernetes_client=client)
    yield "profiles", partial(build_verbs, config, ports)
    if (tls := _tls(config)) is not None and _are_here(*tls.paths):
        yield "server.tls", tls.not_after_s
    waiting_pods = config.server.waiting_pods
    if waiting_pods is not None and _are_here(waiting_pods.token_file):
        yield "server.waitingPods.tokenFile", partial(tokens_in, Path(str(waiting_pods.token_file)))
    readers = config.server.decisions.token_file
    if readers is not None and _are_here(readers):
        yield "server.decisions.tokenFile", partial(tokens_in, Path(readers))
    if config.cluster is not None and _are_here(config.cluster.kubeconfig):
        kubeconfig = str(config.cluster.kubeconfig)
        check_file = partial(cluster.check_kubeconfig, kubeconfig, config.cluster.context)
        yield "cluster", check_file


def _are_here(*files: str | Path | None) -> bool:
    return all(file is not None and os.access(file, os.R_OK) for file in files)


def create_app(config: Configuration) -> Starlette:
    """Build a configuration's ASGI application, for any server that runs ASGI's lifespan."""
    return build(config).asgi


def serve(config: Configuration, announce: Callable[[str], None] | None = None) -> None:
    """Answer kube-scheduler's requests until SIGTERM or Ctrl-C.

    Args:
        config: a loaded and checked configuration.
        announce: called with the URL of the verbs once the server accepts connections; None: print
            ``listening on URL``.

    Raises: KubextendError: there are no credentials, a plugin cannot be made, the address is taken,
    or a file of certificates or tokens is unusable.
    """
    keep_freed_memory()
    app = build(config)
    if app.verbs.run_python or config.queues:
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
    server = config.server
    if warning := idle_warning(config):
        _LOGGER.warning(warning)
    listeners = [
        Listener(
            app.asgi,
            server.host,
            server.port,
            keep_alive_s=server.keep_alive_seconds,
            tls=_tls(config),
        )
    ]
    if server.health_port is not None:
        listeners.append(
            Listener(
                health_application(app.health, app.metrics),
                server.health_host or server.host,
                server.health_port,
                keep_alive_s=_PROBES_KEEP_ALIVE_S,
                most_connections=_MOST_PROBES,
            )
        )

    def started(urls: list[str]) -> None:
        (announce or _print_url)(f"{urls[0]}{server.path}")
        for url in urls[1:]:
            _LOGGER.info("health and metrics are on %s", url, extra={"health_url": url})

    Service(
        listeners,
        app.health,
        started,
        app.metrics,
        drain_s=server.drain_delay.seconds,
        sends_away=app.sends_away,
        bindings_under_way=app.verbs.bind.bindings_under_way,
    ).run()


def idle_warning(config: Configuration) -> str:
    """Return a warning if the configuration enables no plugin and so serves nothing, else ""."""
    if config.verbs or config.queues:
        return ""
    return "no profile enables a plugin, so kubextend answers 404 to every verb"


def _waiting_pod_routes(config: Configuration, waiting_pods: WaitingPods) -> list[Route]:
    allowed = config.server.waiting_pods
    if allowed is None:
        return []
    access = _access(allowed, "server.waitingPods")
    return waiting_pod_routes(waiting_pods, access, path=config.server.path)


def _access(allowed: model.WaitingPods | model.Decisions, setting: str) -> Access:
    """Return who may call, by a section of the configuration and the name of that section.

    Raises: KubextendError: the file of tokens cannot be read, or holds anything but tokens.
    """
    token_file = Path(allowed.token_file) if allowed.token_file else None
    if token_file is not None:
        tokens_in(token_file)
    return Access(frozenset(allowed.allowed_names), token_file, setting)


def _decision_routes(
    config: Configuration,
    verbs: Verbs,
    queue: QueueController | None,
    leader: cluster.Leader | None,
) -> list[Route]:
    readers = config.server.decisions
    if not readers.allowed_names and not readers.token_file:
        return []
    access = _access(readers, "server.decisions")
    conditions = verbs.readiness.conditions

    def not_ready() -> dict[str, str]:
        return {name: why for name, why_not in conditions.items() if (why := why_not())}

    facts = ServerFacts(
        verbs.profiles,
        config.verbs,
        not_ready,
        verbs.limits.breakers.health,
        config.queue.gate if config.queues else "",
        config.sha256,
        lambda: None if queue is None else (queue.election.leads, queue.counts()),
        lambda uid: "" if queue is None else queue.runner.why_waiting(uid),
        lambda: 0.0 if leader is None else leader.leads_since_s,
    )
    most_s = config.extender.http_timeout.seconds
    look_again, in_time = looking_again(verbs.limits, most_s), partial(_unblock, verbs, most_s)
    reader = DecisionReader(verbs.decisions, verbs.waiting_pods, facts, look_again, in_time)
    path = config.server.path
    page = page_routes(access, path=path) if readers.page else []
    return [*decision_routes(reader, access, path=path), *page]


def _unblock(verbs: Verbs, most_s: float, unblock: Callable[[], str]) -> str:
    """Call a plugin's ``unblock`` with a time limit; report its failure, and return "" then."""
    try:
        return verbs.limits.within(most_s, unblock)
    except PluginError as error:
        verbs.limits.failures.note(error, "nobody hears what the pod lacks")
        return ""


def _tls(config: Configuration) -> TlsFiles | None:
    tls = config.server.tls
    if tls.cert_file is None or tls.key_file is None:
        return None
    client_ca_file = None if tls.client_ca_file is None else Path(tls.client_ca_file)
    return TlsFiles(Path(tls.cert_file), Path(tls.key_file), client_ca_file)


def _print_url(url: str) -> None:
    sys.stdout.write(f"listening on {url}\n")
    sys.stdout.flush()
