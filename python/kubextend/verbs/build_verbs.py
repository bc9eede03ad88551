"""Makes the verbs that a configuration describes, with their profiles, plugins and memory."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from kubextend import core
from kubextend.config import Configuration, ResolvedProfile
from kubextend.errors import KubextendError
from kubextend.framework.handle import NO_CLUSTER, ClusterPorts, Handle
from kubextend.framework.imports import in_own_code
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, Profile, Profiles, WaitingPods
from kubextend.verbs.context import Context, ExtenderSettings
from kubextend.verbs.decision_records import Decisions
from kubextend.verbs.kept_between_calls import NODE_STORE, Memory
from kubextend.verbs.verbs import Verbs

__all__ = ["build_verbs", "handle_of", "memory_of", "waiting_pods_of"]


def build_verbs(
    config: Configuration,
    ports: ClusterPorts = NO_CLUSTER,
    *,
    memory: Memory | None = None,
    metrics: Metrics | None = None,
    not_started: Callable[[], Iterable[str]] = tuple,
    handle: Handle | None = None,
) -> Verbs:
    """Make the extender verbs that a configuration enables, without a server around them.

    Args:
        config: a loaded and checked configuration.
        ports: the objects by which verbs and plugins reach the cluster.
        memory: what the verbs remember between calls; None: a new, empty ``Memory``.
        metrics: where calls are counted; None: new metrics.
        not_started: returns the plugins whose ``start`` has not succeeded yet.
        handle: the Handle from which those of the plugins are made; None: a new Handle.

    Raises: KubextendError: a plugin cannot be made.
    """
    metrics = metrics or Metrics()
    memory = memory or memory_of(config, ports, metrics, waiting_pods=waiting_pods_of(config))
    metrics.scrape(NODE_STORE, memory.request_store.stats, store="request")
    handle = handle or handle_of(config, ports, memory, metrics)
    made = (_profile_of(config, each, handle) for each in config.profiles)
    profiles = Profiles.of(made, config.pass_through)
    settings = _extender_settings(config)
    return Verbs(Context(profiles, memory, ports, settings, metrics, not_started))


def memory_of(
    config: Configuration,
    ports: ClusterPorts,
    metrics: Metrics,
    *,
    waiting_pods: WaitingPods,
    limits: PluginLimits | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Memory:
    """Return an empty ``Memory``: what the verbs remember between calls.

    Args:
        config: a loaded and checked configuration, with the HTTP timeout, the parts of nodes to
            keep, and the most bytes of recorded decisions.
        ports: has the activator, which makes kube-scheduler try pods again.
        metrics: counts the calls of plugins, and the pods that are to be tried again.
        waiting_pods: the pods that Permit holds.
        limits: threads and circuit breakers of the plugins; None: new ones.
        clock: returns monotonic seconds, at the speed of the event loop's clock.
    """
    memory = Memory.of(
        ports,
        metrics,
        look_again_s=config.extender.http_timeout.seconds,
        limits=limits,
        waiting_pods=waiting_pods,
        clock=clock,
    )
    return replace(
        memory,
        request_store=core.RequestStore(**config.kept_parts),
        decisions=Decisions(config.server.decisions.max_bytes),
    )


def handle_of(
    config: Configuration, ports: ClusterPorts, memory: Memory, metrics: Metrics
) -> Handle:
    """Return the Handle from which the Handles of all plugins are made.

    Args:
        config: the configuration that plugins find in the Handle.
        ports: the objects by which plugins reach the cluster.
        memory: remembers the pods that plugins activate.
        metrics: has the registries for the metrics of plugins.
    """
    return Handle(
        memory.waiting_pods,
        replace(ports, activator=memory.unplaced),
        configuration=config,
        registries=lambda owner: metrics.plugin_registry(owner.plugin, owner.profile),
        common_metrics=metrics.registry,
    )


def _profile_of(config: Configuration, resolved: ResolvedProfile, handle: Handle) -> Profile:
    """Make a profile, with one instance of each plugin for all its extension points.

    Args:
        config: a loaded and checked configuration.
        resolved: the profile in the configuration.
        handle: the Handle from which those of the plugins are made.

    Raises: KubextendError: a plugin cannot be made.
    """
    known = config.plugins
    handle = handle.in_profile(resolved.scheduler_name)
    # Any: the extension points were checked when the configuration was resolved.
    made: dict[str, Any] = {
        name: _made(known[name], args, resolved, handle) for name, args in resolved.args.items()
    }

    def at(point: str) -> list[Any]:
        return [made[enabled.name] for enabled in resolved.at(point)]

    weights = {enabled.name: enabled.weight for enabled in resolved.at("score")}
    return replace(
        Profile.of(resolved.scheduler_name, at, weights),
        pods=handle.pods,
        counts_pods=resolved.counts_pods,
        needs_leader=bool(resolved.state) or config.guard.resources,
        ignored=resolved.ignored,
    )


def waiting_pods_of(config: Configuration) -> WaitingPods:
    """Return a ``WaitingPods`` that holds no pod yet, with the limits of a configuration."""
    extender = config.extender
    return WaitingPods(
        extender.permit_max_wait.seconds,
        extender.max_held_pods,
        extender.max_held_pods_per_namespace,
    )


def _made(
    plugin: RegisteredPlugin, args: BaseModel | None, resolved: ResolvedProfile, handle: Handle
) -> Any:
    try:
        return plugin.make(args, handle)
    # SystemExit: the error is to name the plugin that calls sys.exit.
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, KubextendError) else f"{type(error).__name__}: "
        what = " ".join(f"{kind}{error}".split())
        profile = f'profile "{resolved.scheduler_name}"'
        where = in_own_code(plugin.plugin_class.__module__, error)
        message = f'{profile}: plugin "{plugin.name}" cannot be made: {what}{where}'
        raise KubextendError(message) from error


def _extender_settings(config: Configuration) -> ExtenderSettings:
    return ExtenderSettings(
        ignorable=config.extender.ignorable,
        last_filter=config.extender.last_filter,
        preempt_groups=config.extender.preempt_groups,
        served=config.verbs,
        score_scale=config.score_scale,
        http_timeout_s=config.extender.http_timeout.seconds,
        bind_timeout_s=config.extender.bind_timeout.seconds,
        guards_resources=config.guard.resources,
    )
