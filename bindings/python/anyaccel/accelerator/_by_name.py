"""Counterparts of DeepSpeed's accelerator classes, one per backend, such as
`anyaccel.accelerator.cpu_accelerator.CPU_Accelerator`."""

from .accelerator import Accelerator


class _OfOneBackend(type(Accelerator)):
    """Metaclass that lets isinstance() treat get_accelerator()'s result as an instance of its
    backend's class, as in DeepSpeed.
    """

    def __instancecheck__(cls, value):
        own = cls.__dict__.get("_backend")
        if own is None:
            return super().__instancecheck__(value)  # for users' derived classes
        return isinstance(value, Accelerator) and value.name() == own


def class_of(backend, name):
    """Return the accelerator class for a backend.

    Its constructor returns that backend's accelerator without selecting it; set_accelerator()
    selects one. It raises `unavailable`, with the reason, if the backend cannot run.
    """

    def __init__(self):
        Accelerator.__init__(self, backend)

    text = f"The accelerator {backend!r}. The constructor raises `unavailable`, with the reason, if the backend cannot run."
    module = f"{__package__}.{backend}_accelerator"
    return _OfOneBackend(name, (Accelerator,), {"__init__": __init__, "__doc__": text, "__module__": module, "_backend": backend})
