"""Op builders: what knows an op's sources and needs, and loads it. Names are DeepSpeed's."""

import ctypes
import ctypes.util
import importlib
import inspect
import os
import pkgutil
import shutil
import warnings
from typing import TYPE_CHECKING, Any

import torch

from . import _native
from ._untrusted_text import printable_text

if TYPE_CHECKING:
    from .accelerator import Accelerator


class OpName(str):
    """An op's name. It is a field of DeepSpeed's builders and a method of AnyAccel's, so it is a text that may be called."""

    def __call__(self) -> str:
        return str(self)


class OpBuilder(_native.OpBuilder):
    """Base of the classes that `get_op_builder(name)` gives; `create_op_builder(name)` makes an object of one.

    A backend's own builder is a class of this base whose name ends in `Builder`; it gives `NAME` and what differs: load(), or sources()
    and what goes with them (include_paths(), cxx_args(), ...), which AnyAccel's build service then builds, keeps and loads. What it
    leaves out is that of AnyAccel's op of the same class name, or `unsupported` when there is none.

    Sources stay in the extension's folder: relative ones lie below the folder of the class's file, or below the one there that a variable
    `<prefix>_kernel_path` of the class or its module names; `<prefix>_include` names folders of headers."""

    NAME: "str | None" = None
    NAMESPACE: "str | None" = None  # of torch.ops, where the library registers ops and is no Python module; none: NAME

    def __init__(self, name: "str | None" = None, *, accelerator: "Accelerator | None" = None, class_name: "str | None" = None) -> None:
        """`name` stands for NAME, as DeepSpeed's builders give it. The accelerator is the process's when none is given."""
        if accelerator is None:
            from . import get_accelerator
            accelerator = get_accelerator()
        if not isinstance(accelerator, _native.Accelerator):
            accelerator = accelerator._all()  # of a user's class
        super().__init__(accelerator, class_name or type(self).__name__)
        self._described = None
        # Fields of DeepSpeed's class that an extension may read or set; nothing here depends on them.
        self.jit_mode, self.build_for_cpu, self.enable_bf16, self.error_log = False, False, False, None
        if name is not None:
            self.NAME = name

    @property
    def name(self) -> OpName:  # type: ignore[override]
        """The op's name, for example "cpu_adam": `builder.name` as in DeepSpeed, or `builder.name()`."""
        return OpName(self.NAME or super().name())

    @name.setter
    def name(self, value: str) -> None:
        self.NAME = value

    def sources(self) -> "list[str]":
        """The sources, absolute or below the kernels' folder."""
        return super().sources()

    def include_paths(self) -> "list[str]":
        """Folders that the compiler gets, absolute or below the folder of the class's file."""
        return super().include_paths()

    def cxx_args(self) -> "list[str]":
        """Flags of the C++ compiler. Flags outside of the list in docs/ops.md are an error."""
        return []

    def nvcc_args(self) -> "list[str]":
        """Flags of nvcc, for sources that end in .cu."""
        return []

    def libraries_args(self) -> "list[str]":
        """Libraries to link, by name."""
        return []

    def extra_ldflags(self) -> "list[str]":
        """The same as flags: `-lNAME`."""
        return []

    def _service(self):
        """The build service's builder, where this class names sources."""
        if type(self).sources is OpBuilder.sources:
            return None
        if self._described is None:
            from . import extension_op
            self._described = extension_op.build_service_of(self)
        return self._described

    def compatibility(self) -> "_native.Compatibility":
        """(compatible, reason): the reason is empty when load() can work here."""
        service = self._service()
        return super().compatibility() if service is None else service.compatibility()

    def is_compatible(self, verbose: bool = False) -> bool:
        """True when load() can work here; `compatibility()` has the reason, and verbose prints it."""
        answer = self.compatibility()
        if verbose and not answer.compatible:
            print(f"anyaccel: {self.name()}: {answer.reason}")
        return answer.compatible

    def load(self, verbose: bool = True) -> Any:
        """Loads the op, prebuilt or built now, and returns its functions: the module `anyaccel.ops.<name>` when there is
        one, which has what DeepSpeed's Python calls, else `torch.ops.anyaccel`. Of a class with sources() the Python module that they
        make (PYBIND11_MODULE(TORCH_EXTENSION_NAME, ...)), else `torch.ops.<NAME>`."""
        service = self._service()
        if service is not None:
            from . import extension_op
            service.load()
            return extension_op.functions_of(self.name(), service.library(), self.NAMESPACE or self.name())
        super().load()
        return functions_of(self.name())

    def jit_load(self, verbose: bool = True) -> Any:
        """load(): what is built already is not built again."""
        return self.load(verbose)

    def builder(self) -> Any:
        """torch's CppExtension of the same sources, for a setup.py."""
        from torch.utils.cpp_extension import CppExtension
        from . import extension_op
        return extension_op.for_setup(self, CppExtension)

    def absolute_name(self) -> str:
        """The module that load() returns, by its name."""
        return f"{__package__}.ops.{self.name()}"

    def strip_empty_entries(self, args: "list[str]") -> "list[str]":
        """The list without empty texts."""
        return [arg for arg in args if len(arg) > 0]

    def cpu_arch(self) -> str:
        """An empty text where DeepSpeed has -march=native: the build service compiles for every processor of the architecture."""
        return ""

    def simd_width(self) -> str:
        """The flag that tells DeepSpeed's sources to use no vector instructions, for the same reason."""
        return "-D__SCALAR__"

    def command_exists(self, cmd: str) -> bool:
        """Whether one of the programs `a|b` can be run."""
        return any(shutil.which(one.strip()) for one in cmd.split("|"))

    def has_function(self, funcname: str, libraries: "tuple[str, ...] | list[str]", library_dirs: "list[str] | None" = None,
                     verbose: bool = False) -> bool:
        """Whether one of the shared libraries has a function. DeepSpeed compiles a program for that; this opens the libraries."""
        for library in libraries:
            places = [os.path.join(folder, f"lib{library}.so") for folder in library_dirs or ()] + [ctypes.util.find_library(library) or ""]
            for place in filter(None, places):
                try:
                    if hasattr(ctypes.CDLL(place), funcname):
                        return True
                except OSError:
                    continue
        return False

    def warning(self, msg: str) -> None:
        """Keep a reason in `error_log` and warn of it."""
        self.error_log = str(msg)
        warnings.warn(f"anyaccel: {self.name()}: {msg}", stacklevel=2)

    def deepspeed_src_path(self, code_path: str) -> str:
        """The path of a source: relative ones lie below the folder of the class's file."""
        from . import extension_op
        return extension_op.path_of(self, code_path)

    @staticmethod
    def is_rocm_pytorch() -> bool:
        """Whether torch was built for ROCm."""
        return torch.version.hip is not None

    @staticmethod
    def is_sycl_enabled() -> bool:
        """Whether DeepSpeed's translator to SYCL is installed."""
        return shutil.which("c2s") is not None


