"""Writes compiled rules as admission policies, which kube-apiserver applies by itself.

A MutatingAdmissionPolicy puts the rules on a pod when the pod is created, and a
ValidatingAdmissionPolicy refuses every pod and every change that would leave a pod without them.
The expressions are CEL. Source: kubernetes v1.36 apiserver pkg/admission/plugin/policy
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import yaml
from pydantic import JsonValue

from kubextend.admission.rules import PodRules, Requirement, Term

__all__ = ["API_VERSION", "LABEL", "admission_yaml", "policies"]

API_VERSION: Final = "admissionregistration.k8s.io/v1"
LABEL: Final = "kubextend.dev/admission"
"""The label of every written object; its value is ``rules``."""

_Object: TypeAlias = dict[str, JsonValue]

_HEADER: Final = """\
# kube-apiserver 1.36 and later. `kubextend admission` wrote this file: change the configuration and
# write the file again.
"""
_NO_RULES: Final = """\
# No rule of the configuration can be said as node affinity: `kubextend check` says why.
"""
# As in deploy/queue: a cluster has to come up without kubextend's rules.
_LEFT_ALONE: Final = ("kube-system", "kubextend-system")
_DAEMON_SET_USERS: Final = (
    "system:serviceaccount:kube-system:daemon-set-controller",
    "system:kube-controller-manager",
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PATH: Final = "/spec/affinity/nodeAffinity"
_AFFINITY_TYPE: Final = "Object.spec.affinity"
_NODE_TYPE: Final = f"{_AFFINITY_TYPE}.nodeAffinity"
_SELECTOR_TYPE: Final = f"{_NODE_TYPE}.{_REQUIRED}"
_TERM_TYPE: Final = f"{_SELECTOR_TYPE}.nodeSelectorTerms"
_WEIGHTED_TYPE: Final = f"{_NODE_TYPE}.{_PREFERRED}"
_TERMS_PATH: Final = f"{_PATH}/{_REQUIRED}/nodeSelectorTerms"
# CEL about an expression e and a term t: the form that ``_listed`` writes, and a term for no node.
_LIST_OF_E: Final = "[e.key, e.operator] + e.?values.orValue([])"
_IS_EMPTY: Final = "!has(t.matchExpressions) && !has(t.matchFields)"
_MESSAGE: Final = (
    "the pod lacks node affinity that a rule of kubextend puts on such pods when they are created:"
    " create the pod anew with its labels and node affinity as they shall be"
)


def admission_yaml(rules: Sequence[PodRules]) -> str:
    """Return the policies for compiled rules as YAML documents."""
    objects = [*policies(rules)]
    if not objects:
        return _HEADER + _NO_RULES
    return _HEADER + yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100
    )


def policies(rules: Sequence[PodRules]) -> Iterator[_Object]:
    """Yield the policy that mutates pods and the one that validates them, with their bindings.

    There are these four objects for each element of ``rules``. Each object has every field that
    kube-apiserver would fill in, so that an installed object has the same ``spec``.
    """
    for each in rules:
        yield _object("MutatingAdmissionPolicy", each, _mutating_spec(each))
        yield _object("MutatingAdmissionPolicyBinding", each, {"policyName": _name(each)})
        yield _object("ValidatingAdmissionPolicy", each, _validating_spec(each))
        actions: _Object = {"policyName": _name(each), "validationActions": ["Deny"]}
        yield _object("ValidatingAdmissionPolicyBinding", each, actions)


def _object(kind: str, rules: PodRules, spec: _Object) -> _Object:
    pods = ", ".join(" ".join((key, sign, *values)) for key, sign, values in rules.pods)
    said = f"pods of {rules.scheduler_name} with {pods or 'any labels'}"
    metadata: _Object = {
        "name": _name(rules),
        "labels": {LABEL: "rules"},
        "annotations": {LABEL: said},
    }
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _name(rules: PodRules) -> str:
    """Return a name that changes only with the profile's name and the selector of pods."""
    which = json.dumps([rules.scheduler_name, rules.pods])
    return f"kubextend-rule-{hashlib.sha256(which.encode()).hexdigest()[:12]}"


def _mutating_spec(rules: PodRules) -> _Object:
    patch: _Object = {"patchType": "JSONPatch", "jsonPatch": {"expression": _patches(rules)}}
    return {
        "failurePolicy": "Fail",
        # Once more if a webhook or another policy changed the pod afterwards.
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": _constraints(rules, [_resource_rule("CREATE", "pods")]),
        "matchConditions": _condition(*_concerned(rules), f"!({_has_rules('object', rules)})"),
        "mutations": [patch],
    }


