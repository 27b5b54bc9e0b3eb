"""Op builders. AnyAccel searches this package for classes whose names end in Builder."""

from .axpy import AxpyBuilder  # noqa: F401
