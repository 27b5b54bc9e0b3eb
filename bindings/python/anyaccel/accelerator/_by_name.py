"""DeepSpeed's classes of accelerators, one for each of its backends: `anyaccel.accelerator.cpu_accelerator.CPU_Accelerator`."""

from .accelerator import Accelerator


class _OfOneBackend(type(Accelerator)):
    """What get_accelerator() gives is an object of the class of its backend, as in DeepSpeed."""

    def __instancecheck__(cls, value):
        own = cls.__dict__.get("_backend")
        if own is None:
            return super().__instancecheck__(value)  # a user's class derived from one of these
        return isinstance(value, Accelerator) and value.name() == own


def class_of(backend, name):
    """The class for a backend. Making an object gives that backend's accelerator and chooses nothing, which is for
    set_accelerator(); `unavailable` with the reason where it cannot run."""

    def __init__(self):
        Accelerator.__init__(self, backend)

    text = f"The accelerator {backend!r}; making one is `unavailable`, with the reason, where it cannot run."
    module = f"{__package__}.{backend}_accelerator"
    return _OfOneBackend(name, (Accelerator,), {"__init__": __init__, "__doc__": text, "__module__": module, "_backend": backend})
