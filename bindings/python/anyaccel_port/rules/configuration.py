"""Rules for shell scripts, Dockerfiles, configuration files and lists of packages.

Environment variables and NCCL have the rules of python.py.
"""

from .rule import Rule

SHELL = (
    Rule("nvidia-tool", "a command-line tool of NVIDIA", "none",
         ("shell:nvidia-smi", "shell:nvcc", "shell:nsys", "shell:nvprof", "shell:cuda-gdb", "shell:compute-sanitizer", "shell:cuda-memcheck",
          "shell:dcgmi", "shell:nvidia-docker", "shell:nvidia-ctk", "shell:cuobjdump", "shell:nvtop"), {},
         "Every vendor has its own tools. `anyaccel devices` lists the devices of any accelerator.", "nvidia-smi"),
    Rule("device-option", 'an option that names CUDA: "--device cuda"', "review", ("shell:--device cuda", "shell:--cuda", "shell:--no-cuda"), {},
         "The program's option must accept the names of other devices, or take its default from the accelerator.", "python train.py --device cuda"),
    Rule("backend-option", 'an option that names NCCL: "--backend nccl"', "review", ("shell:--backend nccl",), {},
         "The program's option must accept the names of other backends, or take its default from `communication_backend_name()`.",
         "python train.py --backend nccl"),
    Rule("container-gpus", "NVIDIA devices of a container", "review", ("shell:--gpus", "shell:--runtime=nvidia", "config:runtime: nvidia"), {},
         "Other vendors pass their devices with `--device`.", "docker run --gpus all IMAGE"),
    Rule("container-image", "a container image with CUDA", "review", ("shell:nvidia/cuda", "shell:nvcr.io", "config:image: nvidia/cuda"), {},
         "Use the image of the accelerator's vendor, or a plain image for the CPU.", "FROM nvidia/cuda:12.1.0-devel-ubuntu22.04"),
    Rule("cuda-installer", "an installer or a package source of NVIDIA", "none",
         ("shell:cuda-repo", "shell:cuda-keyring", "shell:nvidia-container-toolkit", "shell:NVIDIA-Linux", "shell:gpu_driver"), {},
         "Installs the CUDA toolkit, NVIDIA's driver or the runtime of its containers. Install the software of the accelerator's vendor instead.",
         "dpkg -i cuda-keyring_1.1-1_all.deb"),
    Rule("cuda-path", "a folder of the CUDA toolkit", "review", ("shell:/usr/local/cuda",), {}, "The folder exists only if the CUDA toolkit is installed.",
         "export PATH=/usr/local/cuda/bin:$PATH"),
    Rule("embedded-python", "torch.cuda in Python code of another file", "review", ("shell:torch.cuda",), {},
         "Port the Python code by hand: replace torch.cuda with get_accelerator().", 'python -c "import torch; print(torch.cuda.is_available())"'),
)

CONFIGURATION = (
    Rule("config-device", "the device cuda in a configuration file", "review", ("config:device: cuda",), {},
         "Programs can take the device from `get_accelerator().device_name()` if the setting is missing.", "device: cuda"),
    Rule("config-backend", "the backend nccl in a configuration file", "review", ("config:backend: nccl",), {},
         "Programs can take the backend from `get_accelerator().communication_backend_name()` if the setting is missing.", "backend: nccl"),
    Rule("config-switch", "a switch for CUDA in a configuration file", "review", ("config:use_cuda",), {},
         "The program must give the switch a meaning for other accelerators.", "use_cuda: true"),
    Rule("config-gpus", "settings of old versions of Lightning for GPUs", "review", ("config:gpus", "config:distributed_backend"), {},
         "Lightning 2 replaced `gpus` with `devices` and `accelerator: auto`, and `distributed_backend` with `strategy`.", "gpus: 2"),
    Rule("config-cuda-version", "versions of CUDA in a configuration file", "review", ("config:cuda-version",), {},
         "The setting selects builds for CUDA. Add the builds for other accelerators.", "cuda-version: [cu118, cu126]"),
    Rule("config-cuda-resource", "NVIDIA devices of a cluster", "review", ("config:nvidia.com/gpu",), {}, "Every vendor has its own resource name.",
         "nvidia.com/gpu: 1"),
)

PACKAGES = (
    Rule("package-nvidia", "a package of CUDA", "review",
         ("package:nvidia-*", "package:pytorch-cuda", "package:cudatoolkit", "package:cuda-*", "package:cudnn", "package:nccl"), {},
         "The package contains CUDA's libraries. torch's builds for other accelerators do not need it.", "nvidia-cublas-cu12==12.1.3.1"),
    Rule("package-cuda-build", "a build of torch for CUDA", "review", ("package:torch+cu10", "package:torch+cu11", "package:torch+cu12", "package:torch+cu13"), {},
         "The version names CUDA. Install the build for the accelerator from the matching index.", "torch==2.1.0+cu121"),
    Rule("package-index", "torch's package index for CUDA", "review", ("package:whl",), {},
         "The index has builds for CUDA. Builds for other accelerators are in other indexes, those for the CPU in whl/cpu.",
         "--extra-index-url https://download.pytorch.org/whl/cu121"),
    Rule("package-channel", "the conda channel nvidia", "review", ("package:channel nvidia",), {}, "The channel has the packages of CUDA.", "- nvidia"),
    Rule("package-cuda-only", "a package that works only with CUDA", "none",
         tuple("package:" + n for n in ("pynvml", "ring-flash-attn", "sageattention", "nvidia-ml-py", "cupy", "flash-attn", "apex", "transformer_engine", "tensorrt", "torch-tensorrt", "pycuda",
                                        "cuda-python", "gpustat", "nvitop", "gputil", "faiss-gpu", "flashinfer", "causal_conv1d", "mamba-ssm", "cudf", "cuml",
                                        "onnxruntime-gpu", "tensorflow_gpu", "deep_gemm", "cugraph", "nvtx", "spconv", "dali", "tinycudann", "py3nvml")), {},
         "The package has kernels for CUDA only, or measures NVIDIA's devices. Make it optional.", "flash-attn==2.5.8"),
    Rule("package-some-accelerators", "a package that works with some accelerators", "review", tuple("package:" + n for n in ("triton", "bitsandbytes", "xformers", "vllm")), {},
         "The package supports a few accelerators, depending on its version. Make it optional.", "triton==2.1.0"),
    Rule("package-old-lightning", "a version of Lightning before 2.0", "review", ("package:pytorch-lightning", "package:lightning"), {},
         "Before version 2.0, `gpus` and the strategies were for CUDA and a few other accelerators. Newer versions take `accelerator`.",
         "pytorch-lightning==1.9.5"),
)  # yapf: disable

RULES = (*SHELL, *CONFIGURATION, *PACKAGES)
