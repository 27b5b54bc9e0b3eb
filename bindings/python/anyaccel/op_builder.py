"""Op builders, which know an op's sources and requirements, and load the op. Their methods have
DeepSpeed's names.
"""

import ctypes
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
    """An op's name: a callable str, because DeepSpeed's builders have a field `name` and
    AnyAccel's have a method."""

    def __call__(self) -> str:
        return str(self)


class OpBuilder(_native.OpBuilder):
    """Base class for the classes that `get_op_builder(name)` returns; `create_op_builder(name)`
    returns an instance.

    A backend's own builder derives from this class and has a name that ends in `Builder`. It
    defines `NAME`, and either load() or sources() with related methods (include_paths(),
    cxx_args(), ...). AnyAccel's build service builds, caches and loads these sources. Methods that
    the builder does not define come from AnyAccel's builder with the same class name, or raise
    `unsupported` if there is none.

    Sources stay in the extension's folder. Relative paths are relative to the folder of the class's
    file, or to its subfolder named by a variable `<prefix>_kernel_path` of the class or its module.
    `<prefix>_include` names header folders.
    """

    NAME: "str | None" = None
    NAMESPACE: "str | None" = None  # torch.ops namespace, for a library that registers ops instead of being a Python module; default: NAME

    def __init__(self, name: "str | None" = None, *, accelerator: "Accelerator | None" = None, class_name: "str | None" = None) -> None:
        """`name` overrides NAME, as in DeepSpeed's builders.

        `accelerator` defaults to the process's accelerator.
        """
        if accelerator is None:
            from ._native import get_accelerator
            accelerator = get_accelerator()
        if not isinstance(accelerator, _native.Accelerator):
            accelerator = accelerator._all()  # an instance of a user's class
        super().__init__(accelerator, class_name or type(self).__name__)
        self._described = None
        # Fields of DeepSpeed's class that extensions may read or set. They have no effect in
        # AnyAccel.
        self.jit_mode, self.build_for_cpu, self.enable_bf16, self.error_log = False, False, False, None
        if name is not None:
            self.NAME = name

    @property
    def name(self) -> OpName:  # type: ignore[override]
        """The op's name, for example "cpu_adam": `builder.name` as in DeepSpeed, or
        `builder.name()`."""
        return OpName(self.NAME or super().name())

    @name.setter
    def name(self, value: str) -> None:
        self.NAME = value

    def sources(self) -> "list[str]":
        """Paths of the sources: absolute, or relative to the kernel folder."""
        return super().sources()

    def include_paths(self) -> "list[str]":
        """Include folders, absolute or relative to the folder of the class's file."""
        return super().include_paths()

    def cxx_args(self) -> "list[str]":
        """Flags for the C++ compiler. Flags that docs/reference/op-builders.md does not list are
        rejected.
        """
        return []

    def nvcc_args(self) -> "list[str]":
        """Flags for nvcc, used for .cu sources."""
        return []

    def libraries_args(self) -> "list[str]":
        """Libraries to link, by name."""
        return []

    def extra_ldflags(self) -> "list[str]":
        """Libraries to link, as flags `-lNAME`."""
        return []

    def _service(self):
        """Return the build service's builder, or None if this class does not define sources()."""
        if type(self).sources is OpBuilder.sources:
            return None
        if self._described is None:
            from . import extension_op
            self._described = extension_op.build_service_of(self)
        return self._described

    def compatibility(self) -> "_native.Compatibility":
        """Return (compatible, reason): whether load() can work in this process. The reason is empty
        if it can.
        """
        service = self._service()
        return super().compatibility() if service is None else service.compatibility()

    def is_compatible(self, verbose: bool = False) -> bool:
        """Return whether load() can work in this process.

        With `verbose`, print the reason if it cannot; see also compatibility().
        """
        answer = self.compatibility()
        if verbose and not answer.compatible:
            print(f"anyaccel: {self.name()}: {answer.reason}")
        return answer.compatible

    def load(self, verbose: bool = True) -> Any:
        """Load the op, building it first if necessary, and return its functions.

        The result is the module `anyaccel.ops.<name>` if it exists, with the functions that
        DeepSpeed's Python code calls; otherwise, it is `torch.ops.anyaccel`. For a class with
        sources(), it is the Python module that the sources define
        (PYBIND11_MODULE(TORCH_EXTENSION_NAME, ...)) or, if there is none, `torch.ops.<NAME>`.
        """
        service = self._service()
        if service is not None:
            from . import extension_op
            service.load()
            return extension_op.functions_of(self.name(), service.library(), self.NAMESPACE or self.name())
        super().load()
        return functions_of(self.name())

    def jit_load(self, verbose: bool = True) -> Any:
        """Load the op like load(). An op that is already built is not rebuilt."""
        return self.load(verbose)

    def builder(self) -> Any:
        """Return a torch CppExtension with the same sources, for a setup.py."""
        from torch.utils.cpp_extension import CppExtension
        from . import extension_op
        return extension_op.for_setup(self, CppExtension)

    def absolute_name(self) -> str:
        """Return the name of the module that load() returns."""
        return f"{__package__}.ops.{self.name()}"

    def strip_empty_entries(self, args: "list[str]") -> "list[str]":
        """Return the list without empty strings."""
        return [arg for arg in args if len(arg) > 0]

    def cpu_arch(self) -> str:
        """Return "" instead of DeepSpeed's -march=native, because the build service compiles for
        every processor of the architecture."""
        return ""

    def simd_width(self) -> str:
        """Return the flag that disables vector instructions in DeepSpeed's sources, because the
        build service compiles for every processor of the architecture.
        """
        return "-D__SCALAR__"

    def command_exists(self, cmd: str) -> bool:
        """Return whether one of the programs in `a|b` is in PATH."""
        return any(shutil.which(one.strip()) for one in cmd.split("|"))

    def has_function(self, funcname: str, libraries: "tuple[str, ...] | list[str]", library_dirs: "list[str] | None" = None,
                     verbose: bool = False) -> bool:
        """Return whether one of the shared libraries has a function.

        Loads the libraries, whereas DeepSpeed compiles a program.
        """
        import ctypes.util  # imported here, because `import anyaccel` must not import it

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
        """Store a message in `error_log` and issue it as a warning."""
        self.error_log = str(msg)
        warnings.warn(f"anyaccel: {self.name()}: {msg}", stacklevel=2)

    def deepspeed_src_path(self, code_path: str) -> str:
        """Return the path of a source. A relative path is relative to the folder of the class's
        file.
        """
        from . import extension_op
        return extension_op.path_of(self, code_path)

    @staticmethod
    def is_rocm_pytorch() -> bool:
        """Return whether torch was built for ROCm."""
        return torch.version.hip is not None

    @staticmethod
    def is_sycl_enabled() -> bool:
        """Return whether DeepSpeed's SYCL translator is installed."""
        return shutil.which("c2s") is not None


