"""Elects the leader among kubextend's replicas by a Lease, as client-go's leader election does.

The leader election of the official Python client does not fit: no call stops that election or gives
its Lease back, that election uses the wall clock, and it ends for good when a connection breaks.

Source: client-go v0.36 tools/leaderelection/leaderelection.go
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from kubextend.cluster.api_call import (
    CONFLICT,
    NOT_FOUND,
    Call,
    RefusedError,
    UnreachableError,
    parsed_object,
)
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.client import Cluster

log = logging.getLogger(__name__)

LEASE_S: Final = 15
RENEW_S: Final = 10.0
"""Seconds after the last renewal of its Lease at which a leader stops acting. The Lease lasts 5 s
longer, so that the leader's last API calls, of 5 s each, end while it holds the Lease."""
RETRY_S: Final = 2.0
LEAST_RETRY_S: Final = 1.5
"""A follower looks at the Lease every 1.5 to 2 s: it costs 0.6 requests a second, and leads 17 s
after the leader died."""
CALL_S: Final = 5.0
RIGHT: Final = "get, create and update on leases"
GIVE_BACK_S: Final = 1
"""``leaseDurationSeconds`` of a Lease that its holder gives back, as in client-go."""
JOIN_S: Final = 2 * CALL_S

Lease = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The namespace and the name of a Lease object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def collection(self) -> str:
        """The API path of all Leases in the namespace of this Lease."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"


def lease_holder(cluster: Cluster, lease: LeaseName) -> str:
    """Read a Lease from the API and return the name of its holder; "" without a holder. Blocks.

    A Lease that has expired, or that does not exist, has no holder.

    Raises: ClusterError: the Lease could not be read.
    """
    spec = _spec(_read(cluster, lease))
    renewed, lasts_s = spec.get("renewTime"), spec.get("leaseDurationSeconds")
    if not renewed or not isinstance(lasts_s, int):
        return ""
    # The Lease holds times of the holder's clock: the age is wrong if the two clocks differ.
    age = datetime.now(UTC) - datetime.fromisoformat(renewed)
    return spec.get("holderIdentity") or "" if age.total_seconds() < lasts_s else ""


class State(Enum):
    """What a replica may do."""

    FOLLOWER = auto()
    """The replica does not hold the Lease."""
    CATCHING_UP = auto()
    """The replica holds the Lease, and does not know yet all that the leader before has decided."""
    LEADING = auto()
    """The replica holds the Lease, and may decide where plugins keep state."""
    RESIGNED = auto()
    """The replica begins nothing new, and gives the Lease back once its work has ended."""


class Election:
    """Takes and renews a Lease on a thread of its own, so that one replica leads at a time.

    ``leads`` turns false 10 s after the last renewal of the Lease; another replica takes the Lease
    after 15 s.

    Args:
        cluster: the connection to the Kubernetes API.
        lease: the namespace and name of the Lease.
        identity: the name of this replica in the Lease; "" means the host name and a random UUID.

    Attributes:
        identity: the name of this replica in the Lease's ``holderIdentity``.
        term: how many times this replica has begun to lead; a lapse of the Lease ends a term.
        term_began_s: when this replica last began to lead, in seconds of Unix time; 0: never.
    """

    def __init__(self, cluster: Cluster, lease: LeaseName, *, identity: str = "") -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self.term = 0
        self.term_began_s = 0.0
        self._cluster = cluster
        self._lease = lease
        self._told: list[Callable[[], object]] = []
        self._rng = random.Random()  # noqa: S311 - jitter
        self._lock = threading.Lock()
        self._state = State.FOLLOWER
        self._leads_until = float("-inf")
        self._led = False
        self._seen: Lease | None = None
        self._held_until = float("-inf")
        self._failing = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubextend-election", daemon=True)

    @property
    def leads(self) -> bool:
        """Whether this replica holds the Lease now, having renewed it less than 10 s ago."""
        return time.monotonic() < self._leads_until

    @property
    def state(self) -> State:
        """What this replica may begin now."""
        state = self._state
        return state if state is State.RESIGNED or self.leads else State.FOLLOWER

    @property
    def may_begin(self) -> bool:
        """Whether this replica holds the Lease and has not resigned."""
        return self._state is not State.RESIGNED and self.leads

    def left_s(self) -> float:
        """Return the seconds for which this replica still leads if no renewal succeeds."""
        return max(0.0, self._leads_until - time.monotonic())

    def tell(self, on_change: Callable[[], object]) -> None:
        """Call a function, on the election's thread, when this replica begins or ceases to lead."""
        self._told.append(on_change)

    def caught_up(self, term: int) -> None:
        """Note that this replica knows by now what was decided before a term began."""
        with self._lock:
            if self._state is State.CATCHING_UP and self.term == term:
                self._state = State.LEADING

    def resign(self) -> None:
        """Begin nothing new; the Lease stays held and renewed until ``stop``."""
        with self._lock:
            self._state = State.RESIGNED

    def start(self) -> None:
        """Start the thread that takes and renews the Lease, once."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread and give the Lease back, so that no replica waits until it expires."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        held = self.leads
        self._leads_until = float("-inf")
        if held and self._seen is not None:
            try:
                self._write(self._seen, holder="", duration_s=GIVE_BACK_S)
            except (RefusedError, UnreachableError) as error:
                log.warning("the lease %s could not be given back: %s", self._lease, error)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._attempt()
            except (ClusterError, ValueError) as error:
                self._note(error)
            except Exception:
                log.exception("the election failed unexpectedly")
            self._tell()
            self._stopped.wait(self._pause_s())
        self._tell()

    def _attempt(self) -> None:
        """Renew the Lease, or take it if it is free; do nothing if another replica holds it.

        Raises: ClusterError: the Lease could not be read or written; ``leads`` stays true until
        10 s after the last success.
        """
        began = time.monotonic()
        try:
            if self.leads and self._seen is not None:
                self._won(self._write(self._seen, self.identity, LEASE_S), began)
                return
            self._read_and_take(began)
        except RefusedError as error:
            # Another writer, or this replica itself, has written to the Lease since it was read, or
            # the Lease was deleted: read it again.
            if error.status not in {CONFLICT, NOT_FOUND}:
                raise
            self._read_and_take(began)
        self._failing = False

    def _read_and_take(self, began: float) -> None:
        lease = _read(self._cluster, self._lease)
        self._observe(lease)
        if time.monotonic() < self._held_until:
            self._leads_until = float("-inf")
        else:
            self._won(self._write(lease, self.identity, LEASE_S), began)

    def _observe(self, lease: Lease | None) -> None:
        """Note a Lease as it was just read, and until when another replica may lead by it.

        That time is by this replica's own monotonic clock: the clocks of two machines may differ.
        Whoever deletes or empties a Lease by hand does not end its holder's lead: the holder leads
        on until it looks at the Lease, or can no longer renew it. A Lease that is empty at the
        first look may have been emptied right before.

        Args:
            lease: the Lease; None: there is none.
        """
        before, now = _spec(self._seen), _spec(lease)
        is_new = self._seen is None and lease is not None
        if now != before or is_new:
            # Whoever gives the Lease back writes a duration.
            by_hand = not (now.get("holderIdentity") or now.get("leaseDurationSeconds"))
            lasts_s = 0 if by_hand and self.leads else self._may_last_s(now)
            self._held_until = time.monotonic() + lasts_s
        self._seen = lease

    def _may_last_s(self, spec: dict[str, Any]) -> int:
        """Return for how many seconds another replica may lead by a Lease with this spec."""
        holder, lasts_s = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
        if holder == self.identity or (not holder and lasts_s == GIVE_BACK_S):
            return 0
        return lasts_s if isinstance(lasts_s, int) else LEASE_S

    def _won(self, lease: Lease, began: float) -> None:
        # If the previous renewal ran out before this one was answered, report that loss first.
        self._tell()
        self._seen = lease
        with self._lock:
            if not self.leads:
                # Before ``leads`` turns true, so that no reader takes the new term for the one
                # before.
                self.term += 1
                self.term_began_s = time.time()
                if self._state is not State.RESIGNED:
                    self._state = State.CATCHING_UP
            self._leads_until = began + RENEW_S
        self._failing = False

    def _tell(self) -> None:
        leads = self.leads and not self._stopped.is_set()
        if leads == self._led:
            return
        self._led = leads
        log.info("%s the lease %s", "holds" if leads else "no longer holds", self._lease)
        for on_change in self._told:
            on_change()

    def _pause_s(self) -> float:
        """Return the seconds until the next attempt at the Lease; a leader renews in time."""
        if self.leads:
            return max(0.0, min(RETRY_S, self._leads_until - time.monotonic()))
        return self._rng.uniform(LEAST_RETRY_S, RETRY_S)

    def _note(self, error: Exception) -> None:
        """Log the first of several failures in a row; another's write is none."""
        status = error.status if isinstance(error, ClusterError) else None
        if not self._failing and status != CONFLICT:
            self._failing = True
            log.warning("cannot get the lease %s, trying again: %s", self._lease, error)

    def _write(self, lease: Lease | None, holder: str, duration_s: int) -> Lease:
        """Write a Lease with this holder to the API, and return the Lease as the API stored it.

        The Lease keeps its resourceVersion, so that the API refuses the write if the Lease has
        changed since it was read.

        Args:
            lease: the Lease as read; None: there is none, and it is created.
            holder: the name of the new holder; "" gives the Lease back.
            duration_s: the seconds for which the Lease is valid.

        Raises: RefusedError: 409: another writer has written to the Lease since it was read.
        """
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = _spec(lease)
        spec = {"holderIdentity": holder, "leaseDurationSeconds": duration_s, "renewTime": moment}
        if before.get("holderIdentity") != holder:
            spec["acquireTime"] = moment
            if before and holder:
                spec["leaseTransitions"] = (before.get("leaseTransitions") or 0) + 1
        name = {"name": self._lease.name, "namespace": self._lease.namespace}
        kept = lease or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": name,
        }
        body = {**kept, "spec": {"leaseTransitions": 0} | before | spec}
        path = self._lease.collection
        if lease is not None:
            path += f"/{self._lease.name}"
        method = "POST" if lease is None else "PUT"
        call = Call(method, path, CALL_S, body=body, right=RIGHT)
        return parsed_object(call, self._cluster.request(call))


def _read(cluster: Cluster, lease: LeaseName) -> Lease | None:
    call = Call("GET", f"{lease.collection}/{lease.name}", CALL_S, right=RIGHT)
    body = cluster.read(call)
    return None if body is None else parsed_object(call, body)


def _spec(lease: Lease | None) -> dict[str, Any]:
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}
