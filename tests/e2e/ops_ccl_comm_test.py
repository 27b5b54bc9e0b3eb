"""Collectives of oneCCL between two and four processes, without MPI. Needs CCL_ROOT."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "python"))


def share(address, group=None, source=0):
    import torch
    import torch.distributed as dist
    tensor = torch.tensor(address).to(torch.uint8)
    dist.broadcast(tensor, source, group=group)
    return tensor


def work(ccl, rank, size):
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
    movements(ccl, rank, size, None)
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
    wrong(ccl, size)


def movements(ccl, rank, size, group):
    """Of a group; `rank` is the place in it."""
    import torch
    last = size - 1

    def of(owner, *shape):
        return torch.full(shape, float(owner))

    reduced = of(rank, 5).t() if size == 2 else torch.ones(5, 2)[:, 0] * rank  # strides too
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
    # Rank r sends i + 1 numbers to rank i.
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


def wrong(ccl, size):
    """What is refused, with its kind, before anything is sent."""
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


def pairs(ccl, rank):
    import torch
    import torch.distributed as dist
    ranks = [0, 1] if rank < 2 else [2, 3]
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    address = share(ccl.get_sub_kvs_addr(rank == ranks[0]), groups[rank // 2], ranks[0])
    ccl.initialize_sub_comm(2, ranks.index(rank), address, ranks)
    tensor = torch.tensor([float(rank)])
    ccl.all_reduce(tensor, "sum", ranks)
    assert tensor.item() == sum(ranks)
    movements(ccl, ranks.index(rank), 2, ranks)


def alone(store):
    """What opcheck tries, on a group of one."""
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


def dead(rank, store):
    """Rank 1 goes without a word; the other must say so in time."""
    import time

    import torch
    import torch.distributed as dist

    import anyaccel
    ccl = anyaccel.get_accelerator().create_op_builder("CCLCommBuilder").load()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    ccl.initialize(2, rank, share(ccl.get_kvs_addr(rank)), timeout=3.0)
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
            raise AssertionError("nothing was said")
        assert time.monotonic() - begin < 20


def main(kind, rank, size, store):
    import torch.distributed as dist

    import anyaccel
    if kind == "alone":
        alone(store)
    elif kind == "dead":
        dead(rank, store)
    else:
        ccl = anyaccel.get_accelerator().create_op_builder("CCLCommBuilder").load()
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
        ccl.initialize(size, rank, share(ccl.get_kvs_addr(rank)))
        work(ccl, rank, size)
        if size == 4:
            pairs(ccl, rank)
        dist.barrier()
    os._exit(0)  # oneCCL's end is not what is tried here


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

    # Breaks when oneCCL is started in a way that needs a launcher, or a dtype or reduction is another there.
    def test_two_ranks(self):
        self.run_ranks(2)

    # Breaks when a schema does not say what an op changes, or a meta kernel gives another shape.
    def test_opcheck(self):
        self.run_ranks(1, "alone")

    # Breaks when a rank that is gone is waited for without end, which oneCCL does, or the error has another kind.
    def test_rank_that_is_gone(self):
        self.run_ranks(2, "dead")

    # Breaks when a group's communicator is taken for that of all ranks.
    def test_four_ranks_and_pairs(self):
        self.run_ranks(4)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    if not os.path.exists(os.path.join(os.environ.get("CCL_ROOT", "/none"), "include/oneapi/ccl.hpp")):
        print("SKIP: CCL_ROOT names no oneCCL")
        sys.exit(77)
    unittest.main()
