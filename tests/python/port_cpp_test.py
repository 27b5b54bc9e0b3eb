"""`anyaccel port` on C++, CUDA and CMake sources."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))
pytest.importorskip("tree_sitter_cuda", reason="tree-sitter-cuda is not installed")
pytest.importorskip("tree_sitter_cmake", reason="tree-sitter-cmake is not installed")

from anyaccel_port import cmake, cpp
from anyaccel_port.findings import SourceError
from anyaccel_port.rules import BY_ID, native

ACC = "anyaccel::get_accelerator()"


def found(code, target="anyaccel", file="a.cpp"):
    """(rule, severity, text) of each finding."""
    return [(f.rule, f.severity, f.text) for f in cpp.find(code, file, target)]


def fixed(code, target="anyaccel", file="a.cpp"):
    """The code after the fixes of equivalent findings; a second run must find nothing to fix."""
    equivalent = lambda text: [f for f in cpp.find(text, file, target) if f.severity == "equivalent" and f.edits]
    result = cpp.fix(code, equivalent(code), target)
    assert equivalent(result) == []
    return result


def in_function(code):
    return "void example(at::Tensor x, int i, void* p, long n) {\n" + code + "\n}\n"


def body(code, target="anyaccel"):
    """The fixed form of statements."""
    result = fixed(in_function(code), target)
    return result[result.index("{\n") + 2:result.rindex("\n}")]


# Fails if a rule's example is not found, or its replacement differs from the example.
@pytest.mark.parametrize("rule", [r for r in native.RULES if r.id.startswith("cpp-")], ids=lambda r: r.id)
def test_examples(rule):
    plain = rule.before.startswith(("#", "using", "TORCH_LIBRARY", "__"))
    code = rule.before + "\n" if plain else in_function(rule.before)
    assert rule.id in [r for r, _, _ in found(code)]
    if rule.severity == "equivalent":
        assert rule.after
        assert rule.after in (fixed(rule.before +
                                    "\nvoid f() { c10::cuda::CUDAGuard g(0); }\n") if rule.id == "cpp-include" else fixed(code))
    for finding in cpp.find(code, "a.cpp", "anyaccel"):
        assert code[finding.start:finding.end] == finding.text


# Fails if an example of CMake is not found.
@pytest.mark.parametrize("rule", native.CMAKE, ids=lambda r: r.id)
def test_cmake_examples(rule):
    assert [(f.rule, f.text) for f in cmake.find(rule.before + "\n", "CMakeLists.txt", "anyaccel")] == [(rule.id, rule.before)]


# Fails if comments or texts are taken for code, or a name inside a longer one matches.
@pytest.mark.parametrize("code", [
    "// torch::kCUDA\n/* c10::cuda::CUDAGuard g(0); */\n",
    'const char* s = "torch::kCUDA and cudaMalloc";\n',
    'auto s = R"(cudaMalloc(&p, 1);)";\n',
    "int my_cudaMalloc = 0; int cudaish = 1; bool cuda = x.cuda_ready();\n",
    "void cuda_helper(); int n = f(1'000'000, 'c');\n",
    '#include "my_cuda_utils.h"\n#include <torch/extension.h>\n',
    "struct CUDAGuard { CUDAGuard(int); };\nvoid f() { CUDAGuard g(0); }\n",
    "template <class T> int kernel(vector<vector<int>> a) { return a << 3; }\n",
    "enum { kCUDA };\nint f() { return kCUDA; }\n",
    "x.to(torch::kCPU);\n",
])
def test_not_found(code):
    assert found(code) == []


# Fails if a kernel gives more than one finding, or replacements are applied in a file with kernels.
def test_kernel_file():
    code = ("#include <cuda_runtime.h>\n"
            "template <typename T> __global__ void __launch_bounds__(256) scale(T* x) {\n"
            "  extern __shared__ float s[]; atomicAdd(x, threadIdx.x); __syncthreads(); cudaDeviceSynchronize();\n}\n"
            "static __device__ __forceinline__ float square(float x) { return x * x; }\n"
            "void run(at::Tensor x) {\n"
            "  at::cuda::CUDAGuard guard(x.device());\n"
            "  scale<float><<<dim3(1, 2), 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>());\n"
            "  C10_CUDA_KERNEL_LAUNCH_CHECK();\n}\n")
    rules = [(rule, severity) for rule, severity, _ in found(code, file="a.cu")]
    assert rules == [("cpp-include-cuda", "none"), ("cpp-kernel", "none"), ("cpp-device-function", "none"), ("cpp-cuda-guard-device", "review"),
                     ("cpp-kernel-launch", "none"), ("cpp-check-macro", "none")]  # yapf: disable
    assert fixed(code, file="a.cu") == code
    texts = [text for _, _, text in found(code, file="a.cu")]
    assert texts[2] == "static __device__ __forceinline__ float square(float x)"
    assert texts[4].startswith("scale<float><<<") and texts[4].endswith("(x.data_ptr<float>())")


# Fails if each use of a macro is reported, instead of its definition alone.
def test_macro():
    code = ('#define CHECK_CUDA(x) \\\n  TORCH_CHECK(x.is_cuda(), \\\n    "CUDA")\n'
            "#define CHECK_INPUT(x) CHECK_CUDA(x)\n"
            "void f(at::Tensor a, at::Tensor b) { CHECK_CUDA(a); CHECK_INPUT(b); }\n")
    assert [(rule, text.count("\n")) for rule, _, text in found(code)] == [("cpp-macro", 2)]


# Fails if sizes of launches, device code in macros or versions of CUDA are missed, or names of the
# program are taken for them.
def test_device_code():
    code = (
        "#if CUDA_VERSION >= 11000\n#endif\ninline dim3 blocks(int n) {\n  dim3 size(n, 1);\n  return size;\n}\n"
        "#define SHUFFLE __shfl_up_sync\n#define LOOP(i) for (int i = blockIdx.x * blockDim.x + threadIdx.x;;)\nint version() { return CUDA_VERSION; }\n")
    assert [(rule, text) for rule, _, text in found(code)] == [
        ("cpp-condition", "#if CUDA_VERSION >= 11000"), ("cpp-launch-size", "dim3"), ("cpp-launch-size", "dim3"), ("cpp-macro", "#define SHUFFLE __shfl_up_sync"),
        ("cpp-macro", "#define LOOP(i) for (int i = blockIdx.x * blockDim.x + threadIdx.x;;)"), ("cpp-cuda-version", "CUDA_VERSION")]  # yapf: disable
    code = "struct A {\n  CUTLASS_DEVICE int f() { __syncthreads(); return threadIdx.x; }\n  CUTLASS_DEVICE void g() { __syncwarp(); }\n};\n"
    assert [(rule, text) for rule, _, text in found(code)] == [("cpp-intrinsic", "__syncthreads"), ("cpp-intrinsic", "__syncwarp")]
    assert found("struct dim3 { int x; };\nvoid f(dim3 d);\nint blockIdx = 0;\nint my_CUDA_VERSION = 1;\n") == []


# Fails if a macro of several lines with Windows' line ends is cut, or a form feed counts as a line.
def test_lines():
    code = "#define CHECK(x) \\\r\n  x.is_cuda() \\\r\n  ;\r\n\f\r\nvoid f() { cudaFree(0); }\r\n"
    assert [(f.rule, f.line, f.text.count("\n")) for f in cpp.find(code, "a.cpp", "anyaccel")] == [("cpp-macro", 1, 2), ("cpp-runtime-memory", 5, 0)]


# Fails if statements are not replaced as in AnyAccel's and ATen's headers.
@pytest.mark.parametrize("before, anyaccel, torch", [
    ("const at::cuda::CUDAGuard g(x.device());", "const c10::DeviceGuard g(x.device());", "const c10::DeviceGuard g(x.device());"),
    ("const c10::cuda::CUDAGuard g{x.get_device()};", f"const auto g = {ACC}.device(x.get_device());",
     "const c10::DeviceGuard g(c10::Device(at::accelerator::getAccelerator(true).value(), x.get_device()));"),
    ("::at::cuda::OptionalCUDAGuard g(at::device_of(x));", "::c10::OptionalDeviceGuard g(at::device_of(x));", None),
    ("auto t = torch::zeros({2}, torch::device(torch::kCUDA, i).dtype(torch::kFloat));",
     f"auto t = torch::zeros({{2}}, torch::device({ACC}.torch_device(i)).dtype(torch::kFloat));", None),
    ("auto t = at::zeros({2}, at::TensorOptions().device(c10::DeviceType::CUDA));",
     f"auto t = at::zeros({{2}}, at::TensorOptions().device({ACC}.device_type()));", None),
    ("torch::Device d{torch::kCUDA, 1};", f"torch::Device d = {ACC}.torch_device(1);", None),
    ('auto d = torch::cuda::is_available() ? torch::Device(torch::kCUDA) : torch::Device(torch::kCPU);', f"auto d = c10::Device({ACC}.device_type());",
     "auto d = c10::Device(at::accelerator::getAccelerator().value_or(c10::DeviceType::CPU));"),
    ("x = x.to(torch::kCPU).cuda().contiguous();", f"x = x.to(torch::kCPU).to({ACC}.torch_device()).contiguous();", None),
    ("torch::cuda::synchronize( /* all */ );", f"{ACC}.synchronize();", "at::accelerator::synchronizeDevice(at::accelerator::getDeviceIndex());"),
    ("C10_CUDA_CHECK(cudaSetDevice(i));", f"{ACC}.set_device(i);", "at::accelerator::setDeviceIndex(i);"),
    ("cudaGetDevice(&i);", f"i = {ACC}.current_device();", "i = at::accelerator::getDeviceIndex();"),
    ("auto s = at::cuda::getCurrentCUDAStream(i);\ns.synchronize();", f"auto s = {ACC}.current_stream(i);\ns.synchronize();",
     "auto s = at::accelerator::getCurrentStream(i);\ns.synchronize();"),
    ("at::cuda::CUDAEvent a(cudaEventDefault);\na.record();", f"auto a = {ACC}.Event(true);\na.record();", "at::cuda::CUDAEvent a(cudaEventDefault);\na.record();"),
])  # yapf: disable
def test_statements(before, anyaccel, torch):
    assert body(before) == anyaccel
    if torch is not None:
        assert body(before, "torch.accelerator") == body(before, "deepspeed") == torch


# Fails if a replacement is applied although its result would not compile or would mean something
# else. Each of these must be reported for a person.
@pytest.mark.parametrize("code", [
    "cudaError_t e = cudaDeviceSynchronize();",
    "cudaStream_t s = at::cuda::getCurrentCUDAStream();",
    "auto s = at::cuda::getCurrentCUDAStream();\nlaunch(s);",
    "auto s = at::cuda::getCurrentCUDAStream();\nlaunch(s.stream());",
    "auto s = at::cuda::getStreamFromPool();\ncudaStreamSynchronize(s);",
    "at::cuda::CUDAEvent e;\ne.block(at::cuda::getCurrentCUDAStream());",
    "c10::cuda::CUDAGuard g(0);\ng.set_index(1);",
    "c10::cuda::CUDAGuard g(unknown);",
    "std::optional<c10::cuda::CUDAGuard> g;",
    "switch (x.device().type()) { case torch::kCUDA: break; default: break; }",
    "if (x.device().type() == at::kCUDA) f();",
    "static constexpr auto kDevice = torch::kCUDA;",
    "if (x.is_cuda()) f(); else g();",
    'if (name == "cuda") f();',
])
def test_left_alone(code):
    assert body(code) == code
    assert [f for f in found(in_function(code)) if f[1] in ("review", "none")]


# Fails if the header of a replaced name stays, the new one is missing, or comments are lost.
def test_includes():
    code = (
        "// A program.\r\n#include <torch/torch.h>\r\n#include <c10/cuda/CUDAGuard.h>  // guards\r\n#include <ATen/cuda/CUDAContext.h>\r\n\r\n"
        "void f() { c10::cuda::CUDAGuard g(0); /* why */ }\r\n")
    assert fixed(code) == ("// A program.\r\n#include <torch/torch.h>\r\n#include <anyaccel/accelerator.h>  // guards\r\n\r\n"
                           f"void f() {{ auto g = {ACC}.device(0); /* why */ }}\r\n")
    kept = "#include <torch/torch.h>\n#include <ATen/cuda/CUDAContext.h>\n\nvoid f() { torch::cuda::synchronize(); at::cuda::warp_size(); }\n"
    assert fixed(kept) == kept.replace("torch::cuda::synchronize()",
                                       f"{ACC}.synchronize()").replace("CUDAContext.h>\n",
                                                                       "CUDAContext.h>\n#include <anyaccel/accelerator.h>\n")
    unused = "#pragma once\n#include <c10/cuda/CUDAGuard.h>\n"  # perhaps for other files
    assert fixed(unused) == unused
    assert fixed("#pragma once\ninline auto d = torch::kCUDA;\n"
                 ) == f"#pragma once\n#include <anyaccel/accelerator.h>\ninline auto d = {ACC}.device_type();\n"


# Fails if names that `using` introduces are missed, or characters are counted as bytes.
def test_using():
    code = "using namespace torch;\nusing namespace at::cuda;\n// größer\nvoid f(Tensor x) { x.to(kCUDA); getCurrentCUDAStream(); CUDAGuard g(0); }\n"
    rules = [(rule, text) for rule, _, text in found(code)]
    assert rules == [("cpp-using", "using namespace at::cuda;"), ("cpp-device-type", "kCUDA"), ("cpp-current-stream", "getCurrentCUDAStream()"),
                     ("cpp-cuda-guard", "CUDAGuard g(0)")]  # yapf: disable


# Fails if calls of the runtime, of libraries and types are missed or counted twice.
def test_runtime():
    code = in_function(
        "cudaStream_t s;\nCHECK(cudaMemcpyAsync(p, p, n, cudaMemcpyHostToDevice, s));\ncublasHandle_t h;\n"
        "cublasCheck(cublasCreate(&h));\nncclAllReduce(p, p, n, ncclFloat, ncclSum, c, s);\nif (e != cudaSuccess) f(cudaGetErrorString(e));"
    )
    assert [rule for rule, _, _ in found(code)] == ["cpp-runtime-stream", "cpp-runtime-memory", "cpp-library", "cpp-library", "cpp-nccl",
                                                    "cpp-runtime-error", "cpp-runtime-error"]  # yapf: disable


# Fails if a broken source is accepted or the line is wrong.
@pytest.mark.parametrize("code, message, line", [
    ("void f() {\n  cudaMalloc(&p, 1);\n", "unmatched '{'", 1),
    ("int a;\nint b) ;\n", "unmatched ')'", 2),
    ("int a;\n/* cuda\n", "unterminated comment", 2),
    ('auto s = R"x(cuda)";\n', "unterminated raw string", 1),
])
def test_broken(code, message, line):
    with pytest.raises(SourceError) as error:
        cpp.find(code, "a.cpp", "anyaccel")
    assert (error.value.message, error.value.line) == (message, line)


# Fails if code in several variants counts as broken.
def test_conditions():
    code = "#ifdef WITH_CUDA\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n}\n"
    assert [(rule, text) for rule, _, text in found(code)] == [("cpp-condition", "#ifdef WITH_CUDA")]


def test_cmake():
    code = (
        "cmake_minimum_required(VERSION 3.18)\n# enable_language(CUDA)\nproject(x LANGUAGES CXX CUDA) # größer\nfind_package(Torch REQUIRED)\n"
        "find_package(CUDAToolkit 12 REQUIRED)\nadd_library(ops SHARED a.cpp b.cu)\ntarget_link_libraries(ops PRIVATE CUDA::cudart)\n"
        'if(WITH_CUDA)\n  message("CUDA")\nendif()\nset(CMAKE_CUDA_STANDARD 17)\ntarget_compile_options(ops PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-O3>)\n'
    )
    assert [(f.rule, f.line) for f in cmake.find(code, "CMakeLists.txt", "anyaccel")] == [
        ("cmake-language", 3), ("cmake-package", 5), ("cmake-source", 6), ("cmake-target", 7), ("cmake-variable", 8), ("cmake-variable", 11),
        ("cmake-variable", 12)]  # yapf: disable
    assert cmake.find("set_property(TARGET torch_cuda PROPERTY X 1)\n", "CMakeLists.txt", "anyaccel")[0].rule == "cmake-target"
    assert cmake.find("set(name my_torch_cuda_ops)\n", "CMakeLists.txt", "anyaccel") == []
    with pytest.raises(SourceError):
        cmake.find("project(x CUDA\nfind_package(\n", "CMakeLists.txt", "anyaccel")


# Fails if a rule's replacement has a placeholder that nothing fills.
def test_placeholders():
    for rule in native.RULES:
        for text in rule.to.values():
            assert "{acc}" not in text and "{type}" not in text
        assert BY_ID[rule.id] is rule
