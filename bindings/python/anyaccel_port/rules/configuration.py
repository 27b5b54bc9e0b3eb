"""Rules for shell scripts, Dockerfiles, configuration files and lists of packages.

Environment variables and NCCL have the rules of python.py.
"""

from .rule import Rule

SHELL = (
    Rule("nvidia-tool", "an NVIDIA command-line tool", "none",
         ("shell:nvidia-smi", "shell:nvcc", "shell:nsys", "shell:nvprof", "shell:cuda-gdb", "shell:compute-sanitizer", "shell:cuda-memcheck",
          "shell:dcgmi", "shell:nvidia-docker", "shell:nvidia-ctk", "shell:cuobjdump", "shell:nvtop"), {},
         "Each vendor has its own tools. `anyaccel devices` lists the devices of any accelerator.", "nvidia-smi"),
    Rule("device-option", 'an option that names CUDA: "--device cuda"', "review", ("shell:--device cuda", "shell:--cuda", "shell:--no-cuda"), {},
         "The option must accept the names of other devices, or take its default from the accelerator.", "python train.py --device cuda"),
    Rule("backend-option", 'an option that names NCCL: "--backend nccl"', "review", ("shell:--backend nccl",), {},
         "The option must accept the names of other backends, or take its default from `communication_backend_name()`.",
         "python train.py --backend nccl"),
    Rule("container-gpus", "an option that gives a container access to NVIDIA devices", "review", ("shell:--gpus", "shell:--runtime=nvidia", "config:runtime: nvidia"), {},
         "For other vendors, pass the devices with `--device`.", "docker run --gpus all IMAGE"),
    Rule("container-image", "a container image with CUDA", "review", ("shell:nvidia/cuda", "shell:nvcr.io", "config:image: nvidia/cuda"), {},
         "Use an image from the accelerator's vendor, or a plain image for the CPU.", "FROM nvidia/cuda:12.1.0-devel-ubuntu22.04"),
    Rule("cuda-installer", "an NVIDIA installer or package source", "none",
         ("shell:cuda-repo", "shell:cuda-keyring", "shell:nvidia-container-toolkit", "shell:NVIDIA-Linux", "shell:gpu_driver"), {},
         "This installs the CUDA toolkit, NVIDIA's driver or its container runtime. Install the software of the accelerator's vendor instead.",
         "dpkg -i cuda-keyring_1.1-1_all.deb"),
    Rule("cuda-path", "a folder of the CUDA toolkit", "review", ("shell:/usr/local/cuda",), {}, "The folder exists only if the CUDA toolkit is installed.",
         "export PATH=/usr/local/cuda/bin:$PATH"),
    Rule("embedded-python", "torch.cuda in Python code that is embedded in another file", "review", ("shell:torch.cuda",), {},
         "Port the Python code by hand: replace torch.cuda with get_accelerator().", 'python -c "import torch; print(torch.cuda.is_available())"'),
)

CONFIGURATION = (
    Rule("config-device", "the device cuda in a configuration file", "review", ("config:device: cuda",), {},
         "Programs can take the device from `get_accelerator().device_name()` if the setting is missing.", "device: cuda"),
    Rule("config-backend", "the backend nccl in a configuration file", "review", ("config:backend: nccl",), {},
         "Programs can take the backend from `get_accelerator().communication_backend_name()` if the setting is missing.", "backend: nccl"),
    Rule("config-switch", "a CUDA switch in a configuration file", "review", ("config:use_cuda",), {},
         "Decide what the switch means on other accelerators.", "use_cuda: true"),
    Rule("config-gpus", "GPU settings of Lightning 1", "review", ("config:gpus", "config:distributed_backend"), {},
         "Lightning 2 replaced `gpus` with `devices` and `accelerator: auto`, and `distributed_backend` with `strategy`.", "gpus: 2"),
    Rule("config-cuda-version", "CUDA versions in a configuration file", "review", ("config:cuda-version",), {},
         "The setting selects CUDA builds. Add builds for other accelerators.", "cuda-version: [cu118, cu126]"),
    Rule("config-cuda-resource", "a cluster resource for NVIDIA devices", "review", ("config:nvidia.com/gpu",), {}, "Each vendor has its own resource name.",
         "nvidia.com/gpu: 1"),
)

PACKAGES = (
    Rule("package-nvidia", "a CUDA package", "review",
         ("package:nvidia-*", "package:pytorch-cuda", "package:cudatoolkit", "package:cuda-*", "package:cudnn", "package:nccl"), {},
         "The package contains CUDA libraries. torch's builds for other accelerators do not need it.", "nvidia-cublas-cu12==12.1.3.1"),
    Rule("package-cuda-build", "a CUDA build of torch", "review", ("package:torch+cu10", "package:torch+cu11", "package:torch+cu12", "package:torch+cu13"), {},
         "The version selects a CUDA build. Install the accelerator's build from the matching index.", "torch==2.1.0+cu121"),
    Rule("package-extra", "an extra that installs CUDA packages", "review", ("package:extra cuda", "shell:pip install x[cuda]", "shell:--extra gpu"), {},
         "Other accelerators need other packages. Add an extra for each accelerator, and let the user select it.",
         "jax[cuda12]"),
    Rule("package-index", "torch's package index for CUDA", "review", ("package:whl",), {},
         "The index has CUDA builds. Builds for other accelerators are in other indexes; CPU builds are in whl/cpu.",
         "--extra-index-url https://download.pytorch.org/whl/cu121"),
    Rule("package-channel", "the conda channel nvidia", "review", ("package:channel nvidia",), {}, "The channel provides CUDA packages.", "- nvidia"),
    Rule("package-cuda-only", "a package that works only with CUDA", "none",
         tuple("package:" + n for n in ("pynvml", "ring-flash-attn", "sageattention", "nvidia-ml-py", "cupy", "flash-attn", "apex", "transformer_engine", "tensorrt", "torch-tensorrt", "pycuda",
                                        "cuda-python", "gpustat", "nvitop", "gputil", "faiss-gpu", "flashinfer", "causal_conv1d", "mamba-ssm", "cudf", "cuml",
                                        "onnxruntime-gpu", "tensorflow_gpu", "deep_gemm", "cugraph", "nvtx", "spconv", "dali", "tinycudann", "py3nvml")), {},
         "The package has kernels only for CUDA, or monitors only NVIDIA devices. Make it optional.", "flash-attn==2.5.8"),
    Rule("package-some-accelerators", "a package that works with some accelerators", "review", tuple("package:" + n for n in ("triton", "bitsandbytes", "xformers", "vllm")), {},
         "The package supports only a few accelerators, depending on its version. Make it optional.", "triton==2.1.0"),
    Rule("package-old-lightning", "a version of Lightning before 2.0", "review", ("package:pytorch-lightning", "package:lightning"), {},
         "Before version 2.0, `gpus` and the strategies supported only CUDA and a few other accelerators. Newer versions have `accelerator`.",
         "pytorch-lightning==1.9.5"),
)  # yapf: disable

RULES = (*SHELL, *CONFIGURATION, *PACKAGES)
