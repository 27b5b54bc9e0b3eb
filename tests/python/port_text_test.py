"""`anyaccel port` on shell scripts, Dockerfiles, configuration files and lists of packages."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))

from anyaccel_port import config, requirements, shell
from anyaccel_port.findings import SourceError
from anyaccel_port.rules import configuration


def found(module, text, file):
    findings = module.find(text, file, "anyaccel")
    for f in findings:
        assert text[f.start:f.end] == f.text
        assert text.splitlines()[f.line - 1][f.column - 1:].startswith(f.text.splitlines()[0])
    return [(f.rule, f.text) for f in findings]


def rules(module, text, file):
    return [rule for rule, _ in found(module, text, file)]


# Fails if a rule's example is not found.
@pytest.mark.parametrize("rule", configuration.RULES, ids=lambda r: r.id)
def test_examples(rule):
    if rule in configuration.SHELL:
        text, module, file = rule.before, shell, "Dockerfile" if rule.before.startswith("FROM") else "a.sh"
    elif rule in configuration.CONFIGURATION:
        text, module, file = ("trainer:\n" if rule.id == "config-gpus" else "") + rule.before, config, "a.yaml"
    elif rule.id == "package-channel":
        text, module, file = "channels:\n  " + rule.before, requirements, "environment.yml"
    else:
        text, module, file = rule.before, requirements, "requirements.txt"
    assert rule.id in rules(module, text + "\n", file)


# Fails if a construct is missed, reported twice, or its span is wrong.
@pytest.mark.parametrize("line, expected", [
    ("export CUDA_VISIBLE_DEVICES=\"0,1\"", [("visible-devices", "CUDA_VISIBLE_DEVICES=\"0,1\"")]),
    ("NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=0 python a.py", [("cuda-variable", "NCCL_DEBUG"), ("visible-devices", "CUDA_VISIBLE_DEVICES=0")]),
    ("python a.py --device=cuda:0 --dist-backend 'nccl' --no-cuda",
     [("device-option", "--device=cuda:0"), ("backend-option", "--dist-backend 'nccl'"), ("device-option", "--no-cuda")]),
    ("python a.py model.device=cuda trainer.backend=nccl", [("device-option", "model.device=cuda"), ("backend-option", "trainer.backend=nccl")]),
    ("n=$(nvidia-smi -L | wc -l)", [("nvidia-tool", "nvidia-smi")]),
    ("echo \"on $CUDA_VISIBLE_DEVICES and $(nvidia-smi -L)\"", [("visible-devices", "CUDA_VISIBLE_DEVICES"), ("nvidia-tool", "nvidia-smi")]),
    ("docker run --rm --gpus all nvcr.io/nvidia/pytorch:24.01-py3 bash -c 'nvidia-smi'",
     [("container-gpus", "--gpus all"), ("container-image", "nvcr.io/nvidia/pytorch:24.01-py3"), ("nvidia-tool", "nvidia-smi")]),
    ("pip install 'torch==2.1.0+cu121' flash-attn --index-url https://download.pytorch.org/whl/cu121",
     [("package-cuda-build", "torch==2.1.0+cu121"), ("package-cuda-only", "flash-attn"), ("package-index", "https://download.pytorch.org/whl/cu121")]),
    ("conda install -y pytorch pytorch-cuda=12.1 -c pytorch -c nvidia", [("package-nvidia", "pytorch-cuda=12.1"), ("package-channel", "nvidia")]),
    ("apt-get install -y git cuda-toolkit-12-1", [("package-nvidia", "cuda-toolkit-12-1")]),
    ("mpirun -x NCCL_DEBUG=INFO ./a", [("cuda-variable", "NCCL_DEBUG")]),
    ("if ! command -v nvcc; then exit 1; fi", [("nvidia-tool", "nvcc")]),
    ("python -c \"import torch; print(torch.cuda.device_count())\"", [("embedded-python", "torch.cuda.device_count")]),
    ("python - <<EOF\nimport torch  # nvidia-smi\ntorch.cuda.synchronize()\nEOF", [("embedded-python", "torch.cuda.synchronize")]),
    ("srun --gpus=4 python a.py --use-cuda", [("device-option", "--use-cuda")]),
    ("python train.py --gpus 2", [("config-gpus", "--gpus 2")]),
    ("\t$(NVCC) -o a a.cu", [("nvidia-tool", "$(NVCC)")]),
    ("cmake -DUSE_CUDA=ON -DCMAKE_BUILD_TYPE=Release ..", [("cmake-variable", "-DUSE_CUDA=ON")]),
    ("sudo mv cuda-${OS}.pin /etc/apt/preferences.d/cuda-repository-pin-600", [("cuda-installer", "cuda-${OS}.pin")]),
    ("sudo cp /var/cuda-repo-${OS}-11-8-local/cuda-*-keyring.gpg /usr/share/keyrings/", [("cuda-installer", "/var/cuda-repo-${OS}-11-8-local/cuda-*-keyring.gpg")]),
    ("sudo dpkg -i cuda-repo-ubuntu2204_12.8.0-1_amd64.deb", [("cuda-installer", "cuda-repo-ubuntu2204_12.8.0-1_amd64.deb")]),
    ("sh NVIDIA-Linux-x86_64-535.54.03.run --silent", [("cuda-installer", "NVIDIA-Linux-x86_64-535.54.03.run")]),
    ("apt install -y cuda-${{ matrix.cuda-version }} git", [("package-nvidia", "cuda-${{ matrix.cuda-version }}")]),
    ("pip install torch --index-url https://download.pytorch.org/whl/${{ matrix.cuda-version }}",
     [("package-index", "https://download.pytorch.org/whl/${{ matrix.cuda-version }}")]),
    ("pip install torch --index-url https://download.pytorch.org/whl/cu${CUDA}", [("package-index", "https://download.pytorch.org/whl/cu${CUDA}")]),
    ("echo \"/usr/local/cuda-${{ matrix.cuda }}/lib64\" | sudo tee -a /etc/ld.so.conf", [("cuda-path", "/usr/local/cuda-${{ matrix.cuda }}/lib64")]),
    ("echo 'export PATH=/usr/local/cuda/bin:$PATH' >> ~/.bashrc", [("cuda-path", "/usr/local/cuda/bin")]),
    ("python a.py --optim paged_adamw_32bit --load_in_4bit --attn_implementation flash_attention_2",
     [("bitsandbytes-optimizer", "--optim paged_adamw_32bit"), ("bitsandbytes-quantization", "--load_in_4bit"),
      ("flash-attention-setting", "--attn_implementation flash_attention_2")]),
    ("accelerate launch a.py --enable_xformers_memory_efficient_attention", [("xformers", "--enable_xformers_memory_efficient_attention")]),
    ("pip install vllm==0.4.2 'pytorch-lightning<2'", [("package-some-accelerators", "vllm==0.4.2"), ("package-old-lightning", "pytorch-lightning<2")]),
    ("FORCE_CUDA=1 pip install git+https://github.com/Dao-AILab/flash-attention.git@v2", [("cuda-variable", "FORCE_CUDA"), ("package-cuda-only", "github.com/Dao-AILab/flash-attention.git")]),
])  # yapf: disable
def test_shell(line, expected):
    assert found(shell, "#!/bin/bash\n" + line + "\n", "a.sh") == expected


# Fails if comments, messages or other words are taken for commands.
@pytest.mark.parametrize("line", [
    "# CUDA_VISIBLE_DEVICES=0 nvidia-smi --device cuda",
    "ls  # nvcc",
    "echo \"run nvidia-smi, then set CUDA_VISIBLE_DEVICES\"",
    "echo install nvcc first",
    "printf 'nvcc not found\\n'",
    "python a.py --device cpu --backend gloo --cuda_is_fine_name --barracuda",
    "python train_cuda.py --devices 2 --accelerator gpu",
    "cat nvcc.log ./nvcc-wrapper/readme",
    "pip install torch numpy --index-url https://download.pytorch.org/whl/cpu",
    "echo '/usr/local/cuda is missing' >&2",
    "echo 'no /usr/local/cuda' >> log.txt",
    "python a.py --optim adamw_torch --load_in_8bit False --attn_implementation sdpa",
    "pip install 'pytorch-lightning>=1.9' lightning==2.1 torch-${VERSION}",
    "rm my-cuda-repository.txt cuda_utils.py barracuda-keyring",
    "torchrun --nproc_per_node=8 a.py",
    "sbatch --gpus=2 job.sh",
])
def test_shell_not_found(line):
    assert found(shell, line + "\n", "a.sh") == []


def test_dockerfile_and_makefile():
    text = (
        "FROM nvidia/cuda:12.1.0-devel-ubuntu22.04\n# nvcc\nENV NCCL_DEBUG=INFO \\\n    CUDA_HOME=/usr/local/cuda\n"
        "RUN pip install --extra-index-url https://download.pytorch.org/whl/cu118 \\\n      torch cupy-cuda12x\nCMD [\"nvidia-smi\"]\n"
    )
    assert rules(shell, text, "Dockerfile") == ["container-image", "cuda-variable", "cuda-variable", "package-index", "package-cuda-only",
                                                "nvidia-tool"]  # yapf: disable
    assert rules(shell, "FROM pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime AS base\n", "Dockerfile") == ["container-image"]
    assert rules(shell, "FROM python:3.11-slim\nRUN pip install torch\n", "Dockerfile") == []
    assert rules(shell, "NVCC ?= nvcc\nall: a.cu\n\t$(NVCC) -o a a.cu\n\tnvcc -c b.cu\n",
                 "Makefile") == ["nvidia-tool"] * 3


def test_yaml():
    text = (
        "# device: cuda\ntrainer:\n  gpus: 2\n  accelerator: gpu\n  devices: 4\ndevice: cuda  # the device\nmodel: {device: \"cuda:0\", backend: nccl, name: cuda}\n"
        "devices: [cuda, cpu]\nchoices:\n- cpu\n- cuda\nuse_cuda: true\nname: cuda\ntags: [cuda, gpu]\nenv:\n  NCCL_DEBUG: INFO\n"
        "containers:\n  - image: nvidia/cuda:12.1.0-devel\n    resources:\n      limits:\n        nvidia.com/gpu: 1\n    env:\n      - name: CUDA_VISIBLE_DEVICES\n"
        "        value: \"0\"\nsteps:\n  - run: |\n      # nvidia-smi\n      nvidia-smi\n      python a.py --device cuda\n  - name: nvidia-smi works\n"
        "    run: pip install torch --index-url https://download.pytorch.org/whl/cu118\ntext: |\n  nvidia-smi is a tool\n")
    assert [(f.rule, f.line) for f in config.find(text, "a.yaml", "anyaccel")] == [
        ("config-gpus", 3), ("lightning-accelerator", 4), ("config-device", 6), ("config-device", 7), ("config-backend", 7), ("config-device", 8), ("config-device", 11), ("config-switch", 12),
        ("cuda-variable", 16), ("container-image", 18), ("config-cuda-resource", 21), ("visible-devices", 23), ("nvidia-tool", 28), ("device-option", 29),
        ("package-index", 31)]  # yapf: disable
    found(config, text, "a.yaml")
    assert found(config, "device: gpu\n--device-map: auto\naccelerator: auto\nbackend: gloo\nnote: cuda\nvocab:\n  - cuda\n", "a.yaml") == []


# Fails if a list becomes several findings, or what a matrix leaves out is reported.
def test_matrix_and_lightning():
    text = (
        "matrix:\n  cuda-version: ['cpu', 'cu118', 'cu126']\n  cuda:\n    - 11.8\n    - 12.1\n  python: [3.10]\n  exclude:\n    - cuda-version: 'cu118'\n"
        "      os: mac\n  include:\n    - cuda-version: cu124\ncuda: 1\n")
    assert found(config, text, "a.yml") == [("config-cuda-version", "cuda-version: ['cpu', 'cu118', 'cu126']"), ("config-cuda-version", "cuda:"),
                                            ("config-cuda-version", "cuda-version: cu124"), ("config-switch", "cuda: 1")]  # yapf: disable
    text = "gpus:\n  - 0\n  - 1\ndistrib_backend: dp\noptim: paged_adamw_8bit\nload_in_4bit: true\nattn_implementation: flash_attention_2\n"
    assert found(config, text, "a.yaml") == [
        ("config-gpus", "gpus:"), ("config-gpus", "distrib_backend: dp"), ("bitsandbytes-optimizer", "optim: paged_adamw_8bit"),
        ("bitsandbytes-quantization", "load_in_4bit: true"), ("flash-attention-setting", "attn_implementation: flash_attention_2")]  # yapf: disable
    assert found(config, "gpus:\n  - 0\nload_in_4bit: false\noptim: adamw\n", "a.yaml") == []


def test_json():
    text = (
        '{"device": "cuda", "a": [1, "cuda:1", "nccl"], "trainer": {"gpus": 4}, "runArgs": ["--gpus", "all"],\n "cuda": true, "words": ["cuda", "nvcc"],'
        ' "containerEnv": {"CUDA_VISIBLE_DEVICES": "0"}, "args": ["--device", "cuda"]}\n')
    assert found(config, text, "a.json") == [
        ("config-device", '"device": "cuda"'), ("config-device", '"cuda:1"'), ("config-backend", '"nccl"'), ("config-gpus", '"gpus": 4'),
        ("container-gpus", '"--gpus", "all"'), ("config-switch", '"cuda": true'), ("visible-devices", '"CUDA_VISIBLE_DEVICES": "0"'),
        ("device-option", '"--device", "cuda"')]  # yapf: disable
    assert found(config, '{"cuda": 1234, "tokens": ["cuda"]}', "vocab.json") == []
    assert found(config, '// c\n{"device": "cuda",}\n', "a.json") and found(config, '{"device": "cuda"}\n{"device": "cpu"}\n',
                                                                            "a.json")
    with pytest.raises(SourceError) as error:
        config.find('{"device": "cuda"\n', "a.json", "anyaccel")
    assert error.value.message.startswith("not JSON") and error.value.line == 2


def test_toml_and_ini():
    assert found(config, '[train]\ndevice = "cuda:0" # cuda\nbackend = "nccl"\nkinds = ["cuda"]\n', "a.toml") == [
        ("config-device", 'device = "cuda:0"'), ("config-backend", 'backend = "nccl"')]  # yapf: disable
    assert found(config, "[train]\n; device = cuda\ndevice = cuda\nuse_cuda = yes\n",
                 "a.ini") == [("config-device", "device = cuda"), ("config-switch", "use_cuda = yes")]


def test_requirements():
    text = (
        "--extra-index-url https://download.pytorch.org/whl/cu121\n# nvidia-nccl-cu12\ntorch==2.1.0+cu121  # build\nnvidia-cublas-cu12==12.1.3.1 ; python_version > '3'\n"
        "flash_attn>=2\nnumpy\ntriton\npynvml\ncupy-cuda12x\ncudaless\ntorchvision @ https://download.pytorch.org/whl/cu118/torchvision-0.16.0.whl\n-r other.txt\n"
    )
    assert [(f.rule, f.line) for f in requirements.find(text, "requirements.txt", "anyaccel")] == [
        ("package-index", 1), ("package-cuda-build", 3), ("package-nvidia", 4), ("package-cuda-only", 5), ("package-some-accelerators", 7), ("package-cuda-only", 8),
        ("package-cuda-only", 9), ("package-index", 11)]  # yapf: disable
    findings = requirements.find(text, "requirements.txt", "anyaccel")
    assert requirements.fix(text, findings, "anyaccel") == text.replace("torch==2.1.0+cu121 ", "torch==2.1.0 ")
    assert [f.severity for f in findings if f.edits] == ["review"]


# Fails if the bounds of Lightning's version are misunderstood.
def test_lightning_version():
    old = ["pytorch-lightning==1.9.5", "lightning<2", "lightning<2.0.0", "pytorch_lightning~=1.8.0", "pytorch-lightning<=1.9"]
    new = ["lightning", "lightning>=1.9", "lightning==2.1", "pytorch-lightning>=1.9,<2.1", "lightning<2.5"]
    assert rules(requirements, "\n".join(old + new) + "\n", "requirements.txt") == ["package-old-lightning"] * len(old)


def test_environment():
    text = (
        "name: x\nchannels:\n  - pytorch\n  - nvidia\ndependencies:\n  - python=3.10\n  - pytorch-cuda=12.1\n  - nvidia/label/cuda-12.1.0::cuda-toolkit\n"
        "  - cudatoolkit >=11\n  - pytorch=1.13.0=py3.9_cuda11.6_cudnn8.3.2_0\n  - pip:\n    - --extra-index-url https://download.pytorch.org/whl/cu113\n"
        "    - nvidia-nccl-cu12==2.1\nvariables:\n  CUDA_VISIBLE_DEVICES: 0\n")
    assert [(f.rule, f.line) for f in requirements.find(text, "environment.yml", "anyaccel")] == [
        ("package-channel", 4), ("package-nvidia", 7), ("package-nvidia", 8), ("package-nvidia", 9), ("package-cuda-build", 10), ("package-index", 12),
        ("package-nvidia", 13), ("visible-devices", 15)]  # yapf: disable


def test_pyproject_and_setup_cfg():
    text = (
        '[project]\nname = "triton"\nkeywords = ["triton", "cuda"]\ndependencies = [\n  "torch==2.1.0+cu121", # x\n  "flash-attn>=2",\n  "numpy[all]>=1",\n]\n'
        '[project.optional-dependencies]\ngpu = ["cupy-cuda12x", "rich"]\n[tool.poetry.dependencies]\nbitsandbytes = "^0.41"\nnumpy = "*"\n'
        '[[tool.uv.index]]\nurl = "https://download.pytorch.org/whl/cu121"\n[tool.x]\ndevice = "cuda"\n')
    assert [(f.rule, f.line) for f in requirements.find(text, "pyproject.toml", "anyaccel")] == [
        ("package-cuda-build", 5), ("package-cuda-only", 6), ("package-extra", 10), ("package-cuda-only", 10), ("package-some-accelerators", 12), ("package-index", 15),
        ("config-device", 17)]  # yapf: disable
    text = "[metadata]\nname = flash-attn\n[options]\ninstall_requires =\n    torch\n    pynvml>=11\n[options.extras_require]\ngpu = cupy\n"
    assert [(f.rule, f.line) for f in requirements.find(text, "setup.cfg", "anyaccel")] == [("package-cuda-only", 6), ("package-extra", 8),
                                                                                            ("package-cuda-only", 8)]


# Fails if odd input raises anything.
@pytest.mark.parametrize(
    "text",
    ["", "\n", "'", '"', "$(", "<<EOF", "\\", "a" * 100_000, "\ufeffdevice: cuda", "[[[[", "}}}}", "\x00", "- - - -", "'a\n\"b\n#"])
def test_odd(text):
    for module, file in ((shell, "a.sh"), (config, "a.yaml"), (config, "a.toml"), (requirements, "requirements.txt"), (requirements, "environment.yml"),
                         (requirements, "pyproject.toml"), (requirements, "setup.cfg")):  # yapf: disable
        module.fix(text, module.find(text, file, "anyaccel"), "anyaccel")
