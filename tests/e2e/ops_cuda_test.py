"""Tests that the CUDA kernels of the ops compile for sm_80, sm_90, PTX and, if nvcc supports it,
sm_100. The tests need nvcc but no GPU.
"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

FAT_BINARY = struct.pack("<IH", 0xBA55ED50, 1)
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def device_code(library):
    """Return the kind and architecture of each entry in a library's fat binaries. Each fat binary
    and each entry begins with a header.
    """
    found = set()
    start = library.find(FAT_BINARY)
    while start >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", library, start)
        at, end = start + header, start + header + size
        while at < end:
            kind, _, header, size, _, _, _, _, arch = struct.unpack_from("<HHIQIIHHI", library, at)
            found.add(({1: "ptx", 2: "elf"}.get(kind, kind), arch))
            at += header + size
        start = library.find(FAT_BINARY, end)
    return found


def newest():
    known = subprocess.run([NVCC, "--list-gpu-arch"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return [80, 90, *([100] if "compute_100" in known else [])]


class CudaSources(unittest.TestCase):
    def check(self, ops, archs):
        """Build ops for `archs`, and for the last of them also as PTX."""
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "ANYACCEL_OP_CACHE": folder, "NVCC": NVCC}
            for op in ops:
                done = subprocess.run([os.environ["ANYACCEL_PROGRAM"], "ops", "build", op, "--backend", "cuda", "--cuda-archs",
                                       ";".join(map(str, archs)) + "+PTX"],
                                      env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
                self.assertEqual(done.returncode, 0, done.stdout)
                (library,) = pathlib.Path(folder).glob(f"**/libanyaccel_op_{op}_cuda.so")
                self.assertEqual(device_code(library.read_bytes()), {("ptx", archs[-1]), *(("elf", arch) for arch in archs)})

    # Fails if a CUDA op does not compile, or if its library lacks an architecture.
    def test_fused_optimizers(self):
        self.check(("fused_adam", "fused_lamb", "fused_lion"), [80, 90])

    # Fails if a CUDA op does not compile, or if its library lacks an architecture. nvcc has
    # supported sm_100 since version 12.8.
    def test_quantizers(self):
        self.check(("quantizer", "fp_quantizer"), newest())

    def test_tokens_biases_and_attention(self):
        self.check(("evoformer_attn", "random_ltd", "spatial_inference"), newest())

    def test_layers(self):
        self.check(("sparse_attn", "transformer"), newest())

    def test_inference(self):
        self.check(("decoder_inference",), newest())


if __name__ == "__main__":
    if NVCC is None:
        print("SKIP: nvcc is not installed")
        sys.exit(77)
    unittest.main()
