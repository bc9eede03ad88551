"""Makes the verbs that a configuration describes, with their profiles, plugins and memory."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from kubextend.config import ExtenderConfiguration, ResolvedProfile
from kubextend.errors import KubextendError
from kubextend.framework.handle import NO_CLUSTER, ClusterPorts, Handle
from kubextend.framework.imports import in_own_code
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, Profile, Profiles, WaitingPods
from kubextend.verbs.context import NODE_STORE, Context, Memory
from kubextend.verbs.verbs import Verbs

__all__ = ["build_verbs", "waiting_pods_of"]


def build_verbs(
    config: ExtenderConfiguration,
    ports: ClusterPorts = NO_CLUSTER,
    *,
    metrics: Metrics | None = None,
    limits: PluginLimits | None = None,
    waiting_pods: WaitingPods | None = None,
    not_started: Callable[[], Iterable[str]] = tuple,
) -> Verbs:
    """Make the extender verbs that a configuration enables, without a server around them.

    Args:
        config: a loaded and checked configuration.
        ports: the objects by which verbs and plugins reach the cluster.
        metrics: where calls are counted; None: new metrics.
        limits: threads, circuit breakers and the clock of the plugins; None: new ones.
        waiting_pods: the pods that Permit holds; None: no pod so far.
        not_started: returns the plugins whose ``start`` has not succeeded yet.

    Raises: KubextendError: a plugin cannot be made.
    """
    metrics = metrics or Metrics()
    memory = Memory(
        config,
        ports,
        metrics,
        limits or PluginLimits(metrics=metrics),
        waiting_pods_of(config) if waiting_pods is None else waiting_pods,
    )
    metrics.scrape(NODE_STORE, memory.request_store.stats, store="request")
    handle = Handle(
        memory.waiting_pods,
        replace(ports, activator=memory.unplaced),
        configuration=config,
        registries=lambda owner: metrics.plugin_registry(owner.plugin, owner.profile),
        common_metrics=metrics.registry,
    )
    made = (_profile_of(config, each, handle) for each in config.resolved)
    profiles = Profiles.of(made, config.pass_through)
    return Verbs(Context(config, profiles, memory, ports, metrics, not_started), handle)


def _profile_of(
    config: ExtenderConfiguration, resolved: ResolvedProfile, handle: Handle
) -> Profile:
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


def waiting_pods_of(config: ExtenderConfiguration) -> WaitingPods:
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
