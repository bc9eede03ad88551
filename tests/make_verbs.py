"""Makes ``Verbs`` for tests, from profiles and named parts, with defaults for all other parts."""

from dataclasses import fields, replace
from typing import Any

from kubextend.framework.handle import ClusterPorts
from kubextend.metrics import Metrics
from kubextend.profile import Profiles
from kubextend.verbs import Context, ExtenderSettings, Memory, Verbs


def make_verbs(profiles: Profiles, *, metrics: Metrics | None = None, **parts: Any) -> Verbs:
    """Make the ``Verbs`` of some profiles.

    Args:
        profiles: profiles by scheduler name.
        metrics: counts calls; None: new metrics.
        parts: fields of ``ClusterPorts``, ``ExtenderSettings``, ``Memory`` and ``Context``;
            ``watched`` stands for the nodes of the cluster.
    """
    metrics = metrics or Metrics()
    if "watched" in parts:
        parts["nodes"] = parts.pop("watched")
    cluster = ClusterPorts(**_taken(ClusterPorts, parts))
    settings = ExtenderSettings(**_taken(ExtenderSettings, parts))
    given = {name: parts.pop(name) for name in ("limits", "waiting_pods", "clock") if name in parts}
    memory = Memory.of(cluster, metrics, look_again_s=settings.http_timeout_s, **given)
    memory = replace(memory, **_taken(Memory, parts))
    return Verbs(Context(profiles, memory, cluster, settings, metrics, **parts))


def _taken(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    return {each.name: parts.pop(each.name) for each in fields(kind) if each.name in parts}
