"""mypy accepts correct programs that use the stubs, and rejects incorrect ones."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import anyaccel

STUB = pathlib.Path(anyaccel.accelerator.__file__).with_name("accelerator.pyi")

CLIENT = '''
import torch
from anyaccel import Error, Event, Stream, get_accelerator, report, set_accelerator
from anyaccel.accelerator.cpu_accelerator import CPU_Accelerator

def run(size: int) -> float:
    accelerator = get_accelerator()
    stream: Stream = accelerator.Stream(priority=0)
    with accelerator.stream(stream), accelerator.device(0):
        x = accelerator.FloatTensor([1.0] * size)
    event: Event = stream.record_event()
    event.synchronize()
    free, total = accelerator.memory_info(device_index=0)
    count: int = accelerator.memory_allocated()
    dtypes: list[torch.dtype] = accelerator.supported_dtypes()
    graph = accelerator.create_graph()
    with accelerator.capture_to_graph(graph, pool=None):
        pass
    try:
        accelerator.set_device(count)
    except Error as error:
        print(error.code, dtypes, free, total, accelerator.device_name(0), graph.state)
    builder = accelerator.create_op_builder("CPUAdamBuilder")
    if builder.is_compatible() and builder.name():
        builder.load()
    set_accelerator(CPU_Accelerator())
    report(show=False)
    return float(x.sum())
'''
WRONG = ("get_accelerator().manual_seed('cuda')", "get_accelerator().memory_alocated()", "get_accelerator().synchronize(index=0)")

# Code that an author of backends, accelerators and ops might write.
AUTHOR = '''
import torch
import anyaccel.deepspeed
from anyaccel import Backend, OpBuilder, get_accelerator, register_backend, set_accelerator
from anyaccel.accelerator.abstract_accelerator import DeepSpeedAccelerator
from anyaccel.accelerator.cuda_accelerator import CUDA_Accelerator
from anyaccel.backend_parts import EventPart
from anyaccel.conformance import main
from anyaccel.ops import async_io, cpu_adam, fp_quantizer, fused_adam, pin_memory, quantizer, utils
from anyaccel.ops.sparse_attn import FixedSparsityConfig, SparseSelfAttention
from anyaccel.ops.transformer import DeepSpeedTransformerConfig, DeepSpeedTransformerLayer

class Host:
    def allocate(self, num_bytes: int) -> int:
        return 0
    def free(self, address: int) -> None:
        pass

class Event:
    def __init__(self, below: EventPart) -> None:
        self.below = below
    def record(self, stream: torch.Stream) -> None: self.below.record(stream)
    def wait(self, stream: torch.Stream) -> None: self.below.wait(stream)
    def query(self) -> bool: return self.below.query()
    def synchronize(self) -> None: self.below.synchronize()
    def elapsed_time(self, end: "Event") -> float: return self.below.elapsed_time(end.below)

class Card(Backend):
    traits = {"vendor": "us", "priority": 3}
    def properties(self, index: int) -> dict[str, object]:
        return {"name": f"Card {index}"}
    def memory_info(self, index: int) -> tuple[int, int]:
        free, total = super().memory_info(index)
        return free, total
    def dtype_support(self, index: int, dtype: torch.dtype) -> bool:
        return dtype is not torch.float64
    def new_event(self, index: int, enable_timing: bool) -> Event | None:
        below = super().new_event(index, enable_timing)
        return Event(below) if below else None
    def host_allocator(self) -> Host:
        return Host()
    def create_op_builder(self, class_name: str) -> OpBuilder | None:
        return CardAdamBuilder() if class_name == "CardAdamBuilder" else None

class CardAdamBuilder(OpBuilder):
    NAME = "card_adam"
    def sources(self) -> list[str]:
        return ["adam.cpp"]
    def cxx_args(self) -> list[str]:
        return self.strip_empty_entries(["-O2", ""])

class Mine(DeepSpeedAccelerator):
    def __init__(self) -> None:
        super().__init__()
        self._name = "cpu"
    def device_count(self) -> int:
        return super().device_count() + 1

def run(group: torch.Tensor) -> int:
    register_backend("card", Card, base="cpu", probe=lambda: (1, "one card"), vendor="us")
    set_accelerator(Mine())
    set_accelerator(CUDA_Accelerator())
    accelerator = get_accelerator()
    builder: type[OpBuilder] = accelerator.get_op_builder("CPUAdamBuilder")
    answer = builder().compatibility()
    with accelerator.autocast(torch.bfloat16), accelerator.stream(None), accelerator.random().fork_rng(), accelerator.Stream() as stream:
        stream.synchronize()
    cpu_adam.create_adam(0, lr=0.1)
    cpu_adam.adam_update(0, 1, 0.1, 0.9, 0.99, 1e-8, 0.0, True, group, group, group, group)
    fused_adam.multi_tensor_adam(1, group, [[group]] * 4, 0.1, 0.9, 0.99, 1e-8, 1, 1, 1, 0.0)
    with async_io.aio_handle(queue_depth=8) as handle:
        done: int = handle.pread(group, "file", validate=False, async_=True) + handle.wait()
        handle.start_read(group, "file").wait()
    pinned = pin_memory.pin_handle().new_cpu_locked_tensor(4, group)
    byte: list[torch.Tensor] = utils.cast_to_byte_tensor([pinned, group])
    codes, scales = quantizer.quantize(group, 1, 8, quantizer.Symmetric)
    group = quantizer.dequantize(codes, scales, 1, 8, quantizer.QuantizationType.Symmetric, torch.float32)
    fp_quantizer.dequantize(group, fp_quantizer.quantize(byte[0], group, 8, True, 8, 3), 8, 3, 4)
    attention = SparseSelfAttention(FixedSparsityConfig(num_heads=4))
    layer = DeepSpeedTransformerLayer(DeepSpeedTransformerConfig(hidden_size=8, heads=2))
    anyaccel.deepspeed.accelerator()
    print(answer.reason, done, byte, attention, layer.config.pre_layer_norm)
    return main(["--backend", "card"])
'''
AUTHOR_WRONG = ("register_backend('card', int)", "cpu_adam.create_adam('name')", "cpu_adam.no_such_function()", "DeepSpeedAccelerator().no_such_method()",
                "async_io.aio_handle(depth=8)", "Backend().memory_info('cuda')", "accelerator.capture_to_graph('graph')")


def check_types(folder, text):
    (folder / "client.py").write_text(text)
    environment = {**os.environ, "MYPYPATH": os.path.dirname(os.path.dirname(anyaccel.__file__))}
    # Without torch's type information, mypy reports errors for stub classes that derive from
    # torch's classes, so only the client is checked.
    (folder / "mypy.ini").write_text("[mypy]\nfollow_imports = silent\n[mypy-torch.*]\nfollow_imports = skip\n"
                                     "[mypy-anyaccel.*]\nignore_errors = True\n")
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "--cache-dir", str(folder / "cache"),
                           "client.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=550)


# Fails if the stubs reject a correct program, or accept an incorrect one.
def test_client_is_checked_by_mypy(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    assert (STUB.parents[1] / "py.typed").exists()
    done = check_types(tmp_path, CLIENT)
    assert done.returncode == 0, done.stdout + done.stderr
    done = check_types(tmp_path, "from anyaccel import get_accelerator\n" + "\n".join(WRONG) + "\n")
    assert [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line] == ["2", "3", "4"], done.stdout
    done = check_types(tmp_path, AUTHOR)
    assert done.returncode == 0, done.stdout + done.stderr
    imports = "\n".join(line for line in AUTHOR.splitlines() if re.match("import|from", line)) + "\naccelerator = get_accelerator()\n"
    done = check_types(tmp_path, imports + "\n".join(AUTHOR_WRONG) + "\n")
    found = [int(line.split(":")[1]) - imports.count("\n") for line in done.stdout.splitlines() if ": error:" in line]
    assert found == list(range(1, len(AUTHOR_WRONG) + 1)), done.stdout
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
