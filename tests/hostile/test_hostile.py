"""The short form of ``make hostile``."""

from pathlib import Path

import pytest

from .__main__ import MOST_KEPT_BYTES, kept_after_attacks, wrong_in
from .certificates import write_certificate
from .conversations import conversations
from .talk import Server


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_odd_conversations_are_answered_in_turn_and_keep_nothing(tls: bool, tmp_path: Path) -> None:
    if tls:
        write_certificate(tmp_path)
    said = [each for each in conversations(short=True) if each.tls == tls]
    assert len(said) > 60
    with Server.running(tmp_path if tls else None) as server:
        assert wrong_in(server, said) == []
        kept = {name: after for name, _, after in kept_after_attacks(server)}
    assert {name: size for name, size in kept.items() if size > MOST_KEPT_BYTES} == {}
