"""Names of packages and addresses of package indexes that belong to CUDA."""

from __future__ import annotations

import re

from .rules import BY_ID, Rule

_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?P<extras>\[[^\]]*\])?"
    r"\s*(?P<rest>(?:[=<>!~;@(,^*]|\s+@|\s+if\b).*)?$", re.S)
_ONLY = frozenset(
    ("pynvml", "nvidia-ml-py", "nvidia-ml-py3", "py3nvml", "cupy", "flash-attn", "flash-attn-3", "apex", "transformer-engine",
     "tensorrt", "torch-tensorrt", "pycuda", "cuda-python", "gpustat", "nvitop", "gputil", "faiss-gpu", "flashinfer",
     "flashinfer-python", "causal-conv1d", "mamba-ssm", "cudf", "cuml", "cugraph", "onnxruntime-gpu", "tensorflow-gpu", "deep-gemm",
     "nvtx", "spconv", "nvidia-dali", "tinycudann", "nvidia-pyindex", "rmm", "raft-dask", "tensorrt-llm", "pytorch-quantization",
     "nvtop", "ring-flash-attn", "sageattention", "vllm-flash-attn", "flash-mla", "quack-kernels",
     "nvidia-cutlass-dsl", "cuda-bindings"))
_SOME = frozenset(("triton", "pytorch-triton", "bitsandbytes", "xformers", "vllm"))
_LIGHTNING = frozenset(("pytorch-lightning", "lightning", "lightning-lite", "lightning-fabric"))
_BEFORE_2 = re.compile(r"(?:==|~=|<|<=|=)\s*[01]\.\d|<\s*2(?:\.0)*\s*(?:$|,)")
_CUDA = re.compile(r"nvidia-.*|cuda\d*|cuda-.*|cudatoolkit.*|cudnn\d*|nccl|pytorch-cuda|pytorch-gpu|magma-cuda\d+|"
                   r"libcu(?:da|blas|dnn|fft|rand|solver|sparse|file|pti).*|libnccl.*|"
                   r"libnv(?:jitlink|infer|jpeg|toolsext|vpi).*|cuda-toolkit.*")  # yapf: disable
INDEX = re.compile(r"https?://[^\s\"'\\,;)]*(?:(?:whl|nightly|wheels?)/(?:[\w.-]+/)*(?:cu\d{2,3}|cu\$\{?\w+|"
                   r"\$\{\{[^}\n]*cu[^}\n]*\}\}|\$\{?\w*(?:CU|cu)\w*\}?)|[+_-]cu\d{2,3}|"
                   r"developer\.download\.nvidia\.com|pypi\.(?:ngc\.)?nvidia\.com|"
                   r"/cuda|nvidia\.github\.io)[^\s\"'\\,;)]*")  # yapf: disable
REPOSITORY = re.compile(r"\bgithub\.com/(?:NVIDIA|Dao-AILab|state-spaces|deepseek-ai|NVlabs)/"
                        r"(?:apex|cutlass|TransformerEngine|flash-attention|mamba|causal-conv1d|"
                        r"nccl[\w-]*|TensorRT[\w-]*|DALI|DeepGEMM|FlashMLA|cuda-samples|gdrcopy|tiny-cuda-nn)\b(?:\.git)?")
# Names of extras that install CUDA packages.
EXTRA = re.compile(r"(?i)(?:.*[-_.])?(?:cuda[\d.x-]*|cu\d{2,3}|gpu|nvidia)(?:[-_.].*)?")
_EXTRAS = re.compile(r"\[([^\]]*)\]")
LOCAL = re.compile(r"\+(?:cu\d{2,3}|cuda)\w*")


def of(requirement: str) -> tuple[Rule, str | None] | None:
    """The rule for a requirement such as `torch==2.1.0+cu121`, and its replacement."""
    match = _REQUIREMENT.match(requirement)
    if match is None:
        local = re.match(r"\s*[.~/][\w./~-]*\[", requirement)  # a folder: .[cuda]
        return (BY_ID["package-extra"], None) if local and has_extra(requirement) else None
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    rest = match["rest"] or ""
    if name in _ONLY or re.search(r"-cu(?:da)?\d+x?$", name) and not name.startswith("nvidia-") or name.startswith("nvidia-dali"):
        return BY_ID["package-cuda-only"], None
    if name in _SOME:
        return BY_ID["package-some-accelerators"], None
    if name in _LIGHTNING and _BEFORE_2.search(rest) and ">" not in rest:
        return BY_ID["package-old-lightning"], None
    if _CUDA.fullmatch(name):
        return BY_ID["package-nvidia"], None
    if INDEX.search(rest):
        return BY_ID["package-index"], None
    if LOCAL.search(rest):
        return BY_ID["package-cuda-build"], LOCAL.sub("", requirement)
    if re.search(r"=[^=]*=.*cuda", rest):
        return BY_ID["package-cuda-build"], None
    return (BY_ID["package-extra"], None) if has_extra(match["extras"] or "") else None


def has_extra(requirement: str) -> bool:
    """Whether a requirement such as `jax[cuda12]` or `.[gpu]` selects an extra with CUDA packages."""
    extras = _EXTRAS.search(requirement)
    return extras is not None and any(EXTRA.fullmatch(extra.strip()) for extra in extras[1].split(","))
