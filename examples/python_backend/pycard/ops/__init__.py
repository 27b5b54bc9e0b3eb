"""Op builders: AnyAccel finds the classes whose names end in Builder here."""

from .axpy import AxpyBuilder  # noqa: F401
