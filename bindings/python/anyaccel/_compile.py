"""Connects a device type to torch.compile.

Registers a Dynamo device interface and a Dynamo backend, both named after the device type. On
simulated devices, the backend aot_eager replaces Inductor, because Inductor cannot generate code
for them.
"""

import importlib.abc
import importlib.machinery
import sys
import warnings

import torch


def register(name, module, simulated):
    """Register `module`, the device module for the device type `name`. Does not import Dynamo,
    which takes seconds.
    """
    _when_imported("torch._dynamo.device_interface", lambda dynamo: _add_interface(dynamo, name, module, simulated))
    _when_imported("torch._dynamo.backends.registry", lambda registry: _add_backend(registry, name))
    if simulated:
        _replace_inductor(name)


class _Importer(importlib.abc.MetaPathFinder):
    """Import hook that calls functions right after a module has been imported."""

    def __init__(self):
        self.waiting = {}

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self.waiting:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            for callback in self.waiting.pop(fullname, []):
                callback(module)

        spec.loader.exec_module = exec_module
        return spec


_importer = _Importer()


def _when_imported(name, callback):
    if name in sys.modules:
        callback(sys.modules[name])
        return
    if _importer not in sys.meta_path:
        sys.meta_path.insert(0, _importer)
    _importer.waiting.setdefault(name, []).append(callback)


def _add_interface(dynamo, name, module, simulated):
    existing = getattr(dynamo, f"{name.capitalize()}Interface", None)
    if existing is None:
        interface = type(f"{name.capitalize()}Interface", (dynamo.DeviceInterface,), _interface_functions(module))
        for device in [name, *(f"{name}:{index}" for index in range(module.device_count()))]:
            dynamo.register_interface_for_device(device, interface)
    elif simulated:  # the existing functions call parts of torch._C that this torch was built without
        for function, value in _interface_functions(module).items():
            setattr(existing, function, value)
        existing.is_triton_capable = staticmethod(lambda device=None: False)


def _interface_functions(module):

    def capability(device=None):
        major_minor = getattr(module.get_device_properties(device), "compute_capability", None)
        return "" if major_minor is None else major_minor

    class Worker:
        # Inductor's compile workers do not use devices, so nothing is cached for them.
        set_device = staticmethod(module.set_device)
        current_device = staticmethod(module.current_device)
        get_device_properties = staticmethod(module.get_device_properties)

    functions = {function: staticmethod(getattr(module, function)) for function in (
        "current_device", "set_device", "device_count", "is_available", "stream", "current_stream", "set_stream", "synchronize",
        "memory_allocated", "is_bf16_supported", "get_device_properties")}
    functions.update(
        exchange_device=staticmethod(module._exchange_device), maybe_exchange_device=staticmethod(module._maybe_exchange_device),
        get_raw_stream=staticmethod(lambda device: module.current_stream(device).stream_id),
        get_compute_capability=staticmethod(capability), Worker=Worker, device=module.device, Stream=module.Stream, Event=torch.Event)
    return functions


def _add_backend(registry, name):
    registry.register_backend(compiler_fn=_aot_eager, name=name)


def _aot_eager(graph, inputs, **options):
    from torch._dynamo.backends.debugging import aot_eager

    return aot_eager(graph, inputs, **options)


def _replace_inductor(name):
    wrapper = torch._TorchCompileInductorWrapper
    inductor = wrapper.__call__

    def compile_graph(self, model_, inputs_, **options):
        if not _uses(name, model_, inputs_):
            return inductor(self, model_, inputs_, **options)
        warnings.warn(f"torch.compile: Inductor cannot generate code for the simulated device {name}; the backend aot_eager is used",
                      RuntimeWarning, stacklevel=2)
        return _aot_eager(model_, inputs_)

    wrapper.__call__ = compile_graph


def _uses(name, graph, inputs):
    """Return whether a graph has tensors of the device type."""
    tensors = [each for each in [*inputs, *graph.parameters(), *graph.buffers()] if isinstance(each, torch.Tensor)]
    if any(tensor.device.type == name for tensor in tensors):
        return True
    devices = [node.kwargs.get("device") for node in graph.graph.nodes]
    return any(device is not None and torch.device(device).type == name for device in devices)
