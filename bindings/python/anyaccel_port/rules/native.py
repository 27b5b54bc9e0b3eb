"""Rules for C++ and CUDA sources and for CMake.

C++ has no DeepSpeed accelerator, so `--to deepspeed` uses ATen's generic functions, as
`--to torch.accelerator` does. Besides the placeholders of rule.py, replacements of declarations
use {name}, the declared variable.
"""

from __future__ import annotations

from .rule import ANYACCEL, DEEPSPEED, TORCH, Rule

ACC = "anyaccel::get_accelerator()"
TYPE = "at::accelerator::getAccelerator(true).value()"
CURRENT = "at::accelerator::getDeviceIndex()"


def _to(anyaccel: str | None, torch: str | None) -> dict[str, str]:
    """Replacements by target. The ATen replacement is used for both other targets."""
    return {**({ANYACCEL: anyaccel} if anyaccel else {}), **({TORCH: torch, DEEPSPEED: torch} if torch else {})}


def _torch(*names: str) -> tuple[str, ...]:
    """The qualified names of members of c10::cuda, at::cuda and torch::cuda."""
    return tuple(f"c++:{space}::cuda::{name}" for name in names for space in ("c10", "at", "torch"))


def _cpp(*names: str) -> tuple[str, ...]:
    return tuple("c++:" + name for name in names)


_ATEN = (TORCH, DEEPSPEED)

DEVICES = (
    Rule("cpp-device-type", "torch::kCUDA", "equivalent",
         _cpp("torch::kCUDA", "at::kCUDA", "c10::kCUDA", "torch::DeviceType::CUDA", "at::DeviceType::CUDA", "c10::DeviceType::CUDA"),
         _to(ACC + ".device_type()", TYPE), "`device_type()` returns torch's type of the accelerator's devices.",
         "x = x.to(torch::kCUDA);", f"x = x.to({ACC}.device_type());"),
    Rule("cpp-device", "torch::Device(torch::kCUDA, index)", "equivalent", _cpp("torch::Device(torch::kCUDA, index)"),
         _to(ACC + ".torch_device({0})", "c10::Device(" + TYPE + ", {0})"),
         "`torch_device(i)` returns one device. It also handles devices without an index, such as cpu.",
         "torch::Device device(torch::kCUDA, 1);", f"torch::Device device = {ACC}.torch_device(1);"),
    Rule("cpp-device-string", 'the device name "cuda" in C++', "equivalent", ('c++:"cuda"',),
         _to(ACC + ".device_name({0})", "c10::Device(" + TYPE + ").str()"),
         "`device_name()` returns torch's name of the accelerator's device type, `device_name(i)` that of one device.",
         'torch::Device device("cuda");', f"torch::Device device({ACC}.device_name());"),
    Rule("cpp-device-choice", "the choice between torch::kCUDA and torch::kCPU", "equivalent",
         _cpp("torch::cuda::is_available() ? torch::kCUDA : torch::kCPU"),
         _to(ACC + ".device_type()", "at::accelerator::getAccelerator().value_or(c10::DeviceType::CPU)"),
         "get_accelerator() falls back to the CPU by itself.",
         "auto type = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;", f"auto type = {ACC}.device_type();"),
    Rule("cpp-device-comparison", "a comparison with CUDA", "review", _cpp("device == torch::kCUDA"), _to(ACC + ".device_type()", TYPE),
         "Decide whether the guarded code is for any accelerator or only for CUDA.",
         "if (x.device().type() == torch::kCUDA) f();", f"if (x.device().type() == {ACC}.device_type()) f();"),
    Rule("cpp-tensor-cuda", ".cuda() in C++", "equivalent", ("c++:method:cuda",), _to("{self}.to(" + ACC + ".torch_device())", "{self}.to(" + TYPE + ")"),
         "`.to(device)` does the same.", "x = x.cuda();", f"x = x.to({ACC}.torch_device());"),
    Rule("cpp-is-cuda", ".is_cuda() in C++", "review", ("c++:method:is_cuda",), _to(ACC + ".on_accelerator({self})", "(!{self}.is_cpu())"),
         "Decide whether the check is for any accelerator or only for CUDA. A check that guards a CUDA kernel must stay.",
         'TORCH_CHECK(x.is_cuda(), "x");', f'TORCH_CHECK({ACC}.on_accelerator(x), "x");'),
    Rule("cpp-dispatch-key", "a registration for the dispatch key CUDA", "review",
         _cpp("TORCH_LIBRARY_IMPL(ns, CUDA, m)", "c10::DispatchKey::CUDA", "at::Backend::CUDA"), {},
         "The implementation handles only CUDA tensors. Register it for other keys too, or for CompositeExplicitAutograd if it has no kernel of its own.",
         "TORCH_LIBRARY_IMPL(ns, CUDA, m) {}"),
)

