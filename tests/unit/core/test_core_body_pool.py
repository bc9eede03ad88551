"""Memory of large bodies: who may write to it and when, and where it goes when nobody needs it."""

import gc
import json
import resource
import sys
import threading
from pathlib import Path

import core_world as world
import pytest

from kubextend import core, errors

MIB = 1 << 20


def filled(pool: core.BodyPool, content: bytes) -> core.BodyBuffer:
    buffer = pool.take(len(content))
    with memoryview(buffer) as view:
        view[:] = content
    return buffer


def large_body(nodes: int = 400) -> bytes:
    labels = [{"rdma": str(i % 2)} for i in range(nodes)]
    filler = {"images": ["x" * 8_000]}
    return world.full([world.node(f"n{i}", of, status=filler) for i, of in enumerate(labels)])


def test_a_buffer_holds_what_was_written_to_it() -> None:
    buffer = filled(core.BodyPool(), b"0123456789")
    assert len(buffer) == 10
    assert bytes(buffer) == b"0123456789"
    assert memoryview(buffer)[2:4] == b"23"


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 3 * MIB + 1])
def test_a_buffer_has_the_size_that_was_asked_for(size: int) -> None:
    pool = core.BodyPool()
    assert len(memoryview(pool.take(size))) == len(pool.take(size)) == size


def test_requests_of_every_verb_are_read_from_a_buffer_as_from_bytes() -> None:
    pool = core.BodyPool()
    args = core.read_args(filled(pool, world.full([world.node("n1")])))
    assert args.nodes is not None
    assert args.nodes.names == ["n1"]
    binding = b'{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n1"}'
    assert core.read_binding_args(filled(pool, binding)).node == "n1"
    preempt = b'{"Pod":null,"NodeNameToMetaVictims":{"n2":{"Pods":[{"UID":"u"}]}}}'
    assert core.read_preemption_args(filled(pool, preempt)).nodes.names == ["n2"]


def test_a_buffer_that_is_still_written_to_is_not_read() -> None:
    buffer = filled(core.BodyPool(), world.names(["n1"]))
    view = memoryview(buffer)
    part = view[1:]
    view.release()
    with pytest.raises(BufferError, match="still open for writing"):
        core.read_args(buffer)
    part.release()
    assert core.read_args(buffer).names_mode


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give memory back later")
@pytest.mark.parametrize("kept", [0, 1, 5000, 3 * MIB])
def test_of_a_buffer_that_was_used_before_no_more_is_resident_than_is_kept(kept: int) -> None:
    pool, size = core.BodyPool(), 48 * MIB
    filled(pool, b"x" * size)
    assert pool.idle_bytes >= size
    buffer = pool.take(size)
    with memoryview(buffer) as view:
        view[:kept] = b"y" * kept
        before = resident_bytes()
        buffer.discard_behind(kept)
        # The rest of the process may take or give some.
        assert before - resident_bytes() > size - kept - 4 * MIB
        view[kept : kept + 3] = b"abc"
        assert view[: kept + 3] == b"y" * kept + b"abc"


@pytest.mark.parametrize("below", [1, 4096, 8192, 1 << 20, 1 << 46])
def test_to_keep_more_bytes_than_an_address_can_name_discards_none(below: int) -> None:
    content = b"0123456789" * 400_000
    buffer = core.BodyPool().take(len(content))
    with memoryview(buffer) as view:
        view[:] = content
    # A sum with an address that wraps would name pages before the buffer, or its own.
    buffer.discard_behind((1 << 64) - below)
    assert bytes(buffer) == content


@pytest.mark.parametrize("kept", [0, 10, 4096, 1 << 30])
def test_of_a_small_buffer_what_is_kept_stays(kept: int) -> None:
    buffer = filled(core.BodyPool(), b"0123456789")
    buffer.discard_behind(kept)
    assert bytes(buffer)[:kept] == b"0123456789"[:kept]


def test_of_a_buffer_that_was_read_nothing_is_discarded() -> None:
    buffer = filled(core.BodyPool(), world.names(["n1"]))
    args = core.read_args(buffer)
    with pytest.raises(BufferError, match="was read"):
        buffer.discard_behind(0)
    assert args.nodes is not None
    assert args.nodes.names == ["n1"]


def test_nobody_writes_to_a_buffer_that_was_read() -> None:
    body = world.names(["n1"])
    buffer = filled(core.BodyPool(), body)
    args = core.read_args(buffer)
    view = memoryview(buffer)
    assert view.readonly
    assert view == body
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 0
    # A view open for reading stands in nobody's way.
    again = core.read_args(buffer)
    assert args.nodes is not None
    assert again.nodes is not None
    assert args.nodes.names == again.nodes.names == ["n1"]
    # Nor does one that was released open the buffer again.
    view.release()
    assert memoryview(buffer).readonly
    assert core.read_args(buffer).names_mode


