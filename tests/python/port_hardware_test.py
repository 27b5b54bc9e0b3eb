"""`anyaccel port` finds names and properties of NVIDIA's devices, CUDA extras, and other code that has no obvious keyword."""
import pytest

from port_case import find  # isort: skip (skips if libcst is missing)
from anyaccel_port import config, keywords, languages, requirements, shell
from anyaccel_port.findings import Lines

LIGHTNING = "import lightning\nimport argparse\nparser = argparse.ArgumentParser()\n"
CAPABILITY = "major, minor = torch.cuda.get_device_capability()\n"


def found(code, file="x.py"):
    return [(f.rule, f.text) for f in find("import torch\n" + code + "\n", file=file) if not f.rule.startswith("cuda-get-")]


def messages(code):
    return [f.message for f in find("import torch\n" + code + "\n") if f.severity == "review"]


# Fails if the explanation of a condition does not name the feature that the program asks for.
@pytest.mark.parametrize("code, words", [
    ("if torch.cuda.get_device_capability() >= (8, 0): pass", ("with 8.0", "bfloat16", "is_bf16_supported")),
    ("if (7, 0) <= torch.cuda.get_device_capability(0): pass", ("with 7.0", "float16", "is_fp16_supported")),
    ("ok = torch.cuda.get_device_capability()[0] >= 9", ("with 9.0", "Hopper", "is_compatible")),
    (CAPABILITY + "print(1 if major < 8 else 2)", ("with 8.0", "bfloat16")),
    ("cap = torch.cuda.get_device_capability()\nfp8 = cap >= (8, 9)", ("with 8.9", "float8", "supported_dtypes")),
    ("p = torch.cuda.get_device_properties(0)\nif p.major >= 8: pass", ("with 8.0", "is_bf16_supported")),
    ("if torch.cuda.get_device_properties(0).major >= 6: pass", ("with 6.0", "Query the feature")),
])
def test_capability(code, words):
    message, = messages(code)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("code", ["print(torch.cuda.get_device_capability())", CAPABILITY + "print(major == minor)",
                                  "p = torch.cuda.get_device_properties(0)\nif p.minor >= 8: pass"])
def test_capability_without_condition(code):
    assert "compares the compute capability" not in "".join(messages(code))


# Fails if one of these uses is missed.
@pytest.mark.parametrize("code, expected", [
    ('FLOPS = {"A100": 312e12, "H100": 989e12}', [("device-name-table", "FLOPS")]),
    ('T = ((["h100", "nvl"], 8e14), (["a100"], 3e14))', [("device-name-table", "T")]),
    ('def f():\n    return {"NVIDIA A100-SXM4-80GB": 1, "Tesla T4": 2}[name]', [("device-name-table", '"NVIDIA A100-SXM4-80GB"')]),
    ('if "H100" in torch.cuda.get_device_name(): pass', [("device-name-comparison", '"H100"')]),
    ('if gpu_name.startswith("Tesla T4"): pass', [("device-name-comparison", '"Tesla T4"')]),
    ('if name == "GeForce RTX 3090": pass', [("device-name-comparison", '"GeForce RTX 3090"')]),
    ('if name in ("Tesla V100", "A100"): pass', [("device-name-comparison", '"Tesla V100"')]),
    ('kwargs["slurm_constraint"] = "volta32gb"', [("scheduler-device", '"volta32gb"')]),
    ('submit(gres="gpu:a100:4")', [("scheduler-device", '"gpu:a100:4"')]),
    ("flops_promised = 312e12", [("peak-flops", "312e12")]),
    ("import triton\n@triton.jit\ndef f(x): pass", [("triton", "import triton"), ("triton", "triton.jit")]),
    ('f = get_kernel("kernels-community/flash-attn3")', [("hub-kernel-name", '"kernels-community/flash-attn3"')]),
    ("from torch.nn.attention import SDPBackend as B, sdpa_kernel\n"
     "with sdpa_kernel([B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION]): pass", [("attention-backend", "B.FLASH_ATTENTION")]),
    ("config.gpu_options.allow_growth = True", [("tensorflow-gpu-options", "config.gpu_options")]),
    (LIGHTNING + 'lightning.Trainer(accelerator="gpu")', [("lightning-accelerator", '"gpu"')]),
    (LIGHTNING + 'parser.add_argument("--accelerator", default="gpu", type=str)', [("lightning-accelerator", '"gpu"')]),
    ('device_map = {"": int(os.environ.get("LOCAL_RANK") or 0)}',
     [("device-map-index", '{"": int(os.environ.get("LOCAL_RANK") or 0)}')]),
    ("load(sources=['a.cpp', 'b.cu', 'c.cu'])", [("cuda-source", "'b.cu'")]),
])
def test_places(code, expected):
    assert found(code) == expected
    data = ("import torch\n" + code).encode()
    assert keywords.may_match(data) or code.startswith("submit(")


