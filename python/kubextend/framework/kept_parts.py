"""KeptParts: the optional parts of pods and nodes that kubextend keeps if a plugin needs them."""

from collections.abc import Iterable
from typing import Final, TypedDict

__all__ = ["ALL_PARTS", "NO_PARTS", "KeptParts", "kept_parts"]


class KeptParts(TypedDict):
    """The optional parts of pods and nodes that stores keep, as arguments of ``core.PodStore``.

    Attributes:
        details: whether stores keep the details: fields such as affinity, volumes and annotations
            of nodes.
        raw: whether stores keep the JSON of each pod and node.
    """

    details: bool
    raw: bool


ALL_PARTS: Final = KeptParts(details=True, raw=True)
NO_PARTS: Final = KeptParts(details=False, raw=False)


def kept_parts(plugins: Iterable[object]) -> KeptParts:
    """Return the parts that plugins need, by their ``needs_details`` and ``needs_raw``.

    Args:
        plugins: plugins, classes of plugins, or objects of type ``RegisteredPlugin``.
    """
    asked = [
        (getattr(plugin, "needs_details", False), getattr(plugin, "needs_raw", False))
        for plugin in plugins
    ]
    return KeptParts(details=any(details for details, _ in asked), raw=any(raw for _, raw in asked))
