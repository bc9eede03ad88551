"""Imports the plugin classes that a configuration lists in ``outOfTree``."""

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
    """Import the referenced plugin classes; return all known plugins, and names of failed classes.

    The plugin name of a class that cannot be imported is unknown. The second result therefore has
    the name of the Python class, which is the plugin name of most plugins.

    Args:
        references: texts of the form ``package.module:Class``.
        known: the known plugins by name, without the referenced plugins.
        findings: gets an issue for each reference that cannot be imported or is named twice.
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
    """Return the class name in ``package.module:Class``, which is the name of most plugins.

    If the reference lacks the colon or the class, its last word stands for the class.
    """
    return reference.rstrip(":.").replace(":", ".").rpartition(".")[2]
