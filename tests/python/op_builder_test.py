"""Op builders in Python: what load() returns, names of all of DeepSpeed's, packages of a backend's own."""

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


# Breaks when load() does not return what DeepSpeed's callers use, or the bytes are other ones.
def test_load_returns_the_module():
    utils = accelerator.create_op_builder("UtilsBuilder").load()
    assert utils is anyaccel.ops.utils
    x = torch.randn(3, 5, dtype=torch.bfloat16)
    assert torch.equal(utils.cast_to_byte_tensor(x), x.view(torch.int16).view(-1).view(torch.uint8))
    assert [t.numel() for t in utils.cast_to_byte_tensor([x, torch.ones(2, dtype=torch.bool)])] == [30, 2]
    with pytest.raises(ValueError, match="not contiguous"):
        utils.cast_to_byte_tensor(x.t())


# Breaks when the op copies, lacks a schema that says it is a view, or has no kernel for shapes alone.
def test_opcheck():
    accelerator.create_op_builder("UtilsBuilder").load()
    x = torch.arange(6, dtype=torch.int32)
    torch.library.opcheck(torch.ops.anyaccel.cast_to_byte_tensor.default, (x,))
    torch.ops.anyaccel.cast_to_byte_tensor(x)[0] = 7
    assert x[0] == 7


# Breaks when a builder of DeepSpeed's is not known: each has its name, and loads or says that it cannot, with op and backend.
@pytest.mark.parametrize("name", DEEPSPEED)
def test_deepspeeds_names(name):
    builder = accelerator.create_op_builder(name + "Builder")
    assert builder.NAME and builder.NAME != "not_implemented"
    if not builder.is_compatible():
        reason = builder.compatibility().reason
        assert reason
        with pytest.raises(anyaccel.Error) as error:
            builder.load()
        if error.value.code == "unsupported":
            assert f"{name}Builder is not implemented on {accelerator.name()}" in reason


# Breaks when a package's classes are not found, others are, or one broken module hides the rest.
def test_package_of_builders(tmp_path, monkeypatch):
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


# Breaks when loading an op that is built runs a program, or wants a compiler or a cache.
def test_fresh_process(tmp_path):
    code = "import anyaccel; anyaccel.get_accelerator().create_op_builder('UtilsBuilder').load()"
    bare = {**os.environ, "PATH": "/nowhere", "CXX": "/nowhere/c++", "ANYACCEL_OP_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=bare)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, []), done.stderr
