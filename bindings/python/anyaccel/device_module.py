"""The module `torch.<device type>`, through which torch's own Python code queries a device.

torch.utils.checkpoint, torch.random, autocast, FSDP, DeviceMesh, DataLoader and others look up
functions in the module named after the device type. A missing name rarely raises: most callers fall
back to a default, which may change results. tests/python/device_module_audit.txt lists every name
that torch reads, and the effect of a missing or wrong one.
"""

import atexit
import contextlib
import functools
import operator
import os
import sys
import types
import warnings

import torch

from . import _compile, _cuda_names, _device_functions, _ipc, _native, _torch
from .errors import Error
from .stream import Event, Stream

# Device types for which this process has called set_device().
chosen_types = set()


def register(accelerator):
    """Give torch a module for the accelerator's device type, unless it has one.

    If the simulator stands in for one of torch's own types (`SIM_STANDS_IN_FOR`), the existing
    module calls vendor code that this torch was built without, so our functions replace the
    module's.
    """
    name = accelerator.device_type()
    if name == "cpu":
        return
    simulated = name == _torch.SIMULATED or bool(os.environ.get("SIM_STANDS_IN_FOR"))
    if simulated:
        atexit.register(_wait_for_devices, accelerator)
    present = getattr(torch, name, None)
    if present is not None:
        if os.environ.get("SIM_STANDS_IN_FOR") and not hasattr(present, "_anyaccel"):
            _replace(present, make(name, accelerator), _torch.KEPT_FUNCTIONS.get(name, ()))
            _allow_storages(name)
            _ipc.register(name, accelerator)
            if name == _torch.CUDA:
                _cuda_names.complete(present, accelerator)
            _compile.register(name, present, simulated)
            if name in _torch.DETECTED_BY_IMPORT and _torch.imported_before and "ANYACCEL_SIM_LIBRARY" not in os.environ:
                warnings.warn(f"torch was imported before the simulator could replace {name}, so torch.manual_seed() and "
                              f"random numbers on {name} fail; import anyaccel first, or run the program through "
                              f"`anyaccel sim run --stands-in-for {name}`", RuntimeWarning, stacklevel=2)
        return
    module = make(name, accelerator)
    torch._register_device_module(name, module)
    for part in (module, module.random, module.amp):
        sys.modules[part.__name__] = part
    _compile.register(name, module, simulated)
    if simulated:
        module.ipc_collect = _ipc.collect
        _ipc.register(name, accelerator)
    if torch._C._get_privateuse1_backend_name() == name:
        _add_tensor_methods()
        _cuda_names.add_collectives(name)
    elif name not in _torch.SEEDED_BY_NAME:
        _seed_with_torch(module)


def _wait_for_devices(accelerator):
    """Wait for the simulator's threads before the interpreter exits, because they need the
    interpreter to release tensors.
    """
    for index in range(accelerator.device_count()):
        with contextlib.suppress(RuntimeError, Error):  # a lost device, or a forked child
            accelerator.synchronize(index)


def _replace(present, ours, kept):
    for key, value in vars(ours).items():
        if key.startswith("__") or key in kept or (isinstance(value, types.ModuleType) and hasattr(present, key)):
            continue
        setattr(present, key, value)
        # Submodules such as torch.cuda.random have their own copies of these functions.
        random = getattr(present, "random", None)
        if isinstance(random, types.ModuleType) and hasattr(random, key):
            setattr(random, key, value)


def _allow_storages(name):
    """Let torch.load() create storages on the device. A torch that was built without this device
    type rejects its name.
    """
    make = torch._C.StorageBase.__new__

    def new(cls, *args, **kwargs):
        device = kwargs.get("device")
        if device is not None and len(args) == 1 and isinstance(args[0], int) and torch.device(device).type == name:
            return torch.empty(args[0], dtype=torch.uint8, device=device).untyped_storage()
        return make(cls, *args, **kwargs)

    torch.UntypedStorage.__new__ = staticmethod(new)


