"""The suggestions of the profile page: each appears if its evidence exceeds the threshold, and not
otherwise.
"""
import pytest
from profiler_case import Recording, build, rules


def recording(folder, busy=950, **process):
    """1000 µs with one long kernel."""
    r = Recording(folder, **process)
    r.kernel("work", 0, busy)
    r.span(0, 1000)
    return r


def found(folder):
    return {s["rule"]: s for s in build(folder)[0]["suggestions"]}


# Fails if a suggestion is shown although the device is busy.
def test_nothing_to_suggest(tmp_path):
    recording(tmp_path).finish()
    assert found(tmp_path) == {}


@pytest.mark.parametrize("busy, expected", [(790, True), (810, False)])
def test_idle(tmp_path, busy, expected):
    r = recording(tmp_path, busy)
    r.host("aten::sort", busy, 1000 - busy)
    r.finish()
    rule = found(tmp_path).get("device-idle")
    assert bool(rule) == expected
    if rule:
        assert rule["title"] == "The device is idle 21 % of the time" and "aten::sort (21 %)" in rule["text"] and rule["at"] == [
            790_000, 1_000_000
        ]


@pytest.mark.parametrize("time, work, busy, expected", [(30, 900, True, True), (15, 900, True, False), (30, 980, True, False),
                                                        (200, 900, False, False)])
def test_synchronizing_calls(tmp_path, time, work, busy, expected):
    """An item() that waits for the device counts; item() of a CPU tensor does not."""
    r = recording(tmp_path, work)
    if not busy:
        r.events[0]["dur"], r.events[0]["ts"] = 700, 300
    r.host("aten::item", 100, time, line="loop.py:5 in main")
    r.host("aten::_local_scalar_dense", 101, time - 2)
    if busy:
        r.kernel("Memcpy DtoH (Device -> Pinned)", 110, 2, r.external, cat="gpu_memcpy")
    r.finish()
    rule = found(tmp_path).get("synchronizing-calls")
    assert bool(rule) == expected
    if rule:
        assert rule["title"].startswith("1 call makes") and rule["lines"] == [["loop.py:5 in main", 30_000]]


@pytest.mark.parametrize("name, expected", [("Memcpy HtoD (Pageable -> Device)", True), ("Memcpy HtoD (Pinned -> Device)", False)])
def test_pageable_copies(tmp_path, name, expected):
    r = recording(tmp_path)
    r.kernel(name, 960, 20, cat="gpu_memcpy")
    r.finish()
    assert ("pageable-copies" in found(tmp_path)) == expected


@pytest.mark.parametrize("count, duration, expected", [(120, 2, True), (120, 11, False), (80, 2, False)])
def test_tiny_kernels(tmp_path, count, duration, expected):
    r = recording(tmp_path, 10)
    for i in range(count):
        r.kernel("tiny", 20 + i * 20, duration)
    r.finish()
    assert ("tiny-kernels" in found(tmp_path)) == expected


@pytest.mark.parametrize("kind, bfloat16, expected", [("float", 4e12, True), ("c10::BFloat16", 4e12, False),
                                                      ("float", 1.2e12, False), ("float", None, False)])
def test_float32_matmul(tmp_path, kind, bfloat16, expected):
    r = recording(tmp_path, 700,
                  peak={"flops": {"float32": 1e12, "bfloat16": bfloat16}, "bytes_per_second": 1e11} if bfloat16 else None)
    mm = r.host("aten::mm", 10, 10, shapes=[([8, 8], kind), ([8, 8], kind)], line="net.py:4 in forward")
    r.kernel("gemm", 700, 200, mm)
    r.finish()
    rule = found(tmp_path).get("float32-matmul")
    assert bool(rule) == expected
    if rule:
        assert "20 %" in rule["title"] and "4.0 times" in rule["text"] and rule["lines"] == [["net.py:4 in forward", 200_000]]


@pytest.mark.parametrize("begin, expected", [(750, True), (100, False)])
def test_exposed_collectives(tmp_path, begin, expected):
    r = recording(tmp_path, 750)
    r.kernel("ncclDevKernel_AllReduce_Sum_f32", begin, 200, stream=7)
    r.finish()
    rule = found(tmp_path).get("exposed-collectives")
    assert bool(rule) == expected
    if rule:
        assert "20 %" in rule["title"]


@pytest.mark.parametrize("time, expected", [(60, True), (40, False)])
def test_dataloader(tmp_path, time, expected):
    r = recording(tmp_path)
    r.host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 100, time, cat="user_annotation")
    r.finish()
    assert ("dataloader" in found(tmp_path)) == expected


@pytest.mark.parametrize("count, size, expected", [(20, 1 << 20, True), (19, 1 << 20, False), (20, 1000, False)])
def test_repeated_allocations(tmp_path, count, size, expected):
    r = recording(tmp_path)
    for i in range(count):
        r.host("aten::cat", 10 * i, 8, line="loop.py:9 in main")
        r.memory(10 * i + 1, 5, size, size)
        r.memory(10 * i + 7, 5, -size, 0)
    r.finish()
    rule = found(tmp_path).get("repeated-allocations")
    assert bool(rule) == expected
    if rule:
        assert rule["title"] == "aten::cat allocates 1 MiB 20 times" and rule["lines"] == [["loop.py:9 in main", 0]]


@pytest.mark.parametrize("other, expected", [(700, True), (900, False)])
def test_rank_imbalance(tmp_path, other, expected):
    """Time in collectives does not count: a rank that waits in them is not busy with its own work."""
    recording(tmp_path, rank=0, pid=1).finish()
    r = recording(tmp_path, other, rank=1, pid=2)
    r.kernel("ncclDevKernel_AllReduce_Sum_f32", other, 950 - other, stream=7)
    r.finish()
    rule = found(tmp_path).get("rank-imbalance")
    assert bool(rule) == expected
    if rule:
        assert rule["title"] == "Rank 0 computes 26 % longer than rank 1"


# Fails if the most important suggestion is not the first.
def test_order(tmp_path):
    r = recording(tmp_path, 500)
    r.host("enumerate(DataLoader)#x", 500, 100, cat="user_annotation")
    r.finish()
    assert rules(build(tmp_path)[0]) == ["device-idle", "dataloader"]
