"""Runs the processes of a test: finds free ports, logs to files, and ends each by its own pid."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

LOG_TAIL_BYTES = 6000
# Below the ports that the kernel gives to clients, so that no client takes a port before its use.
PORTS = range(15_000, 32_000)
STOP_TIMEOUT_S = 10.0

T = TypeVar("T")


class Program:
    """A running program and the log file of its output."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        launcher = [sys.executable, "-ES", str(Path(__file__).with_name("with_parent.py"))]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*launcher, str(os.getpid()), *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def processor_s(self) -> float:
        # Source: proc(5), /proc/pid/stat: the fields behind the name, utime and stime.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def end(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """End the program, or kill it if it still runs after 10 s; return its exit status."""
        if self.is_running():
            self._process.send_signal(with_signal)
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")


class Workbench:
    """Starts programs with their logs in one folder, and kills all of them at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs: list[Program] = []
        self._ports: set[int] = set()

    def start(
        self, name: str, *command: str | Path, environment: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program; its log continues that of an earlier program of the same name."""
        program = Program(name, command, self.folder / f"{name}.log", environment)
        self.programs.append(program)
        return program

    def end(self, program: Program, with_signal: signal.Signals = signal.SIGTERM) -> int:
        if program in self.programs:
            self.programs.remove(program)
        return program.end(with_signal)

    def free_port(self) -> int:
        """Return a loopback port that nothing listens on, a different one each time."""
        # Not the shared generator of ``random``, to which two test runs may give the same seed.
        chance = random.SystemRandom()
        while True:
            port = chance.choice(PORTS)
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                if port not in self._ports:
                    self._ports.add(port)
                    return port

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self.programs):
            program.end(signal.SIGKILL)
        self.programs.clear()


def until(
    probe: Callable[[], T],
    what: str,
    timeout_s: float = 180.0,
    every_s: float = 0.05,
    program: Program | None = None,
) -> T:
    """Call ``probe`` until it returns a true value, and return the value; once more after the time.

    Raises: TimeoutError: no true value came in time, or ``program`` has ended.
    """
    deadline = time.monotonic() + timeout_s
    late = False
    while not late:
        late = time.monotonic() > deadline
        if answer := probe():
            return answer
        if program is not None and not program.is_running():
            message = f"{program.name} ended before {what}:\n{program.tail()}"
            raise TimeoutError(message)
        time.sleep(every_s)
    message = f"not {what} within {timeout_s} s"
    raise TimeoutError(message)


@contextlib.contextmanager
def within(limit_s: float, what: str) -> Iterator[None]:
    """Fail if the block takes more seconds than ``limit_s``."""
    start = time.monotonic()
    yield
    took_s = time.monotonic() - start
    assert took_s <= limit_s, f"{what} took {took_s:.2f} s, more than {limit_s} s"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
