"""Streams, events, scopes and graphs from Python, on the CPU."""

import gc
import threading
import weakref

import pytest
import torch

import anyaccel
from anyaccel import get_accelerator


# Fails if AnyAccel's streams are not torch streams, or two handles of one stream compare unequal.
def test_streams_are_values():
    a = get_accelerator()
    stream = anyaccel.Stream()
    assert isinstance(stream, torch.Stream) and isinstance(stream, a.Stream)
    a.set_stream(stream)
    again = a.current_stream()
    assert again is not stream and again == stream and hash(again) == hash(stream)
    assert stream.device_index == 0 and stream.id == again.id
    assert "anyaccel.Stream(" in repr(stream)
    assert stream.query() and stream.synchronize() is None
    a.set_stream(a.default_stream())
    assert weakref.ref(stream)() is stream


# Fails if a stream cannot be created with `device`, as in torch.cuda, or if contradictory arguments
# are accepted.
def test_a_stream_of_a_device():
    name = get_accelerator().current_device_name()
    for device in (0, name, torch.device(name)):
        assert anyaccel.Stream(device=device).device_index == 0
    with pytest.raises(TypeError, match="not both"):
        anyaccel.Stream(0, device=0)
    with pytest.raises(ValueError, match="wrong device type"):
        anyaccel.Stream(device="meta")


# Fails if `with stream:` or a nested scope does not restore the previous stream.
def test_scopes_nest():
    a = get_accelerator()
    first, second = a.Stream(), a.Stream()
    base = a.current_stream()
    with first:
        with second:
            with first:
                assert a.current_stream() == first
            assert a.current_stream() == second
        assert a.current_stream() == first
    assert a.current_stream() == base
    scope = a.stream(second)
    with pytest.raises(ZeroDivisionError), scope:
        1 / 0
    assert a.current_stream() == base
    with pytest.raises(anyaccel.Error, match="exited more often"):
        scope.__exit__(None, None, None)


# Fails if events do not measure time, or calls in the wrong order are accepted.
def test_events():
    a = get_accelerator()
    start, end = a.Event(enable_timing=True), a.Event(enable_timing=True)
    with pytest.raises(anyaccel.Error) as error:
        start.elapsed_time(end)
    assert error.value.code == "invalid_state"
    start.record()
    torch.ones(300, 300) @ torch.ones(300, 300)
    end.record(stream=a.current_stream())
    end.synchronize()
    assert end.query() and 0 < start.elapsed_time(end) < 60000
    stream = a.Stream()
    start.wait(stream)
    start.wait()
    stream.wait_event(end)
    stream.wait_stream(a.default_stream())
    assert isinstance(stream.record_event(), a.Event)
    assert stream.record_event(end) is end
    with pytest.raises(anyaccel.Error) as error:
        a.Event(interprocess=True)
    assert error.value.code == "unsupported"


# Fails if an exception inside a capture leaves the capture active, or is replaced by another
# exception.
def test_exception_ends_capture():
    a = get_accelerator()
    graph = a.create_graph()
    with pytest.raises(ZeroDivisionError), a.capture_to_graph(graph):
        torch.ones(2) + 1
        1 / 0
    assert graph.state == "empty" and not a.is_current_stream_capturing()
    with pytest.raises(anyaccel.Error) as error:
        a.replay_graph(graph)
    assert error.value.code == "invalid_state"
    x = torch.zeros(2)
    with a.capture_to_graph(graph):
        y = x + 1
    assert graph.state == "captured"
    x.fill_(2)
    graph.replay()
    assert y.tolist() == [3, 3]
    graph.reset()
    assert graph.state == "empty"


# Fails if an op that cannot be captured crashes the interpreter instead of raising an error.
def test_uncapturable_op_raises():
    a = get_accelerator()
    graph = a.create_graph()
    with pytest.raises((anyaccel.Error, RuntimeError)), a.capture_to_graph(graph):
        torch.ones(2).sum().item()
    assert not a.is_current_stream_capturing()


# Fails if replaying a captured training step gives different numbers than running it.
def test_training_step_as_a_graph():
    a = get_accelerator()

    def make():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        return model, torch.optim.SGD(model.parameters(), lr=0.05)

    def step(model, optimizer, x):
        loss = model(x).square().mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()

    x = torch.randn(4, 8)
    plain, plain_optimizer = make()
    captured, captured_optimizer = make()
    step(plain, plain_optimizer, x)
    step(captured, captured_optimizer, x)
    graph = a.create_graph()
    with a.capture_to_graph(graph):
        step(captured, captured_optimizer, x)
    step(plain, plain_optimizer, x)
    for _ in range(3):
        step(plain, plain_optimizer, x)
        a.replay_graph(graph)
    for left, right in zip(plain.parameters(), captured.parameters()):
        assert torch.equal(left, right)


# Fails if one thread's current stream affects another thread, or destroying an open scope does not
# restore the stream.
def test_threads_and_collection():
    a = get_accelerator()
    base = a.current_stream()
    seen = []

    def work():
        a.set_stream(a.Stream())
        seen.append(a.current_stream())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[0] != base and a.current_stream() == base
    scope = a.stream(a.Stream())
    scope.__enter__()
    del scope
    gc.collect()
    assert a.current_stream() == base
