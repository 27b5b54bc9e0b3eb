"""torch.cuda under `anyaccel sim run --stands-in-for cuda`: the functions and classes that a torch
build without CUDA lacks.
"""
import unittest

from sim_run_test import PYTHON, has_torch, run
from shell import libtorch_accelerator

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


@unittest.skipUnless(has_torch(), "the Python of the tests has no torch")
@unittest.skipIf(libtorch_accelerator(), "the simulator cannot replace a device type of a LibTorch that is built for an accelerator")
class SimCuda(unittest.TestCase):

    def check(self, code):
        result = run("--stands-in-for", "cuda", "--", PYTHON, "-c", "import torch\n" + code, OMP_NUM_THREADS="1")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_graphs(self):
        """Fails if torch.cuda.CUDAGraph or make_graphed_callables() does not capture and replay work."""
        self.check(GRAPHS)

    def test_statistics(self):
        """Fails if a statistic or property that torch.cuda reports on a GPU is missing."""
        self.check(STATISTICS)

    def test_several_devices_of_a_process(self):
        """Fails if DataParallel or torch.cuda.comm does not copy between devices."""
        self.check(DEVICES)

    def test_compile_and_profiler(self):
        """Fails if torch.compile() with its default backend, or the profiler's device time, does not work."""
        self.check(COMPILE)


if __name__ == "__main__":
    unittest.main()
