"""Recordings with known contents for the tests of the profile page, and what their pages contain."""
import base64
import gzip
import json
import re

from anyaccel.profiler.report import main

BASE = 1_700_000_000_000_000_000  # ns


class Recording:
    """Windows of one process. Times are µs since the recording's start."""
    def __init__(self, folder, rank=0, pid=100, **process):
        self.folder = folder / "raw" / f"node-{pid}"
        self.folder.mkdir(parents=True)
        self.pid, self.external, self.windows = pid, 0, 0
        self.events, self.lines = [], {}
        self.process = {
            "version": 1, "host": "node", "pid": pid, "parent": 1, "argv": ["python3", "train.py"], "rank": rank,
            "local_rank": rank, "world_size": 1, "accelerator": "sim", "device_type": "sim", "device_name": "sim:0",
            "device_count": 1, "torch": "2.13.0", "python": "3.11.2", "start_ns": BASE, "end_ns": BASE + 10**9,
            "clock_offset_ns": 0, "exit": {"kind": "exit", "detail": "0"}, "dropped_events": 0, "dropped_windows": 0,
            "limits": {"max_events": 10**6}, "overhead_ns": 0, "peak": None, **process
        }

    def host(self, name, begin, duration, cat="cpu_op", tid=None, shapes=None, line=None, **args):
        """Add an event of a host thread and return its external id."""
        self.external += 1
        if shapes:
            args.update({"Input Dims": [s for s, _ in shapes], "Input type": [t for _, t in shapes]})
        tid = tid or self.pid
        self.events.append({
            "ph": "X", "cat": cat, "name": name, "pid": self.pid, "tid": tid, "ts": begin, "dur": duration,
            "args": {"External id": self.external, **args}
        })
        if line:
            self.lines.setdefault(str(tid), []).append((BASE + round(begin * 1000), line))
        return self.external

    def kernel(self, name, begin, duration, external=0, device=0, stream=0, cat="kernel"):
        self.events.append({
            "ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": begin, "dur": duration,
            "args": {"External id": external, "stream": stream}
        })

    def memory(self, time, address, size, total, kind=20, device=0):
        self.events.append({
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": self.pid, "tid": self.pid, "ts": time,
            "args": {
                "Total Reserved": total, "Total Allocated": total, "Bytes": size, "Device Id": device, "Device Type": kind,
                "Addr": address
            }
        })

    def span(self, begin, end):
        """Set the time that the window covers."""
        self.events.append({
            "ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": begin,
            "dur": end - begin
        })

    def window(self):
        """Write the events so far as a window and return its path."""
        self.windows += 1
        path = self.folder / f"window-{self.windows:04}.json.gz"
        # Like torch, with spaces and lines.
        data = {"schemaVersion": 1, "baseTimeNanoseconds": BASE, "traceEvents": self.events}
        path.write_bytes(gzip.compress(json.dumps(data, indent=1).encode()))
        frames = sorted({line for rows in self.lines.values() for _, line in rows})
        if frames:
            threads = {
                tid: {"start_ns": [t for t, _ in rows], "frame": [frames.index(line) for _, line in rows]}
                for tid, rows in self.lines.items()
            }
            (self.folder / f"lines-{self.windows:04}.json.gz").write_bytes(
                gzip.compress(json.dumps({"frames": frames, "threads": threads}).encode()))
        self.events, self.lines = [], {}
        return path

    def finish(self):
        """Write process.json."""
        if self.events:
            self.window()
        (self.folder / "process.json").write_text(json.dumps(self.process))
        return self


