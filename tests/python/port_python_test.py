"""`anyaccel port` on Python sources: names, device strings, imports, and what must not be found."""

import pytest

from port_case import IMPORT, find, fix, line, rules_of  # isort: skip (skips if libcst is missing)
from anyaccel_port.findings import SourceError

NAME = "get_accelerator().device_name()"
TORCH_TYPE = '(torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")).type'


@pytest.mark.parametrize("code, expected", [
    ("x = torch.ones(4, device='cuda')  # 'cuda'", f"x = torch.ones(4, device={NAME})  # 'cuda'"),
    ("x.to('cuda:1')", "x.to(get_accelerator().device_name(1))"),
    ("x.to(f'cuda:{rank}')", "x.to(get_accelerator().device_name(rank))"),
    ("x.to(f'cuda:{rank:d}')", "x.to(get_accelerator().device_name(rank))"),
    ("x.to('cuda:%d' % (rank,))", "x.to(get_accelerator().device_name(rank))"),
    ("x.to('cuda:{}'.format(rank + 1))", "x.to(get_accelerator().device_name(rank + 1))"),
    ("x.to('cuda:' + str(rank))", "x.to(get_accelerator().device_name(rank))"),
    ("x.to('cuda:' + os.environ['LOCAL_RANK'])", "x.to(get_accelerator().device_name(int(os.environ['LOCAL_RANK'])))"),
    ("d = torch.device('cuda', rank)", "d = torch.device(get_accelerator().device_name(rank))"),
    ("d = torch.device(type='cuda')", f"d = torch.device(type={NAME})"),
    ("d = 'cuda' if torch.cuda.is_available() else 'cpu'", f"d = {NAME}"),
    ("d = 'cpu' if not torch.cuda.is_available() else 'cuda:0'", "d = get_accelerator().device_name(0)"),
    ("d = torch.device('cuda') if torch.cuda.is_available() else torch.device('cpu')", f"d = torch.device({NAME})"),
    ("d = 'cuda' if torch.cuda.is_available() and not args.no_cuda else 'cpu'",
     f"d = {NAME} if get_accelerator().is_available() and not args.no_cuda else 'cpu'"),
    ("d = 'mps' if mps else ('cuda' if torch.cuda.is_available() else 'cpu')", f"d = 'mps' if mps else ({NAME})"),
    ("def f(device='cuda'): pass", f"def f(device={NAME}): pass"),
    ("config = {'device': 'cuda', 'n': 1}", f"config = {{'device': {NAME}, 'n': 1}}"),
    ("parser.add_argument('--device', default='cuda', choices=['cuda', 'cpu'])",
     f"parser.add_argument('--device', default={NAME}, choices=[{NAME}, 'cpu'])"),
    ("torch.load(p, map_location={'cuda:0': 'cuda:%d' % rank})",
     "torch.load(p, map_location={get_accelerator().device_name(0): get_accelerator().device_name(rank)})"),
    ("use = x.device.type == 'cuda'", f"use = x.device.type == {NAME}"),
    ("use = 'cuda' in str(device) or device.startswith('cuda')", f"use = {NAME} in str(device) or device.startswith({NAME})"),
    ("use = device in ('cuda', 'cpu')", f"use = device in ({NAME}, 'cpu')"),
    ("device = os.environ.get('DEVICE', 'cuda')", f"device = os.environ.get('DEVICE', {NAME})"),
    ("print(f'{x.to(\"cuda\")}')", f"print(f'{{x.to({NAME})}}')"),
    ("class C:\n    device: str = 'cuda'", f"class C:\n    device: str = {NAME}"),
    ("place = 'cuda'\nx.to(place)", f"place = {NAME}\nx.to(place)"),
])
def test_device_strings(code, expected):
    assert line(code) == expected


@pytest.mark.parametrize("code", [
    "print('cuda')",
    "'''cuda'''",
    "# torch.cuda.synchronize()",
    "logger.info('no cuda')",
    "raise ValueError('cuda')",
    "parser.add_argument('cuda')",
    "parser.add_argument('--x', help='cuda')",
    "flags = {'cuda': True}",
    "args.cuda",
    "x = 'cudasomething'",
    "path = os.path.join('a', 'cuda')",
    "def f(): 'torch.cuda'",
    "self.cuda = args.cuda",
    "f(cuda=True)",
    "d['cuda']",
    "x = b'cuda'",
    "use_cuda = not args.cpu",
])
def test_nothing_is_found(code):
    assert rules_of(code) == []


