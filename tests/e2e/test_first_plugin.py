"""docs/first-plugin.md is followed to its end, beside a default-scheduler that holds its lease."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from .controlplane import ROOT, ControlPlane
from .kubeapi import Api, condition, node, placed_on
from .stack import KUBEXTEND, Scheduler, default_configuration
from .workbench import until

PAGE = (ROOT / "docs" / "first-plugin.md").read_text()
# Of kind's one node.
NODE = "kind-control-plane"
CLUSTER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def shell_line(start: str) -> str:
    """The one command of the page that begins so."""
    (line,) = re.findall(rf"^({re.escape(start)}.*)$", PAGE, re.MULTILINE)
    return str(line)


def files_of_the_page() -> dict[str, str]:
    """Every block that has the name of a file in its first line."""
    return dict(re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


@dataclass(frozen=True)
class Tutorial:
    """The folder in which somebody follows the page."""

    plane: ControlPlane
    folder: Path

    def write_files(self) -> None:
        """The files of the page; only kubextend's port is another one."""
        for name, text in files_of_the_page().items():
            (self.folder / name).write_text(text)
        config = yaml.safe_load((self.folder / "kubextend.yaml").read_text())
        config["server"] = {"port": self.plane.bench.free_port()}
        (self.folder / "kubextend.yaml").write_text(json.dumps(config))
        admin = self.plane.kubeconfig("admin").read_text()
        (self.folder / "kind.kubeconfig").write_text(admin)
        (self.folder / "kube-scheduler").symlink_to(self.plane.binaries / "kube-scheduler")

    def start(self, name: str, line: str) -> None:
        """Run a line of the page in the folder, as a shell would."""
        words = [str(KUBEXTEND) if word == "kubextend" else word for word in line.split(" ")]
        script = f"cd {shlex.quote(str(self.folder))} && exec {' '.join(words)}"
        environment = {"PYTHONPATH": str(self.folder)}
        self.plane.bench.start(name, "/bin/sh", "-c", script, environment=environment)


@pytest.fixture(scope="module")
def plane(own_plane: ControlPlane) -> ControlPlane:
    """A cluster with one node, as kind makes it, whose own scheduler holds its lease."""
    plane = own_plane
    plane.api.create_nodes([node(NODE)])
    Scheduler(plane, "default-scheduler", default_configuration(plane))
    until(lambda: holder(plane.api), "the cluster's own scheduler holds its lease")
    return plane


def holder(api: Api) -> str:
    """The holder of the lease of the cluster's own scheduler; empty where nobody holds it."""
    leases = api.items(CLUSTER_LEASE.rpartition("/")[0])
    held = [lease["spec"] for lease in leases if lease["metadata"]["name"] == "kube-scheduler"]
    return str(held[0].get("holderIdentity") or "") if held else ""


def test_whoever_follows_the_first_plugin_sees_one_pod_placed_and_one_refused(
    plane: ControlPlane, tmp_path: Path
) -> None:
    tutorial = Tutorial(plane, tmp_path)
    tutorial.write_files()
    leader = holder(plane.api)
    (team,) = re.findall(rf"kubectl label node {NODE} (\S+)=red", PAGE)
    plane.api.label_node(NODE, {team: "red"})
    tutorial.start("tutorial-writes", shell_line("kubextend scheduler-config"))
    written = tutorial.folder / "kube-scheduler.yaml"
    until(lambda: written.exists() and written.read_text(), "kube-scheduler.yaml is written")
    tutorial.start("tutorial-kubextend", shell_line("kubextend serve"))
    port = plane.bench.free_port()
    own_port = f" --bind-address=127.0.0.1 --secure-port={port}"
    tutorial.start("tutorial-scheduler", shell_line("./kube-scheduler") + own_port)
    pods = list(yaml.safe_load_all((tutorial.folder / "pods.yaml").read_text()))
    plane.api.create_pods("default", pods)

    def says(name: str) -> str:
        return str(condition(plane.api.pod("default", name), "PodScheduled").get("message", ""))

    until(lambda: "node belongs to another team" in says("blue"), "the plugin's reason is told")
    until(lambda: placed_on(plane.api.pods("default")), "the pod of the team is placed")
    assert placed_on(plane.api.pods("default")) == {"red": NODE}
    assert holder(plane.api) == leader