GUARDS = (
    Rule("cpp-cuda-guard", "CUDAGuard with an index", "equivalent", _torch("CUDAGuard"),
         _to("auto {name} = " + ACC + ".device({0})", "c10::DeviceGuard {name}(c10::Device(" + TYPE + ", {0}))"),
         "`device(i)` makes a device current until the guard that it returns is destroyed.",
         "c10::cuda::CUDAGuard guard(0);", f"auto guard = {ACC}.device(0);"),
    Rule("cpp-cuda-guard-device", "CUDAGuard with a device", "equivalent", _cpp("c10::cuda::CUDAGuard(device)"),
         dict.fromkeys((ANYACCEL, TORCH, DEEPSPEED), "c10::DeviceGuard {name}({0})"), "c10::DeviceGuard does the same for every device type.",
         "c10::cuda::CUDAGuard guard(x.device());", "c10::DeviceGuard guard(x.device());"),
    Rule("cpp-optional-cuda-guard", "OptionalCUDAGuard", "equivalent", _torch("OptionalCUDAGuard"),
         dict.fromkeys((ANYACCEL, TORCH, DEEPSPEED), "c10::OptionalDeviceGuard"), "c10::OptionalDeviceGuard does the same for every device type.",
         "at::cuda::OptionalCUDAGuard guard(device_of(x));", "c10::OptionalDeviceGuard guard(device_of(x));"),
    Rule("cpp-stream-guard", "CUDAStreamGuard", "equivalent", _torch("CUDAStreamGuard"),
         _to("auto {name} = " + ACC + ".stream({0})", "c10::StreamGuard {name}({0})"),
         "`stream(s)` makes a stream current until the guard that it returns is destroyed. The stream must be ported too.",
         "auto stream = at::cuda::getCurrentCUDAStream();\nc10::cuda::CUDAStreamGuard guard(stream);",
         f"auto stream = {ACC}.current_stream();\nauto guard = {ACC}.stream(stream);"),
)

STREAMS = (
    Rule("cpp-current-stream", "getCurrentCUDAStream", "equivalent", _torch("getCurrentCUDAStream"),
         _to(ACC + ".current_stream({args})", "at::accelerator::getCurrentStream({args|" + CURRENT + "})"),
         "Returns the current stream. Code that passes it on as a cudaStream_t still works only with CUDA; `native_handle()` returns the vendor's handle.",
         "at::cuda::getCurrentCUDAStream().synchronize();", f"{ACC}.current_stream().synchronize();"),
    Rule("cpp-default-stream", "getDefaultCUDAStream", "equivalent", _torch("getDefaultCUDAStream"), _to(ACC + ".default_stream({args})", None),
         "Returns the default stream. ATen has no generic counterpart.",
         "at::cuda::getDefaultCUDAStream().synchronize();", f"{ACC}.default_stream().synchronize();"),
    Rule("cpp-set-stream", "setCurrentCUDAStream", "equivalent", _torch("setCurrentCUDAStream"),
         _to(ACC + ".set_stream({args})", "at::accelerator::setCurrentStream({args})"), "Makes a stream current on its device.",
         "auto stream = at::cuda::getCurrentCUDAStream();\nat::cuda::setCurrentCUDAStream(stream);",
         f"auto stream = {ACC}.current_stream();\n{ACC}.set_stream(stream);"),
    Rule("cpp-new-stream", "getStreamFromPool", "equivalent", _torch("getStreamFromPool"), _to(ACC + ".Stream()", None),
         "`Stream(index, priority)` creates a stream; lower numbers mean higher priority. ATen has no generic counterpart.",
         "auto stream = at::cuda::getStreamFromPool();", f"auto stream = {ACC}.Stream();"),
    Rule("cpp-stream-type", "CUDAStream", "equivalent", _torch("CUDAStream"), _to("anyaccel::Stream", "c10::Stream"),
         "The stream type. `native_handle()` replaces `stream()`.",
         "at::cuda::CUDAStream stream = at::cuda::getCurrentCUDAStream();", f"anyaccel::Stream stream = {ACC}.current_stream();"),
    Rule("cpp-event", "CUDAEvent", "equivalent", _torch("CUDAEvent"), _to("auto {name} = " + ACC + ".Event()", "c10::Event {name}(" + TYPE + ")"),
         "`Event(true)` creates an event that measures time. `wait(stream)` replaces `block(stream)`.",
         "at::cuda::CUDAEvent event;", f"auto event = {ACC}.Event();", review_for=_ATEN),
    Rule("cpp-graph", "CUDAGraph", "review", _torch("CUDAGraph"), _to("auto {name} = " + ACC + ".create_graph()", "at::accelerator::Graph {name}"),
         "`create_graph()` throws an error on devices without graphs.", "at::cuda::CUDAGraph graph;", f"auto graph = {ACC}.create_graph();"),
    Rule("cpp-external-stream", "getStreamFromExternal", "none", _torch("getStreamFromExternal"), {}, "Wraps a cudaStream_t of another library.",
         "at::cuda::getStreamFromExternal(s, 0);"),
)

