"""Programs with a bug and their corrected versions: `stream_bugs.py NAME bug|fixed`. The checker must
report the bug, and must not report anything in the corrected version.
"""
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed

device = torch.device("sim:0")


def current():
    return torch.accelerator.current_stream()


def model():
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)]).to(device)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def step(net, optimizer):
    net(torch.randn(4, 16).to(device)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def checkpoint_thread(fixed):
    """A thread copies the weights on its own stream and waits for the copies, while training changes the weights."""
    net, optimizer = model()
    step(net, optimizer)
    saved = []
    weights = [parameter.detach() for parameter in net.parameters()]
    ready = torch.Event(device=device)
    ready.record()

    def save():
        stream = torch.Stream(device)
        with stream:
            stream.wait_event(ready)
            saved.extend(weight.to("cpu", non_blocking=True) for weight in weights)
        stream.synchronize()

    thread = threading.Thread(target=save)
    thread.start()
    if fixed:
        thread.join()
    time.sleep(0.5)  # the copies finish before the weights change, but nothing guarantees this
    step(net, optimizer)
    thread.join()


def checkpoint_on_default_stream(fixed):
    """A thread-pool worker copies the weights on the stream that training uses."""
    net, optimizer = model()
    with ThreadPoolExecutor(1) as pool:
        saved = pool.submit(lambda: {name: value.cpu() for name, value in net.state_dict().items()})
        if fixed:
            saved.result()
        time.sleep(0.5)
        step(net, optimizer)


def batch_not_awaited(fixed):
    """A loader thread fills a batch in place. The consumer sleeps, or waits for a queue."""
    batch, ready = torch.zeros(64, device=device), queue.SimpleQueue()

    def load():
        batch.add_(1)
        if fixed:
            ready.put(batch)

    thread = threading.Thread(target=load)
    thread.start()
    time.sleep(0.3)
    if fixed:
        ready.get()
    (batch * 2).sum().item()
    thread.join()


def freed_without_record_stream(fixed):
    """A batch is freed while a side stream may still read it, and its memory is reused."""
    side = torch.Stream(device)  # the side stream
    for _ in range(3):
        batch = torch.ones(1 << 16, device=device)
        side.wait_stream(current())
        with side:
            batch.mul(2)
        if fixed:
            batch.record_stream(side)
        del batch  # the free
        torch.zeros(1 << 16, device=device)


def process_group():
    torch.distributed.init_process_group("staged", store=torch.distributed.HashStore(), rank=0, world_size=1)


def collective_not_awaited(fixed):
    """The host reads the sum of an asynchronous all-reduce before it has waited for it."""
    process_group()
    total = torch.ones(1 << 16, device=device)
    work = torch.distributed.all_reduce(total, async_op=True)
    if fixed:
        work.wait()
    total[0].item()
    time.sleep(0.5)
    work.wait()
    torch.distributed.destroy_process_group()


def collective_read_late(fixed):
    """Like collective_not_awaited, but the collective happens to complete before the host reads the
    sum.
    """
    process_group()
    total = torch.ones(1 << 16, device=device)
    work = torch.distributed.all_reduce(total, async_op=True)
    if fixed:
        work.wait()
    time.sleep(0.5)
    total.cpu()
    torch.distributed.destroy_process_group()


def collective_awaited_on_other_stream(fixed):
    """wait() makes only the current stream wait, but another stream uses the sum."""
    process_group()
    total, side = torch.ones(1 << 16, device=device), torch.Stream(device)
    side.wait_stream(current())
    work = torch.distributed.all_reduce(total, async_op=True)
    if not fixed:
        work.wait()
    with side:
        if fixed:
            work.wait()
        total.mul(2)
    side.synchronize()
    torch.distributed.destroy_process_group()


class Twice(torch.autograd.Function):
    fixed = False

    @staticmethod
    def forward(ctx, values):
        result = values.exp()
        if Twice.fixed:
            ctx.save_for_backward(result)
        else:
            ctx.result = result  # a reference cycle through C++, which Python cannot collect
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0] if Twice.fixed else ctx.result)


def leaked_output(fixed):
    """A custom autograd function stores its output without save_for_backward()."""
    Twice.fixed = fixed
    Twice.apply(torch.ones(100, device=device, requires_grad=True)).sum().item()


def buffer_never_filled(fixed):
    """A running mean is created with empty() and read before it is first written."""
    mean = torch.empty(64, device=device)
    if fixed:
        mean.zero_()
    (mean * 0.9 + 0.1).sum().item()
    copied, out = torch.empty(8, device=device), torch.empty(8, device=device)
    copied.copy_(torch.ones(8))
    torch.mul(copied, 2, out=out)
    out.sum().item()


def ring_read_early(fixed, read):
    """A loop reads the newest entry of a pinned ring of losses while the copy into it may be in flight."""
    ring = torch.zeros(16).pin_memory()
    loss = torch.ones((), device=device) * 3
    for index in range(2):
        ring[index].copy_(loss, non_blocking=True)
        assert ring[15].item() == 0  # on the same page, but not written
    if fixed:
        current().synchronize()
    read(ring[1])


def ring_item(fixed):
    ring_read_early(fixed, lambda entry: entry.item())


def ring_op(fixed):
    ring_read_early(fixed, lambda entry: entry + 1)


def ring_tolist(fixed):
    ring_read_early(fixed, lambda entry: entry.tolist())


def ring_numpy(fixed):
    ring_read_early(fixed, lambda entry: float(entry.numpy()))


def batch_slot_overwritten(fixed):
    """A loader writes the next batch into a slot of a pinned buffer that a copy to the device may still read."""
    slots = torch.zeros(4, 8).pin_memory()
    batch = slots[1].to(device, non_blocking=True)
    if fixed:
        current().synchronize()
    slots[1].fill_(7)
    assert batch.shape == (8,)


def autocast_by_name(fixed):
    """Autocast for CUDA has no effect on another accelerator; torch only warns."""
    net, _ = model()
    with torch.autocast("cuda", enabled=False), torch.autocast(device.type if fixed else "cuda", torch.bfloat16):
        result = net(torch.ones(4, 16, device=device))
    assert (result.dtype == torch.bfloat16) == fixed


PROGRAMS = {each.__name__: each for each in (
    checkpoint_thread, checkpoint_on_default_stream, batch_not_awaited, freed_without_record_stream, collective_not_awaited,
    collective_read_late, collective_awaited_on_other_stream, leaked_output,
    buffer_never_filled, ring_item, ring_op, ring_tolist, ring_numpy, batch_slot_overwritten, autocast_by_name)}

if __name__ == "__main__":
    name, version = sys.argv[1:]
    PROGRAMS[name](version == "fixed")
