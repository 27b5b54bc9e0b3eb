"""Computes the FLOPs and bytes of ops from the shapes of their inputs. For unknown ops, the page
shows n/a instead of a guess.
"""
from math import prod
from typing import Any, Dict, List, Optional, Tuple

SIZES = {
    "float": 4, "double": 8, "int": 4, "long int": 8, "long": 8, "bool": 1, "unsigned char": 1, "signed char": 1, "short": 2,
    "c10::BFloat16": 2, "c10::Half": 2, "c10::complex<float>": 8, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1
}
TYPES = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}
MATMULS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_addmm_activation"}

_UNARY = {
    "aten::gelu", "aten::relu", "aten::relu_", "aten::silu", "aten::sigmoid", "aten::tanh", "aten::exp", "aten::log", "aten::neg",
    "aten::sqrt", "aten::rsqrt", "aten::clone", "aten::cos", "aten::sin", "aten::abs"
}
_BINARY = {
    "aten::add", "aten::sub", "aten::mul", "aten::div", "aten::add_", "aten::sub_", "aten::mul_", "aten::div_",
    "aten::gelu_backward", "aten::threshold_backward", "aten::silu_backward", "aten::sigmoid_backward", "aten::tanh_backward"
}
_FILL = {"aten::fill_", "aten::zero_"}


def base_name(name: str) -> str:
    """Name of an op without its overload: "aten::mm.out" is "aten::mm"."""
    return name.split(".")[0] if name.startswith("aten::") else name


def dtype(types: Any) -> str:
    """The dtype of the first floating-point tensor, or ""."""
    return next((TYPES[t] for t in types if isinstance(t, str) and t in TYPES), "") if isinstance(types, list) else ""


def _sizes(dims: List[Any], types: List[Any]) -> List[Tuple[List[int], int]]:
    """(shape, bytes per element) for each tensor."""
    return [(shape, SIZES[kind]) for shape, kind in zip(dims, types)
            if isinstance(kind, str) and kind in SIZES and isinstance(shape, list) and all(
                isinstance(n, int) and n >= 0 for n in shape)]


def cost(name: str, args: Any) -> Tuple[Optional[int], Optional[int]]:
    """Return (FLOPs, bytes read and written) for a call, each None if unknown."""
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list):
        return None, None
    tensors = _sizes(dims, types)
    op = base_name(name)
    try:
        if op in MATMULS:
            bias = op in ("aten::addmm", "aten::baddbmm", "aten::_addmm_activation")
            (a, size), (b, _) = tensors[1:3] if bias else tensors[:2]
            m, k, n, batch = a[-2], a[-1], b[-1], prod(a[:-2])
            if b[-2] != k:
                return None, None
            return 2 * batch * m * k * n, size * batch * (m * k + k * n + m * n)
        if op in _UNARY:
            return None, 2 * prod(tensors[0][0]) * tensors[0][1]
        if op in _BINARY:
            out = max(prod(shape) for shape, _ in tensors) * tensors[0][1]
            return None, out + sum(prod(shape) * size for shape, size in tensors[:2])
        if op == "aten::copy_":
            return None, sum(prod(shape) * size for shape, size in tensors[:2])
        if op in _FILL:
            return None, prod(tensors[0][0]) * tensors[0][1]
    except (IndexError, ValueError):
        pass
    return None, None


def shapes(args: Any) -> str:
    """Shapes and types of the tensors, for example "float32 [4, 8], int64 [4]"."""
    dims, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list):
        return ""
    parts = [
        f"{TYPES.get(kind, kind)} {shape}" for shape, size in zip(dims, types) for kind in [size]
        if isinstance(kind, str) and kind in SIZES and isinstance(shape, list)
    ]
    return ", ".join(parts)[:200]


_cache: Dict[Tuple[str, str], Tuple[str, Tuple[Optional[int], Optional[int]], str]] = {}


def inputs(name: str, args: Any) -> Tuple[str, Tuple[Optional[int], Optional[int]], str]:
    """Return (shapes, cost, type) for a call. Programs repeat the same calls, so results are
    cached.
    """
    key = (name, f"{args.get('Input Dims')}{args.get('Input type')}")
    found = _cache.get(key)
    if found is None:
        if len(_cache) > 20_000:
            _cache.clear()
        found = _cache[key] = (shapes(args), cost(name, args), dtype(args.get("Input type")))
    return found