FUNCTIONS = (
    Rule("cpp-is-available", "torch::cuda::is_available", "equivalent",
         (*_torch("is_available"), *_cpp("at::hasCUDA", "at::globalContext().hasCUDA")),
         _to(ACC + ".is_available()", "(at::accelerator::deviceCount() > 0)"), "Returns whether a device is usable.",
         "if (torch::cuda::is_available()) f();", f"if ({ACC}.is_available()) f();"),
    Rule("cpp-device-count", "torch::cuda::device_count", "equivalent", _torch("device_count", "getNumGPUs"),
         _to(ACC + ".device_count()", "at::accelerator::deviceCount()"), "Returns the number of devices that this process can use.",
         "auto count = torch::cuda::device_count();", f"auto count = {ACC}.device_count();"),
    Rule("cpp-current-device", "c10::cuda::current_device", "equivalent", _torch("current_device"),
         _to(ACC + ".current_device()", CURRENT), "Returns the index of the current device.",
         "auto index = c10::cuda::current_device();", f"auto index = {ACC}.current_device();"),
    Rule("cpp-set-device", "c10::cuda::set_device", "equivalent", _torch("set_device"),
         _to(ACC + ".set_device({args})", "at::accelerator::setDeviceIndex({args})"), "Makes a device current.",
         "c10::cuda::set_device(0);", f"{ACC}.set_device(0);"),
    Rule("cpp-exchange-device", "c10::cuda::ExchangeDevice, MaybeSetDevice and MaybeExchangeDevice", "review",
         _torch("ExchangeDevice", "MaybeExchangeDevice", "MaybeSetDevice"), _to(None, None),
         "Use a guard, which restores the device: c10::DeviceGuard or `device(i)`.", "c10::cuda::MaybeSetDevice(0);"),
    Rule("cpp-synchronize", "torch::cuda::synchronize", "equivalent", _torch("synchronize", "device_synchronize"),
         _to(ACC + ".synchronize({args})", "at::accelerator::synchronizeDevice({args|" + CURRENT + "})"), "Waits for a device, by default the current one.",
         "torch::cuda::synchronize();", f"{ACC}.synchronize();"),
    Rule("cpp-stream-synchronize", "c10::cuda::stream_synchronize", "review", _torch("stream_synchronize"), {},
         "Call `synchronize()` on the accelerator's stream.", "c10::cuda::stream_synchronize(s);"),
    Rule("cpp-manual-seed", "torch::cuda::manual_seed", "equivalent", _torch("manual_seed"), _to(ACC + ".manual_seed({args})", None),
         "Seeds the current device. In ATen, `torch::manual_seed()` seeds all devices.", "torch::cuda::manual_seed(1);", f"{ACC}.manual_seed(1);"),
    Rule("cpp-manual-seed-all", "torch::cuda::manual_seed_all", "equivalent", _torch("manual_seed_all"),
         _to(ACC + ".manual_seed_all({args})", "torch::manual_seed({args})"), "Seeds all devices. torch::manual_seed() seeds the CPU too.",
         "torch::cuda::manual_seed_all(1);", f"{ACC}.manual_seed_all(1);"),
    Rule("cpp-default-generator", "getDefaultCUDAGenerator", "equivalent", _torch("detail::getDefaultCUDAGenerator"),
         _to(ACC + ".default_generator({args})", "at::globalContext().defaultGenerator(c10::Device(" + TYPE + ", {args|" + CURRENT + "}))"),
         "Returns a device's default generator. Code that reads the Philox state still works only with CUDA.",
         "auto generator = at::cuda::detail::getDefaultCUDAGenerator();", f"auto generator = {ACC}.default_generator();"),
    Rule("cpp-generator-impl", "CUDAGeneratorImpl and the Philox state", "none", (*_torch("philox::unpack"), *_cpp("at::CUDAGeneratorImpl", "at::PhiloxCudaState")), {},
         "They hold the random number state of CUDA kernels.", "at::CUDAGeneratorImpl* g;"),
    Rule("cpp-device-properties", "getCurrentDeviceProperties and getDeviceProperties", "review",
         _torch("getCurrentDeviceProperties", "getDeviceProperties"), _to(ACC + ".device_properties({args})", None),
         "The properties have different names, such as `multi_processor_count` and `total_memory`. Numbers that the vendor does not report are -1.",
         "auto n = at::cuda::getCurrentDeviceProperties();", f"auto n = {ACC}.device_properties();"),
    Rule("cpp-empty-cache", "CUDACachingAllocator::emptyCache", "equivalent", _torch("CUDACachingAllocator::emptyCache"),
         _to(ACC + ".empty_cache()", "at::accelerator::emptyCache()"), "Returns unused cached memory to the driver.",
         "c10::cuda::CUDACachingAllocator::emptyCache();", f"{ACC}.empty_cache();"),
    Rule("cpp-reset-peak-stats", "CUDACachingAllocator::resetPeakStats", "equivalent", _torch("CUDACachingAllocator::resetPeakStats"),
         _to(ACC + ".reset_peak_memory_stats({args})", "at::accelerator::resetPeakStats({args})"), "Resets the peaks of the memory statistics.",
         "c10::cuda::CUDACachingAllocator::resetPeakStats(0);", f"{ACC}.reset_peak_memory_stats(0);"),
    Rule("cpp-memory-stats", "CUDACachingAllocator::getDeviceStats", "review", _torch("CUDACachingAllocator::getDeviceStats"),
         _to(ACC + ".allocator_stats({args})", "at::accelerator::getDeviceStats({args})"), "The result has different members, such as `allocated_bytes.current`.",
         "auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);", f"auto stats = {ACC}.allocator_stats(0);"),
    Rule("cpp-allocator", "CUDACachingAllocator", "none",
         _torch("CUDACachingAllocator", "CUDACachingAllocator::*", "getCUDADeviceAllocator", "getCurrentCUDABlasHandle", "CUDAPluggableAllocator::*"), {},
         "This is CUDA's caching allocator. To allocate memory, create a tensor with torch::empty().", "c10::cuda::CUDACachingAllocator::raw_alloc(4);"),
    Rule("cpp-library-handle", "handles of cuBLAS, cuSPARSE, cuSOLVER and cuDNN", "none",
         _torch("getCurrentCUDABlasHandle", "getCurrentCUDABlasLtHandle", "getCurrentCUDASparseHandle", "getCurrentCUDASolverDnHandle", "blas::*"), {},
         "The handles are for calls of NVIDIA libraries. Call ATen functions instead, such as at::matmul().", "at::cuda::getCurrentCUDABlasHandle();"),
    Rule("cpp-cudnn-available", "torch::cuda::cudnn_is_available", "none", (*_torch("cudnn_is_available"), *_cpp("at::hasCuDNN")), {},
         "Only CUDA has cuDNN. The result is false elsewhere.", "torch::cuda::cudnn_is_available();", harmless=True),
    Rule("cpp-cuda-other", "another member of c10::cuda or at::cuda", "review", _torch("*"), {},
         "No rule covers this member. Look for a generic counterpart in ATen or c10.", "at::cuda::warp_size();"),
    Rule("cpp-using", "using namespace at::cuda", "review", _cpp("using namespace at::cuda"), {},
         "Remove it after the names that it provides have been replaced.", "using namespace at::cuda;"),
    Rule("cpp-check-macro", "C10_CUDA_CHECK, AT_CUDA_CHECK and C10_CUDA_KERNEL_LAUNCH_CHECK", "none",
         _cpp("C10_CUDA_CHECK", "AT_CUDA_CHECK", "C10_CUDA_KERNEL_LAUNCH_CHECK"), {}, "Checks the result of a CUDA call. AnyAccel's methods throw exceptions instead.",
         "C10_CUDA_CHECK(status);"),
)

