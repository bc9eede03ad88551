"""Adds the plugins that a configuration brings itself to the known plugins.

The module imports what ``outOfTree`` names and nothing else.
"""

from collections.abc import Mapping, Sequence

from kubextend.config.issues import Findings
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["FIELD", "class_name", "with_out_of_tree"]

FIELD = "outOfTree"


def with_out_of_tree(
    references: Sequence[str], known: Mapping[str, RegisteredPlugin], findings: Findings
) -> tuple[KnownPlugins, frozenset[str]]:
    """Return the larger set, and the names that a failed import would likely have brought.

    Args:
        references: texts of the form ``package.module:Class``.
        known: the known plugins without the references.
        findings: where unavailable references are reported.
    """
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
    """Return the part behind the colon, which is the name of most plugins."""
    return reference.rpartition(":")[2]
