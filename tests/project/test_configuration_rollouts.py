"""A change of a configuration of deploy/ rolls out pods that read it."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.mark.parametrize("place", ["second-scheduler", "service", "static-pod"])
def test_a_changed_configmap_has_another_name_and_so_its_pods_are_rolled_out(place: str) -> None:
    """kustomize appends a hash of the content, unless it is told not to."""
    found: Any = yaml.safe_load((DEPLOY / place / "kustomization.yaml").read_text())
    assert "generatorOptions" not in found
    hashed = {
        each["name"]: set(each["files"])
        for each in found.get("configMapGenerator", [])
        if not each.get("options", {}).get("disableNameSuffixHash")
    }
    mounted = set[str]()
    for resource in found["resources"]:
        for each in yaml.safe_load_all((DEPLOY / place / resource).read_text()):
            if each and each["kind"] == "Deployment":
                volumes = each["spec"]["template"]["spec"]["volumes"]
                mounted |= {of["configMap"]["name"] for of in volumes if "configMap" in of}
    assert mounted == {*hashed}
    files = {file.name for file in (DEPLOY / place).glob("kube*.yaml")}
    if place == "service":
        # A kube-scheduler elsewhere reads this file.
        files.remove("kube-scheduler.yaml")
    assert set().union(*hashed.values()) == (set() if place == "static-pod" else files)


def test_a_changed_configuration_of_a_static_pod_makes_another_pod(tmp_path: Path) -> None:
    """The kubelet restarts a static pod whose manifest changed, and for nothing else."""
    folder = shutil.copytree(DEPLOY / "static-pod", tmp_path / "static-pod")
    text = (DEPLOY / "README.md").read_text()
    commands = re.findall(r"^(?:hash=|sed \"s/CONFIGURATION_SHA256/).*$", text, re.MULTILINE)
    assert len(commands) == 2
    script = "\n".join(commands).replace("/etc/kubernetes/manifests", str(tmp_path))
    hashes = []
    for file in ("none", "kubextend.yaml", "kube-scheduler.yaml"):
        if file != "none":
            (folder / file).write_text(f"{(folder / file).read_text()}# another\n")
        subprocess.run(["bash", "-ec", script], cwd=folder, check=True)
        pod = yaml.safe_load((tmp_path / "kube-scheduler.yaml").read_text())
        hashes.append(pod["metadata"]["annotations"]["kubextend.dev/configuration-sha256"])
        assert pod["spec"]["containers"][0]["name"] == "kube-scheduler"
    assert len({*hashes}) == 3
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes)
