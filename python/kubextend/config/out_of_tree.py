"""The plugins that a configuration brings by itself, added to those there are.

Imports what ``outOfTree`` names and nothing else.
"""

from collections.abc import Mapping, Sequence

from kubextend.config.issues import Findings
from kubextend.config.model import PluginInfo
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins

__all__ = ["FIELD", "class_name", "with_out_of_tree"]

FIELD = "outOfTree"


def with_out_of_tree(
    references: Sequence[str], known: Mapping[str, PluginInfo], findings: Findings
) -> tuple[Mapping[str, PluginInfo], frozenset[str]]:
    """The larger set, and the names that a failed import would likely have brought.

    Args:
        references: ``package.module:Class`` each.
        known: the plugins there are without them.
        findings: takes what cannot be had.
    """
    if not references:
        return known, frozenset()
    larger = KnownPlugins.of(known, "kubextend")
    missing: set[str] = set()
    for index, reference in enumerate(references):
        if reference in references[:index]:
            findings.complain((FIELD, index), "is named twice", reference, "keep one")
            continue
        try:
            larger = larger.with_reference(reference, f"{FIELD}[{index}]")
        except PluginUnavailableError as error:
            findings.complain((FIELD, index), error.message, reference, error.hint)
            missing.add(class_name(reference))
    return larger, frozenset(missing)


def class_name(reference: str) -> str:
    """The part behind the colon, by which most plugins are called."""
    return reference.rpartition(":")[2]
