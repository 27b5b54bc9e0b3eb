"""The object that DeepSpeed gets has all members of its accelerator, with the same argument names
and op builders.
"""

import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
import types

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402
import deepspeed  # noqa: E402
from anyaccel.deepspeed import adapter  # noqa: E402
from anyaccel.errors import make_error  # noqa: E402
from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.accelerator.abstract_accelerator import DeepSpeedAccelerator  # noqa: E402

PACKAGE = pathlib.Path(anyaccel.__file__).parents[1]


def test_deepspeed_uses_our_object():
    # Fails if the hook runs too late, or DeepSpeed's isinstance check rejects the object.
    assert get_accelerator() is anyaccel.deepspeed.accelerator()
    assert isinstance(get_accelerator(), DeepSpeedAccelerator)


def test_public_members_accept_deepspeed_arguments():
    # Fails if a method is missing, or lacks an argument name that DeepSpeed uses.
    missing = []
    for name in dir(DeepSpeedAccelerator):
        if name.startswith("_"):
            continue
        theirs, ours = getattr(DeepSpeedAccelerator, name), getattr(get_accelerator(), name)
        if not inspect.isfunction(theirs):
            continue
        try:
            parameters = inspect.signature(ours).parameters
        except ValueError:
            text = (ours.__doc__ or "").splitlines()[0]
            missing += [(name, each) for each in list(inspect.signature(theirs).parameters)[1:] if each + ":" not in text]
            continue
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            continue
        missing += [(name, each) for each in list(inspect.signature(theirs).parameters)[1:] if each not in parameters]
    assert missing == []


def test_memory_of_a_device_that_does_not_report_it():
    # Fails if ZeRO 1 and 2 cannot run on such a device, or if another error is hidden.
    def failing(code):

        def count(device_index=None):
            raise make_error(code, "memory_info", "no answer")

        return staticmethod(count)

    def counts(code):
        return adapter._memory_counts({name: failing(code) for name in adapter._MEMORY_COUNTS})

    assert {name: count.__func__(0) for name, count in counts("unsupported").items()} == dict.fromkeys(adapter._MEMORY_COUNTS, 0)
    with pytest.raises(anyaccel.Error, match="no answer"):
        counts("device_error")["available_memory"].__func__(0)


def test_cpu_has_no_streams_and_ignores_local_rank():
    # Fails if the local rank selects a CPU device, or DeepSpeed treats a CPU as a device with
    # streams.
    if not get_accelerator().is_synchronized_device():
        pytest.skip("this device has streams")
    accelerator = get_accelerator()
    accelerator.set_device(1)
    assert (accelerator.Stream, accelerator.Event, accelerator.current_stream()) == (None, None, None)
    assert accelerator.device_name(1) == "cpu"
    assert accelerator.memory_allocated(1) >= 0 and accelerator.available_memory(1) > 0
    assert anyaccel.get_accelerator().Stream is anyaccel.Stream


def test_existing_process_group_is_used(monkeypatch):
    # Fails if DeepSpeed starts oneCCL, which requires a launcher, although the program has created
    # a process group.
    import torch
    accelerator = get_accelerator()
    if accelerator._name != "cpu":
        pytest.skip("only the CPU uses oneCCL")
    monkeypatch.setattr(accelerator, "_own", types.SimpleNamespace(communication_backend_name=lambda: "ccl"))
    monkeypatch.setattr(accelerator, "_known_communication_backend", None)
    assert accelerator.communication_backend_name() == "ccl"
    monkeypatch.setattr(accelerator, "_known_communication_backend", None)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert accelerator.communication_backend_name() == accelerator._communication_backend_name == "gloo"
    finally:
        torch.distributed.destroy_process_group()


