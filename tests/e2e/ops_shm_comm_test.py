"""Tests of collectives over shared memory in Python programs: two and three processes that use
torch.distributed.
"""
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "python"))
REDUCTIONS = ("sum", "avg", "product", "min", "max")


def start(rank, size, store, device="cpu"):
    """Return the op's Python module, initialized with torch.distributed's default group."""
    import datetime

    import torch
    import torch.distributed as dist

    import anyaccel
    torch.set_num_threads(1)
    builder = anyaccel.get_accelerator().create_op_builder("ShareMemCommBuilder")
    shm = builder.load()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=60))
    if os.environ.get("ANYACCEL_SHM_DIR") == "/proc":
        return shm
    reason = shm.initialize(size, rank, timeout=30.0)
    if "ANYACCEL_SHM_DIR" in os.environ:
        assert "/no/such/folder" in reason, reason
    else:
        assert reason == "", reason
    return shm


def code_of(call, *arguments):
    """Return the code and message of the anyaccel.Error that the call raises."""
    import anyaccel
    try:
        call(*arguments)
    except anyaccel.Error as error:
        return error.code, str(error)
    raise AssertionError("no error")


def numbers(rank, count, dtype):
    import torch
    return ((torch.arange(count) % 50) * (rank + 1) - 20 * rank).clamp(0).to(dtype)


