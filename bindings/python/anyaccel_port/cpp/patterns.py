"""What the C++ finder looks for: names, headers and conditions."""

from __future__ import annotations

import re

CANDIDATE = re.compile(
    r"""
    (?P<include>^[ \t]*\#[ \t]*include[ \t]*(?:<(?P<header>[^>\n]*)>|"[^"\n]*")) |
    (?P<condition>^[ \t]*\#[ \t]*(?:if|ifdef|ifndef|elif)\b[^\n]*) |
    (?P<using>\busing\s+namespace\s+(?:::)?(?:(?:at|c10|torch)::)?cuda\s*;) |
    (?P<kernel>\b__global__\b) |
    (?P<device>\b(?:__device__|__constant__|__managed__)\b) |
    (?P<launch><<<) |
    (?P<size>\bdim3\b) |
    (?P<intrinsic>\b(?:(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]|
        __(?:shfl\w*|syncthreads\w*|syncwarp|ballot\w*|any_sync|all_sync|activemask|ldg|threadfence\w*))\b) |
    (?P<version>\b(?:CUDA_VERSION|CUDART_VERSION|CUDNN_VERSION|__CUDA_ARCH__)\b) |
    (?P<method>(?:\.|->)\s*(?:is_)?cuda\s*\(\s*\)) |
    (?P<dispatch>\bTORCH_LIBRARY_IMPL\s*\(|\b(?:c10::|at::)?(?:DispatchKey|Backend)::(?:Autograd)?CUDA\b) |
    (?P<qualified>(?<![\w:])(?:::\s*)?(?:(?:at|c10|torch)::)?(?:cuda::\w+(?:::\w+)*|k(?:CUDA)\b|DeviceType::CUDA\b|hasCUDA\b|
        hasCuDNN\b|
        globalContext\(\)\.hasCUDA\b|CUDAGeneratorImpl\b|PhiloxCudaState\b)) |
    (?P<legacy>\b(?:at|torch)::CUDA\s*\(\s*(?:at|torch)::k\w+\s*\)|\b(?:at::|torch::)?(?:native::)?getCudnnHandle\b) |
    (?P<macro>\b(?:C10_CUDA_\w+|AT_CUDA_\w+|TORCH_CUDA_CHECK)\b) |
    (?P<bare>\b(?:(?:Optional|Multi|Optional)?CUDA(?:Guard|StreamGuard|MultiStreamGuard|Stream|Event|Graph)|
        OptionalCUDAStreamGuard|get(?:Current|Default)CUDAStream|setCurrentCUDAStream|
        getStreamFromPool|getStreamFromExternal|getDefaultCUDAGenerator|getCurrentDeviceProperties|getCurrentCUDA\w*Handle|
        CUDACachingAllocator(?:::\w+)?)\b) |
    (?P<runtime>\b(?:cuda(?:Malloc|Free|Mem|Stream|Event|Device|Get|Set|Success|Err|Peek|Host|Func|Launch|Occupancy|Graph|
        Ipc|Profiler|Array|Bind|Unbind|
        Create|Destroy|Driver|Runtime|Pointer|Thread|External|Import|Mip|DeviceProp|Dev|Make|Channel|DataType|Library|Kernel|
        Choose|Texture|Surface|Limit|Shared|Access|
        Trigger|GridDependency|Stream|Pitched|Extent|Pos|User|Configure|Setup|Signal|Wait|Reset|Compute|FilterMode|Address|
        Read)\w*
        |cuda_(?:runtime)_\w+) ) |
    (?P<driver>\b(?:cu(?:Init|Ctx[A-Z]|Device[A-Z]|Module[A-Z]|Launch[A-Z]|Mem[A-Z]|Func[A-Z]|Stream[A-Z]|Event[A-Z]|
        Link[A-Z]|Tensor[A-Z]|Get[A-Z]|Driver[A-Z]|
        Occupancy[A-Z]|Multicast[A-Z])\w*|CU(?:device|context|module|function|stream|event|deviceptr|result|tensorMap|
        array)\b|CUDA_(?:SUCCESS|ERROR_\w+))) |
    (?P<nccl>\bnccl[A-Z]\w*) |
    (?P<old>\bTHC(?:State|[Uu]da\w+|\w*(?:Malloc|Free|Check|Stream\w*))\b) |
    (?P<library>\b(?:cublas|cudnn|cufft|curand|cusparse|cusolver|cufile|nvml|nvtx|nvrtc|nvToolsExt)[A-Z]\w*)
    """, re.X | re.M)
CONDITION = re.compile(r"\b(__CUDACC__|__CUDA_ARCH__|__NVCC__|(?:USE|WITH|ENABLE|HAVE|BUILD|COMPILE|\w*_USE|"
                       r"\w*_WITH)_CUDA\w*|USE_C10D_NCCL|USE_NCCL|WITH_NCCL|"
                        r"CUDA(?:RT)?_VERSION|CUDNN_VERSION|"
                        r"__CUDA_\w+__|\w+_CUDA_ENABLED|USE_CUDNN|ENABLE_CUDNN|CUDA_ENABLED)\b")  # yapf: disable
TORCH_HEADER = re.compile(r"(?:ATen|c10|torch/csrc/api/include/torch|torch)/(?:native/)?(?:cuda|cudnn)[/.]|torch/cuda\.h|THC/")
CUDA_HEADER = re.compile(
    r"cuda(?:_(?:runtime|fp\d+|bf16|profiler_api|device_runtime|texture|surface|gl_|egl_|pipeline|awbarrier|occupancy|d3d|"
    r"vdpau)\w*)?\.h(?:pp)?|"
    r"cuda(?:Typedefs|Profiler|GL|D3D\w*)\.h|cu(?:blas|dnn|fft|rand|sparse|solver|file|pti|tensor)\w*\.h|(?:nvml|nvrtc|"
    r"nccl\w*|nvToolsExt\w*|nvfunctional|nvjpeg|nppi?)\.?h?|"
    r"(?:thrust|cub|cutlass|cute|nvtx3|cooperative_groups|crt|nccl)/.*|cooperative_groups\.h|device_launch_parameters\.h|"
    r"helper_(?:cuda|math)\.h|mma\.h|"
    r"(?:driver|vector|builtin|device)_types\.h|(?:math|device)_functions\.h|math_constants\.h|sm_\d+_\w+\.h\w*|"
    r"cudnn_frontend\w*\.h|cuda/(?:std/)?[\w/]+$")
CHECK = re.compile(r"(?i)\w*(?:check|cuda|errchk|safe|assert|try|throw|call)\w*")
# Every line in which CANDIDATE can match contains one of these words, in lowercase.
KEYS = ("cu", "thc", "<<<", "_device__", "_global__", "_constant__", "_managed__", "include", "nccl", "nv", "dim3", "threadidx",
        "blockidx", "blockdim", "griddim", "__shfl", "__sync", "__ballot", "__a", "__ldg", "__thread", "getstreamfrom",
        "getcurrentdevice")
