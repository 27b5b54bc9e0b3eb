"""Writes and reads 1 GiB three times with a library's aio_handle or with fio, and prints the best
write rate and the best read rate in GB/s.

usage: async_io.py anyaccel|deepspeed|io_uring|libaio FOLDER
"""
import json
import os
import subprocess
import sys
import time

SIZE, BLOCK, DEPTH = 1 << 30, 1 << 20, 32
# On a shared disk, other users disturb almost every measurement, so only the best of several passes
# is reported.
PASSES = 3


def drop_cache(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def with_handle(builder, path):
    import torch
    handle = builder.load().aio_handle(BLOCK, DEPTH, False, True, 1)
    buffer = handle.new_cpu_locked_tensor(SIZE, torch.empty(0, dtype=torch.uint8))
    # Random content, as in fio's buffers.
    buffer.view(-1, 32 * BLOCK).copy_(torch.randint(256, (32 * BLOCK,), dtype=torch.uint8))
    def timed(call):
        start = time.perf_counter()
        call(buffer, path)
        seconds = time.perf_counter() - start
        drop_cache(path)
        return SIZE / seconds / 1e9

    return best(lambda: timed(handle.sync_pwrite), lambda: timed(handle.sync_pread))


def with_fio(engine, path):
    def timed(name):
        done = subprocess.run(["fio", "--name=bench", f"--filename={path}", f"--size={SIZE}", f"--bs={BLOCK}",
                               f"--iodepth={DEPTH}", "--direct=1", f"--ioengine={engine}", f"--rw={name}",
                               "--output-format=json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0][name]["bw_bytes"] / 1e9

    return best(lambda: timed("write"), lambda: timed("read"))


def best(write, read):
    passes = [(write(), read()) for _ in range(PASSES)]
    return {"write_gb_s": max(w for w, _ in passes), "read_gb_s": max(r for _, r in passes)}


side, folder = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
# All libraries use the same file, because its location on the disk matters more than the library.
# The file is created at its full size, so that every timed write overwrites existing blocks.
file_path = os.path.join(folder, "async_io.data")
if not os.path.exists(file_path) or os.path.getsize(file_path) != SIZE:
    with open(file_path, "wb") as made:
        for _ in range(SIZE // BLOCK):
            made.write(os.urandom(BLOCK))
        made.flush()
        os.fsync(made.fileno())
if side == "anyaccel":
    import anyaccel
    numbers = with_handle(anyaccel.get_accelerator().create_op_builder("AsyncIOBuilder"), file_path)
elif side == "deepspeed":
    from deepspeed.ops.op_builder import AsyncIOBuilder
    numbers = with_handle(AsyncIOBuilder(), file_path)
else:
    numbers = with_fio(side, file_path)
print(json.dumps(numbers))
