"""Python op builders with their own sources, and an installation of examples/python_backend."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

import anyaccel
import child
from anyaccel import extension_op
from anyaccel.op_builder import classes_of

SOURCE = pathlib.Path(__file__).resolve().parents[2]

MODULE = """
#include <torch/csrc/utils/pybind.h>
#include "scale.h"
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("scaled", [](double value) { return value * kScale; }); }
"""
LIBRARY = """
#include <ATen/core/Tensor.h>
#include <torch/library.h>
static at::Tensor same(const at::Tensor& x) { return x.clone(); }
TORCH_LIBRARY(ext_same, library) { library.def("same(Tensor x) -> Tensor", same); }
"""
BUILDERS = """
from anyaccel.op_builder import OpBuilder
class ScaleBuilder(OpBuilder):
    NAME = "ext_scale"
    mycard_kernel_path = "kernels"
    mycard_include = "headers"
    def sources(self):
        return ["scale.cpp"]
class SameBuilder(OpBuilder):
    def __init__(self):
        super().__init__(name="ext_same")
    def sources(self):
        import os
        return [os.path.join(os.path.dirname(__file__), "kernels", "same.cpp")]
class GoneBuilder(OpBuilder):
    NAME = "ext_gone"
    def sources(self):
        return ["gone.cpp"]
class NativeBuilder(ScaleBuilder):
    NAME = "ext_native"
    def cxx_args(self):
        return ["-march=native"]
class FlagBuilder(ScaleBuilder):
    NAME = "ext_flag"
    def extra_ldflags(self):
        return ["-L/somewhere"]
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extension")
    package = folder / "ext_ops"
    (package / "kernels").mkdir(parents=True)
    (package / "headers").mkdir()
    (package / "__init__.py").write_text(BUILDERS)
    (package / "kernels" / "scale.cpp").write_text(MODULE)
    (package / "kernels" / "same.cpp").write_text(LIBRARY)
    (package / "headers" / "scale.h").write_text("constexpr double kScale = 3;\n")
    sys.path.insert(0, str(folder))
    os.environ["ANYACCEL_OP_CACHE"] = str(folder / "cache")
    yield package
    sys.path.remove(str(folder))


# Fails if a builder's sources in the extension's folder are not built, or load() does not return
# the Python module.
def test_python_module(extension):
    builder = classes_of("ext_ops")["ScaleBuilder"]()
    assert builder.is_compatible(), builder.compatibility().reason
    module = builder.load()
    assert module.__name__ == "ext_scale" and module.scaled(2) == 6
    assert classes_of("ext_ops")["ScaleBuilder"]().load() is module
    # The module is in the user's cache, and nothing is written next to the sources.
    assert str(extension.parent / "cache") in module.__file__
    assert sorted(path.name for path in (extension / "kernels").iterdir()) == ["same.cpp", "scale.cpp"]


# Fails if load() does not return the torch ops of a library whose sources have absolute paths.
def test_torch_library(extension):
    ops = classes_of("ext_ops")["SameBuilder"]().load()
    x = torch.arange(3)
    assert torch.equal(ops.same(x), x) and ops.same(x) is not x


# Fails if an outdated library is used after a header of the extension has changed.
def test_changed_header(extension):
    code = "import sys; sys.path.insert(0, sys.argv[1]); from ext_ops import ScaleBuilder; print(ScaleBuilder().load().scaled(2))"
    run = [sys.executable, "-c", code, str(extension.parent)]
    (extension / "headers" / "scale.h").write_text("constexpr double kScale = 5;\n")
    done = subprocess.run(run, capture_output=True, text=True, timeout=600)
    assert done.stdout == "10.0\n", done.stderr


# Fails if is_compatible() is true for an op that cannot be built, or an unsupported flag is
# ignored.
def test_unsupported_builders(extension):
    builders = classes_of("ext_ops")
    gone = builders["GoneBuilder"]()
    assert not gone.is_compatible() and "gone.cpp" in gone.compatibility().reason
    with pytest.raises(anyaccel.Error, match="gone.cpp"):
        gone.load()
    with pytest.raises(anyaccel.Error, match="march=native"):
        builders["NativeBuilder"]().load()
    with pytest.raises(anyaccel.Error, match="-L/somewhere"):
        builders["FlagBuilder"]().load()