@pytest.mark.parametrize("code, expected", [
    ("x.cuda()", f"x.to({NAME})"),
    ("x.cuda(rank, non_blocking=True)", "x.to(get_accelerator().device_name(rank), non_blocking=True)"),
    ("x.cuda(0, True)", "x.to(get_accelerator().device_name(0), non_blocking=True)"),
    ("x.cuda(y.device)", "x.to(y.device)"),
    ("x.cuda(device=None)", f"x.to({NAME})"),
    ("x.cuda(torch.cuda.current_device())", "x.to(get_accelerator().current_device_name())"),
    ("y = (x\n     .cuda()  # copy\n     .half())", f"y = (x\n     .to({NAME})  # copy\n     .half())"),
    ("assert x.is_cuda and not f(y.cuda()).is_cuda",
     f"assert get_accelerator().on_accelerator(x) and not get_accelerator().on_accelerator(f(y.to({NAME})))"),
    ("x.type('torch.cuda.HalfTensor')", f"x.to({NAME}, torch.float16)"),
    ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", f"torch.set_default_device({NAME})"),
    ("torch.cuda.FloatTensor(2, 3)", f"torch.empty(2, 3, dtype=torch.float32, device={NAME})"),
    ("T = torch.cuda.FloatTensor if c else torch.FloatTensor\ny = T(3, 4)\nz = x.type(T)\nw = T([1])",
     f"T = {NAME} if c else \"cpu\"\ny = torch.empty(3, 4, dtype=torch.float32, device=T)\nz = x.to(T, torch.float32)\n"
     "w = torch.tensor([1], dtype=torch.float32, device=T)"),
    ("x.to(rank)", "x.to(get_accelerator().device_name(rank))"),
    ("torch.ones(1, device=torch.cuda.current_device())", "torch.ones(1, device=get_accelerator().current_device_name())"),
    ("i = torch.cuda.current_device()", "i = get_accelerator().current_device()"),
    ("p = torch.cuda.get_device_properties(0).total_memory", "p = get_accelerator().device_properties(0).total_memory"),
    ("p = torch.cuda.get_device_properties(0)\nprint(p.name, p.total_memory)",
     "p = get_accelerator().device_properties(0)\nprint(p.name, p.total_memory)"),
    ("n = torch.cuda.get_device_name()", "n = get_accelerator().device_properties().name"),
    ("torch.cuda.synchronize(device=x.device)", "get_accelerator().synchronize(device_index=x.device)"),
    ("torch.cuda.set_device('cuda:1')", "get_accelerator().set_device(1)"),
    ("torch.cuda.set_device(args.local_rank)", "get_accelerator().set_device(args.local_rank)"),
    ("device = torch.device('cpu')\ntorch.cuda.memory_allocated(device)", "device = torch.device('cpu')\nget_accelerator().memory_allocated(device)"),
    ("def f(device=None):\n    torch.cuda.set_device(device)", "def f(device=None):\n    get_accelerator().set_device(device)"),
    ("def f(s: torch.cuda.Stream): return isinstance(s, torch.cuda.Event)",
     "def f(s: torch.Stream): return isinstance(s, get_accelerator().Event)"),
    ("with torch.cuda.amp.autocast(False, dtype=d): pass", f"with torch.autocast({NAME}, enabled=False, dtype=d): pass"),
    ("@torch.cuda.amp.autocast()\ndef f(): pass", f"@torch.autocast({NAME}, dtype=torch.float16)\ndef f(): pass"),
    ("with torch.cuda.amp.autocast(enabled=e): pass", f"with torch.autocast({NAME}, enabled=e, dtype=torch.float16): pass"),
    ("with torch.cuda.amp.autocast(True, torch.bfloat16): pass", f"with torch.autocast({NAME}, enabled=True, dtype=torch.bfloat16): pass"),
    ("torch.distributed.init_process_group(backend='nccl')",
     "torch.distributed.init_process_group(backend=get_accelerator().communication_backend_name())"),
    ("backend = 'nccl' if torch.cuda.is_available() else 'gloo'", "backend = get_accelerator().communication_backend_name()"),
    ("torch.distributed.init_process_group('cpu:gloo,cuda:nccl')",
     f"torch.distributed.init_process_group(f\"cpu:gloo,{{{NAME}}}:{{get_accelerator().communication_backend_name()}}\")"),
    ("getattr(torch, 'cuda').synchronize()", "get_accelerator().synchronize()"),
    ("x = torch.stack(y).float()\nx, n = x.pin_memory().to(d), 0",
     "x = torch.stack(y).float()\nx, n = get_accelerator().pin_memory(x).to(d), 0"),
    ("torch.nn.parallel.DistributedDataParallel(m, device_ids=[r], output_device=None)",
     "torch.nn.parallel.DistributedDataParallel(m, device_ids=None if get_accelerator().is_synchronized_device() else [r], "
     "output_device=None)"),
    ("from torch.nn.parallel.distributed import DistributedDataParallel as P\nP(m, output_device=r)",
     "from torch.nn.parallel.distributed import DistributedDataParallel as P\n"
     "P(m, output_device=None if get_accelerator().is_synchronized_device() else r)"),
    ("torch.load(f, map_location=lambda storage, loc: storage.cuda(0))",
     "torch.load(f, map_location=lambda storage, loc: storage.to(device=get_accelerator().device_name(0)))"),
    ("def f(gpu: int, device_id): x.to(gpu), x.to(device_id)",
     "def f(gpu: int, device_id): x.to(get_accelerator().device_name(gpu)), x.to(device_id)"),
    ("class A:\n    def f(self, x):\n        self.gpu = int(v)\n        x.to(self.gpu)",
     "class A:\n    def f(self, x):\n        self.gpu = int(v)\n        x.to(get_accelerator().device_name(self.gpu))"),
    ("torch.set_default_tensor_type('torch.cuda.FloatTensor')\ny = [torch.Tensor([1]), torch.Tensor(2, 3), torch.Tensor()]",
     f"torch.set_default_device({NAME})\n"
     "y = [torch.tensor([1], dtype=torch.get_default_dtype()), torch.empty(2, 3), torch.empty(0)]"),
])
def test_methods_and_names(code, expected):
    assert line(code) == expected