def _validating_spec(rules: PodRules) -> _Object:
    updates = _resource_rule("UPDATE", "pods", "pods/*")
    has_before = _has_rules("oldObject", rules)
    # A pod of the time before the policies stays as it is.
    since = (
        f"request.operation == 'CREATE' ||\n!({_matches('oldObject', rules.pods)}) ||\n{has_before}"
    )
    validation: _Object = {"expression": "false", "message": _MESSAGE, "reason": "Forbidden"}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints(rules, [_resource_rule("CREATE", "pods"), updates]),
        # What matches is refused: conditions take less time than validations.
        "matchConditions": _condition(
            *_concerned(rules), f"!({_has_rules('object', rules)})", f"({since})"
        ),
        "validations": [validation],
    }


def _constraints(rules: PodRules, resource_rules: list[JsonValue]) -> _Object:
    return {
        "matchPolicy": "Equivalent",
        # kube-apiserver parses a selector of namespaces for each policy and each request anew, also
        # for pods without a rule.
        "namespaceSelector": {},
        "objectSelector": _object_selector(rules.pods),
        "resourceRules": resource_rules,
    }


def _object_selector(pods: Term) -> _Object:
    """Return the part of a selector that a LabelSelector can say, which is quicker than CEL."""
    said: list[JsonValue] = []
    for key, sign, values in pods:
        if sign in {"In", "NotIn"}:
            said.append({"key": key, "operator": sign, "values": [*values]})
        elif sign in {"Exists", "DoesNotExist"}:
            said.append({"key": key, "operator": sign})
        else:
            # Only a label can be greater or less than a number.
            said.append({"key": key, "operator": "Exists"})
    return {"matchExpressions": said} if said else {}


def _resource_rule(operation: str, *resources: str) -> _Object:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": [*resources],
        "scope": "*",
    }


def _condition(*parts: str) -> list[JsonValue]:
    """Return one match condition that holds where all parts hold.

    kube-apiserver evaluates every match condition, and stops within one at the first part that does
    not hold. Source: kubernetes v1.37 apiserver pkg/admission/plugin/cel/condition.go ForInput
    """
    return [{"name": "lacks-a-rule", "expression": " &&\n".join(parts)}]


def _concerned(rules: PodRules) -> Iterator[str]:
    """Yield CEL expressions that hold together for the pods that the rules are for."""
    yield f"object.spec.schedulerName == {_text(rules.scheduler_name)}"
    yield f"!(request.namespace in {_texts(_LEFT_ALONE)})"
    yield "object.spec.?nodeName.orValue('') == ''"
    # Nobody else can act as one of these users, but anybody can write an ownerReference.
    yield (
        f"!(request.userInfo.username in {_texts(_DAEMON_SET_USERS)} &&\n"
        "object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet' &&\n"
        "o.?controller.orValue(false)))"
    )
    yield f"({_matches('object', rules.pods)})"


def _matches(pod: str, selector: Term) -> str:
    """Return a CEL expression: whether the labels of a pod meet a selector."""
    labels = f"{pod}.metadata.?labels.orValue({{}})"
    return " &&\n".join(_meets(labels, each) for each in selector) or "true"


def _meets(labels: str, requirement: Requirement) -> str:
    key, sign, values = requirement
    name = _text(key)
    has, value = f"{name} in {labels}", f"{labels}[{name}]"
    if sign == "Exists":
        return has
    if sign == "DoesNotExist":
        return f"!({has})"
    if sign == "In":
        return f"({has} && {value} in {_texts(values)})"
    if sign == "NotIn":
        return f"!({has} && {value} in {_texts(values)})"
    # Go reads the label's text as int64, and takes a text beyond int64 for no number.
    number = f"({has} && {value}.matches('^0*[0-9]{{1,19}}$') && uint({value})"
    if sign == "Gt":
        return f"{number} > {int(values[0])}u && uint({value}) <= {2**63 - 1}u)"
    return f"{number} < {int(values[0])}u)"


def _has_rules(pod: str, rules: PodRules) -> str:
    """Return a CEL expression: whether a pod's node affinity has all rules.

    A required term without requirements matches no node, and needs no rule.
    """
    affinity = f"{pod}.spec.?affinity.?nodeAffinity"
    parts = []
    if rules.required:
        needed = f"[{', '.join(_listed(each) for each in rules.required)}]"
        has = f"{needed}.all(n,\nt.?matchExpressions.orValue([]).exists(e, {_LIST_OF_E} == n))"
        each_term = f"{_IS_EMPTY} ||\n{has}"
        required = f"{affinity}.?{_REQUIRED}"
        # Without terms the API refuses the pod anyway; the list may then be null.
        terms = f"{required}.?nodeSelectorTerms.orValue(null)"
        parts.append(f"{required}.hasValue() &&\n({terms} == null || {terms}.all(t, {each_term}))")
    for term, weight in rules.preferred.items():
        parts.append(_has_preference(f"{affinity}.?{_PREFERRED}", term, weight))
    return " &&\n".join(parts)