def training(folder, steps=6, layers=8, ranks=2, seed=1):
    """Write a recording like that of a training program on several ranks."""
    import random
    for rank in range(ranks):
        r = Recording(folder, rank=rank, pid=100 + rank, world_size=ranks, device_name="Simulated accelerator",
                      clock_offset_ns=1500 * rank, argv=["python3", "train.py", "--layers",
                                                         str(layers)],
                      peak={"flops": {"float32": 1.8e14, "bfloat16": 7.2e14}, "bytes_per_second": 4e12})
        for tid, name in ((r.pid, "python3"), (90 + rank, "pt_autograd_0")):
            r.events.append(
                {"ph": "M", "name": "thread_name", "pid": r.pid, "tid": tid, "ts": 0, "args": {"name": f"thread {tid} ({name})"}})
        noise, host, device, total, address = random.Random(seed + rank), 100.0, 0.0, 96 << 20, 1000
        weight = 1 + 0.25 * rank
        for step in range(steps):

            def op(name, launch, work, shapes, line, stream=0, size=0, tid=None):
                nonlocal host, device, total, address
                launch *= noise.uniform(0.8, 1.3)
                external = r.host(name, host, launch, shapes=shapes, line=line, tid=tid)
                if size:
                    inner = r.host("aten::empty", host + launch * 0.2, launch * 0.2, tid=tid)
                    assert inner
                    total += size
                    address += 1
                    r.memory(host + launch * 0.3, address, size, total)
                    live.append((address, size))
                begin = max(host + launch * 0.8, device)
                work *= noise.uniform(0.4, 0.5) * weight
                r.kernel(name + (".out" if name == "aten::addmm" else ""), begin, work, external, stream=stream)
                host += launch + noise.uniform(2, 6)
                device = begin + work

            live = []
            r.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", host, 380, cat="user_annotation")
            host += 400
            begin = host
            op("aten::copy_", 60, 90, [([16, 512], "long int")], "train.py:31 in main", size=1 << 16)
            for layer in range(layers):
                start = host
                op("aten::native_layer_norm", 25, 30, [([8192, 576], "float")], "model.py:18 in forward", size=18 << 20)
                op("aten::addmm", 30, 240, [([1728], "float"), ([8192, 576], "float"), ([576, 1728], "float")],
                   "model.py:22 in attention", size=54 << 20)
                op("aten::_scaled_dot_product_flash_attention", 35, 310, [([16, 9, 512, 64], "float")] * 3,
                   "model.py:25 in attention", size=18 << 20)
                op("aten::addmm", 30, 210, [([1536], "float"), ([8192, 576], "float"), ([576, 1536], "float")],
                   "model.py:31 in mlp", size=48 << 20)
                op("aten::gelu", 20, 60, [([8192, 1536], "float")], "model.py:32 in mlp", size=48 << 20)
                r.host(f"layer {layer}", start - 1, host - start, cat="user_annotation")
            r.host("forward", begin - 2, host - begin, cat="user_annotation")
            begin = host
            backward = 90 + rank
            for layer in reversed(range(layers)):
                for name, work in (("GeluBackward0", 70), ("AddmmBackward0", 420), ("ScaledDotProductFlashAttentionBackward0", 560),
                                   ("AddmmBackward0", 460)):
                    op(f"autograd::engine::evaluate_function: {name}", 45, work, None, None, tid=backward)
                    if live:
                        gone, size = live.pop()
                        total -= size
                        r.memory(host, gone, -size, total)
                external = r.host("c10d::allreduce_", host, 20, tid=backward)
                r.kernel("allreduce float32", device, 260, external, stream=7)
            r.host("backward", begin - 2, host - begin + 1, cat="user_annotation")
            wait = device + 300
            r.host("aten::item", host, wait - host, line="train.py:38 in main")
            r.host("aten::_local_scalar_dense", host + 1, wait - host - 2)
            r.kernel("Memcpy DtoH (Device -> Pageable)", wait - 30, 20, r.external, cat="gpu_memcpy")
            host = wait + 20
            begin = host
            for _ in range(60):
                op("aten::addcdiv", 14, 4, [([576, 576], "float")], "train.py:39 in main")
            r.host("Optimizer.step#AdamW.step", begin - 2, host - begin, cat="user_annotation")
            while live:
                gone, size = live.pop()
                total -= size
                r.memory(host, gone, -size, total)
            if step % 3 == 2:
                r.window()
        r.finish()
        if rank == 0:
            (r.folder / "findings.json").write_text(
                json.dumps({
                    "tool": "anyaccel sim check", "version": 1, "problems": [{
                        "kind": "unordered_streams", "op": "aten::gelu", "stream": "the default stream of sim:0",
                        "line": "model.py:32 in mlp", "seen": 3,
                        "what": "aten::gelu on the default stream of sim:0 reads memory that aten::copy_ on stream 1 of sim:0 "
                                "writes, and neither waits for the other",
                        "remedy": "record an event on the first stream and let the second wait for it (stream.wait_stream, "
                                  "event.wait)"
                    }]
                }))


def build(folder, **options):
    """Return (header of the page's data, columns, summary)."""
    text = main.build(folder, **options)
    page = (folder / "profile.html").read_text("utf-8")
    packed = re.search(r'<script id="data" type="application/octet-stream">([A-Za-z0-9+/=]*)</script>', page)[1]
    whole = gzip.decompress(base64.b64decode(packed))
    size = int.from_bytes(whole[:4], "little")
    data = json.loads(whole[4:4 + size])
    columns = {
        name:
        list(
            memoryview(whole)[4 + size + at:4 + size + at + count * {
                "f64": 8,
                "u32": 4,
                "i32": 4,
                "u8": 1
            }[kind]].cast({
                "f64": "d",
                "u32": "I",
                "i32": "i",
                "u8": "B"
            }[kind]))
        for name, (kind, at, count) in data["columns"].items()
    }
    return data, columns, text


def rules(data):
    return [s["rule"] for s in data["suggestions"]]


def by_name(data, columns, name):
    """Indices of the events with a name."""
    return [i for i, n in enumerate(columns["name"]) if data["strings"][n] == name]


def simple(folder, **process):
    """1000 µs: two kernels of 300 µs, launched by mm and gelu."""
    r = Recording(folder, **process)
    mm = r.host("aten::mm", 50, 40, shapes=[([64, 32], "float"), ([32, 16], "float")], line="a.py:1 in f")
    gelu = r.host("aten::gelu", 120, 30, shapes=[([64, 16], "float")], line="a.py:2 in f")
    r.kernel("gemm", 100, 300, mm)
    r.kernel("gelu", 600, 300, gelu)
    r.span(0, 1000)
    return r