def make(name, accelerator, index_of=None):
    """Make a module `torch.<name>` with torch.cuda's functions. `index_of` returns the index of a device
    given in any form, or None for the current device; the default accepts devices of the type `name`."""
    module = types.ModuleType(f"torch.{name}", f"torch functions for {name} devices, provided by anyaccel.")
    state = _ProcessState(name, accelerator)

    def index_by_name(device):
        """Return the index of a device given as an index, a name or a torch.device; None means
        the current device."""
        if device is None:
            return None
        if not isinstance(device, (str, torch.device)):
            return operator.index(device)
        device = torch.device(device)
        if device.type != name:
            raise ValueError(f"Expected a {name} device, but got: {device}")
        return device.index

    index_of = index_of or index_by_name

    def index_or_current(device):
        index = index_of(device)
        return accelerator.current_device() if index is None else index

    def per_device(method):

        def call(device=None):
            return method(index_of(device))

        return call

    class DeviceContext:
        """Make a device current for a `with` block. None and negative indices have no effect."""

        def __init__(self, device):
            self._index = index_of(device)
            self._previous = []

        def __enter__(self):
            self._previous.append(exchange_device(-1 if self._index is None else self._index))

        def __exit__(self, *exception):
            switch_to(self._previous.pop())

    def switch_to(index):
        _native.Accelerator.set_device(accelerator, index)  # unlike set_device(), a scope does not count as selecting a device

    def exchange_device(device):
        previous = accelerator.current_device()
        if device >= 0:
            switch_to(device)
        return previous

    def maybe_exchange_device(device):
        # Dynamo requires a function other than exchange_device.
        return exchange_device(device)

    def set_device(device):
        index = index_of(device)
        if index is not None and index >= 0:
            accelerator.set_device(index)

    def lazy_init():
        if state.bad_fork:
            # torch.cuda's message, which programs search for
            raise RuntimeError(f"Cannot re-initialize {name.upper()} in forked subprocess. To use {name.upper()} with multiprocessing, "
                               "you must use the 'spawn' start method")
        accelerator.synchronize()

    def devices():
        return range(accelerator.device_count())

    def seed():
        # Applies to the current device.
        return generator_of(None).seed()

    def seed_all():
        value = seed()
        accelerator.manual_seed_all(value)
        return value

    def generator_of(device):
        return accelerator.default_generator(index_or_current(device))

    def get_rng_state(device=None):
        return accelerator.get_rng_state(index_of(device))

    def set_rng_state(new_state, device=None):
        accelerator.set_rng_state(new_state, index_of(device))

    def get_rng_state_all():
        return [accelerator.get_rng_state(index) for index in devices()]

    def set_rng_state_all(new_states):
        for index, new_state in enumerate(new_states):
            accelerator.set_rng_state(new_state, index)

    def computable(dtypes):
        return [dtype for dtype in dtypes if accelerator.dtype_support(dtype).computable]

    module._anyaccel = True
    module.device = DeviceContext
    module.Stream, module.Event = Stream, Event
    module._lazy_init = module.init = lazy_init
    # Always true: torch.utils.checkpoint saves random-number state only if this is true, and an
    # unneeded save is harmless.
    module._initialized = True
    module.is_initialized = state.is_initialized
    module._is_in_bad_fork = lambda: state.bad_fork
    module.is_available = accelerator.is_available
    module.device_count = accelerator.device_count
    module.current_device = accelerator.current_device
    module.set_device = set_device
    module._exchange_device, module._maybe_exchange_device = exchange_device, maybe_exchange_device
    module.current_stream = per_device(accelerator.current_stream)
    module.default_stream = per_device(accelerator.default_stream)
    module.set_stream = accelerator.set_stream
    module.stream = accelerator.stream
    module.get_device_name = lambda device=None: accelerator.device_properties(index_of(device)).name
    module.get_device_properties = per_device(accelerator.device_properties)
    module.get_rng_state, module.set_rng_state = get_rng_state, set_rng_state
    module.get_rng_state_all, module.set_rng_state_all = get_rng_state_all, set_rng_state_all
    module.manual_seed, module.manual_seed_all = accelerator.manual_seed, accelerator.manual_seed_all
    module.seed, module.seed_all = seed, seed_all
    module.initial_seed = accelerator.initial_seed
    module.default_generators = _Generators(accelerator)
    module._get_generator = generator_of
    module.get_amp_supported_dtype = lambda: computable([torch.float16, torch.bfloat16])
    module.is_bf16_supported = lambda including_emulation=True: accelerator.is_bf16_supported()
    module.empty_cache = accelerator.empty_cache
    module.mem_get_info = lambda device=None: tuple(accelerator.memory_info(index_of(device)))
    for method in ("synchronize", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                   "memory_stats", "reset_peak_memory_stats"):
        setattr(module, method, per_device(getattr(accelerator, method)))
    _device_functions.add(module, accelerator, index_of)
    if name == _torch.HPU:
        _device_functions.add_hpu(module)
    if name in _torch.SEEDED_BY_MANUAL_SEED:
        module.manual_seed = accelerator.manual_seed_all
    module.random, module.amp = _make_random(name, module), _make_amp(name, module)
    return module


