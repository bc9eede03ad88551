"""The lint of the core's layers sees each use that goes up, and no other."""

from pathlib import Path

import pytest
from tests.rust_layers import LAYERS, layers, wrong

LAYER_OF = layers(f"- {LAYERS} `wire | plugins >\n  pod > node > labels | score`. More.")


def said(path: str, source: str) -> list[str]:
    return list(wrong(Path(path), source, LAYER_OF))


@pytest.mark.parametrize(
    ("path", "line", "faults"),
    [
        ("pod/store.rs", "use crate::node::Nodes;", []),
        ("pod/store.rs", "use super::record::Pod;", []),
        ("node/store.rs", "fn of(pod: &crate::pod::Pod) {", ["node uses pod"]),
        ("node/store.rs", "use super::super::pod::Pod;", ["node uses pod"]),
        ("node/mod.rs", "use super::pod::Pod;", ["node uses pod"]),
        ("labels/mod.rs", "        impl $crate::score::Scale for X {", ["labels uses score"]),
        ("plugins/mod.rs", "use crate::wire::Relist;", ["plugins uses wire"]),
        ("pod/store.rs", "use crate::elsewhere::X;", ["pod uses elsewhere"]),
        ("pod/store.rs", "use crate::{wire, node};", ["pod uses {"]),
        ("pod/store.rs", "// crate::wire fills it", []),
    ],
)
def test_a_module_uses_those_below_it_alone(path: str, line: str, faults: list[str]) -> None:
    assert said(path, f"//! A file.\n{line}\n") == [f"{path}:2: {fault}" for fault in faults]


def test_tests_of_a_module_use_what_they_like() -> None:
    use = "    use crate::wire::Relist;\n"
    items = f"#[cfg(test)]\nimpl Node {{\n{use}}}\n\n#[cfg(test)]\nuse crate::wire::Relist;\n"
    between, tests = "use crate::pod::Pod;\n", f"#[cfg(test)]\nmod tests {{\n{use}}}\n"
    fault = f"node/store.rs:{items.count(chr(10)) + 1}: node uses pod"
    assert said("node/store.rs", items + between + tests) == [fault]


def test_a_module_that_is_on_no_layer_is_told_of() -> None:
    assert said("odd.rs", "") == ["odd.rs: odd is in no layer"]
