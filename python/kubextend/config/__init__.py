"""The typed configuration: reads it, checks it, and writes kube-scheduler's own from it.

``load`` reads a file and returns a configuration that can run, or raises every error at once. The
package knows neither plugins nor profiles: the caller passes the known plugins.
"""

from kubextend.config.duration import Duration
from kubextend.config.loader import DEFAULT, load, parse
from kubextend.config.model import (
    Cluster,
    EnabledPlugin,
    Extender,
    ExtenderConfiguration,
    ExtenderTLSConfig,
    Queue,
    ResolvedProfile,
    Server,
    ServerTLS,
    VerbName,
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
    "Queue",
    "ResolvedProfile",
    "Server",
    "ServerTLS",
    "VerbName",
    "WaitingPods",
    "load",
    "parse",
]
