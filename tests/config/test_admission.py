"""Which rules are compiled to admission policies, why others are called, and what is left."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors import configured_plugins
from tests.doors.command_line import (
    ROOT,
    Golden,
    Tree,
    cases,
    configuration,
    other_lines,
    run,
    transcript,
    write,
)
from tests.doors.command_line import profile as profile_of

EXAMPLE = ROOT / "deploy" / "examples" / "rdma" / "kubextend.yaml"


def config_of(folder: Path, **sections: Any) -> Path:
    named = [f"{configured_plugins.__name__}:{name}" for name in ("Half", "Prefers")]
    usual = {"cluster": {}, "outOfTree": named}
    return write(folder / "kubextend.yaml", configuration(**usual | sections))


def label_match(*filters: tuple[str, str], scores: Any = (), **fields: Any) -> Tree:
    """Return a profile of LabelMatch: selectors of pods and nodes, and the points of the latter."""
    args = {
        "filters": [{"podSelector": p, "nodeSelector": n, "reason": "no"} for p, n in filters],
        "scores": [{"podSelector": p, "nodeSelector": n, "score": s} for p, n, s in scores],
    }
    entry = {"name": "LabelMatch", "args": args}
    return profile_of(multiPoint="LabelMatch") | {"pluginConfig": [entry], **fields}


def policies(folder: Path, profile: Tree) -> list[Any]:
    done = run("admission", "--config", config_of(folder, profiles=[profile]))
    assert done.exit_code == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def added(folder: Path, profile: Tree) -> list[str]:
    """Return the patches of pods that the policies make, in CEL."""
    return [
        mutation["jsonPatch"]["expression"]
        for each in policies(folder, profile)
        if each["kind"] == "MutatingAdmissionPolicy"
        for mutation in each["spec"]["mutations"]
    ]


def in_short(folder: Path, case: Tree) -> str:
    """Return what ``check`` says about the rules and, with them compiled, about what is called."""
    file = config_of(folder, **case)
    whole = run("check", file)
    lines = whole.stdout.splitlines(keepends=True)
    rules = [line for line in lines if ": compiled" in line or ": called: " in line]
    left = other_lines(whole.stdout, run("check", file, "--with-admission").stdout)
    return "".join(rules) + left.replace("verbs:", "left:") + whole.stderr * whole.exit_code


def test_check_says_which_rules_are_compiled_and_what_is_left(
    golden: Golden, tmp_path: Path
) -> None:
    told = {name: in_short(tmp_path, case) for name, case in cases("config/admission.yaml").items()}
    golden("config/admission.txt", transcript(told))


def test_admission_has_each_operator_of_a_selector_and_quotes_the_name_of_the_profile(
    tmp_path: Path,
) -> None:
    text = "a=1, b==2, c!=3, d in (y, x), e notin (z), f, !g, h>4, i<5"
    profile = label_match(("", text), schedulerName='quoted "\\ name')
    (patch,) = added(tmp_path, profile)
    found = re.findall(r"matchExpressions\{key: \"(\w)\", operator: '(\w+)'([^}]*)\}", patch)
    said = "; ".join("".join(each) for each in dict.fromkeys(found)).replace(", values: ", " ")
    assert said == (
        'aIn ["1"]; bIn ["2"]; cNotIn ["3"]; dIn ["x", "y"]; eNotIn ["z"]; '
        'fExists; gDoesNotExist; hGt ["4"]; iLt ["5"]'
    )
    policy, *_ = policies(tmp_path, profile)
    (condition,) = policy["spec"]["matchConditions"]
    assert 'object.spec.schedulerName == "quoted \\"\\\\ name"' in condition["expression"]


def test_admission_tells_points_of_several_selectors_apart_and_adds_those_of_one(
    tmp_path: Path,
) -> None:
    scores = [("a", "x", 10), ("b", "x", 10), ("c", "x", 20), ("d", "x", 10)]
    assert len(set(added(tmp_path, label_match(scores=scores)))) == 4
    # Points of all nodes, and none, are left out.
    scores = [("a", "x", 10), ("a", "x", 20), ("a", "", 30), ("a", "y", 0)]
    (text,) = added(tmp_path, label_match(scores=scores))
    assert "weight: 30" in text
    assert text.count("weight:") == 1


def test_admission_puts_rules_for_the_same_pods_into_one_policy(tmp_path: Path) -> None:
    same = label_match(("a=1", "x"), ("a in (1)", "x, y"), ("b", "x"))
    assert len(policies(tmp_path, same)) == 4 * 2
    assert len(policies(tmp_path, label_match(("a=1", "x")))) == 4
    # The name is that of the profile and the pods.
    one = policies(tmp_path, label_match(("a", "x"), ("b", "y")))
    other = policies(tmp_path, label_match(("b", "z"), ("a", "x")))
    names = [{each["metadata"]["name"] for each in found} for found in (one, other)]
    assert names[0] == names[1]
    assert len(names[0]) == 2


def test_the_file_of_deploy_is_what_admission_writes(tmp_path: Path) -> None:
    assert policies(tmp_path, {}) == []
    written = run("admission", "--config", EXAMPLE)
    assert written.exit_code == 0
    assert written.stdout == (ROOT / "deploy" / "admission" / "rdma.yaml").read_text()


@pytest.mark.parametrize("command", ["admission", "scheduler-config --with-admission"])
@pytest.mark.parametrize(("version", "code"), [("1.35", 1), ("1.36", 0)])
def test_admission_refuses_a_version_without_the_policies(
    command: str, version: str, code: int
) -> None:
    result = run(*command.split(), "--config", EXAMPLE, "--kube-version", version)
    assert result.exit_code == code
    if code:
        assert f"kube-apiserver {version} serves no MutatingAdmissionPolicy" in result.stderr


def test_scheduler_config_leaves_out_what_is_compiled() -> None:
    for options, extenders in (((), 1), (("--with-admission",), 0)):
        done = run("scheduler-config", "--config", EXAMPLE, *options)
        assert len(yaml.safe_load(done.stdout)["extenders"]) == extenders
    assert "verbs: none" in run("check", "--with-admission", EXAMPLE).stdout
