"""kubextend's configuration: reads and checks the file.

``load`` reads a file and returns a typed, checked configuration, or raises one error that lists all
issues of the file. The package imports no plugins: the caller passes the known plugins.
"""

from kubextend.config.configuration import (
    Configuration,
    EnabledPlugin,
    ResolvedProfile,
)
from kubextend.config.duration import Duration
from kubextend.config.loader import DEFAULT, load, parse
from kubextend.config.model import (
    Cluster,
    File,
    Queue,
    Server,
    ServerTLS,
    VerbName,
    WaitingPods,
)
from kubextend.config.yaml_document import read_document, read_file

__all__ = [
    "DEFAULT",
    "Cluster",
    "Configuration",
    "Duration",
    "EnabledPlugin",
    "File",
    "Queue",
    "ResolvedProfile",
    "Server",
    "ServerTLS",
    "VerbName",
    "WaitingPods",
    "load",
    "parse",
    "read_document",
    "read_file",
]
