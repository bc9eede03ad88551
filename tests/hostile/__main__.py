"""Every conversation, and then what the server has kept of them.

Prints a line for each that went wrong, then figures. Exit code: 0 where none did.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .attacks import ATTACKS
from .certificates import write_certificate
from .conversations import Conversation, conversations
from .talk import Line, Server, WrongError, hold

_TALKERS = 8
_MB = 1024 * 1024
# What the allocator may keep of what was let go of.
MOST_KEPT_BYTES = 60 * _MB


def wrong_in(server: Server, said: list[Conversation]) -> list[str]:
    """What went wrong in these conversations, some of them at a time; a line each."""

    def talk(mine: list[Conversation]) -> list[str]:
        wrong = []
        with Line(server) as other:
            for each in mine:
                try:
                    hold(server, each, other)
                except (WrongError, OSError) as error:
                    wrong.append(f"{each.name}: {type(error).__name__}: {error}")
        return wrong

    shares = [said[number::_TALKERS] for number in range(_TALKERS)]
    with ThreadPoolExecutor(_TALKERS) as talkers:
        return [line for lines in talkers.map(talk, shares) for line in lines]


def kept_after_attacks(server: Server) -> list[tuple[str, int, int]]:
    """Each attack, and how many bytes more than before are held at its end and after it."""
    figures = []
    for name, attack in ATTACKS.items():
        before = server.resident_bytes()
        with attack(server):
            at_most = server.resident_bytes()
        with Line(server) as line:
            line.send((b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",))
            line.answer()
        figures.append((name, at_most - before, server.resident_bytes() - before))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="what the Python tests run")
    short = parser.parse_args().short
    said = list(conversations(short=short))
    began_s = time.monotonic()
    wrong = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_certificate(folder)
        for certificates in (None, folder):
            server = stack.enter_context(Server.running(certificates))
            mine = [each for each in said if each.tls == (certificates is not None)]
            wrong += wrong_in(server, mine)
            for name, during, after in kept_after_attacks(server):
                line = f"{name}: {during / _MB:.0f} MB more during it, {after / _MB:.0f} after"
                sys.stdout.write(line + "\n")
                if max(during, after) > MOST_KEPT_BYTES:
                    wrong.append(line)
    for line in wrong:
        sys.stdout.write(f"WRONG {line}\n")
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{len(said)} conversations, {len(wrong)} wrong, {took_s:.0f} s\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
