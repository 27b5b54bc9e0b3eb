"""Programs with a bug and their corrected versions: `stream_bugs.py NAME bug|fixed`. The checker must
report the bug, and must not report anything in the corrected version.
"""
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

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
    time.sleep(0.5)  # the copies end before the weights change, but nothing guarantees it
    step(net, optimizer)
    thread.join()


def checkpoint_on_default_stream(fixed):
    """A pool's thread copies the weights on the stream that training uses."""
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


PROGRAMS = {each.__name__: each for each in (checkpoint_thread, checkpoint_on_default_stream, batch_not_awaited)}

if __name__ == "__main__":
    name, version = sys.argv[1:]
    PROGRAMS[name](version == "fixed")
