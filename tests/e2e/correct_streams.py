"""Correct programs with several streams, devices and threads. The checker must not report any
problem in these programs.
"""
import asyncio
import multiprocessing.pool
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch
import torch.distributed
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


def in_order(work, passed, taken):
    """Change a tensor in a thread, and use it here after the thread has handed it over."""
    tensor = torch.zeros(32, device=first)

    def run():
        with torch.Stream(first):
            accelerator.current_stream().synchronize()
        work(tensor)
        passed()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    taken()
    tensor.mul_(2)
    thread.join()


def threads_that_pass_tensors_on():
    def change(tensor):
        tensor.add_(1)

    for make in (queue.Queue, queue.LifoQueue, queue.SimpleQueue):
        ready = make()
        in_order(change, lambda: ready.put(1), ready.get)
        polled = make()

        def poll():
            while polled.empty():
                time.sleep(0.001)
            polled.get_nowait()

        in_order(change, lambda: polled.put(1), poll)
    event, semaphore, barrier, condition, flags = (threading.Event(), threading.Semaphore(0), threading.Barrier(2),
                                                   threading.Condition(), [])
    in_order(change, event.set, event.wait)
    seen = threading.Event()

    def poll_event():
        while not seen.is_set():
            time.sleep(0.001)

    in_order(change, seen.set, poll_event)
    in_order(change, semaphore.release, semaphore.acquire)
    in_order(change, barrier.wait, barrier.wait)

    def notify():
        with condition:
            flags.append(1)
            condition.notify()

    def wait():
        with condition:
            condition.wait_for(lambda: flags)

    in_order(change, notify, wait)


def pools():
    def double(tensor):
        return tensor.mul_(2)

    with ThreadPoolExecutor(3) as pool:
        tensors = [torch.ones(16, device=first) for _ in range(12)]
        for _ in range(3):
            tensors = list(pool.map(double, tensors))
        futures = [pool.submit(double, tensor) for tensor in tensors]
        sum(future.result() for future in as_completed(futures)).sum().item()
        chained = pool.submit(double, tensors[0])
        while not chained.done():
            time.sleep(0.001)
        tensors[0].add_(1)
    with multiprocessing.pool.ThreadPool(2) as pool:
        for tensor in pool.imap_unordered(double, tensors):
            tensor.add_(1)

    async def run():
        for _ in range(4):
            await asyncio.gather(*[asyncio.to_thread(double, tensor) for tensor in tensors])
            for tensor in tensors:
                tensor.add_(1)

    asyncio.run(run())


def backward_in_threads():
    weight = torch.ones(16, 16, device=first, requires_grad=True)
    lock = threading.Lock()

    def work():
        for _ in range(5):
            own = torch.ones(16, 16, device=first, requires_grad=True)
            (own @ weight.detach()).relu().sum().backward()
            own.grad.zero_()
            with lock:
                (weight * own.grad).sum().backward()
                weight.grad.mul_(0.5)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    weight.grad.sum().item()


def checkpoints_in_a_thread():
    net = torch.nn.Linear(16, 16).to(first)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    copies, pool, saved = torch.Stream(first), ThreadPoolExecutor(1), None
    for _ in range(5):
        net(torch.ones(4, 16, device=first)).square().mean().backward()
        if saved is not None:
            saved.result()  # the copies are complete
        optimizer.step()
        optimizer.zero_grad()
        stepped = accelerator.current_stream().record_event()

        def save(stepped=stepped):
            with copies:
                copies.wait_event(stepped)
                values = {name: value.to("cpu", non_blocking=True) for name, value in net.state_dict().items()}
            copies.synchronize()
            return values

        saved = pool.submit(save)
    pool.shutdown()


def loader_with_pinned_batches():
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.arange(64))
    for workers in (0, 2):
        total = torch.zeros(8, device=first)
        for values, _ in torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True, num_workers=workers):
            total += values.to(first, non_blocking=True).sum(0)
        total.sum().item()


def ring_of_pinned_losses():
    """While a copy into an entry of the ring is in flight, use only other entries. Use the entry
    itself after a wait.
    """
    ring, loss = torch.zeros(16, pin_memory=True), torch.ones((), device=first)
    entries = ring.numpy()
    for index in range(4):
        ring[index].copy_(loss, non_blocking=True)
        entry = ring[index].numpy()
        rest = ring[index + 1:]
        rest.add_(1)
        assert rest.sum().item() == (index + 1) * len(rest) and max(rest.tolist()) == entries[15] == index + 1
        torch.accelerator.current_stream().synchronize()
        assert float(entry) == float(ring[index]) == entries[index] == 1
        entry.fill(2)
        assert ring[index] == 2


def collectives():
    torch.distributed.init_process_group("staged", store=torch.distributed.HashStore(), rank=0, world_size=1)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16).to(first))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(torch.ones(4, 16, device=first)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    total = torch.ones(64, device=first)
    works = [torch.distributed.all_reduce(part, async_op=True) for part in total.chunk(2)]
    for work in works:
        work.wait()
    total.mul_(2).sum().item()
    future = torch.distributed.all_reduce(total, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    future.wait().sum().item()
    torch.distributed.destroy_process_group()


forward_on_a_side_stream()
pipeline_over_two_devices()
threads_with_own_streams()
averages_on_side_stream_and_polling_log()
rows_of_one_cache()
threads_that_pass_tensors_on()
pools()
backward_in_threads()
checkpoints_in_a_thread()
loader_with_pinned_batches()
ring_of_pinned_losses()
collectives()
