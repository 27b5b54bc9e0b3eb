"""Conformance cases for `torch.<device type>`, the module through which torch's own Python code
queries a device.

`python -m anyaccel.conformance` adds them to the kit as the suite `device_module`; the program
`anyaccel conformance` does not run Python and omits them. Each function is one case, and its name
states a property of a correct module.
"""

import contextlib
import io
import os
import signal

import torch

from . import _torch
from ._native import get_accelerator

# (grade, function) for each case, in order of definition.
CASES = []


class Skip(Exception):
    """Raised by a case that does not apply. The message is the reason."""


def case(grade):

    def add(function):
        CASES.append((grade, function))
        return function

    return add


def _module():
    name = get_accelerator().device_type()
    if name == "cpu":
        raise Skip("the CPU uses torch's own functions")
    assert hasattr(torch, name), f"torch has no module {name!r}; add one with torch._register_device_module()"
    return getattr(torch, name)


def _need_two_devices():
    if get_accelerator().device_count() < 2:
        raise Skip("requires 2 devices")


def _device(index):
    # device_name() would return a name without an index for hpu.
    return torch.device(get_accelerator().device_type(), index)


def _last():
    return get_accelerator().device_count() - 1


def _draw(index=0):
    return torch.rand(32, device=_device(index)).cpu()


def _equal(got, want, what):
    assert got == want, f"{what}; got {got}, want {want}"


@case("required")
def torch_finds_the_module():
    name = get_accelerator().device_type()
    assert torch.get_device_module(name) is _module(), "torch.get_device_module() returns a different module"


@case("required")
def every_device_is_counted():
    _equal(_module().device_count(), get_accelerator().device_count(), "device_count()")
    assert _module().is_available(), "is_available() is false although the accelerator was selected"


@case("required")
def names_that_change_results_exist():
    module = _module()
    names = ("_initialized", "_is_in_bad_fork", "current_device", "current_stream", "device", "device_count", "get_rng_state",
             "is_available", "is_initialized", "manual_seed_all", "set_device", "set_rng_state", "stream", "synchronize")
    if torch._C._get_privateuse1_backend_name() == get_accelerator().device_type():
        names += ("get_amp_supported_dtype", )
    missing = [name for name in names if not hasattr(module, name)]
    assert not missing, f"the module lacks {', '.join(missing)}, so torch uses defaults that may change results"


@case("required")
def checkpoint_repeats_random_numbers():
    _module()
    from torch.utils.checkpoint import checkpoint

    for index in range(get_accelerator().device_count()):

        def gradient(call):
            torch.manual_seed(11)
            x = torch.ones(64, device=_device(index), requires_grad=True)
            call(lambda t: torch.nn.functional.dropout(t * t, 0.5), x).sum().backward()
            return x.grad.cpu()

        direct = gradient(lambda function, x: function(x))
        for reentrant in (False, True):
            again = gradient(lambda function, x: checkpoint(function, x, use_reentrant=reentrant))
            assert torch.equal(direct, again), (f"torch.utils.checkpoint (use_reentrant={reentrant}) drops different elements in the second "
                                                f"forward pass on device {index}, so gradients are wrong")


@case("required")
def fork_rng_restores_the_generators():
    module = _module()
    for index in range(module.device_count()):
        before = _draw(index), _draw(index)
        torch.manual_seed(5)
        first = _draw(index)
        with torch.random.fork_rng(devices=range(module.device_count()), device_type=get_accelerator().device_type()):
            _draw(index)
        second = _draw(index)
        torch.manual_seed(5)
        assert torch.equal(first, _draw(index)), f"the same seed produces different random numbers on device {index}"
        assert torch.equal(second, _draw(index)), f"drawing random numbers inside torch.random.fork_rng() changes later numbers on device {index}"
        assert not torch.equal(*before), f"device {index} draws the same random numbers twice"


@case("required")
def manual_seed_of_torch_reaches_every_device():
    _module()
    for index in range(get_accelerator().device_count()):
        torch.manual_seed(21)
        first = _draw(index)
        torch.manual_seed(21)
        assert torch.equal(first, _draw(index)), f"torch.manual_seed() does not seed device {index}"


@case("required")
def rng_states_belong_to_the_device_asked_for():
    module = _module()
    _need_two_devices()
    name = get_accelerator().device_type()
    states = [module.get_rng_state(0)]
    _draw(1)
    for device in (1, f"{name}:1", torch.device(name, 1)):
        state = module.get_rng_state(device)
        module.set_device(0)
        first = _draw(1)
        assert torch.equal(module.get_rng_state(0), states[0]), "drawing on device 1 changes the state of device 0"
        module.set_rng_state(state, device)
        assert torch.equal(first, _draw(1)), f"set_rng_state(state, {device!r}) does not restore device 1"
        assert torch.equal(module.get_rng_state(0), states[0]), f"set_rng_state(state, {device!r}) changes device 0"


@case("required")
def rng_states_are_copies():
    module = _module()
    state = module.get_rng_state()
    kept = state.clone()
    _draw()
    module.get_rng_state()
    assert torch.equal(state, kept), "an RNG state changes after it has been returned"
    module.set_rng_state(state)
    given = state.clone()
    state.zero_()
    assert torch.equal(module.get_rng_state(), given), "zeroing the state tensor after set_rng_state() changes the generator"


