"""AnyAccel's pytest plugin: runs each test on a fresh simulated device.

pytest imports this module in every run, through an entry point, so it does not import torch or
anyaccel unless the run uses an accelerator. See docs/how-to/test-without-a-gpu.md.
"""

import os
import sys

import pytest

_SIMULATED = "sim"  # name of the simulated accelerator
_OPTIONS = (
    ("--accelerator", "NAME", "run the tests on this accelerator: sim (simulated), or any name that DS_ACCELERATOR accepts"),
    ("--accelerator-stands-in-for", "NAME", "device type that the simulated accelerator replaces, for example cuda"),
    ("--accelerator-devices", "N", "number of simulated devices (default: 2)"),
    ("--accelerator-memory", "SIZE", "memory per simulated device, for example 2GiB (default: 8GiB)"),
    ("--accelerator-faults", "LIST", "faults to inject into each test, for example alloc@3"),
    ("--accelerator-seed", "N", "seed for random faults (default: 0)"),
    ("--accelerator-baseline", "FILE", "file with known problems, which do not fail tests"),
    ("--accelerator-sarif", "FILE", "write the problems to this file in SARIF format"),
)
# Options, and the simulator variables that they set.
_VARIABLES = (("accelerator_devices", "SIM_DEVICES"), ("accelerator_memory", "SIM_MEMORY"), ("accelerator_faults", "SIM_FAULTS"),
              ("accelerator_seed", "SIM_SEED"))


def pytest_addoption(parser):
    group = parser.getgroup("accelerator", "AnyAccel's accelerators")
    for name, metavar, text in _OPTIONS:
        group.addoption(name, metavar=metavar, default=None, help=text)
    group.addoption("--accelerator-check", action="store_true", help="fail tests that misuse streams, memory or devices; requires --accelerator sim")
    group.addoption("--accelerator-update-baseline", action="store_true", help="write the problems of this run to the baseline")
    parser.addini("accelerator", "default value of --accelerator", default="")
    parser.addini("accelerator_stands_in_for", "default value of --accelerator-stands-in-for", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config, args):
    """Set up the device before a conftest imports torch, because torch caches whether CUDA is
    available.
    """
    options = early_config.known_args_namespace
    name = options.accelerator or early_config.getini("accelerator")
    if not name or options.help or options.version:
        return
    simulated = name == _SIMULATED
    stands_in_for = options.accelerator_stands_in_for or early_config.getini("accelerator_stands_in_for")
    _check(name, simulated, stands_in_for, options)
    # Child processes inherit the device through environment variables.
    for key, variable in _VARIABLES:
        if value := getattr(options, key):
            os.environ[variable] = value
    if simulated and stands_in_for:
        os.environ["SIM_STANDS_IN_FOR"] = stands_in_for
    if options.accelerator_check:
        os.environ["SIM_CHECK"] = "report"
    os.environ["DS_ACCELERATOR"] = simulated and stands_in_for or name
    import anyaccel  # loads the simulator before torch if it stands in for another device type
    try:
        if simulated and os.environ["DS_ACCELERATOR"] not in anyaccel.registered_backends():
            os.environ["DS_ACCELERATOR"] = name  # no backend has the name of this device type
        anyaccel.get_accelerator()
    except anyaccel.Error as error:
        raise pytest.UsageError(f"anyaccel: {error}") from error
    early_config._anyaccel_simulated = simulated


def _check(name, simulated, stands_in_for, options):
    """Raise pytest.UsageError for options that cannot be combined."""
    if not simulated:
        given = [f"--{key.replace('_', '-')}" for key in ("accelerator_stands_in_for", *dict(_VARIABLES), "accelerator_check")
                 if getattr(options, key)]  # yapf: disable
        if given:
            raise pytest.UsageError(f"anyaccel: {given[0]} requires --accelerator sim; got --accelerator {name}")
    elif stands_in_for and "torch" in sys.modules:
        raise pytest.UsageError(f"anyaccel: the simulator cannot stand in for {stands_in_for!r}, because torch is already imported; do not "
                                "import torch in a plugin")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "accelerator(memory, dtypes, latency, faults, seed, devices): state of the simulated device in this test, "
        'for example accelerator(memory="2GiB", faults="oom@3"); `devices`: number of devices that the test needs')
    if not hasattr(config, "_anyaccel_simulated"):
        return
    from anyaccel.pytest_plugin.plugin import Plugin
    config.pluginmanager.register(Plugin(config), "anyaccel-device")


@pytest.fixture
def accelerator():
    """The accelerator for this run, as returned by `anyaccel.get_accelerator()`."""
    import anyaccel
    return anyaccel.get_accelerator()


@pytest.fixture
def device(accelerator):
    """The first device of the accelerator, as a torch.device."""
    import torch
    return torch.device(accelerator.device_name(0))


@pytest.fixture
def devices(accelerator):
    """Function `devices(n)`: the first n devices of the accelerator, as a list of torch.device.
    Skips the test if there are fewer."""
    import torch

    def first(count):
        available = accelerator.device_count()
        if available < count:
            pytest.skip(f"needs {count} devices; {accelerator.device_type()} has {available}")
        return [torch.device(accelerator.device_name(index)) for index in range(count)]

    return first