# Fails if a fix that may change the meaning is made without --unsafe-fixes, or not at all.
@pytest.mark.parametrize("code, expected", [
    ("batch.pin_memory()", "get_accelerator().pin_memory(batch)"),
    ("m = int(torch.version.cuda.split('.')[0])", "m = int((torch.version.cuda or \"0.0\").split('.')[0])"),
    ("m = torch.version.cuda >= '11'", "m = (torch.version.cuda or \"0.0\") >= '11'"),
    ("import subprocess\nsubprocess.run(['nvidia-smi'])", "import subprocess\nsubprocess.run([\"anyaccel\", \"report\"])"),
])
def test_fixes_that_need_review(code, expected):
    assert line(code) == code
    assert line(code, severities=("equivalent", "review")) == expected


# Fails if a condition that is only for NVIDIA's devices becomes true on others.
@pytest.mark.parametrize("code", [
    "new = torch.cuda.is_available() and (torch.cuda.get_device_capability()[0] >= 9 or f())",
    "if torch.cuda.is_available():\n    new = torch.cuda.get_device_capability() > (8, 0)",
    "def f():\n    if not torch.cuda.is_available():\n        return 1\n    return torch.cuda.get_device_capability()",
])
def test_conditions_for_nvidia(code):
    assert line(code) == code
    assert line(code, severities=("equivalent", "review")) == code.replace("torch.cuda.get_device_", "get_accelerator().compute_")


@pytest.mark.parametrize("code", [
    "class Batch:\n    def pin_memory(self):\n        return self.x",
    "self.pin_memory()",
    "DataLoader(d, pin_memory=True)",
    "y = torch.Tensor([1])",
])
def test_pinned_memory_and_tensors_without_cuda(code):
    assert rules_of(code) == []


@pytest.mark.parametrize("code", ["print(torch.version.cuda)", "import subprocess\nsubprocess.run(['nvidia-smi', '-L'])",
                                  "nvidia = torch.cuda.is_available() and torch.version.hip is None"])
def test_there_is_no_fix(code):
    assert line(code, severities=("equivalent", "review")) == code


