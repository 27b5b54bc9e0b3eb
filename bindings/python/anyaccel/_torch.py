"""Imports torch, and says so where it is not the one that this package was built with: its library would not find its symbols."""

from . import _build_info
from .errors import make_error


def require():
    """Torch, before our library, which needs torch's."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise make_error("unavailable", "import anyaccel", "there is no torch", want=f"torch {_build_info.TORCH_VERSION}",
                         hint=f"pip install torch=={_build_info.TORCH_VERSION}") from error
    check(torch.__version__, torch.__file__)


def check(version, place):
    """C++ interfaces of LibTorch change with its minor versions."""
    wanted = _build_info.TORCH_VERSION
    if str(version).split(".")[:2] != wanted.split(".")[:2]:
        raise make_error("version_mismatch", "import anyaccel", "this AnyAccel was built with another torch",
                         got=f"torch {version} in {place}", want=f"torch {wanted}",
                         hint=f"pip install torch=={wanted}, or build AnyAccel with this torch (pip install --force-reinstall .)")
