"""kube-scheduler plugins in Python, at the speed of a Rust core, behind an unmodified scheduler."""

from kubextend._native import __version__

__all__ = ["__version__"]