@pytest.mark.parametrize("imports, code", [
    ("import torch\nimport torch.cuda as tc\n", "tc.synchronize()"),
    ("import torch\nfrom torch import cuda\n", "cuda.synchronize()"),
    ("import torch\nfrom torch import cuda as c\n", "c.synchronize()"),
    ("import torch\nfrom torch.cuda import synchronize\n", "synchronize()"),
    ("import torch\nfrom torch.cuda import (\n    synchronize as wait,\n)\n", "wait()"),
])
def test_imports_are_resolved_and_removed(imports, code):
    assert fix(imports + code + "\n") == "import torch\n" + IMPORT + "get_accelerator().synchronize()\n"


def test_aliases_of_torch():
    assert fix(
        "import torch as th\nx = th.cuda.amp.GradScaler()\n") == f"import torch as th\n{IMPORT}x = th.amp.GradScaler({NAME})\n"
    assert fix("def f():\n    import torch\n    torch.cuda.synchronize()\n"
               ) == f"{IMPORT}def f():\n    import torch\n    get_accelerator().synchronize()\n"


def test_other_things_named_torch():
    assert rules_of("torch = Torch()\ntorch.cuda.synchronize()\n") == []
    assert rules_of("def f(torch):\n    return torch.cuda.is_available()\n") == []
    assert rules_of("import numba.cuda as cuda\ncuda.synchronize()\n")[1:] == []
    assert rules_of("from . import cuda\ncuda.synchronize()\n") == []


def test_star_import_needs_review():
    assert rules_of("from torch.cuda import *\n") == [("cuda-module", "review")]


def test_an_import_that_is_still_used_stays():
    text = "from torch.cuda import synchronize, nccl\nsynchronize()\nnccl.version()\n"
    assert fix(text) == "from torch.cuda import nccl\n" + IMPORT + "get_accelerator().synchronize()\nnccl.version()\n"
    assert fix("from torch.cuda import synchronize\n__all__ = ['synchronize']\nsynchronize()\n").startswith(
        "from torch.cuda import synchronize\n")


@pytest.mark.parametrize("text, expected", [
    ('"""Doc."""\nfrom __future__ import annotations\nimport os\nx.cuda()\n',
     f'"""Doc."""\nfrom __future__ import annotations\nimport os\n{IMPORT}x.to({NAME})\n'),
    ("#!/usr/bin/env python\n# comment\nx.cuda()\n", f"#!/usr/bin/env python\n# comment\n{IMPORT}x.to({NAME})\n"),
    ("import torch\nimport torch.nn\n\nimport os\nx.cuda()\n",
     f"import torch\nimport torch.nn\n{IMPORT}\nimport os\nx.to({NAME})\n"),
    ("import os\nd = 'cuda'\nx.to(d)\nimport torch\n", f"import os\n{IMPORT}d = {NAME}\nx.to(d)\nimport torch\n"),
    ("try:\n    import torch\nexcept ImportError:\n    torch = None\nx.cuda()\n",
     f"try:\n    import torch\n    {IMPORT}except ImportError:\n    torch = None\nx.to({NAME})\n"),
    ("from anyaccel import op\nx.cuda()\n", f"from anyaccel import op, get_accelerator\nx.to({NAME})\n"),
    ("from anyaccel import get_accelerator as acc\nx.cuda()\n",
     "from anyaccel import get_accelerator as acc\nx.to(acc().device_name())\n"),
    ("import torch\r\nx.cuda()\r\n", f"import torch\r\n{IMPORT[:-1]}\r\nx.to({NAME})\r\n"),
    ("\ufeffx.cuda()", f"\ufeff{IMPORT}x.to({NAME})"),
    ("from accelerate import get_accelerator\nx.cuda()\n",
     "from accelerate import get_accelerator\nfrom anyaccel import get_accelerator as "
     "get_anyaccel_accelerator\nx.to(get_anyaccel_accelerator().device_name())\n"),
    ("from torch.cuda.amp import autocast\nwith autocast():\n    pass\n",
     f"import torch\n{IMPORT}with torch.autocast({NAME}, dtype=torch.float16):\n    pass\n"),
    ("try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    pass\nwith autocast():\n    pass\n",
     f"try:\n    pass\n    import torch\n    {IMPORT}except ImportError:\n    pass\nwith torch.autocast({NAME}, dtype=torch.float16):\n    pass\n"),
])
def test_inserted_imports(text, expected):
    """Breaks if the import is inserted before `from __future__`, after the first use, twice, or with other newlines."""
    assert fix(text) == expected


