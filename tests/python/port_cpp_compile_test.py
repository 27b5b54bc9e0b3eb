"""The C++ replacements of `anyaccel port` compile and run.

The examples of all rules with an equivalent are fixed, compiled as a Python module and called on
this process's accelerator, for each target.
"""

import ctypes
import os
import pathlib
import sys

import pytest
import torch

import anyaccel
from anyaccel.op_builder import OpBuilder

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))
pytest.importorskip("tree_sitter_cuda", reason="tree-sitter-cuda is not installed")

from anyaccel_port import cpp
from anyaccel_port.rules import native

# Declarations that the examples need.
HEADER = """#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>
#include <cstdlib>
static int called = 0;
static void f() { ++called; }
"""
CALLS = """
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("called", [] { return called; });
%s}
"""
# The accelerator of these processes need not be torch's, so the code for ATen is compiled only.
TARGETS = ("anyaccel", "torch.accelerator")


def examples(target):
    """The rules whose example is replaced for a target."""
    return [
        r for r in native.RULES if r.severity == "equivalent" and r.severity_for(target) == "equivalent" and r.id.startswith("cpp-")
        and r.id != "cpp-include"
    ]


def program(target):
    """The fixed program with one function per rule."""
    functions, names = [], []
    for number, rule in enumerate(examples(target)):
        name = f"example_{number}"
        # p is memory of whole pages, as drivers require for registration.
        before = "" if rule.id != "cpp-host-unregister" else "anyaccel::get_accelerator().register_host_memory(p, n);\n"
        after = "anyaccel::get_accelerator().unregister_host_memory(p);\n" if rule.id == "cpp-host-register" else ""
        before += 'anyaccel::get_accelerator().range_push("x");\n' if rule.id == "cpp-nvtx-pop" else ""
        after += "anyaccel::get_accelerator().range_pop();\n" if rule.id == "cpp-nvtx-push" else ""
        functions.append(f"static void {name}([[maybe_unused]] at::Tensor x, [[maybe_unused]] int i, [[maybe_unused]] void* p, [[maybe_unused]] long n) {{\n"
                         f"{before}{rule.before}\n{after}}}\n")  # yapf: disable
        names.append(name)
    text = HEADER + "".join(functions)
    findings = cpp.find(text, "port.cpp", target)
    fixed = cpp.fix(text, [f for f in findings if f.severity == "equivalent"], target)
    assert "cuda" not in fixed and "CUDA" not in fixed, fixed
    calls = "".join(
        f'  module.def("{name}", [](at::Tensor x) {{ void* p = std::aligned_alloc(4096, 4096); {name}(x, 0, p, 4096); std::free(p); }});\n'
        for name in names)
    return fixed + CALLS % calls, names


@pytest.fixture(scope="module", params=TARGETS)
def module(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("port")
    os.environ["ANYACCEL_OP_CACHE"] = str(folder / "cache")
    settings = anyaccel.get_accelerator().build_extension()
    for library in settings.libraries:  # op builders do not link them
        for path in [p for d in settings.library_dirs for p in pathlib.Path(d).glob(f"lib{library}.so")]:
            if library.startswith("anyaccel"):
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    text, names = program(request.param)
    (folder / "port.cpp").write_text(text)

    class PortedBuilder(OpBuilder):
        NAME = "ported_" + request.param.replace(".", "_")

        def sources(self):
            return [str(folder / "port.cpp")]

        def cxx_args(self):
            return ["-O0", "-Wno-unused-variable", "-Wno-unused-but-set-variable"]

    return request.param, PortedBuilder().load(), names


# Fails if a replacement does not compile, throws, or changes what the example does.
def test_examples(module):
    target, loaded, names = module
    assert len(names) >= 20 or target != "anyaccel"
    if target != "anyaccel":
        assert len(names) >= 15
        return
    accelerator = anyaccel.get_accelerator()
    x = torch.ones(4, device=accelerator.current_device_name())
    for name in names:
        getattr(loaded, name)(x)
    assert loaded.called() == 1  # is_available() is true on every accelerator
    assert accelerator.initial_seed() == 1
