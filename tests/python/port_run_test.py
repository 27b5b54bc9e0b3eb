"""Programs before and after `anyaccel port`: both sides run, and their results are equal.

The accelerator stands in for CUDA: on sim, "cuda" is replaced by "sim" in the program, because torch
gives sim the same functions, methods and device strings as CUDA. Functions that only CUDA has are
compared with the expected value instead.
"""

import sys
import tempfile

import pytest

from port_case import find, fix  # isort: skip (skips if libcst is missing)

# port_case.py adds the sources to the path; the package of the build must be found before them.
import anyaccel  # noqa: E402
import torch  # noqa: E402

from anyaccel_port import rules  # noqa: E402

accelerator = anyaccel.get_accelerator()
TYPE = accelerator.device_name()
SAME = object()  # The program runs before and after.

# {program: expected result, or SAME}. `result` is compared.
PROGRAMS = [
    ("cuda-is-available", "result = torch.cuda.is_available()", SAME),
    ("cuda-device", "with torch.cuda.device(0):\n    result = torch.cuda.current_device()", SAME),
    ("cuda-device", "with torch.cuda.device(torch.device('cuda:0')):\n    result = torch.cuda.current_device()", SAME),
    ("cuda-set-device",
     "torch.cuda.set_device(torch.cuda.device_count() - 1)\nresult = torch.cuda.current_device()\ntorch.cuda.set_device('cuda:0')",
     SAME),
    ("cuda-current-device", "result = torch.ones(2, device=torch.cuda.current_device())", lambda: torch.ones(2, device=TYPE)),
    ("cuda-current-device", "result = torch.cuda.current_device() + 1", SAME),
    ("cuda-device-count", "result = torch.cuda.device_count()", SAME),
    ("cuda-synchronize", "result = torch.cuda.synchronize(device=torch.device('cuda', 0))", SAME),
    ("cuda-set-rng-state", "state = torch.cuda.get_rng_state()\nx = torch.rand(3, device='cuda')\ntorch.cuda.set_rng_state(state)\n"
     "result = torch.equal(x, torch.rand(3, device='cuda'))", SAME),
    ("cuda-get-rng-state", "result = torch.cuda.get_rng_state('cuda').dtype", SAME),
    ("cuda-manual-seed", "torch.cuda.manual_seed(7)\nresult = torch.rand(3, device='cuda')", SAME),
    ("cuda-manual-seed-all", "torch.cuda.manual_seed_all(7)\nresult = torch.rand(3, device='cuda')", SAME),
    ("cuda-initial-seed", "torch.cuda.manual_seed(7)\nresult = torch.cuda.initial_seed()", SAME),
    ("cuda-default-generators", "torch.cuda.default_generators[0].manual_seed(5)\nresult = torch.rand(3, device='cuda')", SAME),
    ("cuda-stream-class", "s = torch.cuda.Stream()\nresult = isinstance(s, torch.cuda.Stream)", SAME),
    ("cuda-stream",
     "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    x = torch.ones(3, device='cuda') * 2\ns.synchronize()\nresult = "
     "x.cpu()", SAME),
    ("cuda-set-stream", "s = torch.cuda.default_stream()\nresult = torch.cuda.set_stream(s)", SAME),
    ("cuda-current-stream", "result = torch.cuda.current_stream() == torch.cuda.default_stream()", SAME),
    ("cuda-default-stream", "result = type(torch.cuda.default_stream()).__name__", SAME),
    ("cuda-event-class",
     "e = torch.cuda.Event(enable_timing=True)\ne.record()\ne.synchronize()\nresult = e.query() and isinstance(e, "
     "torch.cuda.Event)", SAME),
    ("cuda-empty-cache", "result = torch.cuda.empty_cache()", SAME),
    ("cuda-memory-allocated",
     "a = torch.cuda.memory_allocated(0)\nx = torch.ones(1 << 20, device='cuda')\nresult = torch.cuda.memory_allocated() - a",
     SAME),
    ("cuda-max-memory-allocated", "result = type(torch.cuda.max_memory_allocated(torch.device('cuda:0')))", SAME),
    ("cuda-memory-reserved", "result = type(torch.cuda.memory_reserved())", SAME),
    ("cuda-max-memory-reserved", "result = type(torch.cuda.max_memory_reserved())", SAME),
    ("cuda-memory-cached", "result = type(torch.cuda.memory_cached())", lambda: int),
    ("cuda-max-memory-cached", "result = type(torch.cuda.max_memory_cached())", lambda: int),
    ("cuda-reset-max-memory-allocated", "result = torch.cuda.reset_max_memory_allocated()", lambda: None),
    ("cuda-reset-max-memory-cached", "result = torch.cuda.reset_max_memory_cached()", lambda: None),
    ("cuda-reset-peak-memory-stats",
     "torch.cuda.reset_peak_memory_stats()\nresult = torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()", SAME),
    ("cuda-memory-stats", "result = 'allocated_bytes.all.current' in torch.cuda.memory_stats()", SAME),
    ("cuda-mem-get-info", "free, total = torch.cuda.mem_get_info()\nresult = 0 < free <= total", SAME),
    ("cuda-host-memory-stats", "result = torch.cuda.host_memory_stats() is not None", lambda: True),
    ("cuda-is-bf16-supported", "result = torch.cuda.is_bf16_supported()", SAME),
    ("cuda-is-current-stream-capturing", "result = torch.cuda.is_current_stream_capturing()", SAME),
    ("cuda-get-device-name", "result = torch.cuda.get_device_name(0)", SAME),
    ("cuda-get-device-properties", "result = torch.cuda.get_device_properties(0).total_memory", SAME),
    ("cuda-nvtx-range", "torch.cuda.nvtx.range_push('step')\nresult = torch.cuda.nvtx.range_pop()", lambda: None),
    ("cuda-oom-error", "try:\n    raise torch.OutOfMemoryError('x')\nexcept torch.cuda.OutOfMemoryError as e:\n    result = str(e)",
     lambda: "x"),
    ("cuda-lazy-call",
     "called = []\ntorch.ones(1, device='cuda')\ntorch.cuda._lazy_call(lambda: called.append(1))\nresult = called", lambda: [1]),
    *[(f"cuda-{name.lower()}", f"result = torch.cuda.{name}([1, 0])",
       lambda dtype=dtype: torch.tensor([1, 0], dtype=dtype, device=TYPE))
      for name, dtype in (("BFloat16Tensor", torch.bfloat16), ("ByteTensor", torch.uint8), ("DoubleTensor", torch.float64),
                          ("FloatTensor", torch.float32), ("HalfTensor", torch.float16), ("IntTensor", torch.int32),
                          ("LongTensor", torch.int64), ("BoolTensor", torch.bool), ("CharTensor", torch.int8),
                          ("ShortTensor", torch.int16))],
    ("cuda-amp-autocast", "with torch.cuda.amp.autocast():\n    y = torch.ones(2, 2, device='cuda') @ torch.ones(2, 2, device='cuda')\n"
     "result = y.dtype", lambda: torch.float16),
    ("cuda-amp-autocast", "with torch.cuda.amp.autocast(True, dtype=torch.bfloat16):\n"
     "    result = (torch.ones(2, 2, device='cuda') @ torch.ones(2, 2, device='cuda')).dtype", lambda: torch.bfloat16),
    ("cuda-amp-grad-scaler", "scaler = torch.cuda.amp.GradScaler(init_scale=4.0, enabled=False)\nresult = scaler.is_enabled()",
     lambda: False),
    ("grad-scaler-default", "scaler = torch.amp.GradScaler(enabled=False)\nresult = [scaler.is_enabled(), scaler._device]",
     lambda: [False, TYPE]),
    ("cuda-amp-custom-function",
     "class F(torch.autograd.Function):\n    @staticmethod\n    @torch.cuda.amp.custom_fwd\n    def forward(ctx, x):\n        "
     "return x * 2\n\n"
     "    @staticmethod\n    @torch.cuda.amp.custom_bwd\n    def backward(ctx, g):\n        return g * 2\n\n\n"
     "x = torch.ones(2, device='cuda', requires_grad=True)\nF.apply(x).sum().backward()\nresult = x.grad", lambda: torch.full(
         (2, ), 2.0, device=TYPE)),
    ("device-string", "result = torch.zeros(3, device='cuda')", SAME),
    ("device-string", "def f(device='cuda'):\n    return torch.device(device)\nresult = f()", SAME),
    ("device-string-index",
     "rank = 0\nresult = [torch.ones(1).to(f'cuda:{rank}'), torch.ones(1).to('cuda:%d' % rank), torch.ones(1).to('cuda:' + "
     "str(rank))]", SAME),
    ("device-string-index", "result = torch.ones(2, device=torch.device('cuda', 0))", SAME),
    ("device-choice", "result = 'cuda' if torch.cuda.is_available() else 'cpu'", SAME),
    ("device-comparison",
     "x = torch.ones(1, device='cuda')\nresult = (x.device.type == 'cuda', str(x.device).startswith('cuda'), 'cuda' in "
     "str(x.device))", SAME),
    ("device-index-bare", "rank = 0\nresult = torch.ones(2).to(rank)", lambda: torch.ones(2, device=TYPE)),
    ("tensor-type-string", "result = torch.ones(2, dtype=torch.int64).type('torch.cuda.FloatTensor')",
     lambda: torch.ones(2, device=TYPE)),
    ("tensor-type-string", "cuda = torch.cuda.is_available()\nTensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor\n"
     "result = [Tensor(2, 3).fill_(1.0), Tensor([1, 2]), torch.ones(2).type(Tensor)]",
     lambda: [torch.ones(2, 3, device=TYPE),
              torch.tensor([1.0, 2.0], device=TYPE),
              torch.ones(2, device=TYPE)]),
    ("tensor-cuda", "result = [torch.ones(2).cuda(), torch.ones(2).cuda(0), torch.ones(2).cuda(non_blocking=True)]", SAME),
    ("tensor-cuda", "result = next(torch.nn.Linear(2, 2).cuda().parameters()).device", SAME),
    ("tensor-is-cuda", "result = torch.ones(2).cuda().is_cuda", SAME),
    ("tensor-cuda", "torch.save(torch.ones(2), FILE)\nresult = torch.load(FILE, map_location=lambda storage, place: storage.cuda())",
     lambda: torch.ones(2, device=TYPE)),
    ("tensor-type-string", "torch.set_default_tensor_type('torch.cuda.FloatTensor')\n"
     "result = [torch.Tensor([1, 2]), torch.Tensor(0, 3)]\ntorch.set_default_device(None)",
     lambda: [torch.tensor([1.0, 2.0], device=TYPE), torch.ones(0, 3, device=TYPE)]),
    ("tensor-pin-memory", "result = torch.ones(2).pin_memory().tolist()", lambda: [1.0, 1.0]),
    ("ddp-device-ids", "import torch.distributed as dist\n"
     "dist.init_process_group('nccl', init_method='file://' + FILE, rank=0, world_size=1)\n"
     "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 3).cuda(), device_ids=[0])\n"
     "y = model(torch.ones(4, 2, device='cuda'))\ny.sum().backward()\n"
     "result = [y.device.type, *model.module.bias.grad.tolist()]\ndist.destroy_process_group()", lambda: [TYPE, 4.0, 4.0, 4.0]),
    ("nccl", "import torch.distributed as dist\nbackend = 'nccl' if torch.cuda.is_available() else 'gloo'\nresult = backend",
     lambda: accelerator.communication_backend_name()),
    ("profiler-activity", "activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]\n"
     "with torch.profiler.profile(activities=activities) as p:\n    torch.ones(2) + 1\nresult = len(p.key_averages()) > 0",
     lambda: True),
    ("profiler-cuda-time", "with torch.profiler.profile() as p:\n    torch.ones(2) + 1\nresult = 'aten::add' in "
     "p.key_averages().table(sort_by='cuda_time_total')", lambda: True),
]


