"""The checked configuration: what a file comes to, and what follows from it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import BaseModel

from kubextend.config.model import (
    Autoscaler,
    Cluster,
    Extender,
    File,
    Guard,
    Queue,
    Server,
    VerbName,
)
from kubextend.framework.kept_parts import NO_PARTS, KeptParts
from kubextend.framework.known_plugins import KnownPlugins

__all__ = ["Configuration", "EnabledPlugin", "ResolvedProfile"]

_BINDING_POINTS = ("reserve", "permit", "preBind", "bind", "postBind")
# Permit is here because the next filter call of a pod answers that Permit rejected it.
_FILTER_POINTS = ("preFilter", "filter", "postFilter", "permit")
_REJECTING_POINTS = ("preFilter", "filter")


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin that runs at one extension point of a profile.

    Attributes:
        name: the name of the plugin.
        weight: the factor of the plugin's scores; 1 at any point other than score.
    """

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class ResolvedProfile:
    """A profile with multiPoint expanded: the plugins of each extension point in running order.

    Attributes:
        scheduler_name: the ``spec.schedulerName`` of the pods that the profile is for.
        points: extension point -> its plugins in running order; points without plugins are absent.
        args: name of an enabled plugin -> its checked arguments; None if the plugin takes none.
        needs_pods: whether a plugin of the profile has ``needs_pods = True``.
        counts_pods: whether a plugin with ``needs_pods = True`` is enabled at PreFilter or Filter.
            Then kubextend must bind the pods, so that a pod counts on its node before its binding
            is known.
        parts: the optional parts of pods and nodes that plugins of the profile need.
        state: for each plugin that keeps what other replicas do not know, a phrase such as ``NAME
            holds pods``. Empty: no plugin of the profile does.
        ignored: names of the plugins with ``failurePolicy: Ignore``.
        percentage_of_nodes_to_score: the value of this field for kube-scheduler; None: kubextend's.
    """

    scheduler_name: str
    points: Mapping[str, tuple[EnabledPlugin, ...]] = field(default_factory=dict)
    args: Mapping[str, BaseModel | None] = field(default_factory=dict)
    needs_pods: bool = False
    counts_pods: bool = False
    parts: KeptParts = field(default_factory=NO_PARTS.copy)
    state: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    percentage_of_nodes_to_score: int | None = None

    def at(self, point: str) -> tuple[EnabledPlugin, ...]:
        """Return the plugins that run at an extension point, in order; empty if none runs there."""
        return self.points.get(point, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration that kubextend can run. The sections are those of the file, ``model.File``.

    Attributes:
        server: where and how kubextend serves the verbs.
        cluster: access to the Kubernetes API; None: no access.
        extender: the settings that kube-scheduler's file repeats.
        autoscaler: the autoscaler of the cluster.
        guard: what kubextend checks right before it binds a pod.
        queue: how the queue releases pods.
        score_scale: the scale of scores.
        profiles: the profiles with multiPoint expanded, in the file's order.
        pass_through: the names of schedulers whose pods kubextend leaves alone.
        plugins: all known plugins by name, those of the file's ``outOfTree`` included.
        notes: one sentence for each field that has no effect, or deserves a warning.
        sha256: the hash of the file, in which the order of the fields makes no difference.
    """

    server: Server
    cluster: Cluster | None
    extender: Extender
    autoscaler: Autoscaler
    guard: Guard
    queue: Queue
    score_scale: Literal["additive", "strict10"]
    profiles: tuple[ResolvedProfile, ...]
    pass_through: tuple[str, ...]
    plugins: KnownPlugins
    notes: tuple[str, ...]
    sha256: str

    @classmethod
    def of(cls, file: File, profiles: tuple[ResolvedProfile, ...], plugins: KnownPlugins) -> Self:
        """Return the configuration of a file, still without notes.

        Args:
            file: the file, each field of which is right.
            profiles: the file's profiles with multiPoint expanded.
            plugins: all known plugins by name.
        """
        sections = dict(file)
        for name in ("api_version", "kind", "out_of_tree", "profiles"):
            del sections[name]
        fields = json.dumps(file.model_dump(mode="json", by_alias=True), sort_keys=True)
        sha256 = hashlib.sha256(fields.encode()).hexdigest()
        return cls(**sections, profiles=profiles, plugins=plugins, notes=(), sha256=sha256)

    @property
    def scheme(self) -> Literal["http", "https"]:
        """The URL scheme of the server: ``https`` if it has a certificate, else ``http``."""
        return "https" if self.server.tls.cert_file else "http"

    @property
    def url_prefix(self) -> str:
        """The URL at which kube-scheduler calls the verbs, without a slash at its end.

        The URL is ``extender.urlPrefix`` if that is set, else it follows from ``server``.
        """
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        own = f"{self.scheme}://{host}:{self.server.port}{self.server.path}"
        scheme, colon, rest = (self.extender.url_prefix or own).partition(":")
        return (scheme.lower() + colon + rest).rstrip("/")

    @property
    def verbs(self) -> tuple[VerbName, ...]:
        """The verbs, such as ``filter``, that the enabled plugins need; no others are served."""
        binds = self.extender.bind or self.guard.resources or self.counts_pods
        needed: dict[VerbName, bool] = {
            "filter": self.any_at(*_FILTER_POINTS),
            "preempt": self.rejects_nodes,
            "prioritize": self.any_at("score"),
            "bind": binds or self.any_at(*_BINDING_POINTS),
        }
        return tuple(verb for verb in needed if needed[verb])

    @property
    def rejects_nodes(self) -> bool:
        """Whether a profile enables a PreFilter or Filter plugin of kubextend."""
        return self.any_at(*_REJECTING_POINTS)

    @property
    def queues(self) -> bool:
        """Whether kubextend runs its queue: a profile enables a QueueSort plugin of kubextend."""
        return self.any_at("queueSort")

    @property
    def counts_pods(self) -> bool:
        """Whether a profile enables a plugin with ``needs_pods = True`` at PreFilter or Filter."""
        return any(profile.counts_pods for profile in self.profiles)

    @property
    def needs_leader(self) -> bool:
        """Whether plugins of a profile, or the guard, keep what other replicas do not know."""
        return self.guard.resources or any(profile.state for profile in self.profiles)

    @property
    def needs_pods(self) -> bool:
        """Whether kubextend must watch the pods of the cluster.

        kubextend must do so if a profile enables a plugin with ``needs_pods = True``, or any plugin
        at Reserve or Permit, or if the guard compares requests with the room on nodes.
        """
        asked_for = any(profile.needs_pods for profile in self.profiles) or self.guard.resources
        return asked_for or self.any_at("reserve", "permit")

    @property
    def informers(self) -> tuple[str, ...]:
        """The resources whose objects the enabled plugins read, sorted.

        Raises: KubextendError: a plugin's ``informers`` hold something else.
        """
        enabled = {name for profile in self.profiles for name in profile.args}
        return tuple(sorted({each for name in enabled for each in self.plugins[name].informers}))

    @property
    def kept_parts(self) -> KeptParts:
        """The optional parts of pods and nodes that a plugin of any profile needs."""
        return KeptParts(
            details=any(profile.parts["details"] for profile in self.profiles),
            raw=any(profile.parts["raw"] for profile in self.profiles),
        )

    @property
    def marks_held_pods(self) -> bool:
        """Whether pods that Permit plugins hold are marked for an autoscaler."""
        return self.autoscaler.name is not None and self.autoscaler.mark_held_pods

    def any_at(self, *points: str) -> bool:
        """Return whether any profile enables a plugin at one of some extension points."""
        return any(profile.at(point) for profile in self.profiles for point in points)
