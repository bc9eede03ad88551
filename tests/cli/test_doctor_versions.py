"""``kubextend doctor --scheduler FILE --kube-version``: what a version does not read of a file."""

from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import configuration, run, write

GROUP = "kubescheduler.config.k8s.io"


def at_point(point: str) -> dict[str, Any]:
    return {"profiles": [{"plugins": {point: {"enabled": [{"name": "NodeName"}]}}}]}


def told(folder: Path, version: str, **fields: Any) -> str:
    """Return what the doctor says of a file for this version of kube-scheduler."""
    tree = {"apiVersion": f"{GROUP}/v1", "kind": "KubeSchedulerConfiguration", **fields}
    file = write(folder / "kube-scheduler.yaml", tree)
    config = write(folder / "kubextend.yaml", configuration())
    options = ("--scheduler", file, "--kube-version", version)
    return run("doctor", "--config", config, *options).stdout


SCORED = {"profiles": [{"percentageOfNodesToScore": 30}]}
POINTS = {"preEnqueue": 26, "placementGenerate": 36, "placementScore": 36, "podGroupPostFilter": 37}


# Source: kube-scheduler v0.22 to v0.37 config/*/types.go
@pytest.mark.parametrize(
    ("fields", "field", "first"),
    [
        ({"delayCacheUntilActive": True}, "delayCacheUntilActive", 28),
        (SCORED, "profiles[0].percentageOfNodesToScore", 26),
        *((at_point(at), f"profiles[0].plugins.{at}", first) for at, first in POINTS.items()),
    ],
)
def test_the_doctor_names_a_field_that_a_version_does_not_know(
    fields: dict[str, Any], field: str, first: int, tmp_path: Path
) -> None:
    sentence = f"{field}: kube-scheduler 1.{first - 1} does not know this field and does not start"
    assert sentence in told(tmp_path, f"1.{first - 1}", **fields)
    assert "does not know this field" not in told(tmp_path, f"1.{first}", **fields)


# Source: KEP-785, Implementation History
@pytest.mark.parametrize(
    ("api_version", "first", "last"),
    [("v1beta1", 19, 22), ("v1beta2", 22, 27), ("v1beta3", 23, 28), ("v1", 25, 37)],
)
def test_the_doctor_names_an_api_version_that_a_version_does_not_read(
    api_version: str, first: int, last: int, tmp_path: Path
) -> None:
    for minor in (max(first - 1, 19), first, last, min(last + 1, 37)):
        said = told(tmp_path, f"1.{minor}", apiVersion=f"{GROUP}/{api_version}")
        reads = f"kube-scheduler 1.{minor} does not read it" not in said
        assert reads is (first <= minor <= last)