def _has_preference(preferences: str, term: Term, weight: int) -> str:
    wanted = f"[{', '.join(_listed(each) for each in term)}]"
    expressions = f"p.preference.?matchExpressions.orValue([]).map(e, {_LIST_OF_E})"
    same = f"p.weight == {weight} && !has(p.preference.matchFields) &&\n{expressions} == {wanted}"
    return f"{preferences}.orValue([]).exists(p, {same})"


def _patches(rules: PodRules) -> str:
    """Return a CEL expression: the patches that put what is missing on a pod.

    No value of a patch is a list of objects, with which kube-apiserver 1.36 panics.
    """
    new_affinity = _add("/spec/affinity", f"{_AFFINITY_TYPE}{{}}")
    new_node_affinity = _add(_PATH, f"{_NODE_TYPE}{{}}")
    parts = [
        f"(has(object.spec.affinity) ? [] : [{new_affinity}])",
        f"(object.spec.?affinity.?nodeAffinity.hasValue() ? [] :\n[{new_node_affinity}])",
    ]
    if rules.required:
        parts.append(_require(rules.required))
    if rules.preferred:
        has = f"object.spec.?affinity.?nodeAffinity.?{_PREFERRED}.hasValue()"
        parts.append(f"({has} ? [] :\n[{_add(f'{_PATH}/{_PREFERRED}', '[]')}])")
    for term, weight in rules.preferred.items():
        parts.append(_prefer(term, weight))
    return " +\n".join(parts)


def _require(required: Term) -> str:
    made = f"{_SELECTOR_TYPE}{{nodeSelectorTerms: [\n{_TERM_TYPE}{_expressions(required)}]}}"
    new = _add(f"{_PATH}/{_REQUIRED}", made)
    required_there = f"object.spec.?affinity.?nodeAffinity.?{_REQUIRED}"
    terms = f"{required_there}.?nodeSelectorTerms.orValue(null)"
    path = f"'{_TERMS_PATH}/' + string(i) + '/matchExpressions"
    listless = "!has(t.matchExpressions) && has(t.matchFields)"
    new_list = f"JSONPatch{{op: 'add', path: {path}', value: []}}"
    per_term = [f"{terms}.transformList(i, t, {listless},\n{new_list})"]
    for each in required:
        lacks = (
            f"!({_IS_EMPTY}) &&\n"
            f"!t.?matchExpressions.orValue([]).exists(e, {_LIST_OF_E} == {_listed(each)})"
        )
        patch = f"JSONPatch{{op: 'add', path: {path}/-', value:\n{_expression(each)}}}"
        per_term.append(f"{terms}.transformList(i, t, {lacks},\n{patch})")
    inside = " +\n".join(per_term)
    return f"(!{required_there}.hasValue() ? [{new}] :\n{terms} == null ? [] :\n{inside})"


def _prefer(term: Term, weight: int) -> str:
    preference = f"{_WEIGHTED_TYPE}.preference"
    value = (
        f"{_WEIGHTED_TYPE}{{weight: {weight}, preference:\n"
        f"{preference}{_expressions(term, preference)}}}"
    )
    has = _has_preference(f"object.spec.?affinity.?nodeAffinity.?{_PREFERRED}", term, weight)
    return f"({has} ? [] :\n[{_add(f'{_PATH}/{_PREFERRED}/-', value)}])"


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: '{path}', value:\n{value}}}"


def _expressions(requirements: Term, type_name: str = _TERM_TYPE) -> str:
    listed = ",\n".join(_expression(each, type_name) for each in requirements)
    return f"{{matchExpressions: [\n{listed}]}}"


def _expression(requirement: Requirement, type_name: str = _TERM_TYPE) -> str:
    key, sign, values = requirement
    listed = f", values: {_texts(values)}" if values else ""
    return f"{type_name}.matchExpressions{{key: {_text(key)}, operator: '{sign}'{listed}}}"


def _listed(requirement: Requirement) -> str:
    """Return a requirement as a CEL list of its key, its operator and its values."""
    key, sign, values = requirement
    return _texts((key, sign, *values))


def _texts(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _text(text: str) -> str:
    """Return a string literal of CEL, which knows the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, so that people can read the expressions."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
