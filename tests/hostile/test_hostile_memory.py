"""The short form of ``python -m tests.hostile.memory``."""

from itertools import chain

from .memory import on_pods, on_requests


def test_no_attack_takes_more_memory_than_is_configured_nor_keeps_it() -> None:
    figures = list(chain(on_requests(short=True), on_pods(short=True)))
    assert len(figures) > 10
    assert [str(each) for each in figures if not each.is_bounded] == []
