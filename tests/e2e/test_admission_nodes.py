"""The nodes of a pod with compiled rules are those that LabelMatch keeps: random rules and pods.

kube-scheduler's own code for node affinity judges the pods that the real kube-apiserver returned.
In the trial ``rules``, kube-scheduler itself does.
"""

import random
from pathlib import Path

from .admission_rules import PODS, installed
from .affinity_model import without_empty
from .controlplane import ControlPlane
from .kubeapi import Api
from .random_rules import LabelMatch, build_judge, judged, points, random_cases, random_profile
from .stack import configuration
from .versions import needs

pytestmark = needs("MutatingAdmissionPolicy")

RULE_SETS = 10
PODS_OF_A_SET = 100


def test_1000_compiled_pods_may_run_where_label_match_lets_them(
    control_plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    chance = random.Random(1000)
    names = [f"admission-set-{number}" for number in range(RULE_SETS)]
    profiles = [random_profile(chance, name) for name in names]
    cases = [case for name in names for case in random_cases(chance, name, PODS_OF_A_SET)]
    config = configuration(tmp_path / "kubextend.yaml", *profiles)
    called = LabelMatch(config)
    scores = {p["schedulerName"]: p["pluginConfig"][0]["args"]["scores"] for p in profiles}
    pods = [case.pod() for case in cases]
    with installed(control_plane, config):
        compiled = api.create_all(f"{PODS}?dryRun=All", pods)
    judge = build_judge(tmp_path)
    own, found = judged(judge, pods), judged(judge, compiled)
    changed = 0
    for case, pod, before, after, shown in zip(cases, pods, own, found, compiled, strict=True):
        both = [a and b for a, b in zip(before["allowed"], called.keeps(pod), strict=True)]
        assert after["allowed"] == both, (case, shown["spec"].get("affinity"))
        wanted = points(scores[case.scheduler], case.labels)
        both_scores = [a + b for a, b in zip(before["scores"], wanted, strict=True)]
        assert after["scores"] == both_scores, (case, shown["spec"].get("affinity"))
        changed += shown["spec"].get("affinity") != without_empty(case.affinity)
    assert changed > len(cases) / 4
