"""torch.cuda under `anyaccel sim run --stands-in-for cuda`: the functions and classes that a torch
build without CUDA lacks.
"""
import tempfile
import unittest

from sim_run_test import PYTHON, has_torch, run
from shell import libtorch_accelerator

STORAGES = """
assert torch.version.cuda
x = torch.arange(4.0, device="cuda")
storage = x.untyped_storage()
before = torch.cuda.memory_allocated()
assert storage.resize_(0) is storage and storage.size() == 0 and torch.cuda.memory_allocated() < before
storage.resize_(16)
x.copy_(torch.arange(4.0))
storage.resize_(32)
assert storage.size() == 32 and x.tolist() == [0, 1, 2, 3]
torch.ops.inductor.resize_storage_bytes_(x, 8)
assert storage.size() == 8
host = torch.arange(4.0).untyped_storage()
assert host.resize_(8).size() == 8
try:
    storage.resize_(-1)
    raise SystemExit("a negative size was accepted")
except RuntimeError as error:
    assert "-1" in str(error), error
"""

HOST_SCALARS = """
scalar, x = torch.tensor(2.0), torch.tensor([1.0, 4.0])
for function in (torch.mul, torch.add, torch.sub, torch.div, torch.pow, torch.atan2, torch.maximum, torch.lt):
    for left, right in ((scalar, x), (x, scalar), (scalar, torch.tensor(3.0))):
        expected = function(left, right)
        result = function(left if left is scalar else left.cuda(), right if right is scalar else right.cuda())
        assert result.is_cuda and result.dtype is expected.dtype and torch.equal(result.cpu(), expected), (function, result)
half = torch.ones(2, dtype=torch.float16, device="cuda")
assert (scalar * half).dtype is torch.float16 and (2.0 - half).dtype is torch.float16
"""

SOFTMAX = """
for function in (torch.softmax, torch.log_softmax):
    for dtype in (torch.float16, torch.bfloat16):
        host = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
        device = host.detach().cuda().requires_grad_()
        weights = torch.arange(15.0).view(3, 5)
        results = [function(x, -1, dtype=torch.float32) for x in (host, device)]
        (results[0] * weights).sum().backward()
        (results[1] * weights.cuda()).sum().backward()
        assert results[1].dtype is torch.float32 and torch.equal(results[1].cpu(), results[0]), results
        assert device.grad.dtype is dtype and torch.equal(device.grad.cpu(), host.grad), (device.grad, host.grad)
"""

GRAPHS = """
x = torch.zeros(4, device="cuda")
y = x * 2 + 1
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
    assert torch.cuda.is_current_stream_capturing()
    y = x * 2 + 1
x.copy_(torch.arange(4.0))
graph.replay()
assert y.tolist() == [1, 3, 5, 7] and not torch.cuda.is_current_stream_capturing(), y
model = torch.nn.Linear(4, 4).cuda()
graphed = torch.cuda.make_graphed_callables(model, (torch.randn(2, 4, device="cuda", requires_grad=True),))
sample = torch.randn(2, 4, device="cuda", requires_grad=True)
out = graphed(sample)
out.sum().backward()
assert torch.equal(out, torch.nn.functional.linear(sample, model.weight, model.bias))
assert torch.equal(model.weight.grad, sample.detach().sum(0).expand(4, 4))
"""

TENSOR_CLASSES = """
x = torch.cuda.FloatTensor(2, 3)
assert x.shape == (2, 3) and x.dtype is torch.float32 and x.is_cuda
assert torch.cuda.LongTensor([1, 2]).tolist() == [1, 2] and torch.cuda.ByteTensor().shape == (0,)
assert torch.cuda.HalfTensor(torch.Size([2])).shape == (2,) and torch.cuda.FloatTensor(x).data_ptr() == x.data_ptr()
assert torch.cuda.IntTensor(1, device="cuda:1").device.index == 1
assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.HalfTensor)
assert not isinstance(x.cpu(), torch.cuda.FloatTensor)
try:
    torch.cuda.FloatTensor(x.cpu())
    raise SystemExit("a host tensor was accepted")
except TypeError as error:
    assert "torch.cuda.FloatTensor" in str(error), error
"""

STATISTICS = """
x = torch.ones(1024, device="cuda")
assert "Allocated memory" in torch.cuda.memory_summary()
assert torch.cuda.memory_stats()["allocated_bytes.all.allocated"] == 4096
assert torch.cuda.memory_stats_as_nested_dict()["allocation"]["all"]["current"] == 1
y = torch.ones(1024, device="cuda")
del y
assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 8192
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == 4096
properties = torch.cuda.get_device_properties(1)
assert (properties.major, properties.minor) == torch.cuda.get_device_capability() and properties.multi_processor_count > 0
assert properties.total_memory == torch.cuda.mem_get_info()[1]
assert torch.cuda.can_device_access_peer(0, 1)
with torch.cuda.nvtx.range("a range"):
    pass
try:
    torch.cuda.memory_snapshot()
    raise SystemExit("a snapshot was returned")
except NotImplementedError as error:
    assert str(error) == "torch.cuda.memory_snapshot() is not supported on the simulated device", error
"""

SLEEP = """
other = torch.cuda.Stream()
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
x = torch.ones(4, device="cuda")
x += torch.ones(4, device="cuda") * 0  # the first call of an op takes seconds
torch.cuda.synchronize()
start.record()
torch.cuda._sleep(3_000_000_000)
x += 1
end.record()
with torch.cuda.stream(other):
    y = torch.ones(4, device="cuda") * 2
other.synchronize()
assert not end.query(), "_sleep() blocked the host or another stream, or did not delay its own stream"
assert x.tolist() == [2] * 4 and start.elapsed_time(end) > 1490, start.elapsed_time(end)
try:
    torch.cuda._sleep(-1)
    raise SystemExit("a negative number of cycles was accepted")
except RuntimeError as error:
    assert "cycles" in str(error), error
"""