RUNTIME = (
    Rule("cpp-runtime-synchronize", "cudaDeviceSynchronize", "equivalent", _cpp("cudaDeviceSynchronize", "cudaThreadSynchronize"),
         _to(ACC + ".synchronize()", f"at::accelerator::synchronizeDevice({CURRENT})"),
         "Waits for the current device. The replacement throws an exception instead of returning an error code.", "cudaDeviceSynchronize();", f"{ACC}.synchronize();"),
    Rule("cpp-runtime-set-device", "cudaSetDevice", "equivalent", _cpp("cudaSetDevice"),
         _to(ACC + ".set_device({0})", "at::accelerator::setDeviceIndex({0})"), "Makes a device current. The replacement throws an exception instead of returning an error code.",
         "cudaSetDevice(0);", f"{ACC}.set_device(0);"),
    Rule("cpp-runtime-get-device", "cudaGetDevice", "equivalent", _cpp("cudaGetDevice"), _to("{*0} = " + ACC + ".current_device()", "{*0} = " + CURRENT),
         "Returns the index of the current device.", "cudaGetDevice(&i);", f"i = {ACC}.current_device();"),
    Rule("cpp-runtime-device-count", "cudaGetDeviceCount", "equivalent", _cpp("cudaGetDeviceCount"),
         _to("{*0} = " + ACC + ".device_count()", "{*0} = at::accelerator::deviceCount()"), "Returns the number of devices.",
         "cudaGetDeviceCount(&i);", f"i = {ACC}.device_count();"),
    Rule("cpp-host-register", "cudaHostRegister", "equivalent", _cpp("cudaHostRegister"), _to(ACC + ".register_host_memory({0}, {1})", None),
         "Pins host memory and registers it with the device. ATen has no generic counterpart.",
         "cudaHostRegister(p, n, cudaHostRegisterDefault);", f"{ACC}.register_host_memory(p, n);"),
    Rule("cpp-host-unregister", "cudaHostUnregister", "equivalent", _cpp("cudaHostUnregister"), _to(ACC + ".unregister_host_memory({0})", None),
         "Unregisters host memory.", "cudaHostUnregister(p);", f"{ACC}.unregister_host_memory(p);"),
    Rule("cpp-nvtx-push", "nvtxRangePush", "equivalent", _cpp("nvtxRangePush", "nvtxRangePushA"), _to(ACC + ".range_push({0})", None),
         "Opens a named range in the vendor's profiler. ATen has no generic counterpart; RECORD_FUNCTION marks a scope for torch's profiler.",
         'nvtxRangePushA("step");', f'{ACC}.range_push("step");'),
    Rule("cpp-nvtx-pop", "nvtxRangePop", "equivalent", _cpp("nvtxRangePop"), _to(ACC + ".range_pop()", None), "Closes the innermost range.",
         "nvtxRangePop();", f"{ACC}.range_pop();"),
    Rule("cpp-memory-info", "cudaMemGetInfo", "review", _cpp("cudaMemGetInfo"), {},
         "`memory_info()` returns the free and the total memory. In ATen, use at::accelerator::getMemoryInfo().", "cudaMemGetInfo(&free, &total);"),
    Rule("cpp-runtime-properties", "cudaGetDeviceProperties and cudaDeviceGetAttribute", "review",
         _cpp("cudaGetDeviceProperties", "cudaDeviceGetAttribute", "cudaDeviceProp"), {},
         "`device_properties()` has the properties that all vendors have.", "cudaGetDeviceProperties(&p, 0);"),
    Rule("cpp-host-memory", "cudaMallocHost and cudaHostAlloc", "review", _cpp("cudaMallocHost", "cudaHostAlloc", "cudaFreeHost"), {},
         "`pin_empty()` and `pin_memory()` return tensors in pinned memory.", "cudaMallocHost(&p, 4);"),
    Rule("cpp-runtime-memory", "cudaMalloc, cudaMemcpy and others", "none", _cpp("cudaMalloc*", "cudaFree*", "cudaMemcpy*", "cudaMemset*", "cudaMem*"), {},
         "These functions manage raw memory. Create tensors with torch::empty(), and copy them with copy_() or to().", "cudaMalloc(&p, 4);"),
    Rule("cpp-runtime-stream", "cudaStream_t, cudaStreamSynchronize and others", "review", _cpp("cudaStream*"), {},
         "The accelerator's `Stream()`, `current_stream()` and their methods replace these types and functions.", "cudaStreamSynchronize(s);"),
    Rule("cpp-runtime-event", "cudaEvent_t, cudaEventRecord and others", "review", _cpp("cudaEvent*"), {},
         "The accelerator's `Event()` and its methods replace these types and functions.", "cudaEventRecord(e, s);"),
    Rule("cpp-runtime-graph", "cudaGraph_t and others", "review", _cpp("cudaGraph*"), {},
         "The accelerator's `create_graph()` and `capture_to_graph()` replace these types and functions.", "cudaGraphLaunch(g, s);"),
    Rule("cpp-runtime-error", "cudaError_t, cudaGetLastError and others", "review", _cpp("cudaError*", "cudaSuccess", "cudaGetLastError", "cudaPeekAtLastError",
                                                                                   "cudaGetErrorString", "cudaGetErrorName"), {},
         "These handle the CUDA runtime's error codes. AnyAccel's methods throw exceptions instead.", "cudaGetLastError();"),
    Rule("cpp-runtime-other", "another part of the CUDA runtime", "none", _cpp("cuda*"), {}, "No rule covers this part of the CUDA runtime. It works only with CUDA.", "cudaFuncSetAttribute(f, a, 1);"),
    Rule("cpp-driver", "the CUDA driver API", "none", _cpp("cuInit", "cuLaunchKernel", "cuModule*", "cuCtx*", "cuMem*", "CUdevice", "CUdeviceptr"), {}, "The driver API works only with CUDA.", "cuInit(0);"),
    Rule("cpp-nccl", "NCCL in C++", "review", _cpp("nccl*"), {},
         "Use `anyaccel::comm`, or c10d with the backend that `communication_backend_name()` returns.", "ncclAllReduce(a, b, 1, t, o, c, s);"),
    Rule("cpp-thc", "THC, the CUDA library of old torch versions", "none", _cpp("THCState", "THCudaMalloc", "THCudaTensor*", "THCudaCheck"), {},
         "torch removed THC in version 1.11. Use ATen functions.", "THCState* state;"),
    Rule("cpp-library", "a call of an NVIDIA library in C++, such as cuBLAS, cuDNN, cuFFT or NVML", "none",
         _cpp("cublas*", "cudnn*", "cufft*", "curand*", "cusparse*", "cusolver*", "nvml*", "nvtx*", "nvrtc*"), {},
         "The library works only with CUDA. Call ATen functions, or an op with kernels for each accelerator.", "cublasSgemm(h);"),
)