def _make_random(name, module):
    """Make the submodule `random`, which has the module's random-number functions."""
    random = types.ModuleType(f"torch.{name}.random", f"Random numbers on {name} devices.")
    for function in ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed", "manual_seed_all",
                     "seed", "seed_all", "initial_seed"):
        setattr(random, function, getattr(module, function))
    return random


def _make_amp(name, module):
    """Make the submodule `amp`: torch.amp for this device type."""
    amp = types.ModuleType(f"torch.{name}.amp", f"Automatic mixed precision on {name} devices.")
    amp.autocast = functools.partial(torch.amp.autocast, name)
    amp.GradScaler = functools.partial(torch.amp.GradScaler, name)
    amp.custom_fwd = functools.partial(torch.amp.custom_fwd, device_type=name)
    amp.custom_bwd = functools.partial(torch.amp.custom_bwd, device_type=name)
    amp.get_amp_supported_dtype = module.get_amp_supported_dtype
    return amp


class _ProcessState:
    """Tracks whether this process uses the devices, and whether its parent did before forking
    it."""

    def __init__(self, name, accelerator):
        self._name = name
        self._accelerator = accelerator
        self.bad_fork = False
        os.register_at_fork(after_in_child=self._after_fork)

    def is_initialized(self):
        """Return whether a device was started or selected. If not, DeviceMesh selects one for the
        rank.
        """
        return not self.bad_fork and (self._name in chosen_types or self._accelerator._is_initialized())

    def _after_fork(self):
        self.bad_fork = self.bad_fork or self._accelerator._is_initialized()


class _Generators:
    """Sequence of the devices' default generators, created on access because creating one may
    start its device."""

    def __init__(self, accelerator):
        self._accelerator = accelerator

    def __len__(self):
        return self._accelerator.device_count()

    def __getitem__(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(f"device index out of range; got {index}, want below {len(self)}")
        return self._accelerator.default_generator(index % len(self))


def _seed_with_torch(module):
    """Make torch.manual_seed() and torch.seed() also seed a device type that is neither known to
    torch nor the renamed PrivateUse1."""
    before = torch.random._seed_custom_device

    def seed_custom_device(seed):
        before(seed)
        if not module._is_in_bad_fork():
            module.manual_seed_all(int(seed))

    torch.random._seed_custom_device = seed_custom_device


def _add_tensor_methods():
    """Add tensor.<name>(), tensor.is_<name>, module.<name>() and similar methods, as torch does for
    a renamed PrivateUse1."""
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True,
                                                         for_storage=True)
