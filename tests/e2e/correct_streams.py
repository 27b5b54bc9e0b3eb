"""Correct programs with several streams, devices and threads. The checker must not report any
problem in these programs.
"""
import threading

import torch
from torch.utils.checkpoint import checkpoint

accelerator = torch.accelerator
first, second = torch.device("sim:0"), torch.device("sim:1")
torch.manual_seed(0)
side = torch.Stream(first)


def forward_on_a_side_stream():
    main = accelerator.current_stream()
    weight = torch.randn(32, 32).to(first).requires_grad_(True)
    for _ in range(3):
        data = torch.randn(8, 32).to(first)
        side.wait_stream(main)
        with side:
            loss = (data @ weight).relu().sum()
        main.wait_stream(side)
        loss.backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
        weight.grad = None
    side.wait_stream(main)
    with side:
        (weight * 2).sum().backward()
    main.wait_stream(side)
    weight.grad.zero_()


def pipeline_over_two_devices():
    front, back = torch.nn.Linear(16, 16).to(first), torch.nn.Linear(16, 16).to(second)
    optimizer = torch.optim.AdamW([*front.parameters(), *back.parameters()])
    for _ in range(4):
        back(front(torch.randn(4, 16).to(first)).relu().to(second)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def threads_with_own_streams():
    results = [None, None]

    def work(number):
        stream = torch.Stream(first)
        with stream:
            results[number] = torch.randn(64, 64).to(first).mm(torch.ones(64, 64, device=first)).sum()
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (results[0] + results[1]).item()


def averages_on_side_stream_and_polling_log():
    net = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)]).to(first)
    averages = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    host, copied, pending, logged = torch.empty(1).pin_memory(), torch.Event(device=first), False, []
    stepped, averaged = torch.Event(device=first), torch.Event(device=first)
    for step in range(6):
        data = torch.randn(4, 16).pin_memory().to(first, non_blocking=True)
        loss = checkpoint(net, data, use_reentrant=False).square().mean()
        loss.backward()
        if step > 0:
            accelerator.current_stream().wait_event(averaged)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        stepped.record()
        with side:
            side.wait_event(stepped)
            for average, parameter in zip(averages, net.parameters()):
                average.lerp_(parameter.detach(), 0.1)
            averaged.record(side)
        if pending and copied.query():
            logged.append(host.item())
            pending = False
        if not pending:
            host.copy_(loss.detach().reshape(1), non_blocking=True)
            copied.record()
            pending = True
    accelerator.synchronize()


def rows_of_one_cache():
    cache, streams = torch.zeros(2, 64, 8, device=first), [torch.Stream(first), torch.Stream(first)]
    for stream in streams:
        stream.wait_stream(accelerator.current_stream())
    for position in range(128):
        with streams[position % 2]:
            cache[position % 2, position // 2] = 1.0
    for stream in streams:
        accelerator.current_stream().wait_stream(stream)
    assert cache.sum().item() == 2 * 64 * 8


forward_on_a_side_stream()
pipeline_over_two_devices()
threads_with_own_streams()
averages_on_side_stream_and_polling_log()
rows_of_one_cache()
