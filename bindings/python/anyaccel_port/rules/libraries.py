"""Rules for libraries, their settings and build scripts in Python programs."""

from .rule import ANYACCEL, Rule

LIBRARIES = (
    Rule("nvidia-tools", "an NVIDIA command-line tool", "review", ("command:nvidia-smi", "command:nvcc"), {ANYACCEL: '"anyaccel", "report"'},
         "The tool works only with NVIDIA devices. `anyaccel report` describes the devices of any accelerator.",
         'subprocess.run(["nvidia-smi"])', 'subprocess.run(["anyaccel", "report"])'),
    Rule(
        "pynvml", "pynvml", "none",
        ("pynvml", "pynvml.*", "nvidia_smi", "py3nvml", "py3nvml.*", "GPUtil", "GPUtil.*", "nvitop", "gpustat"), {},
        "pynvml wraps NVIDIA's management library. `get_accelerator().memory_info()`, `device_properties()` and `device_count()` cover "
        "its most common uses.", "import pynvml"),
    Rule(
        "triton", "Triton kernels", "none", ("triton", "triton.*"), {},
        "Triton runs only on some accelerators. Guard the import with `get_accelerator().is_triton_supported()` and provide a "
        "fallback.", "import triton"),
    Rule(
        "cuda-extension", "CUDAExtension and CUDA_HOME", "review",
        ("torch.utils.cpp_extension.CUDAExtension", "torch.utils.cpp_extension.CUDA_HOME",
         "torch.utils.cpp_extension.include_paths:cuda"), {},
        "CUDAExtension builds CUDA kernels. With AnyAccel, describe the op in a `.op` file with sources for each accelerator, or "
        "use an op builder.",
        "torch.utils.cpp_extension.CUDAExtension('op', ['op.cpp'])"),
    Rule(
        "cuda-source", "a CUDA file in a list of sources", "review", ("string:x.cu", ), {},
        "Only CUDA's compiler builds .cu files. Put kernels for other accelerators in separate files, and select the files "
        "by accelerator.", "sources = ['op.cpp', 'op_kernel.cu']"),
    Rule(
        "cuda-library", "a library that works only with CUDA", "none",
        tuple(n for m in ("flash_attn", "flash_attn_interface", "flash_attn_2_cuda", "flash_attn_3", "ring_flash_attn",
                          "sageattention", "block_sparse_attn", "flash_mla", "vllm_flash_attn", "apex", "transformer_engine",
                          "cupy", "numba.cuda", "pycuda", "cuda", "tensorrt", "torch_tensorrt", "deep_gemm", "flashinfer",
                          "causal_conv1d", "mamba_ssm", "faiss.StandardGpuResources", "nvidia.dali", "cudf", "cuml", "cugraph",
                          "tinycudann", "dask_cuda", "lightning.fabric.accelerators.CUDAAccelerator",
                          "lightning.pytorch.accelerators.CUDAAccelerator", "pytorch_lightning.accelerators.CUDAAccelerator",
                          "spconv", "MinkowskiEngine", "pytorch3d._C", "nvtx") for n in (m, m + ".*")), {},
        "The library has kernels only for CUDA. Provide a fallback, such as torch's scaled_dot_product_attention.",
        "import flash_attn"),
    Rule("cuda-runtime", "calls of the CUDA runtime or of NVML", "none", ("call:cudaMalloc", "string:libcudart.so"), {},
         "The function or library is part of CUDA.", 'ctypes.CDLL("libcudart.so").cudaDeviceSynchronize()'),
    Rule(
        "bitsandbytes", "bitsandbytes", "review", ("bitsandbytes", "bitsandbytes.*"), {},
        "bitsandbytes supports a few other accelerators, depending on its version. Provide a fallback, such as "
        "torch.optim.AdamW.",
        "import bitsandbytes"),
    Rule(
        "bitsandbytes-quantization", "quantization with bitsandbytes", "review",
        ("string:load_in_4bit", "string:load_in_8bit", "call:BitsAndBytesConfig"), {},
        "bitsandbytes, which transformers and diffusers use here, supports only a few accelerators. Make quantization optional.",
        "config = BitsAndBytesConfig(load_in_4bit=True)"),
    Rule("bitsandbytes-optimizer", "a bitsandbytes optimizer", "review",
         ("string:paged_adamw", "string:adamw_bnb_8bit", "string:adamw_8bit", "string:rmsprop_bnb", "string:lion_8bit"), {},
         "The name selects a bitsandbytes optimizer, and bitsandbytes supports only a few accelerators. `adamw_torch` works on all of them.",
         'args = TrainingArguments(optim="paged_adamw_32bit")'),
    Rule("flash-attention-setting", 'the attention implementation "flash_attention_2"', "review",
         ("string:flash_attention_2", "string:flash_attention_3"), {},
         'The name selects a package with CUDA kernels. `attn_implementation="sdpa"` works on every accelerator.',
         'model = load(attn_implementation="flash_attention_2")'),
    Rule("hub-kernels", "kernels from the `kernels` library", "review", ("kernels", "kernels.*"), {},
         "The library downloads kernels that are built for specific accelerators. Provide a fallback.",
         "from kernels import get_kernel"),
    Rule("hub-kernel-name", "the name of a repository with CUDA kernels", "review",
         ("string:kernels-community", "string:flash-attn", "string:flash-attention"), {},
         "The repository contains kernels that are built for specific accelerators. Provide a fallback.",
         'name = "kernels-community/flash-attn3"'),
    Rule("tensorflow-gpu-options", "TensorFlow's options for GPUs", "review", ("attribute:gpu_options", ), {},
         "The options apply to CUDA devices, and to devices of other vendors only in their builds of TensorFlow.",
         "config.gpu_options.allow_growth = True"),
    Rule("device-specific-op", "an internal op of torch that only some devices have", "review",
         ("torch._scaled_mm", "torch.ops.aten._scaled_mm", "torch.ops.aten._weight_int4pack_mm",
          "torch.ops.aten._convert_weight_to_int4pack", "torch._weight_int4pack_mm", "torch._convert_weight_to_int4pack"), {},
         "torch implements this op only for a few devices. Provide a fallback that uses public ops.",
         "y = torch._scaled_mm(a, b, scale_a, scale_b)"),
    Rule("xformers", "xFormers", "review", ("xformers", "xformers.*", "method:enable_xformers_memory_efficient_attention",
                                            "method:set_use_memory_efficient_attention_xformers"), {},
         "xFormers has kernels for only a few accelerators. torch's scaled_dot_product_attention works on all of them.",
         "import xformers"),
    Rule("vllm", "vLLM", "review", ("vllm", "vllm.*"), {},
         "vLLM has a separate build, with its own worker classes, for each accelerator that it supports. Make it optional.",
         "import vllm"),
    Rule(
        "ray-gpus", "requests for Ray's GPU resource", "review", ("ray:num_gpus", "ray:placement_group", "ray:use_gpu"), {},
        "Ray counts the GPUs of several vendors as the GPU resource. Other accelerators are custom resources, such as NPU or HPU: "
        "request them with `resources=`.", "import ray\n@ray.remote(num_gpus=1)\ndef train(): ..."),
    Rule(
        "lightning-gpus", "Lightning's old GPU arguments", "review",
        ("lightning:gpus", "lightning:distributed_backend", "lightning:auto_select_gpus"), {},
        "Lightning 2 replaced these arguments with `devices`, `strategy` and `accelerator`. `accelerator=\"auto\"` "
        "selects whichever accelerator is available.",
        "import pytorch_lightning\ntrainer = pytorch_lightning.Trainer(gpus=2)"),
    Rule("lightning-accelerator", 'Lightning\'s accelerator "gpu"', "review", ("lightning:lightning", ), {},
         'Lightning selects CUDA or MPS for "gpu". `accelerator="auto"` selects whichever accelerator Lightning supports here.',
         'import lightning\ntrainer = lightning.Trainer(accelerator="gpu")'),
)

BUILD = (Rule(
    "build-flavor", 'the string "cuda" in a build script', "review", ("string:cuda in setup.py", ), {},
    "The string probably selects which sources are built. Add a flavor for each accelerator that the package has kernels for.",
    "suffixes = ['cpu', 'cuda']"), )

RULES = (*LIBRARIES, *BUILD)
