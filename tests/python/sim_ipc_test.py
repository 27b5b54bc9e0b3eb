"""Tensors on the simulated device in torch.multiprocessing: the receiver gets the same memory, with
CUDA's rules for its lifetime. Also pinned and shared host memory.
"""

import os
import subprocess
import sys

import pytest

import anyaccel

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)

START = """
import os, sys, time
import anyaccel, torch
import torch.multiprocessing as mp
DEVICE, METHOD = sys.argv[1:]
module = lambda: torch.get_device_module(DEVICE)

def held(index):
    module().ipc_collect()
    return module().memory_allocated(index)

def wait_until(what):
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.01)

class Channel:
    def __init__(self, function, *arguments):
        context = mp.get_context(METHOD)
        self.to, self.back = context.Queue(), context.Queue()
        self.process = context.Process(target=function, args=(self.to, self.back, *arguments))
        self.process.start()
    def get(self):
        return self.back.get(timeout=60)
    def join(self):
        self.process.join(60)
        return self.process.exitcode
"""


def run(path, code, device="sim", method="spawn", status=0, **variables):
    """Run `code` from a file, so that torch.multiprocessing can import it again in child processes.
    """
    program = path / "program.py"
    program.write_text(START + code)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("DS_", "SIM_"))}
    if device == "sim":
        environment["DS_ACCELERATOR"] = "sim"
    else:
        environment["SIM_STANDS_IN_FOR"] = device
    done = subprocess.run([sys.executable, "-B", str(program), device, method], env={**environment, **variables},
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done


EVERYWHERE = pytest.mark.parametrize(("device", "method"), [("sim", "spawn"), ("sim", "fork"), ("npu", "spawn"), ("cuda", "spawn"),
                                                           ("cuda", "fork")])


def need(device):
    import torch
    if device == "cuda" and torch.backends.cuda.is_built():
        pytest.skip("this LibTorch is built with CUDA, so the simulator cannot stand in for it")


# Fails if the receiver gets a copy, another device, or more than one storage for views of one
# storage; or if the sender's memory is freed while the receiver uses it, or is never freed.
@EVERYWHERE
def test_receiver_gets_the_same_memory(tmp_path, device, method):
    need(device)
    done = run(tmp_path, """
def receive(to, back):
    x = to.get()
    assert x.tolist() == [0, 1, 2, 3] and str(x.device) == DEVICE + ":1" and x.is_shared() and not x.requires_grad
    x.mul_(10)
    module().synchronize(1)
    back.put("multiplied")
    view, parameter = to.get(), to.get()
    assert view.data_ptr() == x.data_ptr() + 8 and view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad and parameter.shape == (2, 2)
    before = module().memory_allocated(1)
    back.put("views")
    assert to.get() == "freed by the sender"
    assert x.tolist() == [0, 10, 20, 30] and before == 0, "received memory must not count as allocated here"
    del x, view, parameter
    module().synchronize(1)
    back.put("released")
    empty = to.get()
    assert empty.shape == (0, 3) and empty.device.type == DEVICE
    back.put(torch.arange(6.0, device=DEVICE).reshape(2, 3).t())
    to.get()

if __name__ == "__main__":
    channel = Channel(receive)
    anyaccel.get_accelerator()
    x = torch.arange(4.0, device=DEVICE + ":1")
    assert x.is_shared() and x.share_memory_() is x
    channel.to.put(x)
    assert channel.get() == "multiplied" and x.tolist() == [0, 10, 20, 30]
    channel.to.put(x[2:])
    channel.to.put(torch.nn.Parameter(x.view(2, 2)))
    assert channel.get() == "views"
    before = held(1)
    del x
    assert held(1) == before > 0, "the memory is freed while the receiver uses it"
    assert torch.full((4,), 7.0, device=DEVICE + ":1").tolist() == [7] * 4
    channel.to.put("freed by the sender")
    assert channel.get() == "released"
    wait_until(lambda: held(1) == 0)
    channel.to.put(torch.empty(0, 3, device=DEVICE))
    back = channel.get()
    assert back.tolist() == [[0, 3], [1, 4], [2, 5]] and back.stride() == (1, 3)
    channel.to.put("end")
    assert channel.join() == 0
    assert back.sum().item() == 15, "the memory must outlive its process"
    print("passed")
""", device, method, SIM_CHECK="abort")
    assert done.stdout == "passed\n", done.stdout + done.stderr


# Fails if training in another process does not update the tensors of the model and the optimizer in
# this process.
def test_model_trains_in_another_process(tmp_path):
    done = run(tmp_path, """
def train(to, back, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(torch.ones(2, 4, device=DEVICE)).sum().backward()
    optimizer.step()
    module().synchronize()
    back.put("trained")

if __name__ == "__main__":
    anyaccel.get_accelerator()
    model = torch.nn.Linear(4, 3).to(DEVICE).share_memory()
    before = model.weight.detach().clone()
    channel = Channel(train, model)
    assert channel.get() == "trained"
    assert torch.equal(model.weight.detach(), before - 1) and channel.join() == 0
    print("passed")
""")
    assert done.stdout == "passed\n", done.stdout + done.stderr


# Fails if a call that CUDA rejects crashes or sends wrong data instead of raising a one-line error.
@pytest.mark.parametrize("device", ["sim", "cuda"])
def test_errors(tmp_path, device):
    need(device)
    done = run(tmp_path, """
from multiprocessing.reduction import ForkingPickler
import pickle

def message(function):
    try:
        function()
    except Exception as error:
        text = str(error)
        assert "\\n" not in text.split(" Exception raised from")[0], text
        return text
    raise AssertionError("no error")

def send(to, back):
    anyaccel.get_accelerator()
    back.put(torch.ones(3, device=DEVICE))
    to.get()

def leave(to, back):
    anyaccel.get_accelerator()
    x = torch.ones(3, device=DEVICE)
    back.put(bytes(ForkingPickler.dumps(x)))

if __name__ == "__main__":
    anyaccel.get_accelerator()
    channel = Channel(send)
    received = channel.get()
    assert "send a clone() of it" in message(lambda: ForkingPickler.dumps(received))
    assert "not resizable" in message(lambda: received.resize_(100))
    leaf = torch.ones(2, device=DEVICE, requires_grad=True)
    message(lambda: ForkingPickler.dumps(leaf * 2))
    message(lambda: ForkingPickler.dumps(leaf.untyped_storage()))
    channel.to.put(1)
    assert channel.join() == 0
    channel = Channel(leave)
    late = channel.get()
    channel.join()
    assert "cannot open device memory of another process: the process has exited" in message(lambda: pickle.loads(late))
    for handle in ("", "sim", "sim:1:2", "sim:1:2:3:4:5:x", "sim:1:2:3:4:5:6:7", "sim:1:2:3:4:0:0",
                   "sim:1:2:3:4:5:99999999999999999999"):
        assert "invalid handle" in message(lambda: torch.ops.anyaccel_sim.open(handle, 0)), handle
    handle = torch.ops.anyaccel_sim.share(torch.ones(2, device=DEVICE))
    assert "device index" in message(lambda: torch.ops.anyaccel_sim.open(handle, 9))
    kept = torch.ones(4, device=DEVICE)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            message(lambda: ForkingPickler.dumps(kept))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert kept.tolist() == [1] * 4
    print("passed")
""", device)
    assert done.stdout == "passed\n", done.stdout + done.stderr


# Fails if a forked child and its parent write to the same device memory.
def test_forked_child_has_memory_of_its_own(tmp_path):
    done = run(tmp_path, """
anyaccel.get_accelerator()
early = torch.empty(1024, device=DEVICE)  # allocated, but no stream has started
child = os.fork()
value = 1.0 if child == 0 else 2.0
time.sleep(0.2)
mine = early.fill_(value)
for _ in range(20):
    assert mine.sum().item() == 1024 * value, "another process has written to the memory"
    time.sleep(0.01)
del early, mine
module().empty_cache()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("passed")
""")
    assert done.stdout == "passed\n", done.stdout + done.stderr


# Fails if pinned memory changes when it is shared, if shared memory cannot be registered as pinned,
# or if a forked child can allocate from the pinned memory of its parent.
@pytest.mark.parametrize("device", ["sim", "cuda"])
def test_pinned_memory(tmp_path, device):
    need(device)
    done = run(tmp_path, """
def double(to, back):
    x = to.get()
    assert x.is_shared() and not x.is_pinned()
    x *= 2
    back.put("doubled")

if __name__ == "__main__":
    accelerator = anyaccel.get_accelerator()
    pinned = torch.arange(4.0).pin_memory()
    assert pinned.is_pinned() and not pinned.is_shared()
    shared = torch.arange(4.0).pin_memory().share_memory_()
    assert shared.is_shared() and not shared.is_pinned() and shared.tolist() == [0, 1, 2, 3]
    channel = Channel(double)
    channel.to.put(shared)
    assert channel.get() == "doubled" and shared.tolist() == [0, 2, 4, 6] and channel.join() == 0
    again = shared.pin_memory()
    assert again.is_pinned() and not again.is_shared() and again.tolist() == [0, 2, 4, 6]
    if accelerator.name() == "sim":
        accelerator.register_host_memory(shared.data_ptr(), 16)
        assert shared.is_pinned() and shared.is_shared()
        on_device = shared.to(DEVICE, non_blocking=True)
        module().synchronize()
        assert on_device.tolist() == [0, 2, 4, 6]
        accelerator.unregister_host_memory(shared.data_ptr())
        assert not shared.is_pinned()
    del again
    child = os.fork()
    if child == 0:
        try:
            torch.ones(4).pin_memory()
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert pinned.tolist() == [0, 1, 2, 3]
    print("passed")
""", device)
    assert done.stdout == "passed\n", done.stdout + done.stderr


# Fails if a DataLoader with worker processes cannot pin its batches and copy them to the device.
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader_pins_batches(tmp_path, method):
    done = run(tmp_path, """
if __name__ == "__main__":
    anyaccel.get_accelerator()
    data = torch.utils.data.TensorDataset(torch.arange(32.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context=METHOD)
    total = torch.zeros((), device=DEVICE)
    for batch, in loader:
        assert batch.is_pinned()
        total += batch.to(DEVICE, non_blocking=True).sum()
    assert total.item() == 496
    print("passed")
""", method=method)
    assert done.stdout == "passed\n", done.stdout + done.stderr