KERNELS = (
    Rule("cpp-kernel", "a CUDA kernel (__global__)", "none", _cpp("__global__"), {},
         "A kernel needs a counterpart for each accelerator. Describe the op in a `.op` file with sources for each accelerator.",
         "__global__ void kernel(float* x) { x[threadIdx.x] = 0; }"),
    Rule("cpp-device-function", "a device function or variable (__device__, __constant__)", "none", _cpp("__device__", "__constant__", "__managed__"), {},
         "This is CUDA device code. Port it together with the kernels that use it.", "__device__ float square(float x) { return x * x; }"),
    Rule("cpp-kernel-launch", "a kernel launch (<<<...>>>)", "none", _cpp("<<<>>>", "cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelEx*"), {},
         "Only CUDA and HIP compilers know this syntax. Call the op instead of its kernel.", "kernel<<<1, 32>>>(x);"),
    Rule("cpp-launch-size", "a launch size (dim3)", "none", _cpp("dim3"), {}, "dim3 is CUDA's type for grid and block sizes. Port it together with the kernel launches.",
         "dim3 block(32, 8);"),
    Rule("cpp-intrinsic", "built-in variables and functions of CUDA device code", "none",
         _cpp("threadIdx", "blockIdx", "blockDim", "gridDim", "__syncthreads", "__syncwarp", "__shfl_sync", "__ballot_sync", "__ldg"), {},
         "This is CUDA device code. Port it together with the kernels that use it.", "int i = blockIdx.x * blockDim.x + threadIdx.x;"),
    Rule("cpp-cuda-version", "a CUDA version macro (CUDA_VERSION)", "none", _cpp("CUDA_VERSION", "CUDART_VERSION", "CUDNN_VERSION", "__CUDA_ARCH__"), {},
         "The macro holds the version of CUDA or cuDNN, or the architecture that the code is compiled for.", "int version = CUDA_VERSION;"),
    Rule("cpp-include", "one of torch's CUDA headers", "equivalent", _cpp("#include <ATen/cuda/*>", "#include <c10/cuda/*>", "#include <torch/cuda.h>"),
         _to("#include <anyaccel/accelerator.h>", "#include <ATen/DeviceAccelerator.h>"),
         "The include is replaced when nothing in the file needs it any more.",
         "#include <c10/cuda/CUDAGuard.h>", "#include <anyaccel/accelerator.h>"),
    Rule("cpp-include-cuda", "a CUDA toolkit header", "none", _cpp("#include <cuda*.h>"), {},
         "Remove it together with the code that uses it.", "#include <cuda_runtime.h>"),
    Rule("cpp-macro", "a macro that uses CUDA", "review", _cpp("#define CUDA"), {}, "Each use of the macro depends on CUDA. Port the macro's body.",
         "#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda())"),
    Rule("cpp-condition", "code that is compiled only for CUDA", "review", _cpp("#ifdef __CUDACC__"), {},
         "Check that the code for other devices, if any, is complete.", "#ifdef WITH_CUDA", harmless=True),
)

