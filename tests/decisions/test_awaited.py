"""What ``why`` says of pods that PreEnqueue plugins of kube-scheduler keep out of its queue."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.doors.answering import Answering, api, listening
from tests.doors.command_line import configuration, run, write

pytestmark = pytest.mark.slow

POD = "/api/v1/namespaces/ml/pods/p"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaimtemplates"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups"
NOT_MADE = "no ResourceClaim was made yet of the ResourceClaimTemplate gpus"


def pending(spec: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ml", "uid": "u-p"}
    spec = {"schedulerName": "default-scheduler", **spec}
    return {"metadata": metadata, "spec": spec, "status": status}


def claims(*entries: Mapping[str, str]) -> dict[str, Any]:
    return {"resourceClaims": [{"name": f"c{at}", **entry} for at, entry in enumerate(entries)]}


def made(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ml", **metadata}}


GPU = claims({"resourceClaimName": "gpu"})
OF_TEMPLATE = claims({"resourceClaimTemplateName": "gpus"})
TWO = claims({"resourceClaimName": "gpu"}, {"resourceClaimName": "nic"})
DELETED = made("gpu", deletionTimestamp="2026-01-01T00:00:00Z")
TEMPLATE = {f"{TEMPLATES}/gpus": made("gpus")}
OF_CLAIM = [{"name": "c0", "resourceClaimName": "p-gpus-x1"}]
CLAIMED = pending(OF_TEMPLATE, resourceClaimStatuses=OF_CLAIM)
IN_GROUP = {"schedulingGroup": {"podGroupName": "trains"}}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
UNSCHEDULABLE["message"] = "0/3 nodes are available: 3 Insufficient cpu."


def why(
    folder: Path, pod: Any, objects: Any = None, *, server: str = "http://127.0.0.1:9", **there: Any
) -> str:
    """Return what is printed of a pod in an API with these objects; without a server it is down."""
    known = Answering({POD: pod, **(objects or {})}, **there)
    file = write(folder / "why.yaml", configuration(profiles=[{}]))
    with api(known, folder) as kubeconfig:
        options = ("--config", file, "--server", server, "--kubeconfig", kubeconfig)
        done = run("why", "p", "-n", "ml", *options)
        again = run("why", "p", "-n", "ml", *options, "--output", "json")
    assert done.exit_code == 0, done.output
    assert pod["spec"].get("nodeName") is None or not any("claims" in each for each in known.asked)
    # A capture says the same without the cluster.
    capture = write(folder / "capture.json", again.stdout)
    assert run("why", "--file", capture).stdout == done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("pod", "objects", "says"),
    [
        (pending(GPU), {f"{CLAIMS}/gpu": DELETED}, "the ResourceClaim gpu is being deleted"),
        (pending(TWO), {f"{CLAIMS}/gpu": made("gpu")}, "the ResourceClaim nic does not exist"),
        (pending(OF_TEMPLATE), {}, "the ResourceClaimTemplate gpus does not exist"),
        (pending(OF_TEMPLATE), TEMPLATE, NOT_MADE),
        (CLAIMED, TEMPLATE, "the ResourceClaim p-gpus-x1 does not exist"),
        # The condition is of an attempt from before the claim was deleted.
        (pending(GPU, conditions=[UNSCHEDULABLE]), {}, "the ResourceClaim gpu does not exist"),
        (
            *(pending({**GPU, **IN_GROUP}), {}),
            "the ResourceClaim gpu does not exist; the PodGroup trains does not exist",
        ),
    ],
)
def test_why_names_the_object_that_a_pod_waits_for(
    pod: dict[str, Any], objects: dict[str, Any], says: str, tmp_path: Path
) -> None:
    head, sentence, *_ = why(tmp_path, pod, objects).splitlines()
    assert head == "pod ml/p: ObjectMissing" or head.endswith("trains: ObjectMissing")
    assert sentence.strip() == f"kube-scheduler does not try the pod: {says}"


@pytest.mark.parametrize(
    ("pod", "paths", "says"),
    [
        (pending(GPU), {f"{CLAIMS}/gpu"}, "it may wait for the ResourceClaim gpu, which"),
        (pending(IN_GROUP), {f"{GROUPS}/trains"}, "it may wait for the PodGroup trains, which"),
    ],
)
def test_why_says_that_a_pod_may_wait_for_what_the_user_may_not_read(
    pod: dict[str, Any], paths: set[str], says: str, tmp_path: Path
) -> None:
    said = why(tmp_path, pod, forbidden=paths)
    assert ": NotTried" in said.splitlines()[0]
    assert says in said
    assert "403" in said
    assert "does not exist" not in said

    unserved = why(tmp_path, pod, unserved="/apis/")
    assert "it may wait for the" in unserved
    assert "does not exist" not in unserved


def test_why_names_what_was_not_made_though_it_cannot_be_read_and_what_a_gang_demands(
    tmp_path: Path,
) -> None:
    assert NOT_MADE in why(tmp_path, pending(OF_TEMPLATE), forbidden={f"{TEMPLATES}/gpus"})
    group = {**made("trains"), "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    said = why(tmp_path, pending(IN_GROUP), {f"{GROUPS}/trains": group})
    assert "NotTried" in said
    wanted = "the 4 pods without scheduling gates that the PodGroup trains demands"
    assert f"it may wait for {wanted}" in said


@pytest.mark.parametrize(
    "pod",
    [
        pending({}),
        pending(GPU),
        # No ResourceClaim is to be made for this entry.
        pending(OF_TEMPLATE, resourceClaimStatuses=[{"name": "c0"}]),
    ],
)
def test_why_looks_for_a_scheduler_that_does_not_run(pod: dict[str, Any], tmp_path: Path) -> None:
    said = why(tmp_path, pod, {f"{CLAIMS}/gpu": made("gpu")})
    assert "pod ml/p: NotTried" in said
    assert "no scheduler has tried the pod yet: see whether a kube-scheduler runs" in said


def test_why_names_a_misspelt_scheduler_with_what_the_pod_may_wait_for(tmp_path: Path) -> None:
    pod = pending({**GPU, "schedulerName": "defualt-scheduler"})
    asked = {"kubextend": {"profiles": {"default-scheduler": []}}, "attempts": []}
    with listening(Answering({"/decisions": asked})) as server:
        said = why(tmp_path, pod, server=server, forbidden={f"{CLAIMS}/gpu"})
    assert "NoScheduler" in said
    assert "did you mean default-scheduler?" in said
    assert "it may wait for the ResourceClaim gpu" in said


def test_why_reads_no_claim_of_a_bound_pod_and_names_a_gate_first(tmp_path: Path) -> None:
    bound = why(tmp_path, pending({**GPU, "nodeName": "n1"}))
    assert "the pod is on node n1" in bound
    gated = pending({**GPU, "schedulingGates": [{"name": "example.com/quota"}]})
    assert "OtherGate" in why(tmp_path, gated)
