"""`anyaccel port` on libraries with kernels for some accelerators, on resources that count GPUs, and on build scripts."""

import pytest

from port_case import find, fix, rules_of  # isort: skip (skips if libcst is missing)
from anyaccel_port import extensions, python
from anyaccel_port.analysis import File, Request, examine
from anyaccel_port.languages import PYTHON


def texts(code, file="x.py"):
    return [(f.rule, f.text) for f in find(code, file=file)]


# Fails if a construct is missed, reported twice, or its span is wrong.
@pytest.mark.parametrize("code, expected", [
    ("import ray\n@ray.remote(num_gpus=1, num_cpus=2)\ndef f(): ...", [("ray-gpus", "num_gpus=1")]),
    ("import ray\nA.options(num_gpus=n).remote(1)", [("ray-gpus", "num_gpus=n")]),
    ("from ray.util.placement_group import placement_group\npg = placement_group([{'GPU': 1, 'CPU': 1}] * 2)", [("ray-gpus", "'GPU'")]),
    ("import ray\nn = ray.cluster_resources().get('GPU', 0)", [("ray-gpus", "'GPU'")]),
    ("import xformers.ops as xops\ny = xops.memory_efficient_attention(q, k, v)",
     [("xformers", "import xformers.ops as xops"), ("xformers", "xops.memory_efficient_attention")]),
    ("pipe.enable_xformers_memory_efficient_attention()", [("xformers", "pipe.enable_xformers_memory_efficient_attention")]),
    ("from ring_flash_attn import ring_flash_attn_func", [("cuda-library", "from ring_flash_attn import ring_flash_attn_func")]),
    ("m = f(attn_implementation='flash_attention_2' if a else 'eager')", [("flash-attention-setting", "'flash_attention_2'")]),
    ("c._attn_implementation = 'flash_attention_3'", [("flash-attention-setting", "'flash_attention_3'")]),
    ("fast = {'flash_attention_2', 'flash_attention_3'}", [("flash-attention-setting", "'flash_attention_2'")]),
    ("import vllm\nvllm.worker.worker.Worker = W\nm = vllm.LLM('x')", [("vllm", "import vllm"), ("vllm", "vllm.worker.worker.Worker")]),
    ("from vllm import LLM", [("vllm", "from vllm import LLM")]),
    ("import bitsandbytes as bnb\nc = bnb.optim.AdamW8bit\nd = bnb.nn.Linear4bit(2, 2)\nv = bnb.__version__",
     [("bitsandbytes", "import bitsandbytes as bnb"), ("bitsandbytes", "bnb.optim.AdamW8bit"), ("bitsandbytes", "bnb.nn.Linear4bit")]),
    ("from transformers import BitsAndBytesConfig\nc = BitsAndBytesConfig(\n  load_in_4bit=True)",
     [("bitsandbytes-quantization", "BitsAndBytesConfig(\n  load_in_4bit=True)")]),
    ("m = M.from_pretrained('x', load_in_8bit=True)", [("bitsandbytes-quantization", "load_in_8bit=True")]),
    ("@dataclass\nclass A:\n    optim: str = field(default='paged_adamw_32bit')", [("bitsandbytes-optimizer", "'paged_adamw_32bit'")]),
    ("a = TrainingArguments(optim='adamw_bnb_8bit')", [("bitsandbytes-optimizer", "'adamw_bnb_8bit'")]),
    ("m = torch.nn.DataParallel(m)", [("data-parallel", "torch.nn.DataParallel")]),
    ("import torch\ns = torch.amp.GradScaler(enabled=e)", [("grad-scaler-default", "torch.amp.GradScaler(enabled=e)")]),
    ("import torch.distributed as dist\nop = dist.ReduceOp.AVG", [("nccl-average", "dist.ReduceOp.AVG")]),
    ("import torch\ny = torch.ops.aten._weight_int4pack_mm(x, w, 32, s)", [("device-specific-op", "torch.ops.aten._weight_int4pack_mm")]),
    ("from kernels import get_kernel", [("hub-kernels", "from kernels import get_kernel")]),
    ("from torch import nn\nm = nn.DataParallel(m, device_ids=ids)", [("data-parallel", "nn.DataParallel")]),
    ("import pytorch_lightning as pl\nt = pl.Trainer(gpus=list(c.gpus), distributed_backend='ddp', max_epochs=1)",
     [("lightning-gpus", "gpus=list(c.gpus)"), ("lightning-gpus", "distributed_backend='ddp'")]),
    ("flops_promised = 312e12", [("peak-flops", "312e12")]),
    ("s = importlib.util.find_spec(f'{name}_cuda')", [("cuda-extension", "f'{name}_cuda'")]),
])  # yapf: disable
def test_found(code, expected):
    assert texts(code) == expected