CMAKE = (
    Rule("cmake-language", "CUDA as a CMake language", "review", ("cmake:enable_language(CUDA)", "cmake:project(LANGUAGES CUDA)", "cmake:check_language(CUDA)"),
         {}, "Enable the language only if CUDA kernels are built.", "enable_language(CUDA)"),
    Rule("cmake-package", "a CUDA package in CMake", "review",
         ("cmake:find_package(CUDA)", "cmake:find_package(CUDAToolkit)", "cmake:CUDNN", "cmake:NCCL"), {},
         "Look for the package only if CUDA kernels are built. find_package(anyaccel) finds AnyAccel.", "find_package(CUDAToolkit REQUIRED)"),
    Rule("cmake-target", "a target built for CUDA", "none", ("cmake:cuda_add_library", "cmake:cuda_add_executable", "cmake:CUDA::*", "cmake:torch_cuda"), {},
         "The target contains or links to CUDA code.", "target_link_libraries(app PRIVATE CUDA::cudart)"),
    Rule("cmake-variable", "a CMake variable or property for CUDA", "review", ("cmake:CMAKE_CUDA_*", "cmake:CUDA_*"), {},
         "The setting has no effect on other accelerators.", "set(CMAKE_CUDA_ARCHITECTURES 80)", harmless=True),
    Rule("cmake-source", "a CUDA source in CMake", "none", ("cmake:CUDA source",), {}, "The source contains CUDA kernels. Build it only for CUDA.",
         "add_library(ops ops.cu)"),
)

RULES = (*DEVICES, *GUARDS, *STREAMS, *FUNCTIONS, *RUNTIME, *KERNELS, *CMAKE)

# Equivalent only if the result is unused: the original returns an error code, the replacement
# throws.
STATEMENTS = frozenset(("cpp-runtime-synchronize", "cpp-runtime-set-device", "cpp-runtime-get-device", "cpp-runtime-device-count", "cpp-host-register",
                        "cpp-host-unregister", "cpp-nvtx-push", "cpp-nvtx-pop"))  # yapf: disable
