"""SySched finds profiles in a namespace and in none, as the operator names them."""

import logging
from typing import Any

import pytest

from kubextend import testing
from kubextend.plugins import (
    SySched,
)

PROFILES = "security-profiles-operator.x-k8s.io/v1beta1/seccompprofiles"


def profile(name: str, *calls: str, namespace: str = "") -> Any:
    rules = [{"action": "SCMP_ACT_ALLOW", "names": list(calls)}]
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"syscalls": rules}}


EVERY = profile("all-syscalls", "read", "write", "mount", "ptrace")
QUIET, LOUD = profile("quiet", "read"), profile("loud", "read", "mount", "ptrace")


def localhost(path: str) -> dict[str, Any]:
    return {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}


def confined(name: str, path: str, **fields: Any) -> Any:
    return testing.pod_manifest(name, uid=f"uid-{name}", securityContext=localhost(path), **fields)


def beside(*found: Any, asked: Any, quiet: Any, loud: Any) -> dict[str, int]:
    """Return the scores of a node with a pod that may call little, and of one with much."""
    with testing.Cluster(
        SySched, nodes=["with-quiet", "with-loud"], pods=[quiet, loud], objects={PROFILES: found}
    ) as cluster:
        return cluster.prioritize(asked)


PREFERS_QUIET = {"with-quiet": 10, "with-loud": 0}


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("operator/{}.json", ""),
        ("localhost/operator/{}.json", ""),
        ("operator/apps/{}.json", "apps"),
        ("localhost/operator/apps/{}.json", "apps"),
        # A pod from before the operator's update names the namespace still.
        ("operator/apps/{}.json", ""),
    ],
)
@pytest.mark.parametrize("where", ["pod", "container", "sidecar", "annotation"])
@pytest.mark.parametrize("suffix", ["", ".v1.2"])
def test_profiles_in_a_namespace_and_in_none_are_found(
    path: str, namespace: str, where: str, suffix: str
) -> None:
    def pod(name: str, of: str, **fields: Any) -> Any:
        context = localhost(path.format(of + suffix))
        plain, uid = {"name": "c", "image": "x"}, f"uid-{name}"
        if where == "pod":
            fields["securityContext"] = context
        if where == "container":
            fields["containers"] = [plain | {"securityContext": context}]
        if where == "sidecar":
            fields["initContainers"] = [
                plain | {"securityContext": context, "restartPolicy": "Always"}
            ]
        if where == "annotation":
            key = "container.seccomp.security.alpha.kubernetes.io/c"
            fields["annotations"] = {key: path.format(of + suffix)}
        return testing.pod_manifest(name, uid=uid, **fields)

    found = [
        profile(f"quiet{suffix}", "read", namespace=namespace),
        profile(f"loud{suffix}", "read", "mount", "ptrace", namespace=namespace),
    ]
    scores = beside(
        *found,
        asked=pod("new", "quiet"),
        quiet=pod("q", "quiet", node_name="with-quiet"),
        loud=pod("l", "loud", node_name="with-loud"),
    )
    assert scores == PREFERS_QUIET


def test_a_profile_of_another_namespace_is_not_found() -> None:
    loud = confined("l", "operator/loud.json", node_name="with-loud")
    elsewhere = profile("quiet", "read", namespace="apps")
    quiet = confined("q", "operator/other/quiet.json", node_name="with-quiet")
    # The pod on the node counts as one without a profile, and may call everything.
    asked = confined("new", "operator/loud.json")
    scores = beside(EVERY, LOUD, elsewhere, asked=asked, quiet=quiet, loud=loud)
    assert scores == {"with-quiet": 0, "with-loud": 10}


def test_the_default_profile_may_be_in_no_namespace() -> None:
    free = testing.pod_manifest("free", uid="uid-free", node_name="with-loud")
    quiet = confined("q", "operator/quiet.json", node_name="with-quiet")
    asked = confined("new", "operator/quiet.json")
    assert beside(EVERY, QUIET, asked=asked, quiet=quiet, loud=free) == PREFERS_QUIET


def test_profiles_that_are_missing_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING),
        testing.Cluster(SySched, nodes=["a", "b"], objects={PROFILES: [QUIET]}) as cluster,
    ):
        for name in ("one", "two"):
            asked = confined(name, "operator/absent.json")
            assert cluster.prioritize(asked) == {"a": 10, "b": 10}
    said = [record.getMessage() for record in caplog.records]
    assert sum("absent" in line for line in said) == 1
    assert sum("no SeccompProfile all-syscalls in namespace default" in line for line in said) == 1


def test_tenants_fill_no_log_with_profiles_that_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        testing.Cluster(SySched, nodes=["a", "b"], objects={PROFILES: [QUIET]}) as cluster,
    ):
        for number in range(300):
            cluster.prioritize(confined(f"p{number}", f"operator/absent-{number}.json"))
    assert len(caplog.records) < 150