def run(program):
    with tempfile.TemporaryDirectory() as folder:
        namespace = {"torch": torch, "FILE": folder + "/file"}
        exec(compile(program, "program", "exec", dont_inherit=True), namespace)
    return plain(namespace["result"])


def plain(value):
    """A form of a result that == compares."""
    if isinstance(value, torch.Tensor):
        return (value.device.type, value.dtype, value.tolist())
    if isinstance(value, torch.device):
        return (value.type, value.index)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@pytest.mark.parametrize("rule, program, expected", PROGRAMS, ids=[f"{i}-{rule}" for i, (rule, _, _) in enumerate(PROGRAMS)])
def test_program(rule, program, expected):
    """Breaks if a replacement is missing in the accelerator, takes other arguments or returns something else."""
    text = "import torch\n" + program + "\n"
    assert any(f.rule == rule for f in find(text))
    fixed = fix(text)
    assert [f.text for f in find(fixed) if f.severity == "equivalent"] == []
    after = run(fixed)
    if expected is not SAME:
        assert after == plain(expected())
    elif TYPE != "cpu":
        assert after == run(text.replace("cuda", TYPE))


DEVICES = """
rank, cuda = 0, torch.cuda.is_available()
x = torch.ones(2)
result = [x.to("cuda"), x.to("cuda:0"), x.to(f"cuda:{rank}"), x.to("cuda:%d" % rank), x.cuda(),
          x.to("cuda" if torch.cuda.is_available() else "cpu"), x.to("cuda:1" if torch.cuda.is_available() else "cpu"),
          x.to(f"cuda:{rank}" if torch.cuda.is_available() else "cpu"), torch.cuda.FloatTensor([1, 1]),
          torch.ones(2, device=torch.device("cuda")), x.to("cuda").device.type == "cuda", f"{x.to('cuda').tolist()}"]
"""


def test_torch_accelerator():
    """Breaks if code for torch.accelerator needs an accelerator: without one, current_accelerator() returns None."""
    found = torch.accelerator.current_accelerator(check_available=True)
    place = found.type if found else "cpu"
    fixed = fix("import torch\n" + DEVICES, "torch.accelerator")
    result = run(fixed.replace(":1\"", ":0\""))  # there may be only one device
    assert [value[0] for value in result[:10]] == [place] * 10 and result[10:] == [True, "[1.0, 1.0]"]
    fixed = fix("import torch\nimport torch.distributed as dist\n"
                "dist.init_process_group('nccl', init_method='file://' + FILE, rank=0, world_size=1)\n"
                "result = dist.get_backend()\ndist.destroy_process_group()\n", "torch.accelerator")
    assert run(fixed) == torch.distributed.get_default_backend_for_device(place)


def test_every_rule_with_an_equivalent_runs():
    equivalent = {
        rule.id
        for rule in (*rules.torch_cuda.RULES, *rules.python.RULES) if rule.severity_for("anyaccel") == "equivalent"
    }
    assert equivalent - {rule for rule, _, _ in PROGRAMS} == set()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
