"""Op builders in Python: the result of load(), the names of all of DeepSpeed's builders, and
packages with a backend's own builders.
"""

import os
import subprocess
import sys

import pytest
import torch

import anyaccel
from anyaccel.op_builder import classes_of

accelerator = anyaccel.get_accelerator()

DEEPSPEED = """AsyncIO CCLComm CPUAdagrad CPUAdam CPULion DeepCompile EvoformerAttn FPQuantizer FusedAdam FusedLamb FusedLion GDS Inference
InferenceCore InferenceCutlass PinMemory Quantizer RaggedOps RaggedUtils RandomLTD ShareMemComm SparseAttn SpatialInference
StochasticTransformer Transformer Utils""".split()


# Fails if load() does not return the module that DeepSpeed's Python code uses.
def test_load_returns_the_module():
    utils = accelerator.create_op_builder("UtilsBuilder").load()
    assert utils is anyaccel.ops.utils
    x = torch.randn(3, 5, dtype=torch.bfloat16)
    assert torch.equal(utils.cast_to_byte_tensor(x), x.view(torch.int16).view(-1).view(torch.uint8))
    assert [t.numel() for t in utils.cast_to_byte_tensor([x, torch.ones(2, dtype=torch.bool)])] == [30, 2]
    with pytest.raises(ValueError, match="not contiguous"):
        utils.cast_to_byte_tensor(x.t())


# Fails if the byte view has wrong bytes or is a copy, for any dtype or shape. A lazily conjugated
# view must be rejected.
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64,
                                   torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool,
                                   torch.complex64, torch.complex128])
def test_byte_views_of_every_dtype(dtype):
    utils = accelerator.create_op_builder("UtilsBuilder").load()
    for shape in ((), (1,), (3, 5), (0,), (2, 0, 3)):
        want = torch.randint(0, 2, (torch.Size(shape).numel() * dtype.itemsize,), dtype=torch.uint8)
        tensor = want.view(dtype).view(shape) if want.numel() else torch.empty(shape, dtype=dtype)
        got = utils.cast_to_byte_tensor(tensor)
        assert got.dtype == torch.uint8 and got.shape == want.shape and torch.equal(got, want)
        assert got.data_ptr() == tensor.data_ptr()
    for mirrored in (torch.randn(3, dtype=torch.complex64).conj(), torch.randn(1, 1, dtype=torch.complex64).conj().imag):
        with pytest.raises(ValueError, match="conjugate or negative view"):
            utils.cast_to_byte_tensor(mirrored)


# Fails if the op copies, its schema does not declare the view, or its meta kernel is missing.
def test_opcheck():
    accelerator.create_op_builder("UtilsBuilder").load()
    x = torch.arange(6, dtype=torch.int32)
    torch.library.opcheck(torch.ops.anyaccel.cast_to_byte_tensor.default, (x,))
    torch.ops.anyaccel.cast_to_byte_tensor(x)[0] = 7
    assert x[0] == 7


# Fails if one of DeepSpeed's builders is unknown, or neither loads nor raises an error that names
# the op and the backend.
@pytest.mark.parametrize("name", DEEPSPEED)
def test_deepspeed_builder_names(name):
    builder = accelerator.create_op_builder(name + "Builder")
    assert builder.NAME and builder.NAME != "not_implemented"
    if not builder.is_compatible():
        reason = builder.compatibility().reason
        assert reason
        with pytest.raises(anyaccel.Error) as error:
            builder.load()
        if error.value.code == "unsupported":
            assert f"{name}Builder is not implemented on {accelerator.name()}" in reason


