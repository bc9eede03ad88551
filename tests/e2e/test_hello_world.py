"""The out-of-tree example package, installed beside kubextend, decides where pods go."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .controlplane import ControlPlane
from .kubeapi import NodePool
from .manifests import HELLO_WORLD
from .stack import Mode, Stack
from .workbench import until
from .workload import NewWorkload

PODS = 20


@pytest.fixture(scope="module", params=["kubextend.yaml", "out-of-tree.yaml"])
def stack(
    request: pytest.FixtureRequest, control_plane: ControlPlane, hello_world: Path
) -> Iterator[Stack]:
    example = yaml.safe_load((HELLO_WORLD / request.param).read_text())
    running = Stack(
        control_plane,
        f"hello-{Path(request.param).stem}",
        Mode(names=True),
        profile=example["profiles"][0],
        out_of_tree=example.get("outOfTree", []),
        python_path=[hello_world],
    )
    yield running
    running.close()


def test_the_installed_plugin_sends_pods_where_its_arguments_say(
    stack: Stack, control_plane: ControlPlane, new_workload: NewWorkload
) -> None:
    pool = NodePool(control_plane.api, stack.name, 4)
    ssd, hdd, *_ = pool.names
    pool.label_only("disk", "hdd", hdd)
    until(lambda: stack.best(pool.names) == [hdd], "the label is known")
    workload = new_workload(stack, pool)
    nodes = workload.until_placed(workload.create("second-best", PODS))
    assert set(nodes.values()) == {hdd}
    pool.label_only("disk", "ssd", ssd)
    until(lambda: stack.best(pool.names) == [ssd], "the new label is known")
    nodes = workload.until_placed(workload.create("best", PODS))
    assert set(nodes.values()) == {ssd}
    pool.delete()
