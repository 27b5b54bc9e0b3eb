"""Rules for libraries, their settings and build scripts in Python programs."""

from .rule import Rule

LIBRARIES = (
    Rule("nvidia-tools", "a command of NVIDIA", "none", ("command:nvidia-smi", "command:nvcc"), {},
         "The command exists only for NVIDIA's devices. `python -m anyaccel` reports the devices of every accelerator.",
         'subprocess.run(["nvidia-smi"])'),
    Rule(
        "pynvml", "pynvml", "none",
        ("pynvml", "pynvml.*", "nvidia_smi", "py3nvml", "py3nvml.*", "GPUtil", "GPUtil.*", "nvitop", "gpustat"), {},
        "NVIDIA's management library. `get_accelerator().memory_info()`, `device_properties()` and `device_count()` cover its "
        "most frequent uses.", "import pynvml"),
    Rule(
        "triton", "Triton kernels", "none", ("triton", "triton.*"), {},
        "Triton runs on some accelerators only. Guard the import with `get_accelerator().is_triton_supported()` and keep a path "
        "without it.", "import triton"),
    Rule(
        "cuda-extension", "CUDAExtension and CUDA_HOME", "review",
        ("torch.utils.cpp_extension.CUDAExtension", "torch.utils.cpp_extension.CUDA_HOME",
         "torch.utils.cpp_extension.include_paths:cuda"), {},
        "Kernels for CUDA. With AnyAccel, describe the op in a `.op` file with sources for each accelerator, or use an op builder.",
        "CUDAExtension('op', ['op.cu'])"),
    Rule(
        "cuda-library", "a library that works only with CUDA", "none",
        tuple(n for m in ("flash_attn", "flash_attn_interface", "flash_attn_2_cuda", "flash_attn_3", "ring_flash_attn",
                          "sageattention", "block_sparse_attn", "flash_mla", "vllm_flash_attn", "apex", "transformer_engine",
                          "cupy", "numba.cuda", "pycuda", "cuda", "tensorrt", "torch_tensorrt", "deep_gemm", "flashinfer",
                          "causal_conv1d", "mamba_ssm", "faiss.StandardGpuResources", "nvidia.dali", "cudf", "cuml", "cugraph",
                          "tinycudann", "dask_cuda", "lightning.fabric.accelerators.CUDAAccelerator",
                          "lightning.pytorch.accelerators.CUDAAccelerator", "pytorch_lightning.accelerators.CUDAAccelerator",
                          "spconv", "MinkowskiEngine", "pytorch3d._C", "nvtx") for n in (m, m + ".*")), {},
        "The library has kernels for CUDA only. Keep a path without it, for example torch's scaled_dot_product_attention.",
        "import flash_attn"),
    Rule("cuda-runtime", "calls of the CUDA runtime or of NVML", "none", ("call:cudaMalloc", "string:libcudart.so"), {},
         "The function or library is a part of CUDA.", 'ctypes.CDLL("libcudart.so").cudaDeviceSynchronize()'),
    Rule(
        "bitsandbytes", "bitsandbytes", "review", ("bitsandbytes", "bitsandbytes.*"), {},
        "bitsandbytes supports a few other accelerators, depending on its version. Keep a path without it, such as "
         "torch.optim.AdamW.",
        "import bitsandbytes"),
    Rule(
        "bitsandbytes-quantization", "quantization with bitsandbytes", "review",
        ("string:load_in_4bit", "string:load_in_8bit", "call:BitsAndBytesConfig"), {},
        "transformers and diffusers quantize with bitsandbytes, which supports a few accelerators. Make the quantization optional.",
        "config = BitsAndBytesConfig(load_in_4bit=True)"),
    Rule("bitsandbytes-optimizer", "an optimizer of bitsandbytes", "review",
         ("string:paged_adamw", "string:adamw_bnb_8bit", "string:adamw_8bit", "string:rmsprop_bnb", "string:lion_8bit"), {},
         "The name selects an optimizer of bitsandbytes, which supports a few accelerators. `adamw_torch` works on all of them.",
         'args = TrainingArguments(optim="paged_adamw_32bit")'),
    Rule("flash-attention-setting", 'the attention implementation "flash_attention_2"', "review",
         ("string:flash_attention_2", "string:flash_attention_3"), {},
         'The name selects a package with kernels for CUDA. `attn_implementation="sdpa"` works on every accelerator.',
         'model = load(attn_implementation="flash_attention_2")'),
    Rule("hub-kernels", "kernels of the library `kernels`", "review", ("kernels", "kernels.*"), {},
         "The library downloads kernels that are built for single accelerators. Keep a path without them.",
         "from kernels import get_kernel"),
    Rule("device-specific-op", "an internal op of torch that only some devices have", "review",
         ("torch._scaled_mm", "torch.ops.aten._scaled_mm", "torch.ops.aten._weight_int4pack_mm",
          "torch.ops.aten._convert_weight_to_int4pack", "torch._weight_int4pack_mm", "torch._convert_weight_to_int4pack"), {},
         "torch implements this op for a few devices. Keep a path with public ops.",
         "y = torch._scaled_mm(a, b, scale_a, scale_b)"),
    Rule("xformers", "xFormers", "review", ("xformers", "xformers.*", "method:enable_xformers_memory_efficient_attention",
                                            "method:set_use_memory_efficient_attention_xformers"), {},
         "xFormers has kernels for a few accelerators. torch's scaled_dot_product_attention works on all of them.",
         "import xformers"),
    Rule("vllm", "vLLM", "review", ("vllm", "vllm.*"), {},
         "vLLM has a build for each accelerator that it supports, and workers of its own for each. Make it optional.",
         "import vllm"),
    Rule(
        "ray-gpus", "GPUs of Ray", "review", ("ray:num_gpus", "ray:placement_group", "ray:use_gpu"), {},
        "Ray counts GPUs of several vendors as the resource GPU; other accelerators are custom resources such as NPU or HPU, which "
        "`resources=` requests.", "import ray\n@ray.remote(num_gpus=1)\ndef train(): ..."),
    Rule(
        "lightning-gpus", "arguments of Lightning for GPUs", "review",
        ("lightning:gpus", "lightning:distributed_backend", "lightning:auto_select_gpus"), {},
        "Lightning 2 replaced these arguments with `devices`, `strategy` and `accelerator`. `accelerator=\"auto\"` "
         "chooses any accelerator.",
        "import pytorch_lightning\ntrainer = pytorch_lightning.Trainer(gpus=2)"),
)

BUILD = (Rule(
    "build-flavor", 'the string "cuda" in a build script', "review", ("string:cuda in setup.py", ), {},
    "The string probably selects which sources are built. Add a flavor for each accelerator that the package has kernels for.",
    "suffixes = ['cpu', 'cuda']"), )

RULES = (*LIBRARIES, *BUILD)
