"""Prepares its new network namespace (lo up, traffic over lo if asked) and executes a program.

Arguments: descriptor of a listening socket of the outer network, bytes a second, program and its
arguments. The program gets the socket as systemd would hand it over, so that it can be reached from
outside while its counters count only what is sent in here.
"""

import fcntl
import os
import socket
import struct
import sys
import time

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
FIRST_PASSED = 3
PACKET = bytes(1024)


def bring_up(device: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", device.encode(), IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def send(bytes_per_s: int, while_parent: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))
        sender.connect(receiver.getsockname())
        while os.getppid() == while_parent:
            for _ in range(bytes_per_s // len(PACKET) // 20):
                sender.send(PACKET)
            time.sleep(0.05)


def main(listener: int, bytes_per_s: int, program: list[str]) -> None:
    bring_up("lo")
    parent = os.getpid()
    if bytes_per_s and os.fork() == 0:
        os.close(listener)
        send(bytes_per_s, parent)
        os._exit(0)
    if listener != FIRST_PASSED:
        os.dup2(listener, FIRST_PASSED)
        os.close(listener)
    os.set_inheritable(FIRST_PASSED, True)
    os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(parent)}
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