OpBuilder._base = OpBuilder  # extension_op compares methods with those of the base class


def functions_of(name):
    """Return the functions of a loaded op."""
    module = f"{__package__}.ops.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return torch.ops.anyaccel


def builder_class(accelerator, class_name):
    """Return the builder class for an accelerator's op.

    Never None: load() of a missing op raises `unsupported`.
    """

    def __init__(self, name=None):
        OpBuilder.__init__(self, name, accelerator=accelerator, class_name=class_name)

    made = type(class_name, (OpBuilder,), {"__init__": __init__})
    made.NAME = made().name()
    return made


def _is_offered(name, value, module, package):
    """Return whether a module's member is an op's builder: an instantiable class of this package
    that is not a base class."""
    if not inspect.isclass(value) or not name.endswith("Builder") or name.endswith("OpBuilder") or name.startswith("_"):
        return False
    if inspect.isabstract(value):
        return False
    # Classes imported from elsewhere are not ops of this backend, unless __all__ lists them.
    own = value.__module__.split(".")[0] == package.split(".")[0]
    return own or name in getattr(module, "__all__", ())


def classes_of(package):
    """Return the op builders in a Python package (a backend's `op_builder_dir`) by name. These are
    the classes in the package and its modules whose names end in `Builder`.

    Excluded are base classes (abstract classes, and names that begin with `_` or end in
    `OpBuilder`), and classes that a module imports from other packages without listing them in
    `__all__`. A module that cannot be imported causes a warning and does not affect others.
    DeepSpeed's own package is skipped, because its builders build DeepSpeed's sources. AnyAccel's
    builders replace them.
    """
    found = {}
    if not package or package.split(".")[0] == "deepspeed":
        return found
    try:
        root = importlib.import_module(package)
    except ModuleNotFoundError as error:
        # A backend need not have a Python package, but a package whose imports fail is an error.
        if error.name and (package + ".").startswith(error.name + "."):
            return found
        raise
    modules = [root]
    for info in pkgutil.iter_modules(getattr(root, "__path__", []), package + "."):
        try:
            modules.append(importlib.import_module(info.name))
        except Exception as error:  # noqa: BLE001  (the author's code may raise anything)
            warnings.warn(f"anyaccel: skipping op builders in {info.name}: {printable_text(repr(error), 1000)}", stacklevel=2)
    for module in modules:
        for name, value in vars(module).items():
            if _is_offered(name, value, module, package):
                found.setdefault(name, value)
    return found
