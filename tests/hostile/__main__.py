"""Holds every hostile conversation with a server, then measures the memory that attacks take.

Prints figures, and a line for each conversation that went wrong or attack that took too much
memory. Exit code: 0 where there is no such line.
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
# How many bytes of freed memory the allocator may keep.
MOST_KEPT_BYTES = 60 * _MB


def wrong_in(server: Server, said: list[Conversation]) -> list[str]:
    """Hold conversations, eight at a time; return a line for each that went wrong."""

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
    """Make each attack; return its name, and the bytes that the server gains during and after."""
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