def expected(parts, op):
    import torch
    dtype = parts[0].dtype
    if dtype == torch.bool:
        stack = torch.stack(parts)
        return stack.any(0) if op in ("sum", "max") else stack.all(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    stack = torch.stack([part.to(wide) for part in parts])
    functions = {"sum": lambda: stack.sum(0), "avg": lambda: stack.mean(0), "product": lambda: stack.prod(0),
                 "min": lambda: stack.amin(0), "max": lambda: stack.amax(0)}
    return functions[op]().to(dtype)


def same(got, want):
    import torch
    if got.dtype == torch.complex32:
        got, want = torch.view_as_real(got), torch.view_as_real(want)
    torch.testing.assert_close(got, want)


def can_reduce(dtype, op):
    """Return whether the header documents the reduction as supported for `dtype`: all reductions of
    floats, all but averages of integers and bool, and sums and averages of complex numbers.
    """
    import torch
    if dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return False
    if dtype.is_complex:
        return op in ("sum", "avg")
    return dtype.is_floating_point or op != "avg"


def every_dtype(rank, size, shm):
    import torch
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16,
                  torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64, torch.bool, torch.complex64,
                  torch.complex128, torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2):
        for count in (0, 1, 513, 50_001):
            parts = [numbers(r, count, dtype) for r in range(size)]
            for op in REDUCTIONS:
                tensor = parts[rank].clone()
                if not can_reduce(dtype, op):
                    code, text = code_of(shm.all_reduce, tensor, op)
                    assert code == "unsupported" and "[shm_all_reduce_]" in text, (dtype, op, code, text)
                    continue
                shm.all_reduce(tensor, op)
                same(tensor, expected(parts, op))
                if count == 513:
                    padded = [part[:512 // size * size] for part in parts]
                    same(shm.reduce_scatter(padded[rank], op), expected(padded, op).chunk(size)[rank])
            gathered = shm.all_gather(parts[rank])
            assert torch.equal(gathered.view(torch.uint8), torch.cat([p.view(torch.uint8) for p in parts]))
            sent = shm.broadcast(parts[rank].clone(), size - 1)
            assert torch.equal(sent.view(torch.uint8), parts[size - 1].view(torch.uint8))


def edge_values(rank, size, shm):
    """Check with values that reveal three errors: sums accumulated in the tensor's own dtype,
    signed comparisons of unsigned values, and lost NaNs.
    """
    import torch
    for dtype, value in ((torch.float16, 2048.0), (torch.bfloat16, 256.0)):
        tensor = torch.full((700,), value if rank == 0 else 1.0, dtype=dtype)
        shm.all_reduce(tensor)
        assert (tensor == torch.tensor(value + size - 1, dtype=dtype)).all(), tensor
    for dtype, bits in ((torch.uint16, 16), (torch.uint32, 32), (torch.uint64, 64)):
        signed = {16: torch.int16, 32: torch.int32, 64: torch.int64}[bits]
        for op, want in (("max", -1), ("min", 5)):
            tensor = torch.tensor([-1 if rank == 1 else 5], dtype=signed).view(dtype)
            shm.all_reduce(tensor, op)
            assert tensor.view(signed).item() == want, (dtype, op, tensor)
    wrapped = torch.full((3,), 200, dtype=torch.uint8)
    shm.all_reduce(wrapped)
    assert (wrapped == 200 * size % 256).all(), wrapped
    for dtype in (torch.float32, torch.bfloat16):
        for op in ("min", "max"):
            for place in range(size):
                tensor = torch.tensor([float("nan") if rank == place else 1.0], dtype=dtype)
                shm.all_reduce(tensor, op)
                assert tensor.isnan().all(), (dtype, op, place, tensor)


def mismatched_calls(rank, size, shm):
    """Broadcast with a different source rank on each rank, which is an error."""
    import torch
    code, text = code_of(shm.broadcast, torch.ones(2), rank)
    assert code == "invalid_argument" and "from rank 0" in text and "from rank 1" in text, (code, text)
    code, text = code_of(shm.initialize)
    assert code == "invalid_state" and "close()" in text, (code, text)
    renew(shm)
    tensor = torch.ones(2)
    assert (shm.all_reduce(tensor) == size).all()


def renew(shm):
    """Close a failed group on every rank, then create it again."""
    import torch.distributed as dist
    dist.barrier()
    shm.close()
    dist.barrier()
    assert shm.initialize(timeout=30.0) == ""


def recreated_group(rank, size, shm):
    import torch
    import torch.distributed as dist
    assert shm.initialize(timeout=1.5) == ""  # changes the timeout of the existing group
    begin = time.monotonic()
    if rank == 0:
        code, text = code_of(shm.barrier)
        assert code == "timeout" and "rank 1 did not respond in time" in text, (code, text)
        assert time.monotonic() - begin < 15, "the first timeout was 30 s"
    dist.barrier()
    # Replace the failed process group with a new one of the same name.
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[4]}_again", rank=rank, world_size=size)
    try:
        torch.ops.deepspeed.inference_all_reduce(torch.ones(4))
        raise AssertionError("the group of a destroyed process group is still usable")
    except RuntimeError as error:
        assert "process group was destroyed" in str(error), error
    tensor = torch.ones(4)
    assert (shm.all_reduce(tensor) == size).all()
    assert shm.initialize() == "" and (torch.ops.deepspeed.inference_all_reduce(torch.ones(4)) == size).all()


def refused(rank, size, shm):
    code, text = code_of(shm.initialize)
    assert code == "invalid_argument" and "network" in text and "ANYACCEL_SHM_DIR" in text, (code, text)


def layouts(rank, size, shm):
    import torch
    whole = torch.zeros(10, 6)
    part = whole[::2].t()
    part += rank + 1
    shm.all_reduce(part)
    assert (whole[::2] == size * (size + 1) / 2).all() and (whole[1::2] == 0).all()
    base = torch.arange(size * 7000.).view(size * 7, 1000)
    assert torch.equal(shm.reduce_scatter(base + rank), (base * size + sum(range(size))).chunk(size)[rank])
    conjugate = torch.tensor([1 + 2j]).conj()
    shm.all_reduce(conjugate)
    assert conjugate.item() == size * (1 - 2j), conjugate


def groups(rank, size, shm):
    import torch
    import torch.distributed as dist
    pairs = [dist.new_group([0, 1]), dist.new_group([size - 2, size - 1])]
    for index, members in enumerate(([0, 1], [size - 2, size - 1])):
        if rank in members:
            tensor = torch.full((5,), float(rank))
            shm.all_reduce(tensor, group=pairs[index])
            assert (tensor == sum(members)).all(), (members, tensor)
            assert shm.reason(pairs[index]) == ""
    shm.barrier()


def deepspeed_names(rank, size, shm):
    import torch
    assert shm.vector_kernel_level() == 2
    tensor = torch.ones(4)
    assert torch.ops.deepspeed.inference_all_reduce_(tensor) is tensor and (tensor == size).all()
    assert (torch.ops.deepspeed.inference_all_reduce(torch.ones(4)) == size).all()
    compiled = torch.compile(lambda x: torch.ops.deepspeed.inference_all_reduce_(x) * 2, fullgraph=True, backend="aot_eager")
    assert (compiled(torch.ones(3)) == 2 * size).all()


def opcheck(rank, size, shm):
    import torch
    name = torch.distributed.distributed_c10d._get_default_group().group_name
    ops, x = torch.ops.anyaccel, torch.arange(float(4 * size))
    for op, arguments in ((ops.shm_all_reduce_, (x.clone(), "sum", name)), (ops.shm_all_reduce, (x, "max", name)),
                          (ops.shm_all_gather, (x, name)), (ops.shm_reduce_scatter, (x, "sum", name)),
                          (ops.shm_broadcast_, (x.clone(), 0, name))):
        torch.library.opcheck(op.default, arguments)


def killed(rank, size, shm):
    import torch
    try:
        for step in range(10**9):
            if step == 20 and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            shm.all_reduce(torch.ones(1000))
    except RuntimeError as error:
        assert "rank 1 has died" in str(error) and error.code == "unavailable", error
        sys.stdout.flush()
        os._exit(0)


def on_device(rank, size, shm):
    import torch

    import anyaccel
    device = anyaccel.get_accelerator().current_device_name()
    tensor = torch.ones(1000, device=device) * (rank + 1)
    shm.all_reduce(tensor)
    assert tensor.device.type != "cpu" and (tensor.cpu() == size * (size + 1) / 2).all()
    assert shm.all_gather(tensor).device == tensor.device


class ShareMemCommTest(unittest.TestCase):

    def run_ranks(self, size, *checks, codes=None, **variables):
        store = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], f"shm_comm_store_{os.getpid()}_{time.monotonic_ns()}")
        environment = dict(os.environ, **variables)
        ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "rank", str(rank), str(size), store, *checks],
                                  env=environment) for rank in range(size)]
        try:
            ended = [rank.wait(timeout=300) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
            for file in (store, store + "_again"):
                if os.path.exists(file):
                    os.unlink(file)
        self.assertEqual(ended, codes or [0] * size)

    # Fails if a result differs from torch for any dtype, reduction, memory layout or size.
    def test_two_ranks(self):
        self.run_ranks(2, "every_dtype", "edge_values", "layouts", "deepspeed_names", "opcheck", "mismatched_calls")

    # Fails if overlapping groups interfere, or if a collective gives a wrong result with three
    # ranks.
    def test_three_ranks(self):
        self.run_ranks(3, "every_dtype", "edge_values", "layouts", "groups")

    # Fails if results are wrong when shared memory is unavailable and the process group is used
    # instead.
    def test_process_group_fallback(self):
        self.run_ranks(3, "every_dtype", "edge_values", "layouts", ANYACCEL_SHM_DIR="/no/such/folder")

    # Fails if a group keeps its original timeout, or if it remains usable after its process group
    # was destroyed.
    def test_recreated_group(self):
        self.run_ranks(2, "recreated_group")

    # Fails if shared memory in a network folder is not rejected with a typed error.
    def test_network_folder(self):
        self.run_ranks(2, "refused", ANYACCEL_SHM_DIR="/proc")

    # Fails if other ranks wait for a killed rank instead of getting an error.
    def test_killed_rank(self):
        self.run_ranks(3, "killed", codes=[0, -signal.SIGKILL, 0])

    # Fails if device tensors are treated as host memory.
    def test_simulated_device(self):
        self.run_ranks(2, "on_device", DS_ACCELERATOR="sim")


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        place, number = int(sys.argv[2]), int(sys.argv[3])
        module = start(place, number, sys.argv[4])
        for check in sys.argv[5:]:
            globals()[check](place, number, module)
        sys.stdout.flush()
        os._exit(0)  # skips torch.distributed's shutdown, which is not tested here
    unittest.main()
