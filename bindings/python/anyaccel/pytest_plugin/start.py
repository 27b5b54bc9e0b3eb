"""Selects the accelerator of a test run and starts the simulator."""

import dataclasses
import os
import sys

import pytest


@dataclasses.dataclass
class Device:
    """The accelerator of a test run."""
    name: str
    simulated: bool
    checked: bool
    options: object = None  # sim.Options of the simulator, or None


_VARIABLES = (("accelerator_stands_in_for", "SIM_STANDS_IN_FOR"), ("accelerator_devices", "SIM_DEVICES"), ("accelerator_memory", "SIM_MEMORY"),
              ("accelerator_faults", "SIM_FAULTS"), ("accelerator_seed", "SIM_SEED"))


def _fail(text):
    raise pytest.UsageError(f"anyaccel: {text}")


def start_device(config, name, options):
    """Select the accelerator and start the simulator. Child processes inherit the choice through
    environment variables."""
    simulated = name == "sim"
    stands_in_for = options.accelerator_stands_in_for or config.getini("accelerator_stands_in_for")
    if not simulated:
        given = [f"--{key.replace('_', '-')}" for key, _ in _VARIABLES if getattr(options, key)]
        given += ["--accelerator-check"] if options.accelerator_check else []
        if given:
            _fail(f"{given[0]} requires --accelerator sim; got --accelerator {name}")
    elif stands_in_for and "torch" in sys.modules:
        _fail(f"the simulator cannot stand in for {stands_in_for!r}, because torch is already imported; do not import it in a "
              "plugin that is loaded with -p")
    for key, variable in _VARIABLES:
        value = getattr(options, key) or (stands_in_for if variable == "SIM_STANDS_IN_FOR" else None)
        if value:
            os.environ[variable] = str(value)
    if options.accelerator_check:
        os.environ["SIM_CHECK"] = "report"
    os.environ["DS_ACCELERATOR"] = stands_in_for or name
    import anyaccel
    try:
        if simulated:
            # The device's name may differ from that of the backend that drives it.
            if stands_in_for and stands_in_for not in anyaccel.registered_backends():
                os.environ["DS_ACCELERATOR"] = name
            anyaccel.get_accelerator()
            from anyaccel import sim
            device = Device(name, True, bool(os.environ.get("SIM_CHECK")), sim.options_from_environment())
        else:
            anyaccel.get_accelerator()
            device = Device(name, False, False)
    except anyaccel.Error as error:
        _fail(str(error))
    config._anyaccel_device = device
