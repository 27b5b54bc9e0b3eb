"""Python interface to the simulated accelerator of this process (include/anyaccel/sim.h).

    from anyaccel import sim

    sim.install(memory=64 << 20, check="report")  # before the first use of the device
    ...
    sim.reset(memory=32 << 20)  # the devices are like new
    print(sim.problems())

`DS_ACCELERATOR=sim` and `anyaccel sim run` install the simulator without this module.
"""

import dataclasses

from . import _native
from .errors import make_error


@dataclasses.dataclass
class Options:
    """Options of the simulator. Each field corresponds to an environment variable, whose syntax
    docs/reference/environment.md describes."""
    devices: int = 2  # SIM_DEVICES: number of devices, 1 to 16
    visible: "list[int] | None" = None  # SIM_VISIBLE_DEVICES: devices that this process sees, in this order; None: all
    memory: int = 8 << 30  # SIM_MEMORY: memory per device in bytes
    dtypes: "list[str]" = dataclasses.field(default_factory=list)  # SIM_DTYPES: supported dtypes; empty: all
    latency_us: float = 0  # SIM_LATENCY: delay before each kernel starts, in microseconds
    stands_in_for: str = ""  # SIM_STANDS_IN_FOR: backend or device type that the simulator replaces
    seed: int = 0  # SIM_SEED: seed for random faults
    faults: str = ""  # SIM_FAULTS: which faults to inject, and when
    check: str = ""  # SIM_CHECK: "report" or "abort"; empty: the variable's value, or off if it is unset
    check_json: str = ""  # SIM_CHECK_JSON: file for the problems that the checker finds


_FIELDS = tuple(field.name for field in dataclasses.fields(Options))


def _require():
    if not hasattr(_native, "SimOptions"):
        raise make_error("unsupported", "anyaccel.sim", "this AnyAccel was built without the simulated accelerator",
                         hint="build it with -DANYACCEL_SIM=ON")


def _native_options(options, changes):
    _require()
    options = dataclasses.replace(options or Options(), **changes)
    native = _native.SimOptions()
    for name in _FIELDS:
        value = getattr(options, name)
        setattr(native, name, list(value) if name == "dtypes" else value)
    return native


def _from_native(native):
    return Options(**{name: getattr(native, name) for name in _FIELDS})


def options_from_environment():
    """Read the SIM_* variables and return them as Options. Raises `invalid_argument` with the
    variable's name, its value and the accepted values."""
    _require()
    return _from_native(_native.sim_options_from_environment())


def parse_options(options=None, **values):
    """Return a copy of `options` with the given values, which use the syntax of the SIM_*
    variables: `parse_options(memory="2GiB", latency="20us", dtypes=["float32"], faults="alloc@3",
    seed=1, devices=2, stands_in_for="cuda")`. Raises `invalid_argument` for an unknown name or an
    invalid value.
    """
    native = _native_options(options, {})
    for name, value in values.items():
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        _native.sim_set_option(native, f"SIM_{name.upper()}", text)
    return _from_native(native)


def install(options=None, **changes):
    """Register the simulated device with torch, as PrivateUse1 with the name "sim" or as the device
    type that it replaces. Call it before anything uses that device type.

    `changes` are fields of Options, which override those of `options`. Takes effect once per
    process; a second call with the same options is a no-op. Raises `invalid_state` if the device
    was installed with different options, `invalid_argument` for options out of range, and
    `unavailable` if torch already has the device type or the system does not provide the memory.
    Thread-safe.
    """
    _native.sim_install(_native_options(options, changes))


def reset(options=None, **changes):
    """Reset every device to the state of a new device with these options.

    Waits for all streams, discards stored errors, recovers lost devices and empties the allocator's
    cache. Resets memory statistics, seeds, the current device and the current streams, and discards
    the problems found so far.

    The options may differ from those of install() in `memory` (which may only be smaller),
    `dtypes`, `latency_us`, `seed` and `faults`; an empty `check` or `check_json` means no change.
    Existing tensors stay valid and keep their memory. No other thread may use the devices during
    the call. Raises `invalid_state` if the simulator is not installed or a graph is being captured,
    and `invalid_argument` for invalid options or options that cannot change.
    """
    _native.sim_reset(_native_options(options, changes))


def problems():
    """Return the problems that the checker has found since the process started or since the last
    reset(), without duplicates. The list is empty if the checker is off. Each problem has `kind`,
    `op`, `stream`, `shape`, `message`, `what`, `remedy` and `stack`. Thread-safe.
    """
    _require()
    return _native.sim_problems()


def notes():
    """Return the out-of-memory errors from which the program has recovered, in the same form as
    problems().
    """
    _require()
    return _native.sim_notes()


def installed():
    """Return whether the simulator is installed in this process. Thread-safe."""
    return hasattr(_native, "SimOptions") and _native.sim_installed()
