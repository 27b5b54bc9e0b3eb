# Made by tools/stubs from include/anyaccel/accelerator.h; do not edit.
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import torch

from .._native import DeviceProperties, DtypeRow, DtypeSupport, Graph, GraphPool, HostMemoryStats, MemoryInfo, MemoryStats, Random, Scope
from .._native import Event as Event_
from ..op_builder import OpBuilder
from ..stream import Stream as Stream_
from .amp import Amp

class Accelerator:
    """The accelerator of a program. Get it from `get_accelerator()`; docs/reference/methods.md lists what each method does."""

    def __init__(self, backend: Any = None) -> None: ...
    def device_type(self) -> str:
        """torch's name of the accelerator's device type."""
    def is_synchronized_device(self) -> bool:
        """True when work is finished once the call that queues it returns (cpu)."""
    def use_host_timers(self) -> bool:
        """True when timers should read the host's clock and not events."""
    def resolves_data_dependency(self) -> bool:
        """True when the device orders dependent work of different streams itself."""
    def handles_memory_backpressure(self) -> bool:
        """True when an allocation waits for memory in use instead of failing."""
    def name(self) -> str:
        """Name in the registry, for example "cuda": what `DS_ACCELERATOR` says."""
    def is_available(self) -> bool:
        """True when at least one device can be used. Starts nothing."""
    def device_name(self, device_index: int | None = None) -> str:
        """torch's name for the accelerator's devices, for example "cuda", valid as a torch.device. With an index "cuda:1", or
        still the plain name if names carry no index (cpu, hpu). Without an index it never touches the device. An index out of
        range is handled as in set_device()."""
    def device(self, device_index: int | None = None) -> Scope:
        """Makes a device current for a `with` block; none given: the current one."""
    def torch_device(self, device_index: int | None = None) -> torch.device:
        """torch's object for a device, to be given to factory functions and `tensor.to`."""
    def set_device(self, device_index: int) -> None:
        """Makes a device current on this thread. If names carry no index (cpu, hpu), an index out of range means device 0."""
    def current_device(self) -> int:
        """Index of this thread's device: always a number."""
    def current_device_name(self) -> str:
        """Name of this thread's device: always valid as a torch.device."""
    def device_count(self) -> int:
        """Number of devices that this process may use. Starts nothing."""
    def synchronize(self, device_index: int | None = None) -> None:
        """Waits until a device has finished all its work; `device_error` where that work failed."""
    def device_properties(self, device_index: int | None = None) -> DeviceProperties:
        """Product name, memory, compute capability and more of a device."""
    def compute_capability(self, device_index: int | None = None) -> tuple[int, int]:
        """(major, minor) of a device; `unsupported` where the vendor has no such pair."""
    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """True when a tensor lies on this accelerator's kind of device. On cpu: pinned or not."""
    def random(self) -> Random:
        """The functions of torch.random: host and all devices at once."""
    def set_rng_state(self, new_state: torch.Tensor, device_index: int | None = None) -> None:
        """Puts a generator's state back. `new_state`: 1-d uint8 CPU tensor from get_rng_state(); anything else is
        `invalid_argument`."""
    def get_rng_state(self, device_index: int | None = None) -> torch.Tensor:
        """State of a device's default generator, a 1-d uint8 CPU tensor."""
    def manual_seed(self, seed: int) -> None:
        """Seeds the current device's generator."""
    def manual_seed_all(self, seed: int) -> None:
        """Seeds the generators of all devices."""
    def initial_seed(self) -> int:
        """The seed of the current device's generator."""
    def default_generator(self, device_index: int | None = None) -> torch.Generator:
        """A device's default generator; on cpu the one host generator for every index."""
    @property
    def Stream(self) -> type[Stream_]:
        """The class of streams: `Stream(device_index=None, priority=0)`."""
    def stream(self, stream: torch.Stream | None) -> Scope:
        """Makes a stream current for a `with` block. None changes nothing."""
    def set_stream(self, stream: torch.Stream) -> None:
        """Makes a stream current on its device, for this thread, until changed."""
    def current_stream(self, device_index: int | None = None) -> Stream_:
        """This thread's stream on a device."""
    def default_stream(self, device_index: int | None = None) -> Stream_:
        """The stream that work goes to when none was chosen."""
    @property
    def Event(self) -> type[Event_]:
        """The class of events: `Event(enable_timing=False)`."""
    def empty_cache(self) -> None:
        """Gives unused cached memory of all devices back to the driver."""
    def memory_allocated(self, device_index: int | None = None) -> int:
        """Bytes of live tensors on a device. On cpu: tensor bytes, not the process's size (see get_rss)."""
    def max_memory_allocated(self, device_index: int | None = None) -> int:
        """Highest memory_allocated() since the last reset."""
    def reset_max_memory_allocated(self, device_index: int | None = None) -> None:
        """As reset_peak_memory_stats (torch keeps the old name)."""
    def memory_cached(self, device_index: int | None = None) -> int:
        """Old name of memory_reserved."""
    def max_memory_cached(self, device_index: int | None = None) -> int:
        """Old name of max_memory_reserved."""
    def reset_max_memory_cached(self, device_index: int | None = None) -> None:
        """As reset_peak_memory_stats (torch keeps the old name)."""
    def memory_stats(self, device_index: int | None = None) -> dict[str, int]:
        """All that the allocator counts, by torch's keys, with "host.rss.current" and "host.rss.peak"."""
    def allocator_stats(self, device_index: int | None = None) -> MemoryStats:
        """The allocator's counters of memory_stats(), as a struct."""
    def reset_peak_memory_stats(self, device_index: int | None = None) -> None:
        """Starts all peaks anew from the current values."""
    def memory_reserved(self, device_index: int | None = None) -> int:
        """Bytes that the allocator holds from the driver."""
    def max_memory_reserved(self, device_index: int | None = None) -> int:
        """Highest memory_reserved() since the last reset."""
    def total_memory(self, device_index: int | None = None) -> int:
        """Bytes of a device. On cpu the least of host, NUMA node and cgroup limit."""
    def available_memory(self, device_index: int | None = None) -> int:
        """Bytes of a device that are free now, other processes counted."""
    def memory_info(self, device_index: int | None = None) -> MemoryInfo:
        """Free and total bytes in one call."""
    def get_rss(self) -> int:
        """Resident set size of this process in bytes."""
    def pin_memory(self, tensor: torch.Tensor, make_copy: bool | int = True, match_shape: bool = True,
                   align_bytes: int | None = None) -> torch.Tensor:
        """A tensor with the same values in page-locked host memory; the tensor itself when it is pinned already. `make_copy`
        false: the memory is new and its values are not set; `match_shape` false: the result is 1-d. On cpu, where nothing needs
        pinning, the (contiguous) tensor itself. `invalid_argument` for tensors that are not in host memory."""
    def pin_empty(self, *size: int | Sequence[int], dtype: torch.dtype, device: str | torch.device = "cpu") -> torch.Tensor:
        """An uninitialized pinned host tensor: `pin_empty(2, 3, dtype=torch.float32)`, or the sizes as one tuple."""
    def pin_empty_like(self, tensor: torch.Tensor, device: str | torch.device = "cpu", dtype: torch.dtype | None = None) -> torch.Tensor:
        """The same with a tensor's shape, and its dtype unless another is given."""
    def unpin_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copies a pinned tensor to ordinary memory; the pinned memory is free when its last tensor is."""
    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """True when a tensor is in pinned host memory, views too."""
    def pin_memory_alignment(self) -> int:
        """Bytes that register_host_memory wants its address aligned to; 1 means none."""
    def register_host_memory(self, address: int, num_bytes: int) -> bool:
        """Page-locks memory of the caller and makes it known to the device; false where that has no meaning."""
    def unregister_host_memory(self, address: int) -> None:
        """Ends that."""
    def host_memory_stats(self) -> HostMemoryStats:
        """Pinned bytes in use and held; zeros where nothing is pinned."""
    def is_bf16_supported(self) -> bool:
        """True when bf16 is fit for training on the current device."""
    def is_fp16_supported(self) -> bool:
        """True when fp16 is fit for training on the current device."""
    def is_fp64_supported(self) -> bool:
        """True when the device computes in double precision."""
    def supported_dtypes(self) -> list[torch.dtype]:
        """Types to train in: float, then half and bfloat16 where supported."""
    def dtype_support(self, dtype: torch.dtype, device_index: int | None = None) -> DtypeSupport:
        """What a device can do with one type."""
    def dtype_table(self, device_index: int | None = None) -> list[DtypeRow]:
        """The same for every floating and integer type that torch has."""
    def amp(self) -> Amp:
        """Autocast and loss scaling, as older DeepSpeed releases have them."""
    def autocast(self, dtype: torch.dtype, enabled: bool = True, cache_enabled: bool = True) -> Scope:
        """Runs the ops of a scope in `dtype` where that is safe."""
    def range_push(self, msg: str, domain: str | None = None, category: str | None = None) -> None:
        """Opens a named range in the profiler. `domain` and `category` count where the vendor has them."""
    def range_pop(self, domain: str | None = None) -> None:
        """Closes the innermost range of this thread; `invalid_state` when none is open."""
    def supports_nvtx_domain(self) -> bool:
        """True when range_push uses domains."""
    def lazy_call(self, callback: Callable[[], object]) -> None:
        """Calls `callback` once the device runs: now, or at first use. Runs all queued callbacks, then throws the first error."""
    def communication_backend_name(self) -> str:
        """Name for torch.distributed, for example "nccl"."""
    def is_triton_supported(self) -> bool:
        """True when Triton can compile for the current device."""
    def prefer_triton_grouped_mm(self) -> bool:
        """True when a Triton grouped matrix product is faster here than torch's own."""
    def get_compile_backend(self) -> str:
        """Backend for torch.compile."""
    def set_compile_backend(self, backend: str) -> None:
        """Changes it; `invalid_argument` with the list when this accelerator does not know it."""
    def is_current_stream_capturing(self) -> bool:
        """True when this thread's work is being recorded."""
    def create_graph(self) -> Graph:
        """An empty graph; `unsupported` with the reason where there are none."""
    def capture_to_graph(self, graph: Graph, pool: GraphPool | None = None, stream: torch.Stream | None = None) -> Scope:
        """Records the work of a `with` block into a graph. `pool`: memory of another graph to share. `stream`: where to capture;
        default a side stream. An exception in the block discards what was recorded."""
    def replay_graph(self, graph: Graph) -> None:
        """Runs a captured graph. `invalid_state` before capture."""
    @property
    def BFloat16Tensor(self) -> Callable[..., torch.Tensor]:
        """Makes a torch.bfloat16 tensor from values, on the current device."""
    @property
    def ByteTensor(self) -> Callable[..., torch.Tensor]:
        """Makes a torch.uint8 tensor from values, on the current device."""
    @property
    def DoubleTensor(self) -> Callable[..., torch.Tensor]:
        """Makes a torch.float64 tensor from values, on the current device."""
    @property
    def FloatTensor(self) -> Callable[..., torch.Tensor]:
        """Makes a torch.float32 tensor from values, on the current device."""
    @property
    def HalfTensor(self) -> Callable[..., torch.Tensor]:
        """Makes a torch.float16 tensor from values, on the current device."""
    @property
    def IntTensor(self) -> Callable[..., torch.Tensor]:
        """Makes a torch.int32 tensor from values, on the current device."""
    @property
    def LongTensor(self) -> Callable[..., torch.Tensor]:
        """Makes a torch.int64 tensor from values, on the current device."""
    def op_builder_dir(self) -> str:
        """Python package that holds the op builders."""
    def get_op_builder(self, class_name: str) -> type[OpBuilder]:
        """The builder's class. Never None: an op that this backend lacks has a builder whose load() is `unsupported` and names op
        and backend."""
    def create_op_builder(self, class_name: str) -> OpBuilder:
        """A builder. Never None, as get_op_builder."""
    def build_extension(self) -> type[Any]:
        """torch's BuildExtension, for setup.py, which also has what a C++ extension needs of us."""
    def export_envs(self) -> list[str]:
        """Prefixes of the variables that a launcher passes to other nodes."""
    def visible_devices_envs(self) -> list[str]:
        """Variables that choose devices; empty where none does (cpu)."""
    def set_visible_devices_envs(self, current_env: MutableMapping[str, str], local_accelerator_ids: Iterable[int | str]) -> None:
        """Writes the devices of a local rank into an environment: each of visible_devices_envs() becomes the ids joined by commas."""
