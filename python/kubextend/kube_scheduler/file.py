"""A KubeSchedulerConfiguration as typed object; an unknown field or another type is an error.

An absent field has kube-scheduler's default.

Source: kubernetes v1.37 staging/src/k8s.io/kube-scheduler/config/v1/types.go
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from kubextend.config.duration import Duration, GoDuration
from kubextend.config.issues import Findings, issues_of
from kubextend.config.loader import without_nulls
from kubextend.config.model import ManagedResource, Plugins, PluginSet, VerbName
from kubextend.config.profiles import DEFAULT_SCHEDULER_NAME
from kubextend.config.scheduler_plugins import SCHEDULER_KIND
from kubextend.kube_scheduler.versions import BETA_API_VERSIONS, SCHEDULER_API_VERSIONS

__all__ = [
    "DOES_NOT_START",
    "VERBS",
    "AllPlugins",
    "Election",
    "ExtenderEntry",
    "Profile",
    "SchedulerConfiguration",
    "read_scheduler_configuration",
]

DOES_NOT_START: Final = "kube-scheduler does not start"
VERBS: Final[tuple[VerbName, ...]] = get_args(VerbName)
# Fields that v1 no longer has; source: kube-scheduler v0.25 config/v1/types.go.
_BETA_FIELDS: Final = ("healthzBindAddress", "metricsBindAddress")
# Source: kube-scheduler v0.36 pkg/scheduler/extender.go DefaultExtenderTimeout
_DEFAULT_TIMEOUT: Final = Duration.parse("5s")

_Percentage = Annotated[int, Field(ge=0, le=100)]


class _Object(BaseModel):
    """Base of the models that parse a KubeSchedulerConfiguration: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)


class _TLS(_Object):
    insecure: bool = False
    server_name: str = ""
    ca_file: str = ""
    ca_data: str = ""
    cert_file: str = ""
    cert_data: str = ""
    key_file: str = ""
    key_data: str = ""


class ExtenderEntry(_Object):
    """An entry of ``extenders``."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: _TLS = _TLS()
    http_timeout: GoDuration = Duration(0)
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    @property
    def url(self) -> str:
        """The urlPrefix without a slash at its end; kube-scheduler appends ``/`` and the verb."""
        return self.url_prefix.rstrip("/")

    @property
    def verbs(self) -> Mapping[VerbName, str]:
        """The verbs that kube-scheduler calls by this entry: verb -> end of the verb's URL."""
        values = (self.filter_verb, self.preempt_verb, self.prioritize_verb, self.bind_verb)
        return {verb: value for verb, value in zip(VERBS, values, strict=True) if value}

    @property
    def timeout(self) -> Duration:
        """How long kube-scheduler waits for a response: httpTimeout, or 5 s if that is 0."""
        return self.http_timeout if self.http_timeout > Duration(0) else _DEFAULT_TIMEOUT


class AllPlugins(Plugins):
    """The plugins of a profile, also at the points at which kubextend has none."""

    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()


class _PluginConfig(_Object):
    """The arguments of one plugin."""

    name: str = ""
    args: JsonValue = None


class Profile(_Object):
    """A profile. Only a profile that stands alone has a default for its name."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: _Percentage | None = None
    plugins: AllPlugins = AllPlugins()
    plugin_config: tuple[_PluginConfig, ...] = ()


class Election(_Object):
    """The field ``leaderElection``; defaults: kubernetes v1.37 apis/config/v1/defaults.go."""

    leader_elect: bool = True
    lease_duration: GoDuration = Duration(0)
    renew_deadline: GoDuration = Duration(0)
    retry_period: GoDuration = Duration(0)
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""

    @property
    def lease(self) -> tuple[str, str]:
        """Namespace and name of the Lease."""
        return self.resource_namespace or "kube-system", self.resource_name or "kube-scheduler"


class _Connection(_Object):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0
    burst: int = 0


class SchedulerConfiguration(_Object):
    """A KubeSchedulerConfiguration."""

    api_version: str = ""
    kind: str = ""
    parallelism: int = 16
    leader_election: Election = Election()
    client_connection: _Connection = _Connection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: _Percentage | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    delay_cache_until_active: bool = False
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[ExtenderEntry, ...] = ()

    def named_profiles(self) -> Iterator[tuple[str, int]]:
        """Yield the schedulerName and index of each profile.

        The name is ``default-scheduler`` if there are no profiles, or a single profile without a
        name; of several profiles, one without a name has "".
        """
        default = DEFAULT_SCHEDULER_NAME if len(self.profiles) <= 1 else ""
        for index, profile in enumerate(self.profiles or [Profile()]):
            name = profile.scheduler_name
            yield default if name is None else name, index

    def percentage(self, index: int) -> tuple[str, int | None]:
        """Return path and value of a profile's percentageOfNodesToScore; None if not set.

        Args:
            index: index of the profile in ``profiles``.
        """
        own = self.profiles[index].percentage_of_nodes_to_score if self.profiles else None
        if own is not None:
            return f"profiles[{index}].percentageOfNodesToScore", own
        return "percentageOfNodesToScore", self.percentage_of_nodes_to_score


def read_scheduler_configuration(
    tree: Mapping[str, JsonValue], findings: Findings
) -> SchedulerConfiguration | None:
    """Decode a KubeSchedulerConfiguration; None if kube-scheduler would not, with the issues."""
    kind, version = tree.get("kind"), tree.get("apiVersion")
    if kind != SCHEDULER_KIND:
        findings.complain("kind", "is not a kube-scheduler's", kind, f"kind: {SCHEDULER_KIND}")
        return None
    if version not in SCHEDULER_API_VERSIONS:
        hint = f"apiVersion: {' or '.join(SCHEDULER_API_VERSIONS)}"
        findings.complain("apiVersion", f"no such version of {kind} is known", version, hint)
        return None
    known = {key: without_nulls(value) for key, value in tree.items() if value is not None}
    if version in BETA_API_VERSIONS:
        for field in _BETA_FIELDS:
            known.pop(field, None)
    try:
        return SchedulerConfiguration.model_validate_json(json.dumps(known))
    except ValidationError as error:
        for issue in issues_of(error, SchedulerConfiguration):
            message = f"{issue.message}: {DOES_NOT_START}"
            findings.complain(issue.path, message, issue.value, issue.hint)
        return None