def test_a_body_that_cannot_be_read_is_sealed_all_the_same() -> None:
    buffer = filled(core.BodyPool(), b"{]")
    with pytest.raises(errors.WireError, match="byte 1"):
        core.read_args(buffer)
    assert memoryview(buffer).readonly


def test_memory_goes_back_when_the_last_reference_is_gone() -> None:
    pool = core.BodyPool()
    buffer = filled(pool, world.names(["n1"]) + b" " * MIB)
    args = core.read_args(buffer)
    nodes = args.nodes
    view = memoryview(buffer)
    del buffer
    assert pool.idle_bytes == 0
    del args
    assert pool.idle_bytes == 0
    view.release()
    del view
    assert pool.idle_bytes >= MIB
    assert nodes is not None
    assert nodes.names == ["n1"]


def test_a_store_that_keeps_the_nodes_keeps_the_memory() -> None:
    pool, store = core.BodyPool(), core.RequestStore()
    body = large_body()
    core.read_args(filled(pool, body), store)
    assert pool.idle_bytes == 0
    other = filled(pool, b"\0" * len(body))
    args = core.read_args(body, store)
    assert (store.stats().hits, store.stats().misses) == (400, 400)
    assert args.filter_answer([]) == core.read_args(body).filter_answer([])
    del store, args
    gc.collect()
    assert pool.idle_bytes >= len(body)
    del other


def test_memory_is_used_again_for_a_body_of_about_that_size() -> None:
    pool = core.BodyPool()
    taken = pool.take(10 * MIB)
    del taken
    idle = pool.idle_bytes
    assert 10 * MIB <= idle < 11 * MIB
    for size in (10 * MIB + 100, 10 * MIB, 9 * MIB + MIB // 2):
        taken = pool.take(size)
        assert pool.idle_bytes == 0
        del taken
        assert pool.idle_bytes == idle
    # Smaller and larger bodies get memory of their own: what they do not need is not counted.
    others = [pool.take(size) for size in (MIB, 9 * MIB, 11 * MIB, 40 * MIB)]
    assert pool.idle_bytes == idle
    del others


def test_idle_memory_is_bounded_and_the_oldest_goes_first() -> None:
    pool = core.BodyPool(max_idle_bytes=10 * MIB)
    first, second, third = pool.take(2 * MIB), pool.take(6 * MIB), pool.take(7 * MIB)
    del first, second
    assert 8 * MIB <= pool.idle_bytes < 9 * MIB
    del third
    assert 7 * MIB <= pool.idle_bytes < 8 * MIB
    huge = pool.take(11 * MIB)
    del huge
    assert pool.idle_bytes == 0


def test_memory_that_nobody_takes_is_freed_after_a_while() -> None:
    pool = core.BodyPool()
    unused = pool.take(20 * MIB)
    del unused
    for _ in range(100):
        assert len(pool.take(MIB)) == MIB
    assert pool.idle_bytes < 2 * MIB


def test_clear_frees_what_is_idle_and_nothing_else() -> None:
    pool = core.BodyPool()
    used, idle = filled(pool, b"x" * MIB), pool.take(MIB)
    del idle
    pool.clear()
    assert pool.idle_bytes == 0
    assert bytes(used) == b"x" * MIB


@pytest.mark.parametrize("size", [1 << 62, (1 << 63) - 1])
def test_memory_that_there_is_not_is_an_error(size: int) -> None:
    with pytest.raises(MemoryError):
        core.BodyPool().take(size)


def test_a_large_answer_comes_in_pooled_memory_and_says_the_same() -> None:
    pool = core.BodyPool()
    body = large_body()
    args = core.read_args(filled(pool, body))
    assert args.nodes is not None
    rejections = [(args.nodes.matches("rdma=0"), "no RDMA", True)]
    plain = args.filter_answer(rejections)
    assert isinstance(plain, bytes)
    pooled = args.filter_answer(rejections, pool)
    assert isinstance(pooled, core.BodyBuffer)
    assert memoryview(pooled).readonly
    assert bytes(pooled) == plain
    assert len(json.loads(plain)["Nodes"]["items"]) == 200
    everything = [(args.nodes.everything(), "none", True)]
    assert args.filter_answer(everything, pool) == args.filter_answer(everything)


def test_threads_take_and_give_back_at_the_same_time() -> None:
    pool = core.BodyPool(max_idle_bytes=8 * MIB)
    wrong: list[int] = []

    def work(number: int) -> None:
        content = bytes([number]) * MIB
        for _ in range(200):
            buffer = filled(pool, content)
            if bytes(buffer) != content:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.idle_bytes <= 8 * MIB
