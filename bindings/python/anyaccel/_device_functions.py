"""Functions of `torch.<device type>` that combine several functions of the accelerator.

Their names and results are those of torch.cuda.
"""

_COLUMNS = (("current", "Current"), ("peak", "Peak"))


def add(module, accelerator, index_of):
    """Add the functions to `module`. `index_of` returns the index of a device given in any form."""

    class DeviceOf(module.device):
        """Make the device of a tensor or storage current for a `with` block. Objects on other
        device types are ignored.
        """

        def __init__(self, obj):
            device = obj.device
            super().__init__(device if device.type == accelerator.device_type() else None)

    def memory_stats_as_nested_dict(device=None):
        nested = {}
        for name, value in accelerator.memory_stats(index_of(device)).items():
            *outer, last = name.split(".")
            inside = nested
            for part in outer:
                inside = inside.setdefault(part, {})
            inside[last] = value
        return nested

    def memory_summary(device=None, abbreviated=False):
        index = index_of(device)
        if index is None:
            index = accelerator.current_device()
        return _table(index, accelerator.memory_stats(index), abbreviated)

    class StreamContext:
        """Makes a stream current for a `with` block, like `stream()`. This is a class, because
        Dynamo passes it to isinstance().
        """

        def __init__(self, stream):
            self._scope = accelerator.stream(stream)

        def __enter__(self):
            return self._scope.__enter__()

        def __exit__(self, *error):
            return self._scope.__exit__(*error)

    module.device_of = DeviceOf
    module.StreamContext = StreamContext
    module.is_current_stream_capturing = accelerator.is_current_stream_capturing
    module.get_device_capability = lambda device=None: accelerator.compute_capability(index_of(device))
    module.memory_stats_as_nested_dict, module.memory_summary = memory_stats_as_nested_dict, memory_summary
    module.graph = accelerator.capture_to_graph


def add_hpu(module):
    """Add the functions that DTensor calls on devices of the type hpu to select a generator.
    AnyAccel's generators are always counter-based, like Philox.
    """

    def rng_context(kind):
        if kind != "philox":
            raise ValueError(f"{module.__name__}: unknown random-number generator; got {kind!r}, want 'philox'")

    module.set_rng_ctx = module.unset_rng_ctx = rng_context


def _table(index, stats, abbreviated):
    """Format memory statistics. `abbreviated` omits host memory."""
    rows = {}
    single = {}
    for name, value in stats.items():
        if abbreviated and name.startswith("host."):
            continue
        base, _, last = name.rpartition(".")
        if last in dict(_COLUMNS):
            rows.setdefault(base, {})[last] = value
        else:
            single[name] = value
    lines = [f"Memory of device {index}", f"{'Metric':<32}" + "".join(f"{title:>20}" for _, title in _COLUMNS)]
    for base, values in sorted(rows.items()):
        lines.append(f"{base:<32}" + "".join(f"{_amount(base, values.get(key)):>20}" for key, _ in _COLUMNS))
    lines += [f"{name:<32}{value:>20}" for name, value in sorted(single.items())]
    width = max(map(len, lines))
    return "\n".join(["=" * width, *lines[:2], "-" * width, *lines[2:], "=" * width]) + "\n"


def _amount(name, value):
    if value is None:
        return ""
    if "bytes" not in name and not name.startswith("host."):
        return str(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 10240 or unit == "GiB":
            return f"{value:.0f} {unit}"
        value /= 1024
    raise AssertionError(name)
