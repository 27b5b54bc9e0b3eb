"""The conformance kit's suite `device_module`: the modules that AnyAccel registers pass it, and
each injected defect fails its case.
"""

import json
import pathlib

import pytest
from device_module_case import KINDS, run

import anyaccel

MUTANTS = pathlib.Path(__file__).parent.parent / "conformance" / "mutants.md"

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)


def run_suite(kind, cases, before="", **variables):
    """Run the kit and return {case name: (outcome, message)}."""
    backend = "card" if kind in ("card", "mtia") else kind
    done = run(f"""
import sys
from anyaccel import conformance, device_module
{before}
sys.exit(conformance.main(["--backend", {backend!r}, "--case", {cases!r}, "--json", "-", "--timeout", "120"]))
""", kind, **variables)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    return {case["name"]: (case["outcome"], case["message"]) for case in json.loads(done.stdout)["cases"]}


# Fails if a module that AnyAccel registers fails a case of the suite.
@pytest.mark.parametrize("kind", KINDS)
def test_modules_pass_the_suite(kind):
    results = run_suite(kind, "device_module.*")
    assert len(results) > 15
    assert {name: result for name, result in results.items() if result[0] not in ("passed", "skipped")} == {}
    assert len([result for result in results.values() if result[0] == "skipped"]) <= 1


# For each row in mutants.md, code that injects the defect. It can use `module` and `accelerator`.
DEFECTS = {
    "module_without_initialized": "del module._initialized",
    "module_never_initialized": "module.is_initialized = lambda: False",
    "module_choice_is_not_noticed": "module.is_initialized = accelerator._is_initialized",
    "module_without_rng_state": "del module.get_rng_state",
    "module_rng_state_of_device_0": "module.get_rng_state = lambda device=None, get=module.get_rng_state: get(0)",
    "module_rng_state_not_restored": "module.set_rng_state = lambda state, device=None: None",
    "module_rng_state_is_one_tensor": """
one = []
def get_rng_state(device=None, get=module.get_rng_state):
    state = get(device)
    if not one:
        one.append(state)
    return one[0].copy_(state)
module.get_rng_state = get_rng_state""",
    "module_seeds_nothing": "module.manual_seed_all = lambda seed: None",
    "module_seeds_current_device": "module.manual_seed_all = accelerator.manual_seed",
    "module_device_scope_stays": "module.device.__exit__ = lambda self, *exception: None",
    "module_device_scope_forgets_outer": """
def enter(self, enter=module.device.__enter__):
    enter(self)
    self._previous[:-1] = []
    self._previous *= 2
module.device.__enter__ = enter""",
    "module_autocasts_to_anything": "module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16, torch.float8_e4m3fn]",
    "module_takes_devices_of_others": "module.synchronize = lambda device=None: accelerator.synchronize()",
    "module_stream_scope_changes_nothing": "import contextlib\nmodule.stream = lambda stream: contextlib.nullcontext()",
    "module_generators_of_device_0": "module.default_generators = [accelerator.default_generator(0)] * 2",
    "module_replaces_parameters": "torch.__future__.set_overwrite_module_params_on_conversion(True)",
    "module_fork_is_not_noticed": "module._is_in_bad_fork = lambda: False",
    "module_counts_one_device": "module.device_count = lambda: 1",
}

# Environment variables without which some defects have no effect.
VARIABLES = {"module_autocasts_to_anything": {"SIM_DTYPES": "float32,int64,uint8"}}


def listed_mutants():
    for line in MUTANTS.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 6 and cells[2] == "python":
            yield cells[1], cells[4]


# Fails if mutants.md and the injected defects differ.
def test_mutants_are_listed():
    assert sorted(DEFECTS) == sorted(name for name, _ in listed_mutants())


# Fails if the suite misses an injected defect.
@pytest.mark.parametrize(("mutant", "case"), [*listed_mutants()])
def test_mutant_is_detected(mutant, case):
    spoil = "\n".join("    " + line for line in DEFECTS[mutant].strip().splitlines())
    results = run_suite("sim", case, f"""
import os, torch
def make(name, accelerator, make=device_module.make):
    module = make(name, accelerator)
{spoil}
    return module
device_module.make = make
""", **VARIABLES.get(mutant, {}))
    assert [outcome for outcome, _ in results.values()] == ["failed"], results
