"""Tests of oneCCL collectives without MPI, with two and with four processes: the op's collectives,
and those of torch.distributed with the backend "ccl".

Needs oneCCL (tools/setup --ccl, or CCL_ROOT). CCL_TEST_REPEAT=n repeats each rank's work n times.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "python"))


REPEAT = int(os.environ.get("CCL_TEST_REPEAT", "1"))


def broadcast_address(address, group=None, source=0):
    import torch
    import torch.distributed as dist
    tensor = torch.tensor(address).to(torch.uint8)
    dist.broadcast(tensor, source, group=group)
    return tensor


def run_collectives(ccl, rank, size):
    import torch
    import torch.distributed as dist
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
                  torch.int64, torch.bool):
        ones = torch.ones(1000, dtype=dtype)
        ccl.all_reduce(ones)
        assert (ones == (1 if dtype == torch.bool else size)).all(), dtype
        most = torch.full((1000,), rank).to(dtype)
        ccl.all_reduce(most, dist.ReduceOp.MAX)
        assert (most == torch.tensor(size - 1).to(dtype)).all(), dtype
        sent = torch.full((3,), rank).to(dtype)
        ccl.broadcast(sent, size - 1)
        assert (sent == torch.tensor(size - 1).to(dtype)).all(), dtype
    mine = torch.full((2,), float(rank))
    point_to_point(ccl, rank, size)
    check_data_movement(ccl, rank, size, None)
    base = torch.arange(size * 3.)
    part = torch.empty(3)
    ccl.reduce_scatter_tensor(part, base + rank)
    assert torch.equal(part, (base * size + sum(range(size))).chunk(size)[rank])
    ccl.reduce_scatter(part, list((base + rank).chunk(size)), dist.ReduceOp.MAX)
    assert torch.equal(part, (base + size - 1).chunk(size)[rank])
    part = torch.ones(4, 4).t()[:2] * (rank + 1)
    ccl.all_reduce(part, "avg")
    assert torch.allclose(part, torch.tensor((size + 1) / 2))
    ccl.all_reduce_caching(mine, "sum", "mine")
    assert (mine == sum(range(size))).all()
    ccl.inference_all_reduce(mine)
    ccl.barrier()
    assert (ccl.get_rank(), ccl.get_world_size()) == (rank, size)
    check_rejected_calls(ccl, size)


def point_to_point(ccl, rank, size):
    import torch
    message = torch.arange(6.)[::2] + rank
    if rank == 0:
        ccl.send(message, size - 1, tag=3)
    if rank == size - 1:
        ccl.recv(message, 0, tag=3)
        assert torch.equal(message, torch.arange(6.)[::2])


def check_data_movement(ccl, rank, size, group):
    """Check the collectives that move data between ranks. This process has rank `rank` in `group`.
    """
    import torch
    last = size - 1

    def of(owner, *shape):
        return torch.full(shape, float(owner))

    reduced = of(rank, 5).t() if size == 2 else torch.ones(5, 2)[:, 0] * rank  # also covers strided tensors
    ccl.reduce(reduced, last, "sum", group)
    assert (reduced == (sum(range(size)) if rank == last else rank)).all()
    parts = [torch.empty(2, 1) for _ in range(size)]
    ccl.all_gather(parts, of(rank, 2, 1), group)
    into = torch.empty(size, 2)
    ccl.all_gather_into_tensor(into, of(rank, 1, 2), group)
    gathered = [torch.empty(3) for _ in range(size)] if rank == last else None
    ccl.gather(of(rank, 3), gathered, last, group)
    for i in range(size):
        assert (parts[i] == i).all() and (into[i] == i).all()
        assert gathered is None or (gathered[i] == i).all()
    mine = torch.empty(3, dtype=torch.int16)
    ccl.scatter(mine, [torch.full((3,), i, dtype=torch.int16) for i in range(size)] if rank == 0 else None, 0, group)
    assert (mine == rank).all()
    # Rank r sends i + 1 elements to rank i.
    outputs = [torch.empty(rank + 1) for _ in range(size)]
    ccl.all_to_all(outputs, [of(rank, i + 1) for i in range(size)], group)
    single = torch.empty(size * (rank + 1), 2)
    ccl.all_to_all_single(single, of(rank, size * (size + 1) // 2, 2), [rank + 1] * size, [i + 1 for i in range(size)], group)
    equal = torch.empty(size)
    ccl.all_to_all_single(equal, torch.arange(size) + 10. * rank, None, None, group)
    for i in range(size):
        assert (outputs[i] == i).all() and (single[i * (rank + 1):(i + 1) * (rank + 1)] == i).all()
        assert equal[i] == 10 * i + rank
    ccl.barrier(group)


def check_rejected_calls(ccl, size):
    """Check the error codes of calls that are rejected before data is sent."""
    import torch

    import anyaccel
    one = torch.ones(size + 1)
    for code, call in (("invalid_argument", lambda: ccl.broadcast(one, size)),
                       ("invalid_argument", lambda: ccl.reduce_scatter_tensor(one, one)),
                       ("invalid_argument", lambda: ccl.all_to_all_single(one, one, [1] * size, [1] * size)),
                       ("invalid_argument", lambda: ccl.initialize(1, 1, torch.zeros(1, dtype=torch.uint8))),
                       ("invalid_state", lambda: ccl.barrier([0, 77])),
                       ("unsupported", lambda: ccl.all_reduce(one.to(torch.complex64))),
                       ("unsupported", lambda: ccl.all_reduce(one.int(), "avg"))):
        world = list(range(size))
        try:
            call()
        except anyaccel.Error as error:
            assert error.code == code, (code, error.code, error)
        else:
            raise AssertionError(code)
        finally:
            ccl._world[:] = world


def check_subgroups(ccl, rank):
    import torch
    import torch.distributed as dist
    ranks = [0, 1] if rank < 2 else [2, 3]
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    address = broadcast_address(ccl.get_sub_kvs_addr(rank == ranks[0]), groups[rank // 2], ranks[0])
    ccl.initialize_sub_comm(2, ranks.index(rank), address, ranks)
    tensor = torch.tensor([float(rank)])
    ccl.all_reduce(tensor, "sum", ranks)
    assert tensor.item() == sum(ranks)
    check_data_movement(ccl, ranks.index(rank), 2, ranks)


def run_torch_distributed(dist, rank, size):
    """Run the same operations through torch.distributed on oneCCL groups."""
    import torch
    assert dist.get_backend() == "ccl"
    for group, ranks in [(None, list(range(size)))] + ([(g, r) for r in ([0, 1], [2, 3], [0, 2, 3]) for g in [dist.new_group(r)]]
                                                        if size == 4 else []):
        if rank not in ranks:
            continue
        n, me, last = len(ranks), ranks.index(rank), ranks[-1]
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
            x = torch.ones(2, 1000, dtype=dtype).t()
            dist.all_reduce(x, group=group)
            assert (x == (1 if dtype == torch.bool else n)).all(), dtype
        work = dist.all_reduce(part := torch.full((5,), float(me)), dist.ReduceOp.MAX, group=group, async_op=True)
        work.wait()
        assert (part == n - 1).all()
        bits = torch.tensor([1 << me])
        dist.all_reduce(bits, dist.ReduceOp.BOR, group=group)
        assert bits.item() == (1 << n) - 1
        x = torch.full((3,), float(rank), dtype=torch.complex64)
        dist.broadcast(x, last, group=group)
        assert (x == last).all()
        parts = [torch.empty(2, dtype=torch.int16) for _ in ranks]
        dist.all_gather(parts, torch.full((2,), me, dtype=torch.int16), group=group)
        into = torch.empty(2 * n)
        dist.all_gather_into_tensor(into, torch.full((2,), float(me)), group=group)
        assert all((parts[i] == i).all() and (into[2 * i:2 * i + 2] == i).all() for i in range(n))
        out = torch.empty(3)
        dist.reduce_scatter_tensor(out, torch.arange(3. * n) + me, group=group)
        assert torch.equal(out, (torch.arange(3. * n) * n + sum(range(n))).chunk(n)[me])
        dist.all_to_all_single(one := torch.empty(n), torch.arange(float(n)) + 10 * me, group=group)
        assert torch.equal(one, 10 * torch.arange(float(n)) + me)
        gathered = [torch.empty(1) for _ in ranks] if rank == last else None
        dist.gather(torch.tensor([float(me)]), gathered, last, group=group)
        assert gathered is None or [t.item() for t in gathered] == list(range(n))
        dist.scatter(one[:1], [torch.tensor([float(i)]) for i in range(n)] if rank == last else None, last, group=group)
        assert one[0] == me
        # Receive a message while a collective runs.
        if me == 0:
            dist.send(torch.tensor([42.]), last, group=group)
        got = torch.empty(1)
        receive = dist.irecv(got, ranks[0], group=group) if rank == last and n > 1 else None
        dist.barrier(group=group)
        if receive:
            receive.wait()
            assert got.item() == 42
        objects = [None] * n
        dist.all_gather_object(objects, {"rank": me}, group=group)
        assert objects == [{"rank": i} for i in range(n)]


def run_opcheck(store):
    """Run opcheck in a group of one rank."""
    import torch

    import anyaccel
    ccl = anyaccel.get_accelerator().create_op_builder("CCLCommBuilder").load()
    ccl.initialize(1, 0, torch.tensor(ccl.get_kvs_addr(0)).to(torch.uint8))
    ops, group = torch.ops.anyaccel, ccl._name()
    for x in (torch.randn(4, 3), torch.randn(3, 4).t(), torch.ones(6, dtype=torch.int32)):
        for call, arguments in ((ops.ccl_all_reduce_, ("sum", group, "")), (ops.ccl_reduce_, (0, "max", group)),
                                (ops.ccl_broadcast_, (0, group)), (ops.ccl_all_gather, (group,)),
                                (ops.ccl_reduce_scatter, ("sum", group)), (ops.ccl_all_to_all, ([], [], group))):
            torch.library.opcheck(call.default, (x, *arguments))


def check_exited_rank(rank, store):
    """Check that rank 0 reports within the timeout that rank 1 has exited."""
    import time

    import torch
    import torch.distributed as dist

    import anyaccel
    ccl = anyaccel.get_accelerator().create_op_builder("CCLCommBuilder").load()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    ccl.initialize(2, rank, broadcast_address(ccl.get_kvs_addr(rank)), timeout=3.0)
    x = torch.ones(1000)
    ccl.all_reduce(x)
    dist.barrier()
    if rank == 1:
        os._exit(0)
    for code in ("timeout", "invalid_state"):
        begin = time.monotonic()
        try:
            ccl.all_reduce(x)
        except anyaccel.Error as error:
            assert error.code == code, error
        else:
            raise AssertionError("no error was raised")
        assert time.monotonic() - begin < 20


def main(kind, rank, size, store):
    import torch.distributed as dist

    import anyaccel
    if kind == "opcheck":
        run_opcheck(store)
    elif kind == "exited rank":
        check_exited_rank(rank, store)
    elif kind == "torch":
        anyaccel.get_accelerator()  # registers the backend
        dist.init_process_group("ccl", init_method=f"file://{store}", rank=rank, world_size=size)
        for _ in range(REPEAT):
            run_torch_distributed(dist, rank, size)
        dist.barrier()
    else:
        ccl = anyaccel.get_accelerator().create_op_builder("CCLCommBuilder").load()
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
        ccl.initialize(size, rank, broadcast_address(ccl.get_kvs_addr(rank)))
        for i in range(REPEAT):
            run_collectives(ccl, rank, size)
            if size == 4:
                check_subgroups(ccl, rank)
        dist.barrier()
    os._exit(0)  # skips oneCCL's shutdown, which is not tested here


class CCLCommTest(unittest.TestCase):

    def run_ranks(self, size, kind="work"):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, kind, str(rank), str(size), folder + "/store"])
                     for rank in range(size)]
            try:
                self.assertEqual([rank.wait(timeout=250) for rank in ranks], [0] * size)
            finally:
                for rank in ranks:
                    rank.kill()

    # Fails if oneCCL cannot start without a launcher, or if a dtype or reduction is mapped wrongly.
    def test_two_ranks(self):
        self.run_ranks(2)

    # Fails if a schema does not declare that an op mutates its input, or if a meta kernel returns a
    # wrong shape.
    def test_opcheck(self):
        self.run_ranks(1, "opcheck")

    # Fails if a collective waits forever for a rank that has exited, as oneCCL does.
    def test_exited_rank(self):
        self.run_ranks(2, "exited rank")

    # Fails if a subgroup uses the communicator of all ranks.
    def test_four_ranks_and_subgroups(self):
        self.run_ranks(4)


    # Fails if an operation of torch.distributed passes a wrong root, split, order or dtype to
    # oneCCL.
    def test_torch_distributed_two_ranks(self):
        self.run_ranks(2, "torch")

    # Fails if a subgroup receives another group's messages.
    def test_torch_distributed_four_ranks_and_subgroups(self):
        self.run_ranks(4, "torch")

    # Fails if the backend is "ccl" although oneCCL does not start, or vice versa. Also fails if the
    # result of trying to start oneCCL is cached incorrectly.
    def test_backend_requires_working_oneccl(self):
        with tempfile.TemporaryDirectory() as cache:
            ask = "import anyaccel; print(anyaccel.get_accelerator().communication_backend_name(), '|', anyaccel.communication_backend_reason())"

            def answer(**variables):
                where = os.environ | {"ANYACCEL_OP_CACHE": cache, "DS_ACCELERATOR": "cpu"} | variables
                told = subprocess.run([sys.executable, "-W", "ignore", "-c", f"import sys; sys.path[:0] = {sys.path[:1]}; {ask}"], env=where,
                                      check=True, capture_output=True, text=True).stdout.strip().split(" | ")
                report = json.loads(subprocess.run([os.environ["ANYACCEL_PROGRAM"], "report", "--json"], env=where, check=True,
                                                   capture_output=True, text=True).stdout)
                self.assertEqual([report["communication_backend"], report["communication_backend_reason"]], told)
                return told

            def cache_entries():
                folder = os.path.join(cache, "memo")
                return sorted((name, os.stat(os.path.join(folder, name)).st_mtime_ns) for name in os.listdir(folder) if name.startswith("ccl-"))

            # The op might not be prebuilt, because the build might not have found the oneCCL that
            # CCL_ROOT names.
            subprocess.run([os.environ["ANYACCEL_PROGRAM"], "ops", "build", "deepspeed_ccl_comm"],
                           env=os.environ | {"ANYACCEL_OP_CACHE": cache}, check=True, capture_output=True)
            self.assertEqual(answer(), ["ccl", "oneCCL starts on this machine"])
            first = cache_entries()
            self.assertEqual(len(first), 1)
            answer(CCL_LOCAL_RANK="1")
            self.assertEqual(cache_entries(), first)
            # An unwritable cache entry must not change the result.
            kept = os.path.join(cache, "memo", first[0][0])
            os.unlink(kept)
            os.makedirs(os.path.join(kept, "in the way"))
            self.assertEqual(answer(), ["ccl", "oneCCL starts on this machine"])
            shutil.rmtree(kept)
            answer()
            name, why = answer(CCL_ATL_TRANSPORT="ofi", FI_PROVIDER="nosuch")
            self.assertEqual(name, "gloo")
            self.assertIn("oneCCL does not start: ", why)
            self.assertEqual(len(cache_entries()), 2)
            self.assertEqual(answer(ANYACCEL_CCL="off"), ["gloo", "gloo, because ANYACCEL_CCL is off"])


def why_not():
    import anyaccel
    return anyaccel.get_accelerator().create_op_builder("CCLCommBuilder").compatibility()


if __name__ == "__main__":
    if len(sys.argv) == 5:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    answer = why_not()
    if not answer.compatible:
        print("SKIP:", answer.reason)
        sys.exit(77)
    unittest.main()
