"""One child process with one plugin in it, seen from the process that started it."""

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
from kubextend.profile.isolation.messages import Failure, Message
from kubextend.profile.isolation.recipe import Recipe

__all__ = ["Child", "ChildError"]

# The same modules are found, whatever this process did to its path.
_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from kubextend.profile.isolation.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 2.0
_REAP_TIMEOUT_S: Final = 1.0


class ChildError(Exception):
    """There is no child, or none any more, and why."""


class Child:
    """A running process whose plugin is made. One thread asks it at a time; any may kill it.

    Args:
        recipe: how its plugin is made.

    Attributes:
        nodes: what it has been told of nodes.

    Raises: ChildError: its plugin could not be made, or took too long.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.nodes = core.NodeSender()
        self._begin()
        try:
            self._make(recipe)
        except BaseException:
            self.kill()
            raise

    def ask(self, message: Message) -> Message:
        """What it answers; blocks.

        Raises:
            OSError, EOFError: it has ended.
            ValueError: what it answers makes no sense; it must be killed.
        """
        self._channel.send(message.packed())
        return Message.unpacked(self._channel.receive())

    def begin_work(self) -> Failure | None:
        """The plugin's work in the background begins; what it raised, if it did.

        Raises:
            OSError, EOFError: it has ended, or takes too long and must be killed.
            ValueError: as ``ask``.
        """
        self._end.settimeout(START_TIMEOUT_S)
        failure = Failure.of(self.ask(Message({"do": "start"})))
        self._end.settimeout(None)
        return failure

    def kill(self) -> None:
        """It ends at once, and whoever waits for it learns that; from any thread, never blocks."""
        self._process.kill()
        # A process that the kernel holds up ends later; nobody has to wait for that.
        self._channel.shut_down()

    def stop(self) -> None:
        """It may end its plugin's work in the background, for a moment; then it is killed."""
        self._end.settimeout(STOP_TIMEOUT_S)
        with suppress(OSError, EOFError, ValueError):
            self.ask(Message({"do": "stop"}))
        self._dispose()

    def dispose(self) -> str:
        """It is killed, if it still lives, and forgotten by the system; how it ended."""
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
            # Nothing is ever written to it. That its other end is gone is a signal to the child.
            life, own_life = os.pipe()
            childs.callback(os.close, life)
            path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
            try:
                self._process = subprocess.Popen(  # noqa: S603  this very Python
                    [sys.executable, "-c", _CODE, str(other.fileno()), str(life), path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(other.fileno(), life),
                    # Ctrl-C in a terminal is for us to handle.
                    process_group=0,
                )
            except BaseException:
                own.close()
                os.close(own_life)
                raise
        self._end = own
        self._channel = Channel(own)
        self._dispose = weakref.finalize(self, _dispose, self._process, own, own_life)

    def _make(self, recipe: Recipe) -> None:
        try:
            packed = recipe.packed()
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
        # somebody has to take its exit code, or it stays in the process table.
        threading.Thread(target=process.wait, name="kubextend-reap", daemon=True).start()


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