def test_severities():
    assert rules_of("x = 'cuda'") == [("device-string-unclear", "review")]
    assert rules_of("import typing\nx: typing.Literal['cuda', 'cpu']") == [("device-string-unclear", "review")]
    assert rules_of("import torch\ntorch.cuda.nccl.version()") == [("cuda-nccl", "none")]
    assert rules_of("import torch\ntorch.cuda.new_function()") == [("cuda-other", "review")]
    assert rules_of("if name == 'cuda': pass") == [("device-comparison", "review")]
    assert rules_of("import triton\nimport pynvml") == [("triton", "none"), ("pynvml", "none")]
    assert rules_of(
        "try:\n    from torch.amp import autocast\nexcept ImportError:\n    from torch.cuda.amp import autocast\nautocast()") == [
            ("cuda-amp-autocast", "review")
        ]


def test_locations():
    finding, = find("import torch\n\nif x:\n\ty = torch.cuda.device_count()\n")
    assert (finding.line, finding.column, finding.text, finding.replacement) == (4, 6, "torch.cuda.device_count",
                                                                                 "get_accelerator().device_count")
    finding, = find("s = 'ä𝄞'; x.cuda()\n")
    assert (finding.line, finding.column, finding.text) == (1, 13, "cuda()")


def test_other_targets():
    assert line("x.to('cuda:1').cuda()", target="deepspeed") == f"x.to(get_accelerator().device_name(1)).to({NAME})"
    assert line("torch.cuda.synchronize(x.device)", target="deepspeed") == "get_accelerator().synchronize(x.device.index)"
    assert line("torch.cuda.set_device(1)", target="torch.accelerator") == "torch.accelerator.set_device_index(1)"
    assert line("x.to('cuda')", target="torch.accelerator") == f"x.to({TORCH_TYPE})"
    assert line("x.to('cuda:1' if torch.cuda.is_available() else 'cpu')",
                target="torch.accelerator") == "x.to(f\"{" + TORCH_TYPE.replace('"', "'") + "}:1\")"
    assert line("dist.init_process_group('nccl')", before="import torch\nimport torch.distributed as dist\n",
                target="torch.accelerator") == f"dist.init_process_group(torch.distributed.get_default_backend_for_device({TORCH_TYPE}))"
    assert line("n = torch.cuda.get_device_name()", target="torch.accelerator") == "n = torch.cuda.get_device_name()"
    assert rules_of("import torch\ntorch.cuda.get_device_name()", "torch.accelerator") == [("cuda-get-device-name", "none")]


@pytest.mark.parametrize("text, row", [("print 'x'\n", 1), ("x = 1\ny = (\n", 2), ("x.cuda(async=True)\n", 1)])
def test_broken_sources(text, row):
    with pytest.raises(SourceError) as error:
        find(text)
    assert error.value.line == row and f"invalid syntax at line {row}, column " in error.value.message


def test_quotes_in_f_strings():
    """Breaks on Python before 3.12 if a replacement contains the quotes of the f-string around it."""
    text = "print(f\"{torch.ones(1, device='cuda' if torch.cuda.is_available() else 'cpu')}\")"
    expected = TORCH_TYPE.replace('"', "'")
    assert line(text, target="torch.accelerator") == text.replace("'cuda' if torch.cuda.is_available() else 'cpu'", expected)


def test_command_lines():
    """Breaks if the default of an option is not recognized as a device."""
    for code in ("@click.option('--device', default={0})\ndef f(device): pass",
                 "def f(device: str = typer.Option({0}, help='cuda')): pass", "class C:\n    device: str = field(default={0})",
                 "flags.DEFINE_string('device', {0}, 'help')", "parser.add_argument('-d', '--dev', dest='device', default={0})",
                 "device = getattr(args, 'device', {0})"):
        assert line(code.format("'cuda'")) == code.format(NAME)


def test_broken_text():
    """Breaks if an unusual text ends the program instead of being reported."""
    for text in ("x = '\n", "x = 1\0", "x = '\ud800'\n"):
        with pytest.raises(SourceError):
            find(text)


def test_deep_nesting():
    assert fix("x = " + "(" * 60 + "y.cuda()" + ")" * 60 + "\n").count("device_name") == 1
    many = "x = " + " + ".join(["'cuda'.upper()"] + ["a"] * 1500) + "\n"
    try:
        find(many)
    except SourceError as error:
        assert "nested too deeply" in error.message
