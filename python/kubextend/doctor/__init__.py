"""Examines a kubextend with its kube-scheduler and its cluster, and says what to mend.

The doctor only reads. A check that cannot look says so, and is no error.
"""

from collections.abc import Iterator
from typing import Final

from kubextend.doctor.cluster_checks import (
    admission_policies,
    api_reachable,
    clock,
    gates,
    leases,
    metric_sources,
    rights_missing,
    scheduler_names_of_pods,
)
from kubextend.doctor.configuration_checks import (
    kube_version,
    node_mode,
    scheduler_file,
)
from kubextend.doctor.examined import Examined
from kubextend.doctor.finding import Check, Finding, Verdict
from kubextend.doctor.server_checks import certificate_end, reachable, ready, verbs_served
from kubextend.errors import ConfigError, KubextendError

__all__ = ["CHECKS", "Check", "Examined", "Finding", "Verdict", "examine"]

_NOT_NEEDED: Final = "kube-scheduler calls nobody with this configuration: no kubextend is needed"

CHECKS: Final = (
    Check("scheduler-file", "kube-scheduler's configuration beside kubextend's", scheduler_file),
    Check("kube-version", "what is known of this version of kube-scheduler", kube_version),
    Check("node-mode", "how requests describe nodes", node_mode),
    Check("server-reachable", "kubextend at the URL that kube-scheduler calls", reachable, True),
    Check("server-certificate", "when kubextend's certificate ends", certificate_end, True),
    Check("server-ready", "the conditions of /readyz", ready, True),
    Check("server-verbs", "the verbs that the running kubextend serves", verbs_served, True),
    Check("api-reachable", "the Kubernetes API with kubextend's credentials", api_reachable, True),
    Check("clock", "this machine's clock beside kube-apiserver's", clock),
    Check("admission-policies", "the policies that put compiled rules on pods", admission_policies),
    Check("rights-missing", "the rights that the configuration needs", rights_missing, True),
    Check("leases", "who holds the Leases", leases),
    Check("gates", "the pods with scheduling gates", gates),
    Check("scheduler-names", "spec.schedulerName of pending pods", scheduler_names_of_pods),
    Check("metric-sources", "the series of each Prometheus", metric_sources),
)
"""All checks, in the order of the report."""


def examine(examined: Examined) -> Iterator[Finding]:
    """Yield what each check finds: its problems, or one finding with the verdict ok."""
    for check in CHECKS:
        if check.of_kubextend and not examined.needs_kubextend:
            yield Finding(check.name, Verdict.SKIPPED, check.looks_at, _NOT_NEEDED)
            continue
        problems = False
        try:
            for verdict, message, hint in check.look(examined):
                problems = True
                yield Finding(check.name, verdict, check.looks_at, message, hint)
        except KubextendError as why:
            problems = True
            verdict = Verdict.ERROR if isinstance(why, ConfigError) else Verdict.SKIPPED
            text = "; ".join(str(why).splitlines())
            yield Finding(check.name, verdict, check.looks_at, f"the check cannot look: {text}")
        if not problems:
            yield Finding(check.name, Verdict.OK, check.looks_at)
