"""Typed configuration: reading it, judging it, and writing kube-scheduler's own from it.

``load`` reads a file and answers either a configuration that can run or every error at once. Knows
neither plugins nor profiles: what plugins there are is an argument.
"""

from kubextend.config.duration import Duration
from kubextend.config.loader import DEFAULT, load, parse
from kubextend.config.model import (
    Cluster,
    EnabledPlugin,
    Extender,
    ExtenderConfiguration,
    ExtenderTLSConfig,
    PluginInfo,
    Queue,
    ResolvedProfile,
    Server,
    ServerTLS,
    Verb,
    WaitingPods,
)

__all__ = [
    "DEFAULT",
    "Cluster",
    "Duration",
    "EnabledPlugin",
    "Extender",
    "ExtenderConfiguration",
    "ExtenderTLSConfig",
    "PluginInfo",
    "Queue",
    "ResolvedProfile",
    "Server",
    "ServerTLS",
    "Verb",
    "WaitingPods",
    "load",
    "parse",
]
