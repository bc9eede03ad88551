"""kubextend: an extender server that runs kube-scheduler plugins written in Python or Rust.

Plugin authors import from ``kubextend``, ``kubextend.framework`` and ``kubextend.testing``.
"""

from kubextend._native import __version__

__all__ = ["Status", "__version__", "core", "framework", "testing"]

TYPE_CHECKING = False  # typing's own would be a module that the core alone does without
if TYPE_CHECKING:
    from kubextend.framework.status import Status
else:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use, so that ``import kubextend`` is fast.

        Raises: AttributeError: the package has no such name.
        """
        from importlib import import_module  # noqa: PLC0415

        if name == "Status":
            return import_module("kubextend.framework.status").Status
        if name in __all__:
            return import_module(f"kubextend.{name}")
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
