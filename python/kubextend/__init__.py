"""kube-scheduler plugins in Python, at the speed of a Rust core, behind an unmodified scheduler.

Plugin authors import from here, from ``kubextend.framework`` and from ``kubextend.testing``.
"""

from kubextend._native import __version__

__all__ = ["Status", "__version__", "core", "framework", "testing"]

TYPE_CHECKING = False  # typing's own would be a module that the core alone does without
if TYPE_CHECKING:
    from kubextend.framework.status import Status
else:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use, so that ``import kubextend`` stays quick."""
        from importlib import import_module  # noqa: PLC0415

        if name == "Status":
            return import_module("kubextend.framework.status").Status
        if name in __all__:
            return import_module(f"kubextend.{name}")
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