def functions_of(name):
    """What a loaded op's builder returns."""
    module = f"{__package__}.ops.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return torch.ops.anyaccel


def builder_class(accelerator, class_name):
    """The class for an op of an accelerator. Never None: a missing op's load() is `unsupported`."""

    def __init__(self, name=None):
        OpBuilder.__init__(self, name, accelerator=accelerator, class_name=class_name)

    made = type(class_name, (OpBuilder,), {"__init__": __init__})
    made.NAME = made().name()
    return made


def _is_offered(name, value, module, package):
    """Whether a module's member is an op's builder: a class of this package that can be made, and no base of such."""
    if not inspect.isclass(value) or not name.endswith("Builder") or name.endswith("OpBuilder") or name.startswith("_"):
        return False
    if inspect.isabstract(value):
        return False
    # Helpers that are imported from elsewhere are no ops of this backend, unless it says so.
    own = value.__module__.split(".")[0] == package.split(".")[0]
    return own or name in getattr(module, "__all__", ())


def classes_of(package):
    """Op builders of a Python package (`op_builder_dir` of a backend): its classes whose names end in `Builder`, by name, those of its
    modules too. Left out are bases (abstract classes, names that begin with `_` or end in `OpBuilder`), and what a module imports from other
    packages and does not name in its `__all__`. A module that cannot be imported is a warning and hides no other. Nothing of DeepSpeed's own is looked at:
    its builders build its sources, and are what ours stand for."""
    found = {}
    if not package or package.split(".")[0] == "deepspeed":
        return found
    try:
        root = importlib.import_module(package)
    except ModuleNotFoundError as error:
        # A backend without Python is no defect; one whose package lacks something else is.
        if error.name and (package + ".").startswith(error.name + "."):
            return found
        raise
    modules = [root]
    for info in pkgutil.iter_modules(getattr(root, "__path__", []), package + "."):
        try:
            modules.append(importlib.import_module(info.name))
        except Exception as error:  # noqa: BLE001  (whatever its author's code throws)
            warnings.warn(f"anyaccel: op builders in {info.name} are left out: {printable_text(repr(error), 1000)}", stacklevel=2)
    for module in modules:
        for name, value in vars(module).items():
            if _is_offered(name, value, module, package):
                found.setdefault(name, value)
    return found
