"""A file for one version of kube-scheduler has only what that version reads."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from config_world import Parse, document, filter_profile

from kubextend.config.kube_versions import (
    NEWEST,
    SCHEDULER_API_VERSIONS,
    KubeVersion,
    refuse_unread,
)
from kubextend.config.scheduler import legacy_policy, scheduler_configuration
from kubextend.errors import ConfigError

E2E = Path(__file__).parents[2] / "e2e" / "tools"
GROUP = "kubescheduler.config.k8s.io"


def scheduler_file(version: str = f"{GROUP}/v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", **fields}


def with_plugins(point: str) -> dict[str, Any]:
    enabled = {"enabled": [{"name": "NodeName"}]}
    return scheduler_file(profiles=[{"plugins": {point: enabled}}])


# Source: kube-scheduler v0.22 to v0.37 config/*/types.go
@pytest.mark.parametrize(
    ("tree", "field", "since"),
    [
        (
            scheduler_file(profiles=[{"percentageOfNodesToScore": 30}]),
            "profiles[0].percentageOfNodesToScore",
            "1.26",
        ),
        (scheduler_file(delayCacheUntilActive=True), "delayCacheUntilActive", "1.28"),
        (with_plugins("preEnqueue"), "profiles[0].plugins.preEnqueue", "1.26"),
        (with_plugins("placementGenerate"), "profiles[0].plugins.placementGenerate", "1.36"),
        (with_plugins("placementScore"), "profiles[0].plugins.placementScore", "1.36"),
        (with_plugins("podGroupPostFilter"), "profiles[0].plugins.podGroupPostFilter", "1.37"),
    ],
)
def test_a_field_is_refused_for_a_version_that_does_not_know_it(
    tree: dict[str, Any], field: str, since: str
) -> None:
    first = KubeVersion.parse(since)
    refuse_unread(tree, first)
    before = KubeVersion(1, first.minor - 1)
    sentence = f"{field}: kube-scheduler {before} does not know this field and does not start"
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}"):
        refuse_unread(tree, before)


def test_a_percentage_of_a_profile_is_not_written_for_a_version_without_it(parse: Parse) -> None:
    config = parse(document(profiles=[filter_profile("RdmaAware", percentageOfNodesToScore=30)]))
    scheduler_configuration(config, kube_version=KubeVersion(1, 26))
    with pytest.raises(ConfigError, match=r"1\.25 does not know this field and does not start"):
        scheduler_configuration(config, kube_version=KubeVersion(1, 25))


# Source: KEP-785, Implementation History
@pytest.mark.parametrize(
    ("api_version", "first", "last"),
    [("v1beta1", 19, 22), ("v1beta2", 22, 27), ("v1beta3", 23, 28), ("v1", 25, NEWEST.minor)],
)
def test_an_api_version_is_refused_for_the_versions_that_do_not_read_it(
    api_version: str, first: int, last: int
) -> None:
    tree = scheduler_file(f"{GROUP}/{api_version}")
    for minor in range(19, NEWEST.minor + 1):
        version = KubeVersion(1, minor)
        if first <= minor <= last:
            refuse_unread(tree, version)
        else:
            with pytest.raises(ConfigError, match=f"kube-scheduler 1.{minor} does not read it"):
                refuse_unread(tree, version)


def test_the_newest_version_is_the_newest_of_the_e2e_tests() -> None:
    assert str(NEWEST) == max(folder.name for folder in E2E.glob("1.*"))


def test_every_version_that_reads_no_policy_reads_an_api_version() -> None:
    for minor in range(23, NEWEST.minor + 1):
        assert KubeVersion(1, minor).api_version in SCHEDULER_API_VERSIONS


def test_the_eviction_of_whole_groups_is_refused_for_a_version_without_it(parse: Parse) -> None:
    config = parse(document(extender={"preemptGroups": True}))
    entries = yaml.safe_load(scheduler_configuration(config, kube_version=NEWEST))["extenders"]
    assert [entry["ignorable"] for entry in entries] == [False, True]
    sentence = r"^extender.preemptGroups: kube-scheduler 1\.{} evicts no pod group as a whole"
    with pytest.raises(ConfigError, match=sentence.format(36)):
        scheduler_configuration(config, kube_version=KubeVersion(1, 36))
    with pytest.raises(ConfigError, match=sentence.format(22)):
        legacy_policy(config)