# Fails if a package's builder classes are not found, or a module that cannot be imported hides
# those of other modules.
def test_builder_package(tmp_path, monkeypatch):
    package = tmp_path / "mycard_ops"
    package.mkdir()
    (package / "__init__.py").write_text("from .adam import MyAdamBuilder\n")
    (package / "adam.py").write_text("class MyAdamBuilder:\n    NAME = 'my_adam'\nclass Helper:\n    pass\nNoBuilder = 3\n")
    (package / "broken.py").write_text("import no_such_module\n")
    (package / "lion.py").write_text("from anyaccel.op_builder import OpBuilder\nclass MyLionBuilder(OpBuilder):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(UserWarning, match="mycard_ops.broken"):
        found = classes_of("mycard_ops")
    assert sorted(found) == ["MyAdamBuilder", "MyLionBuilder"]
    assert classes_of("no_such_package.ops") == {}
    assert classes_of("deepspeed.ops.op_builder") == {}


# Fails if create_op_builder() cannot construct a backend's own builder, or imported helpers and
# abstract bases count as ops.
def test_builder_classes_of_a_backend(tmp_path, monkeypatch):
    helper = tmp_path / "buildtools"
    helper.mkdir()
    (helper / "__init__.py").write_text("class WheelBuilder:\n    pass\nclass LentBuilder:\n    pass\n")
    package = tmp_path / "mycard2_ops"
    package.mkdir()
    (package / "__init__.py").write_text("""
import abc
from buildtools import LentBuilder, WheelBuilder
from anyaccel.op_builder import OpBuilder
__all__ = ["LentBuilder"]
class MyCardOpBuilder(OpBuilder):
    pass
class BaseBuilder(abc.ABC):
    @abc.abstractmethod
    def kernels(self): ...
class FooBuilder(MyCardOpBuilder):
    NAME = "foo"
    def load(self, verbose=True):
        return "foo's functions"
class BarBuilder(MyCardOpBuilder):
    def __init__(self):
        super().__init__(name="bar")
class UtilsBuilder(MyCardOpBuilder):
    pass
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = classes_of("mycard2_ops")
    assert sorted(found) == ["BarBuilder", "FooBuilder", "LentBuilder", "UtilsBuilder"]
    foo, bar = found["FooBuilder"](), found["BarBuilder"]()
    assert (foo.name(), foo.load(), foo.class_name()) == ("foo", "foo's functions", "FooBuilder")
    assert bar.name() == "bar" and bar.absolute_name() == "anyaccel.ops.bar"
    assert not bar.is_compatible() and "BarBuilder is not implemented on" in bar.compatibility().reason
    assert found["UtilsBuilder"]().load() is anyaccel.ops.utils


SLOW_BUILD = """
import os, signal, sys, threading, time
import anyaccel
a = anyaccel.get_accelerator()
builder = a.create_op_builder("CPULionBuilder")
def begun():
    while not os.path.exists(os.environ["BEGUN"]):
        time.sleep(0.05)
"""


def slow_build(tmp_path, code):
    """Run code in a process that must build CPULionBuilder's op with a compiler that never
    terminates.
    """
    compiler = tmp_path / "c++"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo slow 1; exit 0; }\necho $$ >> "$(dirname "$0")/begun"\nexec sleep 100000\n')
    compiler.chmod(0o755)
    env = {**os.environ, "CXX": str(compiler), "CCACHE_DISABLE": "1", "ANYACCEL_OP_CACHE": str(tmp_path / "cache"),
           "ANYACCEL_OP_ARCH": "x86-64-v2", "BEGUN": str(tmp_path / "begun"), "DS_ACCELERATOR": "cpu"}
    return subprocess.run([sys.executable, "-c", SLOW_BUILD + code], capture_output=True, text=True, env=env, timeout=600)


# Fails if Ctrl-C during a build does not promptly raise KeyboardInterrupt, or leaves compilers
# running.
def test_ctrl_c_during_build(tmp_path):
    done = slow_build(tmp_path, """
threading.Thread(target=lambda: (begun(), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
try:
    builder.load()
except KeyboardInterrupt:
    print("interrupted")
""")
    assert done.stdout == "interrupted\n", done.stderr
    for pid in (tmp_path / "begun").read_text().split():
        with open(f"/proc/{pid}/stat") if os.path.exists(f"/proc/{pid}") else open(os.devnull) as stat:
            assert ") S " not in stat.read()


# Fails if loading an op waits for the build of another op, in a thread or in a forked child. The
# ops use the same compiler, which never terminates, so the test only waits until their builds
# start.
def test_other_ops_do_not_wait(tmp_path):
    done = slow_build(tmp_path, """
threading.Thread(target=builder.load, daemon=True).start()
begun()
def count():
    return len(open(os.environ["BEGUN"]).read().split())
first = count()
child = os.fork()
if child == 0:
    signal.alarm(300)
    threading.Thread(target=a.create_op_builder("UtilsBuilder").load, daemon=True).start()
    while count() == first:
        time.sleep(0.05)
    os._exit(0)
print(os.waitpid(child, 0)[1])
second = count()
threading.Thread(target=a.create_op_builder("CPUAdagradBuilder").load, daemon=True).start()
while count() == second:
    time.sleep(0.05)
print("begun")
sys.stdout.flush()
os._exit(0)
""")
    assert done.stdout == "0\nbegun\n", done.stderr


# Fails if loading a prebuilt op runs a program, or requires a compiler or a cache.
def test_prebuilt_op_in_a_new_process(tmp_path):
    code = "import anyaccel; anyaccel.get_accelerator().create_op_builder('UtilsBuilder').load()"
    bare = {**os.environ, "PATH": "/nowhere", "CXX": "/nowhere/c++", "ANYACCEL_OP_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=bare)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, []), done.stderr
