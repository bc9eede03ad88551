"""Whatever stands in a file, it is read or refused with reasons; nothing else happens."""

from collections.abc import Callable
from typing import Any

from config_world import KNOWN
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubextend import config
from kubextend.config.model import ExtenderConfiguration
from kubextend.config.yaml_document import read_document
from kubextend.errors import ConfigError, Issue

_FIELDS = sorted(
    {"schedulerName", "plugins", "pluginConfig", "enabled", "disabled", "name", "weight", "args"}
    | {"filter", "score", "multiPoint", "queueSort", "tls", "tlsConfig", "certFile", "caFile"}
    | {"host", "port", "urlPrefix", "httpTimeout", "managedResources", "kubeconfig", "bind", "path"}
    | {"waitingPods", "allowedNames", "tokenFile", "decisions", "page"}
)
_TYPE = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
_VALUES = [
    "RdmaAware",
    "LabelMatch",
    "SortA",
    "NodeAffinity",
    "*",
    "2s",
    "http://a",
    "https://[",
    "/",
]
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
_SECTIONS = st.dictionaries(
    st.sampled_from([info.alias or "" for info in ExtenderConfiguration.model_fields.values()]),
    _TREES,
)


def reasons(read: Callable[[], object]) -> tuple[Issue, ...]:
    """Why something was refused; any other exception goes through."""
    try:
        read()
    except ConfigError as error:
        return error.issues or (Issue("", "refused without a reason"),)
    return ()


@settings(max_examples=300, deadline=None)
@given(_SECTIONS)
@example({"server": {"decisions": {"allowedNames": [None]}}})
@example({"server": {"waitingPods": {"allowedNames": [None]}}})
def test_any_tree_is_a_configuration_or_a_list_of_reasons(sections: dict[str, Any]) -> None:
    issues = reasons(lambda: config.parse(sections | _TYPE, known=KNOWN))
    assert len({(issue.path, issue.message) for issue in issues}) == len(issues)
    assert "refused without a reason" not in {issue.message for issue in issues}


@settings(max_examples=300, deadline=None)
@given(_TREES)
def test_any_profile_is_resolved_or_refused_with_reasons(profile: object) -> None:
    tree = {**_TYPE, "cluster": {}, "profiles": [profile, {}]}
    issues = reasons(lambda: config.parse(tree, known=KNOWN))
    assert all(issue.path.startswith("profiles") for issue in issues)


@settings(max_examples=300, deadline=None)
@given(st.text("[]{}&*<>:-,!?|'\"#\n ab1\\~", max_size=40) | st.text(max_size=20))
def test_any_text_is_a_document_or_refused(text: str) -> None:
    issues = reasons(lambda: read_document(text.encode("utf-8", "surrogatepass"), "f"))
    assert all(issue.path == "f" for issue in issues)
