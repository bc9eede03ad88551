"""Reads where the Kubernetes API is, and the credentials that kubextend has there.

A kubeconfig that cannot be right is an error. Credentials that are configured and do not come out
now are not: ``Access.missing`` says why, and no call may go out without them, as system:anonymous.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit

import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import (
    ConfigException,
    incluster_config,
    load_incluster_config,
    load_kube_config_from_dict,
)
from kubernetes.config.kube_config import KubeConfigMerger
from urllib3.util import make_headers

from kubextend.cluster.exec_plugin import issued_user, without_secrets
from kubextend.errors import ClusterError

TOKEN_FILE_S = 60.0
"""Seconds after which a file with a token is read again, as the official clients do."""
_PATHS = {"certificate-authority", "client-certificate", "client-key", "tokenFile"}
_TOKENS = {"token", "tokenFile", "exec", "auth-provider", "username"}
_NO_KUBECONFIG = "the file is empty, or does not list clusters, contexts and users"
_CERTIFICATES = {"client-certificate", "client-certificate-data"}

_Section = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Access:
    """Where the Kubernetes API is, and credentials for it.

    Attributes:
        configuration: the configuration of the official client.
        refusal: what to say if the API does not accept the credentials.
        missing: why there are no credentials now, although some are configured; else "".
        lasts_s: the seconds after which the credentials should be read again.
    """

    configuration: Configuration
    refusal: str
    missing: str = ""
    lasts_s: float = inf

    @property
    def key(self) -> tuple[object, ...]:
        """What differs if connections and headers have to differ."""
        of = self.configuration
        return of.host, of.proxy, of.ssl_ca_cert, of.cert_file, of.key_file, of.api_key


def of_service_account() -> Access:
    """Read the service account of the pod that this process runs in.

    Raises: ClusterError: a file is missing or empty, or the proxy is of a wrong kind.
    """
    configuration = Configuration()
    folder = Path(incluster_config.SERVICE_TOKEN_FILENAME).parent
    account = f"the pod's service account in {folder}"
    try:
        load_incluster_config(configuration, try_refresh_token=False)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        message = f"{account} cannot be used: {error}"
        raise ClusterError(message) from error
    _check_proxy(configuration)
    return Access(configuration, f"the API does not accept {account}", lasts_s=TOKEN_FILE_S)


def of_kubeconfig(path: str, context: str | None) -> Access:
    """Read a context of a kubeconfig, and run the exec plugin of its user if it has one. Blocks.

    Raises: ClusterError: the kubeconfig cannot be used, or the proxy is of a wrong kind.
    """
    chosen = Context.of(path, context)
    where = chosen.where()
    # The official client sends certificates only with TLS.
    kinds = _TOKENS | _CERTIFICATES if where.host.startswith("https:") else _TOKENS
    configured = chosen.user.keys() & kinds
    if not configured:
        remedy = "give its user a token, a certificate or an exec plugin"
        return Access(where, f"the API wants credentials, and {chosen.label} has none: {remedy}")
    try:
        user, lasts_s = chosen.issued_user()
        configuration = chosen.configuration(user)
        why = f"nothing came of its {', '.join(sorted(configured))}"
    except Exception as error:  # noqa: BLE001  whatever the official client raises
        configuration, why = where, _said(error)
    if not (configuration.api_key or configuration.cert_file):
        return Access(where, "", f"{chosen.label} has no credentials now: {why}", 0.0)
    return Access(configuration, f"the API does not accept {chosen.label}", lasts_s=lasts_s)


class Context(NamedTuple):
    """A context of a kubeconfig, with its cluster and its user; paths of files are absolute.

    Attributes:
        path: the kubeconfig, or several.
        label: names the user, if there is one, the context and the kubeconfig.
        cluster: the section ``cluster``.
        user: the section ``user``; empty if the context names no user.
        folder: the folder of the kubeconfig that has the user.
    """

    path: str
    label: str
    cluster: _Section
    user: _Section
    folder: Path

    @classmethod
    def of(cls, path: str, name: str | None) -> Self:
        """Read a kubeconfig, or several with ``:`` between them, and choose a context.

        Raises: ClusterError: the file, the context, its cluster or its user is not there.
        """
        if not any(Path(part).expanduser().is_file() for part in path.split(os.pathsep) if part):
            message = (
                f"kubeconfig {path}: no such file; name one with --kubeconfig or"
                " cluster.kubeconfig, or run in a pod with a service account"
            )
            raise ClusterError(message)
        user: _Section = {}
        try:
            entries = KubeConfigMerger(path).config.value  # type: ignore[no-untyped-call]
            name = name or entries.get("current-context")
            context, folder = _entry(entries, "context", name)
            cluster, _ = _entry(entries, "cluster", context.get("cluster"))
            label = f"context {name} in kubeconfig {path}"
            if context.get("user"):
                user, folder = _entry(entries, "user", context["user"])
                label = f"user {context['user']} of {label}"
        except (ClusterError, OSError, yaml.YAMLError) as error:
            raise _unusable(path, _said(error)) from error
        except (ConfigException, TypeError, AttributeError, KeyError, ValueError):
            # What the official client says may quote a token.
            raise _unusable(path, _NO_KUBECONFIG) from None
        return cls(path, label, cluster, user, folder)

    def where(self) -> Configuration:
        """Return the configuration of the official client, without credentials.

        Raises: ClusterError: the section ``cluster`` or the proxy cannot be used.
        """
        try:
            where = self.configuration({})
        except (ConfigException, OSError, ValueError) as error:
            raise _unusable(self.path, _said(error)) from error
        if not _is_http(where.host):
            message = f"kubeconfig {self.path}: the context's cluster needs `server: https://...`"
            raise ClusterError(message)
        return where

    def configuration(self, user: _Section) -> Configuration:
        """Return the configuration of the official client, with the credentials of a user.

        Raises: ClusterError: the proxy is of a wrong kind. Also any exception of the official
        client, of OpenSSL, or of an identity provider.
        """
        sections = {"cluster": self.cluster, "user": user, "context": {"cluster": "-", "user": "-"}}
        tree = {f"{kind}s": [{"name": "-", kind: each}] for kind, each in sections.items()}
        configuration = Configuration(host="")
        load_kube_config_from_dict(tree, "-", configuration)  # type: ignore[no-untyped-call]
        _check_certificates(configuration)
        _check_proxy(configuration)
        return configuration

    def issued_user(self) -> tuple[_Section, float]:
        """Return the user with what its token file or its exec plugin gives, and for how long.

        As client-go, this method does not run the plugin of a user with other credentials.

        Raises: OSError, ValueError: no token can be read; ClusterError: the plugin failed.
        """
        user = {key: value for key, value in self.user.items() if key != "exec"}
        if file := user.get("tokenFile"):
            return {"token": Path(file).read_text().strip()}, TOKEN_FILE_S
        if "exec" in self.user and not user.keys() & (_TOKENS | _CERTIFICATES):
            return issued_user(self.user["exec"], self.cluster, self.folder)
        return user, inf


def _entry(entries: _Section, kind: str, name: object) -> tuple[_Section, Path]:
    """Return the section of an entry of a kubeconfig, and the folder of its file.

    Raises: ClusterError: there is no such entry.
    """
    for node in entries[f"{kind}s"]:
        if node.value["name"] == name:
            folder = Path(node.path).absolute().parent
            section = (node.value.get(kind) or {}).items()
            return {
                key: str(folder / v) if key in _PATHS and v else v for key, v in section
            }, folder
    message = f"it has no {kind} {name!r}"
    raise ClusterError(message)


def _check_certificates(configuration: Configuration) -> None:
    """Read the files of certificates and keys as each connection will.

    Raises: ConfigException: a file does not hold what it should.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    files = configuration.ssl_ca_cert
    try:
        if files:
            tls.load_verify_locations(files)
        if files := configuration.cert_file:
            tls.load_cert_chain(files, configuration.key_file, password="")
    except OSError as error:
        message = f"{files} cannot be used as certificate: {error.strerror or error}"
        raise ConfigException(message) from error


def _check_proxy(configuration: Configuration) -> None:
    """Let the official client log in at the proxy for the API, if there is one.

    Raises: ClusterError: the proxy is none that urllib3 can use by itself.
    """
    proxy, host = configuration.proxy, configuration.host
    if not proxy or should_bypass_proxies(host, configuration.no_proxy or ""):
        return
    if not _is_http(proxy):
        message = (
            "the proxy for the API needs a URL with http:// or https://: look at proxy-url of the"
            " kubeconfig, HTTPS_PROXY and ALL_PROXY"
        )
        raise ClusterError(message)
    if (url := urlsplit(proxy)).username:
        user = unquote(f"{url.username}:{url.password or ''}")
        configuration.proxy_headers = make_headers(proxy_basic_auth=user)


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _unusable(path: str, why: str) -> ClusterError:
    shown = "`kubectl config view` shows what it holds"
    return ClusterError(f"kubeconfig {path} cannot be used: {why}; {shown}")


def _said(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error):
        return "certificates in it need a writable folder: mount one at /tmp or set TMPDIR"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ClusterError | ConfigException | yaml.YAMLError):
        return " ".join(str(error).split())
    return without_secrets(f"{type(error).__name__}: {error}")
