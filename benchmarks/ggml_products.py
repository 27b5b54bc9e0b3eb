"""Multiplies a row by a quantized matrix with ggml, the library in llama-cpp-python, through
ctypes.

Each product is a graph with one mul_mat.
"""
import ctypes
import importlib.util
import pathlib

import torch

FORMATS = {"Q4_0": 2, "Q8_0": 8}
FLOAT32 = 0
WEIGHTS = 1  # GGML_BACKEND_BUFFER_USAGE_WEIGHTS
CONTEXT_BYTES = 1 << 20
pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
SILENT = ctypes.CFUNCTYPE(None, number, ctypes.c_char_p, pointer)(lambda *_: None)


class Parameters(ctypes.Structure):
    _fields_ = [("bytes", size), ("memory", pointer), ("without_data", ctypes.c_bool)]


def library():
    folder = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
    base, cpu = (ctypes.CDLL(str(folder / f"lib{name}.so"), mode=ctypes.RTLD_GLOBAL) for name in ("ggml-base", "ggml-cpu"))

    def declare(where, name, result, *arguments):
        function = getattr(where, name)
        function.restype, function.argtypes = result, list(arguments)

    declare(base, "ggml_init", pointer, Parameters)
    declare(base, "ggml_new_tensor_2d", pointer, pointer, number, ctypes.c_int64, ctypes.c_int64)
    declare(base, "ggml_mul_mat", pointer, pointer, pointer, pointer)
    declare(base, "ggml_new_graph", pointer, pointer)
    declare(base, "ggml_build_forward_expand", None, pointer, pointer)
    declare(base, "ggml_nbytes", size, pointer)
    declare(base, "ggml_get_data", pointer, pointer)
    declare(base, "ggml_quantize_chunk", size, number, pointer, pointer, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, pointer)
    declare(base, "ggml_backend_alloc_ctx_tensors_from_buft", pointer, pointer, pointer)
    declare(base, "ggml_backend_buffer_set_usage", None, pointer, number)
    declare(base, "ggml_backend_tensor_set", None, pointer, pointer, size, size)
    declare(base, "ggml_backend_get_default_buffer_type", pointer, pointer)
    declare(base, "ggml_backend_get_device", pointer, pointer)
    declare(base, "ggml_backend_dev_supports_op", ctypes.c_bool, pointer, pointer)
    declare(base, "ggml_backend_graph_compute", number, pointer, pointer)
    declare(cpu, "ggml_backend_cpu_init", pointer)
    declare(cpu, "ggml_backend_cpu_set_n_threads", None, pointer, number)
    base.ggml_log_set(SILENT, None)
    # A mangled C++ name, because ggml exports no C function that returns this buffer type.
    # llama.cpp gets the type from the device's list of buffer types.
    repack = getattr(cpu, "_Z35ggml_backend_cpu_repack_buffer_typev", None)
    if repack:
        repack.restype, repack.argtypes = pointer, []
    return base, cpu, repack


def sides(weight, name, threads):
    """Return {name: (bytes per matrix, function that makes a copy, function that multiplies)}."""
    base, cpu, repack = library()
    backend = cpu.ggml_backend_cpu_init()
    cpu.ggml_backend_cpu_set_n_threads(backend, threads)
    outputs, inputs = weight.shape
    weight = weight.contiguous()
    plain = base.ggml_backend_get_default_buffer_type(backend)

    def context():
        return base.ggml_init(Parameters(CONTEXT_BYTES, None, True))

    def matrix(kind):
        """Return a matrix in this kind of buffer and the graph that multiplies by it, or None if
        the buffer does not support it.
        """
        weights, others = context(), context()
        w = base.ggml_new_tensor_2d(weights, FORMATS[name], inputs, outputs)
        buffer = base.ggml_backend_alloc_ctx_tensors_from_buft(weights, kind)
        base.ggml_backend_buffer_set_usage(buffer, WEIGHTS)
        x = base.ggml_new_tensor_2d(others, FLOAT32, inputs, 1)
        product = base.ggml_mul_mat(others, w, x)
        if not base.ggml_backend_dev_supports_op(base.ggml_backend_get_device(backend), product):
            return None
        graph = base.ggml_new_graph(others)
        base.ggml_build_forward_expand(graph, product)
        base.ggml_backend_alloc_ctx_tensors_from_buft(others, plain)
        base.ggml_backend_tensor_set(w, codes.data_ptr(), 0, codes.nbytes)
        there = base.ggml_get_data(product)
        out = torch.frombuffer((ctypes.c_float * outputs).from_address(there), dtype=torch.float32).view(1, outputs)
        return base.ggml_get_data(x), graph, out

    def multiply(row, made):
        at, graph, out = made
        ctypes.memmove(at, row.data_ptr(), 4 * inputs)
        if base.ggml_backend_graph_compute(backend, graph) != 0:
            raise RuntimeError("ggml_backend_graph_compute() failed")
        return out

    probe = context()
    codes = torch.empty(base.ggml_nbytes(base.ggml_new_tensor_2d(probe, FORMATS[name], inputs, outputs)), dtype=torch.uint8)
    base.ggml_quantize_chunk(FORMATS[name], weight.data_ptr(), codes.data_ptr(), 0, outputs, inputs, None)
    kinds = {"ggml": plain} | ({"ggml_repacked": repack()} if repack else {})
    return {side: (codes.nbytes, lambda kind=kind: matrix(kind), multiply) for side, kind in kinds.items() if matrix(kind)}