def test_ranks_of_the_world_group(monkeypatch):
    # Fails if DeepSpeed's loop over the ranks of a group does not end, because torch accepts every
    # number for the group of all ranks.
    import torch
    ccl = importlib.import_module("deepspeed.comm.ccl")
    backend = object.__new__(ccl.CCLBackend)  # group queries do not need an initialized oneCCL
    asked = ccl.TorchBackend.get_global_rank

    def limited(self, group, rank):
        assert rank < 100, "the loop over ranks does not end"
        return asked(self, group, rank)

    monkeypatch.setattr(ccl.TorchBackend, "get_global_rank", limited)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert backend.get_all_ranks_from_group(torch.distributed.group.WORLD) == backend.get_all_ranks_from_group(None) == [0]
    finally:
        torch.distributed.destroy_process_group()


def test_builders_derive_from_deepspeed_and_load_our_ops():
    # Fails if the builder names that DeepSpeed binds when it is imported refer to its own builders,
    # which compile their sources.
    from deepspeed.ops.op_builder import CPUAdamBuilder
    from deepspeed.ops.op_builder.builder import OpBuilder
    builder = CPUAdamBuilder()
    assert isinstance(builder, OpBuilder)
    assert (builder.name, CPUAdamBuilder.NAME) == ("cpu_adam", "cpu_adam")
    assert builder.is_compatible()
    assert builder.load().__name__ == builder.absolute_name() == "anyaccel.ops.cpu_adam"
    assert deepspeed.ops.__compatible_ops__["cpu_adam"] is True
    assert deepspeed.ops.__compatible_ops__["quantizer"] is True
    assert deepspeed.ops.__compatible_ops__["cutlass_ops"] is False


MISSING = ("DeepCompileBuilder", "GDSBuilder", "InferenceCutlassBuilder")


@pytest.mark.parametrize("name", MISSING)
def test_missing_op_raises_at_load(name):
    # Fails if a missing op does not raise ValueError, which DeepSpeed expects, or the message does
    # not name the op.
    builder = get_accelerator().create_op_builder(name)
    assert not builder.is_compatible()
    with pytest.raises(ValueError, match=name) as raised:
        builder.load()
    assert raised.value.code == "unsupported"


def test_every_other_op_loads():
    # Fails if a builder that DeepSpeed imports by name does not load one of AnyAccel's ops.
    from anyaccel.deepspeed.builders import NAMES
    for name in sorted(set(NAMES) - {*MISSING, "NotImplementedBuilder", "CCLCommBuilder"}):
        builder = getattr(deepspeed.ops.op_builder, name)()
        assert builder.load().__name__ == builder.absolute_name(), name


def run(code, **variables):
    environment = dict(os.environ, **variables)
    return subprocess.run([sys.executable, "-B", "-c", code], env=environment, capture_output=True, text=True, timeout=300)


def test_late_import_is_an_error():
    # Fails if `import anyaccel.deepspeed` after `import deepspeed` does not raise an error. The
    # program would silently use DeepSpeed's ops.
    done = run("import deepspeed, anyaccel.deepspeed")
    assert "import anyaccel.deepspeed before deepspeed" in done.stderr


def test_environment_variable_installs_the_hook():
    # Fails if the .pth file has no effect, or imports torch before DeepSpeed is imported.
    hook = f"import site, sys; site.addsitedir({str(PACKAGE)!r}); assert 'torch' not in sys.modules\n"
    code = hook + """
import os, deepspeed
pid = os.fork()
if pid == 0:
    os._exit(0 if 'anyaccel' in repr(deepspeed.accelerator.get_accelerator()) and
             deepspeed.accelerator.get_accelerator().available_memory() > 0 else 1)
print('forked', os.waitpid(pid, 0)[1], deepspeed.accelerator.get_accelerator())
"""
    done = run(code, ANYACCEL_DEEPSPEED="1")
    assert "forked 0 <anyaccel.deepspeed.accelerator()" in done.stdout, done.stderr
    off = run(hook + "print([each for each in sys.modules if 'anyaccel' in each])", ANYACCEL_DEEPSPEED="0")
    assert off.stdout.strip() == "[]"