# Fails if a similar name, another library or a switch that is off is reported.
@pytest.mark.parametrize("code", [
    "import ray\n@ray.remote\ndef f(): ...",
    "import ray\n@ray.remote(num_gpus=0)\ndef f(): ...",
    "@client.remote(num_gpus=1)\ndef f(): ...",
    "kinds = {'GPU': 1}",
    "t = Trainer(gpus=2)",
    "import pytorch_lightning as pl\nt = pl.Trainer(devices=2, accelerator='auto')",
    "m.set_use_memory_efficient_attention_xformers(False)",
    "def enable_xformers_memory_efficient_attention(on): ...",
    "from diffusers.utils.import_utils import is_xformers_available",
    "from transformers import BitsAndBytesConfig",
    "m = M.from_pretrained('x', load_in_8bit=False, load_in_4bit=args.bits)",
    "a = TrainingArguments(optim='adamw_torch')",
    "print('flash_attention_2 is missing')",
    "parser.add_argument('--optim', help='paged_adamw_32bit')",
    "x = 312e12",
    "flops_promised = 1e12",
    "PEAK_FLOPS = {'a100': 312e12, 'other': other}",
    "parser.add_argument('--attn', choices=['eager', 'sdpa', 'flash_attention_2'])",
    "device_map = {'': 'cpu', 'a': name}",
    "sizes = {'': 0}",
    "kinds = ['cpu', 'triton', 'WITH_CUDA']",
])
def test_not_found(code):
    assert texts(code) == []


# Fails if a scaler without a device keeps CUDA as its default, or another one changes.
def test_grad_scaler_gets_its_device():
    code = "from torch.amp import GradScaler\na = GradScaler()\nb = GradScaler(enabled=e)\nc = GradScaler('cpu')\nd = GradScaler(*args)\n"
    fixed = fix(code)
    assert "a = GradScaler(get_accelerator().device_name())\n" in fixed
    assert "b = GradScaler(get_accelerator().device_name(), enabled=e)\n" in fixed
    assert "c = GradScaler('cpu')\nd = GradScaler(*args)\n" in fixed
    assert "grad-scaler-default" not in [rule for rule, _ in rules_of(fixed)]


# Fails if the integers stay, other values change, or torch.accelerator gets a name that it does
# not have.
def test_device_map():
    code = "m = load(device_map={'': 0, 'a': 'cpu'})\ndevice_map = {\"\": local_rank}\n"
    assert rules_of(code) == [("device-map-index", "review")] * 2
    fixed = fix(code, severities=("review", ))
    assert "device_map={'': get_accelerator().device_name(0), 'a': 'cpu'}" in fixed
    assert 'device_map = {"": get_accelerator().device_name(local_rank)}' in fixed
    assert fix(code, "torch.accelerator", ("review", )) == code


SETUP = """import os, torch
from setuptools import setup
from torch.utils.cpp_extension import CUDAExtension
requirements = ["pytorch-lightning==0.7.1", "numpy"]
flavors = ['cpu', 'cuda'] if torch.cuda.is_available() else ['cpu']
macros = []
for flavor in flavors:
    if flavor == 'cuda':
        macros += [('WITH_CUDA', None), ('WITH_PYTHON', None)]
        args['nvcc'] = os.getenv('NVCC_FLAGS', '').split()
setup(install_requires=requirements, extras_require={"fast": ["vllm>0.4.2", "flash-attn"]}, keywords=["triton"],
      ext_modules=[CUDAExtension(name="pkg._ext", sources=["a.cpp"]), CUDAExtension("pkg.sub.ops", ["b.cu"])])
"""


# Fails if a fix would change which sources are built, or a part of the build is missed.
def test_setup():
    assert {f.severity for f in find(SETUP, file="a/setup.py")} == {"review", "none"}
    found = texts(SETUP, "a/setup.py")
    for expected in [("package-old-lightning", '"pytorch-lightning==0.7.1"'), ("build-flavor", "'cuda'"), ("cuda-is-available", "torch.cuda.is_available"),
                     ("cuda-extension", "('WITH_CUDA', None)"), ("cuda-extension", "args['nvcc']"), ("cuda-variable", "'NVCC_FLAGS'"),
                     ("package-some-accelerators", '"vllm>0.4.2"'), ("package-cuda-only", '"flash-attn"')]:  # yapf: disable
        assert expected in found, expected
    assert [text for rule, text in found if rule == "build-flavor"] == ["'cuda'"] * 2
    assert '"triton"' not in [text for _, text in found]
    assert ("device-string", "equivalent") in rules_of("x.to('cuda')")  # elsewhere, it is a device


# Fails if the imports of the project's own CUDA modules are missed, or modules of other projects
# are reported.
def test_own_extensions(tmp_path):
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "pkg").mkdir()
    assert extensions.names(str(tmp_path / "pkg" / "a.py")) == {"pkg._ext", "pkg.sub.ops"}

    def own(code):
        path = tmp_path / "pkg" / "a.py"
        path.write_text(code)
        return [(f.rule, f.text) for f in examine(File(str(path), "a.py", PYTHON), Request("anyaccel")).findings]

    for code in ("import pkg._ext as _ext", "from pkg import _ext", "from . import _ext", "from .sub.ops import f", "from pkg.sub import ops"):
        assert own(code + "\n") == [("cuda-extension", code)], code
    assert own("from other import _ext\nimport pkg.sub\nfrom . import b\n") == []
    assert python.find("import pkg._ext\n", "a.py", "anyaccel") == []
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner" / ".git").mkdir(parents=True)
    assert extensions.names(str(tmp_path / "inner" / "b.py")) == frozenset()  # another repository
