"""Runs a case of the table on the device in several modes and compares the results with the CPU's."""

import time

import torch

from .protocol import Skip
from .table import ERRORS, Draw

# Longer than the host needs to call an op, so that a kernel on the wrong stream runs too early.
DELAY_S = 0.03
MODES = ("reference", "forward", "stream", "graph")


def results(case, module, inputs, *, gradients=True):
    """Call the op, and return its results, followed by the gradients."""
    leaves = [inputs[i].requires_grad_() for i in case.grads] if gradients else []
    if not leaves:
        with torch.no_grad():
            return list(case.call(module, inputs))
    out = list(case.call(module, inputs))
    draw = Draw(7)
    weights = [draw.normal(*each.shape, dtype=each.dtype).to(each.device) for each in out]
    return [each.detach() for each in out] + list(torch.autograd.grad(out, leaves, weights))


def error_of(got, want):
    """Return the largest error relative to the largest magnitude. NaN and infinity must be in the
    same places.
    """
    got, want = got.double(), want.double()
    if not want.numel():
        return 0.0
    finite = want.isfinite()
    if not torch.equal(finite, got.isfinite()) or not torch.equal(want[~finite].nan_to_num(), got[~finite].nan_to_num()):
        return float("inf")
    if not finite.any():
        return 0.0
    got, want = got[finite], want[finite]
    return ((got - want).abs().max() / want.abs().max().clamp(min=1)).item()


def compare(case, got, want, *, exact, looser=1.0):
    """Raise AssertionError if a result differs from what is expected."""
    assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
    for number, (mine, right) in enumerate(zip(got, want)):
        mine = mine.detach().cpu()
        assert mine.shape == right.shape, f"result {number} has shape {tuple(mine.shape)}, expected {tuple(right.shape)}"
        if exact or not right.is_floating_point():
            differ = int(((mine != right) & ~(mine.isnan() & right.isnan())).sum())
            assert not differ, f"result {number}: {differ} of {right.numel()} elements differ, expected identical bits"
            continue
        off, most = error_of(mine, right), ERRORS[mine.dtype] * case.looser * looser
        assert off <= most, f"result {number}: relative error {off:.3g}, expected at most {most:.3g}"


class Checker:
    """The device side of the comparison."""
    def __init__(self, accelerator, module):
        self.accelerator, self.module = accelerator, module
        self.device = torch.device(accelerator.current_device_name())
        self.busy = None

    def there(self, case, inputs):
        """Return copies of the inputs in the memory that the op expects."""
        if case.pinned:
            host = self.device.type == "cpu"
            return [each.clone() if host or not each.numel() else self.accelerator.pin_memory(each) for each in inputs]
        return [each.to(self.device, copy=True) for each in inputs]

    def calibrate(self):
        """Find a product and a number of repetitions that keep the device busy for DELAY_S."""
        size = 128
        while True:
            left = torch.randn(size, size, device=self.device)
            left @ left
            self.accelerator.synchronize()
            begin = time.perf_counter()
            left @ left
            self.accelerator.synchronize()
            seconds = time.perf_counter() - begin
            if seconds > DELAY_S / 10 or size >= 4096:
                return left, min(64, int(DELAY_S / max(seconds, 1e-6)) + 1)
            size *= 2

    def delay(self):
        """Queue work for DELAY_S on the current stream."""
        left, repeats = self.busy
        for _ in range(repeats):
            left @ left

    def check(self, case, size, dtype, mode):
        """Raise an exception if the check fails, or Skip if it does not apply."""
        try:
            self.compare(case, size, dtype, mode)
        except NotImplementedError as error:
            if not case.host_only:
                raise
            raise Skip("the op has no kernel for this device") from error

    def compare(self, case, size, dtype, mode):
        inputs = case.make(Draw(size + 1), size, getattr(torch, dtype))
        if mode == "reference":
            if case.plain is None:
                raise Skip("no formula")
            want = case.plain([each.double() if each.is_floating_point() else each.clone() for each in inputs])
            compare(case,
                    results(case, self.module, [each.clone() for each in inputs], gradients=False),
                    want,
                    exact=False,
                    looser=4)
            return
        want = [each.detach() for each in results(case, self.module, [each.clone() for each in inputs], gradients=mode != "graph")]
        if mode == "forward":
            got = results(case, self.module, self.there(case, inputs))
            self.accelerator.synchronize()
        else:
            if case.pinned:
                raise Skip("the op works in host memory")
            got = self.on_a_stream(case, inputs) if mode == "stream" else None
        if mode == "graph":
            got, want = self.in_a_graph(case, inputs, size, dtype)
        compare(case, got, want, exact=case.exact)

    def on_a_stream(self, case, inputs):
        """Call the op on a new stream that fills its inputs after a delay, so that a kernel on another
        stream reads zeros.
        """
        if self.accelerator.Stream is None:
            raise Skip("the backend has no streams")
        source, given = self.there(case, inputs), self.there(case, inputs)
        for each in given:
            if each.is_floating_point():
                each.zero_()
        self.busy = self.busy or self.calibrate()
        self.accelerator.synchronize()
        stream = self.accelerator.Stream()
        with self.accelerator.stream(stream):
            self.delay()
            for to, each in zip(given, source):
                to.copy_(each)
            got = results(case, self.module, given)
        stream.synchronize()
        return got

    def in_a_graph(self, case, inputs, size, dtype):
        """Capture the op with one set of inputs and replay it with another. Return the results of
        the replay and those of the CPU.
        """
        if case.no_graph:
            raise Skip(case.no_graph)
        other = case.make(Draw(size + 1001), size, getattr(torch, dtype))
        for number in case.fixed:
            other[number] = inputs[number].clone()
        want = results(case, self.module, [each.clone() for each in other], gradients=False)
        given, source = self.there(case, inputs), self.there(case, other)
        results(case, self.module, self.there(case, inputs), gradients=False)
        self.accelerator.synchronize()
        try:
            graph = self.accelerator.create_graph()
        except Exception as error:
            raise Skip(f"the backend has no graphs: {error}") from error
        if graph is None:
            raise Skip("the backend has no graphs")
        with self.accelerator.capture_to_graph(graph):
            got = results(case, self.module, given, gradients=False)
        for _ in range(2):  # the second replay must not depend on the first
            for to, each in zip(given, source):
                to.copy_(each)
            self.accelerator.replay_graph(graph)
        self.accelerator.synchronize()
        return got, want
