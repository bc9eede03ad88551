"""Whatever stands in a file, it is read or refused with reasons; nothing else happens."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubextend import config
from kubextend.errors import ConfigError, Issue
from kubextend.plugins import IN_TREE

_FIELDS = sorted(
    {"schedulerName", "plugins", "pluginConfig", "enabled", "disabled", "name", "weight", "args"}
    | {"filter", "score", "multiPoint", "queueSort", "tls", "tlsConfig", "certFile", "caFile"}
    | {"host", "port", "urlPrefix", "httpTimeout", "managedResources", "kubeconfig", "bind", "path"}
    | {"waitingPods", "allowedNames", "tokenFile", "decisions", "page"}
)
_TYPE = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
_VALUES = ["RdmaAware", "LabelMatch", "PrioritySort", "NodeAffinity", "*", "2s"]
_VALUES += ["http://a", "https://[", "/"]
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(_VALUES)
    | st.text(st.characters(codec="utf-8"), max_size=8)
)
_TREES = st.recursive(
    _LEAVES,
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(st.sampled_from(_FIELDS), below, max_size=5)
    ),
    max_leaves=25,
)
_NAMES = [each.alias or "" for each in config.File.model_fields.values()]
_SECTIONS = st.dictionaries(st.sampled_from(_NAMES), _TREES)


def reasons(read: Callable[[], object]) -> tuple[Issue, ...]:
    """Return why something was refused; any other exception goes through."""
    try:
        read()
    except ConfigError as error:
        return error.issues or (Issue("", "refused without a reason"),)
    return ()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(_SECTIONS)
@example({"server": {"decisions": {"allowedNames": [None]}}})
@example({"server": {"waitingPods": {"allowedNames": [None]}}})
def test_any_tree_is_a_configuration_or_a_list_of_reasons(sections: dict[str, Any]) -> None:
    issues = reasons(lambda: config.parse(sections | _TYPE, known=IN_TREE))
    assert len({(issue.path, issue.message) for issue in issues}) == len(issues)
    assert "refused without a reason" not in {issue.message for issue in issues}


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(_TREES)
def test_any_profile_is_resolved_or_refused_with_reasons(profile: object) -> None:
    tree = {**_TYPE, "cluster": {}, "profiles": [profile, {}]}
    issues = reasons(lambda: config.parse(tree, known=IN_TREE))
    assert all(issue.path.startswith("profiles") for issue in issues)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text("[]{}&*<>:-,!?|'\"#\n ab1\\~", max_size=40) | st.text(max_size=20))
def test_any_text_is_a_document_or_refused(text: str) -> None:
    issues = reasons(lambda: config.read_document(text.encode("utf-8", "surrogatepass"), "f"))
    assert all(issue.path == "f" for issue in issues)
