"""Which rules are compiled, why others are called, and what is left for kubextend."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from config_world import document

from kubextend import cli, config
from kubextend.config.admission_diff import differences
from kubextend.config.admission_policies import admission_yaml, policies
from kubextend.config.admission_rules import CompiledRules, compile_rules
from kubextend.config.scheduler import scheduler_configuration
from kubextend.errors import PluginError
from kubextend.framework import AdmissionRules, PreferredNodes, RequiredNodes
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.plugins import IN_TREE

ROOT = Path(__file__).resolve().parents[3]
RDMA = ("node.kubernetes.io/rdma-enabled", "In", ("true",))


class Half:
    """Has static rules for Filter, and none for Score."""

    name = "Half"

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
        del state, pod, nodes
        return []

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> list[int]:
        del state, pod
        return [0] * len(nodes)

    def permit(self, state: Any, pod: Any, node_name: str) -> None:
        """Let every pod through."""

    @classmethod
    def admission(cls, args: None) -> AdmissionRules:
        del args
        return AdmissionRules(required=(RequiredNodes("zone"),))


class Prefers:
    name = "Prefers"

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> list[int]:
        del state, pod
        return [0] * len(nodes)

    @classmethod
    def admission(cls, args: None) -> AdmissionRules:
        del args
        return AdmissionRules(preferred=(PreferredNodes("zone", 60),))


class Wrong(Half):
    name = "Wrong"
    answer: Any = None

    @classmethod
    def admission(cls, args: None) -> AdmissionRules:
        del args
        if isinstance(cls.answer, Exception):
            raise cls.answer
        return cls.answer  # type: ignore[no-any-return]


KNOWN = KnownPlugins.of(IN_TREE, "kubextend").with_classes(
    {each.name: each for each in (Half, Prefers, Wrong)}, "the test"
)


def profile(*names: str, args: Mapping[str, Any] | None = None, **weights: int) -> dict[str, Any]:
    enabled = [{"name": name, "weight": weights.get(name, 1)} for name in names]
    given = [{"name": "LabelMatch", "args": args}] if args else []
    return {"plugins": {"multiPoint": {"enabled": enabled}}, "pluginConfig": given}


def compiled(*profiles: Mapping[str, Any], **sections: Any) -> CompiledRules:
    sections.setdefault("cluster", {})
    return compile_rules(config.parse(document(profiles=[*profiles], **sections), known=KNOWN))


def label_match(*filters: tuple[str, str], scores: Any = ()) -> dict[str, Any]:
    args = {
        "filters": [{"podSelector": p, "nodeSelector": n, "reason": "no"} for p, n in filters],
        "scores": [{"podSelector": p, "nodeSelector": n, "score": s} for p, n, s in scores],
    }
    return profile("LabelMatch", args=args)


def test_a_plugin_whose_rules_are_compiled_is_left_out() -> None:
    found = compiled(profile("HighCommPodFilter"))
    (rules,) = found.pod_rules
    assert rules.pods == (("high-comm", "Exists", ()),)
    assert rules.required == (RDMA,)
    assert rules.preferred == {}
    assert found.rest.verbs == ()
    assert yaml.safe_load(scheduler_configuration(found.rest))["extenders"] == []


def test_every_operator_of_a_selector_has_a_word_in_affinity() -> None:
    text = "a=1, b==2, c!=3, d in (y, x), e notin (z), f, !g, h>4, i<5"
    (rules,) = compiled(label_match(("", text))).pod_rules
    assert rules.required == (
        ("a", "In", ("1",)),
        ("b", "In", ("2",)),
        ("c", "NotIn", ("3",)),
        ("d", "In", ("x", "y")),
        ("e", "NotIn", ("z",)),
        ("f", "Exists", ()),
        ("g", "DoesNotExist", ()),
        ("h", "Gt", ("4",)),
        ("i", "Lt", ("5",)),
    )


def test_rules_for_the_same_pods_are_one_entry_in_whatever_words() -> None:
    found = compiled(label_match(("a=1", "x"), ("a in (1)", "x, y"), ("b", "x")))
    assert [(rules.pods, rules.required) for rules in found.pod_rules] == [
        ((("a", "In", ("1",)),), (("x", "Exists", ()), ("y", "Exists", ()))),
        ((("b", "Exists", ()),), (("x", "Exists", ()),)),
    ]


def test_points_of_one_selector_are_added_and_points_for_all_or_none_are_left_out() -> None:
    scores = [("a", "x", 10), ("a", "x", 20), ("a", "", 30), ("a", "y", 0)]
    (rules,) = compiled(label_match(scores=scores)).pod_rules
    assert rules.preferred == {(("x", "Exists", ()),): 30}


def test_equal_points_of_several_selectors_of_pods_are_told_apart() -> None:
    scores = [("a", "x", 10), ("b", "x", 10), ("c", "x", 20), ("d", "x", 10)]
    found = compiled(label_match(scores=scores))
    x = ("x", "Exists", ())
    assert [dict(rules.preferred) for rules in found.pod_rules] == [
        {(x,): 10},
        {(x, x): 10},
        {(x,): 20},
        {(x, x, x): 10},
    ]


def test_what_a_filter_does_beyond_its_rules_is_called() -> None:
    found = compiled(profile("RdmaAware"))
    assert [str(decision) for decision in found.decisions] == [
        "RdmaAware at filter, pods high-comm=true -> nodes rdma=true: compiled",
        "RdmaAware at filter: called: rejects pods without the label high-comm=true on every node",
    ]
    assert found.rest.verbs == ("filter", "preempt")
    assert len(found.pod_rules) == 1


def test_points_without_rules_are_called() -> None:
    found = compiled(profile("Half"))
    assert [str(decision) for decision in found.decisions] == [
        "Half at filter, all pods -> nodes zone: compiled",
        "Half at score: called: the plugin has no static rules for it",
        "Half at permit: called: node affinity has nothing like it",
    ]
    assert set(found.rest.resolved[0].points) == {"score", "permit"}


def only_called(found: CompiledRules) -> str:
    (why,) = {decision.why_called for decision in found.decisions}
    assert not found.pod_rules
    return why


def test_no_rule_is_compiled_that_concerns_only_pods_with_a_resource() -> None:
    extender = {"managedResources": [{"name": "example.com/gpu"}]}
    found = compiled(profile("HighCommPodFilter"), extender=extender)
    assert "example.com/gpu" in only_called(found)
    assert found.rest.verbs == ("filter", "preempt")


def filters_of(*numbers: int) -> CompiledRules:
    """Compile filters for the pods of each selector ``p0``, ``p1`` and so on, as many as said."""
    filters = [
        (f"p{selector}", f"n{at}")
        for selector, number in enumerate(numbers)
        for at in range(number)
    ]
    # The same filter for another reason is no further requirement.
    return compiled(label_match(*filters, filters[0]))


def test_more_filters_for_one_selector_than_kube_apiserver_takes_are_called() -> None:
    found = filters_of(10, 10)
    assert [len(rules.required) for rules in found.pod_rules] == [10, 10]
    assert found.rest.verbs == ()
    found = filters_of(1, 11)
    assert "have 11 required labels of nodes" in only_called(found)
    assert found.rest.verbs == ("filter", "preempt")


@pytest.mark.parametrize(("labels", "called"), [(9, False), (10, True)])
def test_the_filters_of_all_plugins_for_one_selector_count_together(
    labels: int, called: bool
) -> None:
    filters = [{"nodeSelector": f"n{each}", "reason": "no"} for each in range(labels)]
    found = compiled(profile("LabelMatch", "Half", args={"filters": filters}))
    (half,) = (
        each for each in found.decisions if each[:3] == ("default-scheduler", "Half", "filter")
    )
    assert ("have 11 required labels of nodes" in half.why_called) is called
    assert [len(rules.required) for rules in found.pod_rules] == [10]


def test_scores_of_plugins_with_different_weights_are_called() -> None:
    scores = {"scores": [{"nodeSelector": "x", "score": 10}]}
    found = compiled(profile("LabelMatch", "Prefers", args=scores, LabelMatch=2))
    assert "LabelMatch 2, Prefers 1" in only_called(found)
    same = compiled(profile("LabelMatch", "Prefers", args=scores, LabelMatch=2, Prefers=2))
    assert len(same.pod_rules) == 1


def test_scores_of_more_than_100_points_are_called() -> None:
    scores = {"scores": [{"nodeSelector": "x", "score": 41}]}
    found = compiled(profile("LabelMatch", "Prefers", args=scores))
    assert "more than 100" in only_called(found)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (ValueError("broken"), "admission: ValueError: broken"),
        ("a text", "admission returned str and no AdmissionRules"),
        (AdmissionRules(required=(RequiredNodes("a in"),)), "'a in': "),
    ],
)
def test_a_plugin_with_wrong_rules_is_named(
    answer: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wrong, "answer", answer)
    with pytest.raises(PluginError) as error:
        compiled(profile("Wrong"))
    assert sentence in str(error.value)
    assert error.value.plugin == "Wrong"


def test_names_depend_on_the_profile_and_the_selector_of_pods_alone() -> None:
    one = [*policies(compiled(label_match(("a", "x"), ("b", "y"))).pod_rules)]
    other = [*policies(compiled(label_match(("b", "z"), ("a", "x"))).pod_rules)]
    assert {_name(each) for each in one} == {_name(each) for each in other}
    assert len({_name(each) for each in one}) == 2


def _name(manifest: Any) -> str:
    return str(manifest["metadata"]["name"])


def test_the_yaml_says_what_the_objects_say() -> None:
    scheduler = {"schedulerName": 'quoted "\\ name'}
    rules = compiled({**label_match(("a", "x=1, y>3")), **scheduler}).pod_rules
    assert [*yaml.safe_load_all(admission_yaml(rules))] == [*policies(rules)]


def test_without_rules_the_yaml_has_no_object() -> None:
    assert [each for each in yaml.safe_load_all(admission_yaml(())) if each] == []


def lines(written: list[Any], installed: list[Any]) -> list[str]:
    return [str(each) for each in differences(written, installed)]


def test_differences_are_named() -> None:
    written = json.loads(json.dumps([*policies(compiled(label_match(("a", "x"))).pod_rules)]))
    assert lines(written, written) == []
    mutating, *others = written
    assert lines(written, others) == [f"{_of(mutating)} is not installed"]
    extra = {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "old"}, "spec": {}}
    assert lines(written, [*written, extra]) == [
        "ValidatingAdmissionPolicy/old is installed, and the configuration has no such rule"
    ]
    changed = json.loads(json.dumps(mutating))
    changed["spec"]["failurePolicy"] = "Ignore"
    changed["spec"]["matchConstraints"]["excludeResourceRules"] = [{}]
    assert lines(written, [changed, *others]) == [
        f"{_of(mutating)} differs at spec.failurePolicy",
        f"{_of(mutating)} differs at spec.matchConstraints.excludeResourceRules",
    ]


def _of(manifest: Any) -> str:
    return f"{manifest['kind']}/{_name(manifest)}"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


EXAMPLE = ROOT / "deploy" / "examples" / "rdma" / "kubextend.yaml"


def test_the_file_of_deploy_is_what_the_command_writes() -> None:
    written = run("admission", "--config", EXAMPLE)
    assert written.exit_code == 0
    assert written.stdout == (ROOT / "deploy" / "admission" / "rdma.yaml").read_text()


@pytest.mark.parametrize("command", ["admission", "scheduler-config --with-admission"])
@pytest.mark.parametrize(("version", "code"), [("1.33", 1), ("1.35", 1), ("1.36", 0), ("1.37", 0)])
def test_a_version_without_the_policies_is_refused(command: str, version: str, code: int) -> None:
    result = run(*command.split(), "--config", EXAMPLE, "--kube-version", version)
    assert result.exit_code == code
    if code:
        assert f"kube-apiserver {version} serves no MutatingAdmissionPolicy" in result.stderr


def test_check_says_which_rules_are_compiled() -> None:
    lines = run("check", EXAMPLE).stdout.splitlines()
    rule = "HighCommPodFilter at filter, pods high-comm -> nodes " + "=".join((RDMA[0], "true"))
    assert lines[-2:] == [
        "rules of kubextend-scheduler as node affinity, by kubextend admission:",
        f"  {rule}: compiled",
    ]
    assert "verbs: filter, preempt" in lines
    assert "verbs: none" in run("check", "--with-admission", EXAMPLE).stdout


def test_scheduler_config_leaves_out_what_is_compiled() -> None:
    called = run("scheduler-config", "--config", EXAMPLE)
    assert len(yaml.safe_load(called.stdout)["extenders"]) == 1
    result = run("scheduler-config", "--config", EXAMPLE, "--with-admission")
    assert yaml.safe_load(result.stdout)["extenders"] == []
