"""The control plane has the version that KUBE names, and tests are skipped by one table alone."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from .controlplane import ROOT
from .kubeapi import Api
from .versions import KUBE, VERSIONS, is_served

HERE = Path(__file__).parent


def test_the_control_plane_has_the_version_under_test(api: Api) -> None:
    version = api.call("GET", "/version")
    assert f"{version['emulationMajor']}.{version['emulationMinor']}" == KUBE


def test_a_kind_is_served_from_the_version_on_that_the_table_says(api: Api, binaries: Path) -> None:
    kinds = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    resources = api.call("GET", "/apis/admissionregistration.k8s.io/v1")["resources"]
    assert [kind for kind in kinds if kind in {each["kind"] for each in resources}] == [
        kind for kind in kinds if is_served(kind)
    ]
    command = [binaries / "kube-apiserver", "--help"]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    told = "GenericWorkload=true|false (BETA - default=false)"
    assert (told in usage) == is_served("PodGroup")


GATES = {
    "SchedulerQueueingHints": "1.28",
    "GangScheduling": "1.35",
    "WorkloadAwarePreemption": "1.36",
}


@pytest.mark.parametrize(("gate", "since"), GATES.items())
def test_kube_scheduler_1_37_ends_over_a_gate_that_it_has_no_more(
    gate: str, since: str, binaries: Path
) -> None:
    command = [binaries / "kube-scheduler", f"--feature-gates={gate}=true", "--config=/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ("unrecognized feature gate" in done.stderr) == (not since <= KUBE < "1.37")


def test_no_test_is_skipped_but_by_the_table() -> None:
    ways = re.compile(r"pytest\.(skip|importorskip|xfail)|mark\.(skip|xfail)")
    skipping = [path.name for path in HERE.rglob("*.py") if ways.search(path.read_text())]
    assert skipping == ["versions.py"]


def test_ci_has_a_job_for_each_version() -> None:
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    assert nightly["jobs"]["e2e"]["strategy"]["matrix"]["kube"] == VERSIONS
