"""The arguments that are common to all plugins that query Prometheus."""

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from kubextend.framework.args_model import ArgsModel
from kubextend.prometheus.promql_duration import seconds

__all__ = ["Duration", "PrometheusArgs"]


_NO_URL = re.compile(r"[^!-~]")


def _duration(text: str) -> str:
    seconds(text)
    return text


def _address(text: str) -> str:
    """Check Prometheus' URL, and return it without a slash at its end.

    Raises: ValueError: the URL is not http or https, has credentials, or has a query or fragment.
    """
    parts = urlsplit(text)
    if parts.username is not None or parts.password is not None:
        message = "credentials in the address would end up in logs: use bearerTokenFile"
        raise ValueError(message)
    # Reading the port raises for a port that is no number.
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        message = "must be a URL such as http://prometheus.monitoring.svc:9090"
        raise ValueError(message)
    if parts.query or parts.fragment or _NO_URL.search(text):
        message = "must be an address and a path, with nothing behind"
        raise ValueError(message)
    return text.rstrip("/")


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        message = f"is no regular expression: {error}"
        raise ValueError(message) from error
    if groups != 1:
        message = f"must have exactly one group, which is the node's name; this has {groups}"
        raise ValueError(message)
    return text


Duration = Annotated[str, AfterValidator(_duration)]


class PrometheusArgs(ArgsModel):
    """The arguments common to plugins that score nodes by numbers from Prometheus.

    Attributes:
        prometheus_address: the URL of Prometheus, or of a server with the same API, such as
            ``http://HOST:9090``; may have a path.
        node_label: the label of a series that has the name of the node; a port at the end of its
            value is ignored.
        node_pattern: a regular expression for a label whose value holds more than the node's name;
            the expression matches the whole value without the port, with one group around the name.
        refresh_interval: the time between two queries, as ``15s``.
        timeout: the longest time for a response of Prometheus, as ``5s``.
        time_to_live: the age up to which the numbers of the last successful query are used.
        fallback_score: the score, 0 to 100, of a node without a number.
        bearer_token_file: a file with a bearer token for the Authorization header; read for every
            query; needs an https address.
        ca_file: a file with the CA certificates for an https address; None: the system's CAs.
    """

    prometheus_address: Annotated[str, AfterValidator(_address)]
    node_label: str = Field(default="instance", pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    node_pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    refresh_interval: Duration = "15s"
    timeout: Duration = "5s"
    time_to_live: Duration = "2m"
    fallback_score: int = Field(default=50, ge=0, le=100)
    bearer_token_file: str | None = None
    ca_file: str | None = Field(default=None, alias="caFile")

    @model_validator(mode="after")
    def _numbers_outlive_a_refresh(self) -> Self:
        least = seconds(self.refresh_interval) + seconds(self.timeout)
        if seconds(self.time_to_live) < least:
            message = (
                f"timeToLive {self.time_to_live} is shorter than refreshInterval and timeout "
                "together: numbers would expire before new ones can be there"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _a_token_is_sent_over_tls(self) -> Self:
        if self.bearer_token_file is not None and not self.prometheus_address.startswith("https:"):
            message = "bearerTokenFile needs an https address: tokens must not travel in plain text"
            raise ValueError(message)
        return self