DEVICES = """
import warnings
warnings.simplefilter("error")
model = torch.nn.DataParallel(torch.nn.Linear(4, 4).cuda())
x = torch.randn(6, 4, device="cuda")
out = model(x)
out.sum().backward()
assert out.device == torch.device("cuda", 0) and torch.allclose(out, model.module(x))
assert torch.allclose(model.module.weight.grad, x.sum(0).expand(4, 4), atol=1e-5)
import torch.cuda.comm
copies = torch.cuda.comm.broadcast(x, [0, 1])
assert [copy.device.index for copy in copies] == [0, 1] and torch.equal(copies[1].cpu(), x.cpu())
parts = torch.cuda.comm.scatter(x, [0, 1])
assert [part.shape[0] for part in parts] == [3, 3]
assert torch.equal(torch.cuda.comm.gather(parts), x)
"""

COMPILE = """
import warnings
warnings.simplefilter("ignore")
model = torch.nn.Linear(4, 4).cuda()
x = torch.randn(2, 4, device="cuda")
assert torch.equal(torch.compile(model)(x), model(x))
assert torch.equal(torch.compile(model, mode="reduce-overhead")(x), model(x))
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
    model(x)
    torch.cuda.synchronize()
row = [each for each in profile.key_averages() if each.key == "aten::linear"][0]
assert row.device_time_total > 0, row
"""

COLLECTIVES = """
import datetime, os
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
store = next(dist.rendezvous("env://"))[0]
for name, host in (("nccl", False), ("cuda:nccl,cpu:gloo", True), (None, True)):
    dist.init_process_group(name, store=dist.PrefixStore(str(name), store), rank=rank, world_size=2)
    x = torch.full((3,), rank + 1.0, device=device)
    dist.all_reduce(x)
    assert x.tolist() == [3, 3, 3], x
    dist.barrier(device_ids=[rank])
    ranks = [None, None]
    dist.all_gather_object(ranks, rank)
    assert ranks == [0, 1], ranks
    if host:
        x = torch.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [2, 2], x
    else:
        assert dist.get_backend() == "nccl"
        try:
            dist.all_reduce(torch.ones(2))
            raise SystemExit("nccl reduced a tensor of the host")
        except RuntimeError as error:
            assert "cpu" in str(error), error
    options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    part = dist.new_group([0, 1], pg_options=options, timeout=datetime.timedelta(seconds=60))
    assert isinstance(part._get_backend(device), dist.ProcessGroupNCCL)
    assert not isinstance(dist.new_group([0, 1], backend="gloo")._get_backend(torch.device("cpu")), dist.ProcessGroupNCCL)
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=50), part)
    dist.broadcast(x.to(device), 0, group=part)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2, device=device), device_ids=[rank])
    model(torch.full((1, 2), rank + 1.0, device=device)).sum().backward()
    assert model.module.weight.grad.unique().tolist() == [1.5], model.module.weight.grad
    dist.barrier()
    dist.distributed_c10d._abort_process_group() if name is None else dist.destroy_process_group()
assert dist.is_nccl_available() and torch.cuda.nccl.version() >= (2, 10)
"""


@unittest.skipUnless(has_torch(), "the Python of the tests has no torch")
@unittest.skipIf(libtorch_accelerator(), "the simulator cannot replace a device type of a LibTorch that is built for an accelerator")
class SimCuda(unittest.TestCase):

    def check(self, code):
        result = run("--stands-in-for", "cuda", "--", PYTHON, "-c", "import torch\n" + code, OMP_NUM_THREADS="1")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_storages(self):
        """Fails if a storage cannot be freed and reallocated in place, or if torch.version.cuda is missing."""
        self.check(STORAGES)

    def test_host_scalars(self):
        """Fails if an op rejects a zero-dimensional host tensor as either argument."""
        self.check(HOST_SCALARS)

    def test_softmax_of_half_precision(self):
        """Fails if softmax(x, dtype=float32) of a half-precision x, which CUDA's kernel converts,
        differs from the CPU's result.
        """
        self.check(SOFTMAX)

    def test_graphs(self):
        """Fails if torch.cuda.CUDAGraph or make_graphed_callables() does not capture and replay work."""
        self.check(GRAPHS)

    def test_tensor_classes(self):
        """Fails if torch.cuda.FloatTensor and the other tensor classes do not create or recognize tensors on the device."""
        self.check(TENSOR_CLASSES)

    def test_statistics(self):
        """Fails if a statistic or property that torch.cuda reports on a GPU is missing."""
        self.check(STATISTICS)

    def test_sleep(self):
        """Fails if torch.cuda._sleep() does not delay the current stream by 0.5 ns per cycle, or delays anything else."""
        self.check(SLEEP)

    def test_several_devices_of_a_process(self):
        """Fails if DataParallel or torch.cuda.comm does not copy between devices."""
        self.check(DEVICES)

    def test_compile_and_profiler(self):
        """Fails if torch.compile() with its default backend, or the profiler's device time, does not work."""
        self.check(COMPILE)

    def test_collectives(self):
        """Fails if torch.distributed rejects "nccl", if a collective is wrong, or if the backend
        accepts host tensors.
        """
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            program.write(COLLECTIVES)
            program.flush()
            result = run("--devices", "2", "--stands-in-for", "cuda", "--", PYTHON, "-m", "torch.distributed.run", "--standalone",
                         "--nproc-per-node", "2", program.name, OMP_NUM_THREADS="1")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
