"""The plugins that come along keep the rules that plugin authors are held to."""

from collections.abc import Mapping
from typing import Any

import pytest

from kubextend import testing
from kubextend.plugins import IN_TREE

# Nothing is asked: conformance starts no plugin. With numbers they are tried beside their tests.
PROMETHEUS = {"prometheusAddress": "http://127.0.0.1:9"}

GIVEN: Mapping[str, Mapping[str, Any]] = {
    "CapacityScheduling": {},
    "Coscheduling": {
        "labels": {
            "scheduling.x-k8s.io/pod-group": ["red", "blue"],
            "pod-group.scheduling.sigs.k8s.io/min-available": ["1", "2", "many"],
        }
    },
    "HighCommPodFilter": {
        "labels": {"high-comm": ["", "true"], "node.kubernetes.io/rdma-enabled": ["true", "false"]}
    },
    "LabelMatch": {
        "args": {
            "filters": [
                {"podSelector": "app=web", "nodeSelector": "disk", "reason": "no disk"},
                {"nodeSelector": "generation>2", "reason": "too old"},
            ],
            "scores": [
                {"podSelector": "app", "nodeSelector": "disk in (ssd)", "score": 60},
                {"nodeSelector": "generation>3", "score": 40},
            ],
        },
        "labels": {"generation": ["1", "3", "4", "new"]},
    },
    "LoadVariationRiskBalancing": {"args": PROMETHEUS},
    "LowRiskOverCommitment": {"args": PROMETHEUS},
    "NetworkOverhead": {"labels": {"appgroup.diktyo.x-k8s.io": ["shop", "mail"]}},
    "NetworkTraffic": {"args": PROMETHEUS | {"networkInterface": "eth0"}},
    "NodeResourceTopologyMatch": {},
    "NodeResourcesAllocatable": {},
    "NodeResourcesBalancedAllocation": {},
    "NodeResourcesFit": {},
    "PodGroupCoscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": ["red", "blue"]}},
    "PodState": {},
    "PrometheusScore": {"args": PROMETHEUS | {"query": "node_load1"}},
    "QOSSort": {},
    "RdmaAware": {"labels": {"high-comm": ["true", "false"], "rdma": ["true", "false"]}},
    "SySched": {},
    "TargetLoadPacking": {"args": PROMETHEUS},
}


# These do what kube-scheduler's plugins of the same names do.
NAMESAKES = ("NodeResourcesBalancedAllocation", "NodeResourcesFit", "PrioritySort")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(IN_TREE.keys() - set(NAMESAKES)))
def test_a_plugin_that_comes_along_conforms(name: str) -> None:
    testing.conformance(IN_TREE[name].plugin_class, **GIVEN[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMESAKES)
def test_a_namesake_conforms_but_for_its_name_which_is_that_of_what_it_does(name: str) -> None:
    rule = f"breaks 1 of .*\n- has a name of its own: {name} is kube-scheduler's own plugin$"
    with pytest.raises(AssertionError, match=rule):
        testing.conformance(IN_TREE[name].plugin_class)