@case("required")
def device_scope_restores_the_device():
    module = _module()
    last = _last()
    module.set_device(0)
    with module.device(last):
        _equal(module.current_device(), last, "the current device in the scope")
        with module.device(0):
            _equal(module.current_device(), 0, "the current device in an inner scope")
        _equal(module.current_device(), last, "the current device after an inner scope")
    _equal(module.current_device(), 0, "the current device after the scope")
    with contextlib.suppress(ZeroDivisionError), module.device(torch.device(get_accelerator().device_type(), last)):
        1 / 0  # noqa: B018
    _equal(module.current_device(), 0, "the current device after an exception in the scope")
    module.set_device(last)
    with module.device(-1):
        _equal(module.current_device(), last, "the current device in the scope of device -1, which means no change")


# Optional, because torch.cuda.device stores only one previous device per object.
@case("optional")
def device_scope_can_be_entered_twice():
    module = _module()
    last = _last()
    module.set_device(0)
    scope = module.device(last)
    with scope, scope:
        _equal(module.current_device(), last, "the current device in the scope")
    _equal(module.current_device(), 0, "the current device after entering the same scope twice")


@case("required")
def accelerator_scope_restores_the_device():
    module = _module()
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or accelerator.type != get_accelerator().device_type():
        raise Skip(f"torch.accelerator has a different device type: {accelerator}")
    last = _last()
    module.set_device(0)
    with torch.accelerator.device_index(last):
        _equal(torch.accelerator.current_device_index(), last, "torch.accelerator's device in the scope")
        _equal(module.current_device(), last, "the current device in the scope")
    _equal(module.current_device(), 0, f"the current device after torch.accelerator.device_index({last})")
    _equal(torch.accelerator.device_count(), module.device_count(), "torch.accelerator.device_count()")


@case("required")
def used_device_is_initialized():
    module = _module()
    for index in range(module.device_count()):
        _draw(index)
    assert module.is_initialized(), "is_initialized() is false after work, so DeviceMesh selects a device again"
    assert module._initialized, "_initialized is false after work, so torch.utils.checkpoint saves no random-number state"


@case("required")
def chosen_device_is_initialized():
    module = _module()
    module.set_device(_last())
    assert module.is_initialized(), "is_initialized() is false after set_device(), so DeviceMesh selects a different device"


@case("required")
def autocast_types_compute():
    module = _module()
    if not hasattr(module, "get_amp_supported_dtype"):
        raise Skip("torch calls get_amp_supported_dtype() only for a renamed PrivateUse1")
    types = module.get_amp_supported_dtype()
    for dtype in (torch.float16, torch.bfloat16):
        computable = get_accelerator().dtype_support(dtype).computable
        _equal(dtype in types, computable, f"whether get_amp_supported_dtype() includes {dtype}")


@case("required")
def devices_of_other_types_are_refused():
    module = _module()
    for what in (module.get_rng_state, module.synchronize, module.memory_allocated, module.device):
        try:
            what("meta:0")
        except (ValueError, RuntimeError, get_accelerator_error()):
            continue
        raise AssertionError(f"{what.__name__}('meta:0') accepts a device of another type")


def get_accelerator_error():
    from .errors import Error
    return Error


@case("required")
def current_stream_follows_the_scope():
    module = _module()
    try:
        stream = module.Stream()
    except get_accelerator_error() as error:
        if error.code != "unsupported":
            raise
        raise Skip(str(error)) from None
    before = module.current_stream()
    with module.stream(stream):
        _equal(module.current_stream(), stream, "the current stream in the scope")
    _equal(module.current_stream(), before, "the current stream after the scope")


@case("required")
def saved_tensors_come_back_to_their_device():
    _module()
    for index in range(get_accelerator().device_count()):
        there = torch.arange(5.0).to(_device(index))
        file = io.BytesIO()
        torch.save(there, file)
        file.seek(0)
        back = torch.load(file)
        expected = _device(0) if there.device.type in _torch.SAVED_WITHOUT_INDEX else there.device
        _equal(back.device, expected, "the device of a loaded tensor")
        assert torch.equal(back.cpu(), there.cpu()), "a saved tensor has different values after loading"


# If torch replaces the parameters, an optimizer created before the move does not train them.
@case("required")
def moving_a_module_keeps_its_parameters():
    module = torch.nn.Linear(2, 2)
    before = [id(parameter) for parameter in module.parameters()]
    module.to(get_accelerator().device_type())
    _equal([id(parameter) for parameter in module.parameters()], before, "the parameters' identities after module.to()")


@case("recommended")
def default_generators_are_the_devices():
    module = _module()
    _equal(len(module.default_generators), module.device_count(), "the number of default_generators")
    for index in range(module.device_count()):
        for _ in range(index + 1):  # so that the devices' states differ
            _draw(index)
    for index in range(module.device_count()):
        state = module.default_generators[index].get_state()
        assert torch.equal(state, module.get_rng_state(index)), f"device {index} does not draw from default_generators[{index}]"


@case("required")
def forked_child_can_seed():
    module = _module()
    _draw()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        torch.manual_seed(3)  # as each worker of a DataLoader does
        os._exit(0 if module._is_in_bad_fork() else 7)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFSIGNALED(status), f"a forked child that calls torch.manual_seed() is killed by signal {os.WTERMSIG(status)}"
    _equal(os.WEXITSTATUS(status), 0, "the exit status of a forked child (7: _is_in_bad_fork() is false there)")