# Fails if builder() does not give setup.py the same sources.
def test_sources_for_setup(extension):
    made = classes_of("ext_ops")["ScaleBuilder"]().builder()
    assert [os.path.basename(path) for path in made.sources] == ["scale.cpp"]
    assert str(extension / "headers") in made.include_dirs


def in_example(folder, code, **variables):
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}", "ANYACCEL_OP_CACHE": str(folder / "cache"),
                   "DS_ACCELERATOR": "pycard", **variables}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=environment, timeout=600)


# Fails if the example cannot be installed with pip and used through its entry point, including its
# op.
def test_example(tmp_path):
    if subprocess.run([sys.executable, "-c", "import setuptools, pip"], capture_output=True).returncode != 0:
        pytest.skip("pip or setuptools is not installed")
    project = shutil.copytree(SOURCE / "examples" / "python_backend", tmp_path / "project")
    target = tmp_path / "target"
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--target",
                           str(target), str(project)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    done = in_example(target, """
        import torch
        from anyaccel import get_accelerator, detection
        a = get_accelerator()
        print(a.name(), a.device_properties().name, a.visible_devices_envs(), detection().reason)
        axpy = a.create_op_builder("AxpyBuilder").load()
        print(axpy.axpy(torch.ones(2), torch.full((2,), 3.0), 2.0).tolist())
        assert a.create_op_builder("UtilsBuilder").is_compatible()
        """)
    assert done.stdout == ("pycard PyCard 1 ['PYCARD_VISIBLE_DEVICES'] selected by DS_ACCELERATOR; the example is always there\n"
                           "[5.0, 5.0]\n"), done.stderr
    environment = {**os.environ, "PYTHONPATH": f"{target}{os.pathsep}{os.environ['PYTHONPATH']}"}
    done = subprocess.run([sys.executable, "-m", "anyaccel.conformance", "--backend", "pycard", "--suite", "identity", "--suite", "op_builders",
                           "--suite", "environment", "--timeout", "300"], capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


# Fails if C++ does not find the builders of a Python backend's package. The conformance kit looks
# them up through the accelerator's C++ object.
def test_cpp_finds_the_builders(extension):
    code = f"""
        import sys
        sys.path.insert(0, {str(extension.parent)!r})
        import anyaccel
        from anyaccel import _native
        class Card(anyaccel.Backend):
            traits = {{"base": "cpu", "op_builder_dir": "ext_ops"}}
        anyaccel.register_backend("card", Card)
        anyaccel.set_accelerator("card")
        seen = _native.OpBuilder(anyaccel.get_accelerator(), "ScaleBuilder")
        print(seen.name(), seen.compatibility().compatible)
        seen.load()
        print(_native.OpBuilder(anyaccel.get_accelerator(), "NoSuchBuilder").compatibility().compatible)
        """
    done = child.run(textwrap.dedent(code), os.environ, timeout=600)
    assert done.stdout == "ext_scale True\nFalse\n", done.stderr


# Fails if an include path outside the extension's folder, which is allowed, changes the list of
# files in the description.
def test_description(extension):
    text, folder = extension_op.describe(classes_of("ext_ops")["ScaleBuilder"]())
    assert folder == str(extension)
    assert "source = kernels/scale.cpp" in text and "include = headers" in text


# A DeepSpeed extension as described in "Accelerator Abstraction Interface". It has a base class for
# builders, functions that locate the kernels in the extension's folder, and an accelerator that
# names the builders' package. One of the functions copies the kernels to the folder where
# DeepSpeed's JIT looks for them.
PORTED = {
    "op_builder/__init__.py": "from .scale import ScaleBuilder\n",
    "op_builder/builder.py": """
import os
import shutil
from pathlib import Path
from deepspeed.ops.op_builder.builder import OpBuilder, TORCH_MAJOR, TORCH_MINOR

class XYZOpBuilder(OpBuilder):
    def builder(self):
        from torch.utils.cpp_extension import CppExtension
        return CppExtension(name=self.absolute_name(), sources=self.strip_empty_entries(self.sources()))
    def version_dependent_macros(self):
        return ['-DVERSION_GE_1_5'] if (TORCH_MAJOR, TORCH_MINOR) > (1, 4) else []
    def cxx_args(self):
        return ['-O3', '-g', '-std=c++20', '-w', '-fPIC', self.cpu_arch(), '-fopenmp', self.simd_width()]
    def extra_ldflags(self):
        return ['-fPIC', '-Wl,-export-dynamic']

def xyz_kernel_path(code_path):
    abs_path = os.path.join(Path(__file__).parent.absolute(), code_path)
    rel_path = os.path.join("third-party", code_path)
    os.makedirs(os.path.dirname(rel_path), exist_ok=True)
    shutil.copyfile(abs_path, rel_path)
    return rel_path

def xyz_kernel_include(code_path):
    return os.path.join(Path(__file__).parent.absolute(), code_path)
""",
    "op_builder/scale.py": """
from .builder import XYZOpBuilder, xyz_kernel_path, xyz_kernel_include

class ScaleBuilder(XYZOpBuilder):
    BUILD_VAR = "DS_BUILD_XYZ_SCALE"
    NAME = "xyz_scale"
    def __init__(self):
        super().__init__(name=self.NAME)
    def absolute_name(self):
        return f'deepspeed.ops.xyz.{self.NAME}_op'
    def sources(self):
        return [xyz_kernel_path('csrc/scale.cpp')]
    def include_paths(self):
        return [xyz_kernel_include('csrc/includes'), 'csrc/includes']
    def cxx_args(self):
        return super().cxx_args() + self.version_dependent_macros()
    def is_compatible(self, verbose=False):
        if not self.command_exists('sh') or self.has_function('no_such_function', ('m', )):
            self.warning(f"{self.name} lacks what it needs")
            return False
        return super().is_compatible(verbose)
""",
    "op_builder/csrc/includes/scale.h": "constexpr double kScale = 3;\n",
    "op_builder/csrc/scale.cpp": """
#include <torch/csrc/utils/pybind.h>
#include "scale.h"
#if !defined(VERSION_GE_1_5) || !defined(__SCALAR__)
#error "a flag was left out"
#endif
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scaled", [](double value) { return value * kScale; }); }
""",
    "__init__.py": """
from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator

class XYZ_Accelerator(DeepSpeedAccelerator):
    def __init__(self):
        self._name = 'xyz'
        self._communication_backend_name = 'gloo'
        self._compile_backend = 'inductor'
    def device_name(self, device_index=None):
        return 'cpu'
    def op_builder_dir(self):
        return "xyz_extension.op_builder"
""",
}
USE = """
from deepspeed.accelerator import get_accelerator, set_accelerator
from deepspeed.ops.op_builder.builder import OpBuilder
from xyz_extension import XYZ_Accelerator
set_accelerator(XYZ_Accelerator())
builder = get_accelerator().create_op_builder("ScaleBuilder")
assert isinstance(builder, OpBuilder) and builder.name == "xyz_scale" and f"{builder.name}" == "xyz_scale" and builder.is_compatible()
op = builder.load()
assert builder.jit_load(verbose=False) is op
print(get_accelerator()._name, op.scaled(2), get_accelerator().create_op_builder("CPUAdamBuilder").is_compatible())

class MyUtilsBuilder(get_accelerator().get_op_builder("UtilsBuilder")):
    def __init__(self):
        super().__init__(name="my_utils")
print(MyUtilsBuilder().name)
"""


# Fails if an extension written for DeepSpeed cannot be built and loaded with `anyaccel` instead of
# `deepspeed`.
def test_ported_extension(tmp_path):
    for path, text in PORTED.items():
        (tmp_path / "xyz_extension" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "xyz_extension" / path).write_text(text.replace("deepspeed", "anyaccel"))
    (tmp_path / "work").mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}", "ANYACCEL_OP_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", USE.replace("deepspeed", "anyaccel")], capture_output=True, text=True, env=environment, timeout=600,
                          cwd=tmp_path / "work")
    assert done.stdout == "xyz 6.0 True\nmy_utils\n", done.stdout + done.stderr