# Fails if text that has nothing to do with devices is reported.
@pytest.mark.parametrize("code", [
    'LEVELS = ["L1", "L2", "L3", "L4"]', 'if level == "L4": pass', 'sizes = {"A4": 1, "A2": 2}', 'print("A100", "H100")',
    'if language == "Ada": pass', 'WORDS = ["ada", "volta"]', 'x = f(accelerator="gpu")', 'kwargs["constraint"] = "gpu"',
    "def triton(x): pass\ntriton.jit = 1", 'names = ["nvidia-driver", "A100"]', 'config.options = "gpu"', "flops = 312",
    "b = [torch.nn.attention.SDPBackend.FLASH_ATTENTION, torch.nn.attention.SDPBackend.MATH]",
    "m = M.from_pretrained(n, load_in_8bit=False)", "f(load_in_8bit=quantize)", 'device_map = {"": int("0x", 16) and "cpu"}'
])
def test_other_text(code):
    assert found(code) == []


# Fails if an extra with CUDA packages is missed in a kind of file, or if another one is reported.
def test_extras():
    setup = ('from setuptools import setup\nsetup(name="x", extras_require={"cuda": ["a"], "gpu": ["b"], "dev": ["c"]},\n'
             '      install_requires=["jax[cuda12]", "x[dev]"])\nEXTRAS = {"cuda11x": []}\nNAMES = {"cuda": 1}')
    assert found(setup, "setup.py") == [("package-extra", text)
                                        for text in ('"cuda"', '"gpu"', '"jax[cuda12]"', '"cuda11x"')]
    assert lines(requirements, "dependencies:\n  - cuda100\n  - cudadecon\n", "environment.yml") == [("package-nvidia", 2)]
    assert lines(requirements, "jax[cuda12]>=0.4\n-e .[gpu]\nx[dev]\n", "requirements.txt") == [("package-extra", 1),
                                                                                             ("package-extra", 2)]
    setup = "[options.extras_require]\ncuda =\n    x\ndev = y\n[other]\ncuda_version = x\n"
    assert lines(requirements, setup, "setup.cfg") == [("package-extra", 2)]
    toml = ('[project.optional-dependencies]\ncuda = ["x"]\ndev = ["gpu"]\n[tool.uv.sources]\n'
            'torch = [{ index = "pytorch-cpu" }, { index = "pytorch-cu128", extra = "gpu" }]\n'
            '[[tool.uv.index]]\nname = "pytorch-cu128"\n')
    assert lines(requirements, toml, "pyproject.toml") == [("package-extra", 2), ("package-index", 5), ("package-index", 7)]
    commands = ('pip install -e ".[cuda]"\npip install "jax[cuda12]" a[dev]\nuv sync --extra gpu\n'
                'poetry install --extras "dev cuda"\n'
                "poetry install -E gpu\nuv run --extra dev train.py triton\necho uv sync --extra gpu\n")
    assert lines(shell, commands, "a.sh") == [("package-extra", n) for n in (1, 2, 3, 4, 5)]


# Fails if a request for a device model is missed, or if a request for any GPU is reported.
def test_schedulers():
    script = ("#!/bin/bash\n#SBATCH --gres=gpu:a100:4\n#SBATCH --gres=gpu:4\n#SBATCH -C volta32gb\n# --gres=gpu:v100:1\n"
              "srun --gpus=h100:2 python a.py\nsrun --gpus=2 python a.py\npython a.py --gres=gpu:v100:1\n")
    assert lines(shell, script, "a.sh") == [("scheduler-device", 2), ("scheduler-device", 4), ("scheduler-device", 6)]
    yaml = ("gpu_type: a100\naccelerators: A100:8\ngpu_name: any\nmodel: h100\naccelerator: gpu\nlabels:\n"
            "  cloud.google.com/gke-accelerator: nvidia-tesla-t4\n")
    assert lines(config, yaml, "a.yaml") == [("scheduler-device", 1), ("scheduler-device", 2), ("scheduler-device", 7)]
    assert keywords.may_match(script.encode(), languages.SHELL) and keywords.may_match(yaml.encode(), languages.CONFIG)


def lines(module, text, file):
    return [(f.rule, Lines(text).position(f.start)[0]) for f in module.find(text, file, "anyaccel")]
