"""Starts a child process with one plugin, sends it messages, and ends it; runs in the parent."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import ExitStack, suppress
from typing import Final

from kubextend import core
from kubextend.profile.isolation.channel import Channel
from kubextend.profile.isolation.child_spec import ChildSpec
from kubextend.profile.isolation.protocol import Failure, Message

__all__ = ["Child", "ChildError"]

# The child finds the same modules, whatever this process did to its path.
_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from kubextend.profile.isolation.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 2.0
_REAP_TIMEOUT_S: Final = 1.0


class ChildError(Exception):
    """There is no child process to ask, or it has ended; the message says why."""


class Child:
    """A running child process with one plugin. The constructor starts the process.

    One thread at a time may call ``ask``; any thread may call ``kill``.

    Args:
        spec: describes the plugin.

    Attributes:
        nodes: packs nodes for the child, and remembers which nodes the child has already.

    Raises: ChildError: the plugin could not be made, or not within 60 s.
    """

    def __init__(self, spec: ChildSpec) -> None:
        self.nodes = core.NodeSender()
        self._begin()
        try:
            self._make(spec)
        except BaseException:
            self.kill()
            raise

    def ask(self, message: Message) -> Message:
        """Send a message to the child and return the child's reply; blocks.

        Raises:
            OSError, EOFError: the child has ended.
            ValueError: the reply is no valid message, and the child must be killed.
        """
        self._channel.send(message.packed())
        return Message.unpacked(self._channel.receive())

    def begin_work(self) -> Failure | None:
        """Call the plugin's ``start`` in the child; return its failure, or None after success.

        Raises:
            OSError, EOFError: the child has ended, or takes more than 60 s and must be killed.
            ValueError: the reply is no valid message, and the child must be killed.
        """
        self._end.settimeout(START_TIMEOUT_S)
        failure = Failure.of(self.ask(Message({"do": "start"})))
        self._end.settimeout(None)
        return failure

    def kill(self) -> None:
        """Kill the child process, and end a call of ``ask`` that waits; never blocks.

        Any thread may call this method.
        """
        self._process.kill()
        # The kernel may end the process later; nobody has to wait for that.
        self._channel.shut_down()

    def stop(self) -> None:
        """Call the plugin's ``stop`` in the child for up to 2 s, and then kill the process."""
        self._end.settimeout(STOP_TIMEOUT_S)
        with suppress(OSError, EOFError, ValueError):
            self.ask(Message({"do": "stop"}))
        self._dispose()

    def dispose(self) -> str:
        """Kill the child if it still runs, and return a sentence that says how it ended."""
        self._dispose()
        code = self._process.returncode
        if code is None:
            return "its process does not end"
        if code < 0:
            return f"its process was ended by {_name_of(-code)}"
        return f"its process ended with exit code {code}"

    def _begin(self) -> None:
        with ExitStack() as childs:
            own, other = socket.socketpair()
            childs.callback(other.close)
            # Nobody writes to this pipe: the child gets a signal when the pipe's other end is
            # closed.
            life, own_life = os.pipe()
            childs.callback(os.close, life)
            path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
            try:
                self._process = subprocess.Popen(  # noqa: S603  this very Python
                    [sys.executable, "-c", _CODE, str(other.fileno()), str(life), path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(other.fileno(), life),
                    # kubextend itself handles Ctrl-C in a terminal.
                    process_group=0,
                )
            except BaseException:
                own.close()
                os.close(own_life)
                raise
        self._end = own
        self._channel = Channel(own)
        self._dispose = weakref.finalize(self, _dispose, self._process, own, own_life)

    def _make(self, spec: ChildSpec) -> None:
        try:
            packed = spec.packed()
        except Exception as error:
            message = f"it cannot be handed to another process: {error}"
            raise ChildError(message) from error
        self._end.settimeout(START_TIMEOUT_S)
        try:
            self._channel.send([packed])
            answer = Message.unpacked(self._channel.receive())
        except TimeoutError as error:
            message = f"it was not made within {START_TIMEOUT_S:g} s"
            raise ChildError(message) from error
        except (OSError, EOFError) as error:
            raise ChildError(self.dispose()) from error
        self._end.settimeout(None)
        if failure := Failure.of(answer):
            raise ChildError(failure.text) from failure.cause


def _dispose(process: "subprocess.Popen[bytes]", end: socket.socket, life: int) -> None:
    process.kill()
    end.close()
    os.close(life)
    try:
        process.wait(_REAP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # On a busy machine a killed process takes a while to end. No caller waits for that, but
        # some thread has to take the exit code, or the process stays in the process table.
        threading.Thread(target=process.wait, name="kubextend-reap", daemon=True).start()


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
