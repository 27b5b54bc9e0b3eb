"""Redirects CUDA devices in programs that TorchScript compiles.

Compiled code sees the accelerator's devices. Function modes do not intercept it, so the compiler's
frontend replaces device names in the source, in defaults and in attributes of modules.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import typing

import torch
import torch.jit.frontend
from torch._C._jit_tree_views import Apply, Attribute, BinOp, Ident, Select, StringLiteral

from .devices import CUDA, Devices
from .patches import Patches
from .usage import Usage

# A device name, or the start of one: "cuda", "cuda:1", "cuda:{}", "cuda:".
_NAME = re.compile(r"cuda(?::(?:\d+|\{\w*\})?)?")
_LOADED = ("the code in the file names CUDA devices and is not redirected; "
           "compile the program with torch.jit.script() instead of loading it")


class ScriptCompiler:
    """Patches the frontend of TorchScript's compiler."""

    def __init__(self, devices: Devices, usage: Usage, patches: Patches) -> None:
        self._devices = devices
        self._usage = usage
        self._patches = patches

    def install(self) -> None:
        """Install all patches."""
        builder = torch.jit.frontend.ExprBuilder
        builders = {"build_Str": self._string, "build_JoinedStr": self._format, "build_Attribute": self._attribute, "build_Call": self._call}
        for name, make in builders.items():
            self._patches.set(builder, name, staticmethod(make(getattr(builder, name))))
        for place in (torch.jit._script, torch.jit._recursive):
            self._patches.set(place, "get_default_args", self._defaults(place.get_default_args))
        create = torch.jit._recursive.create_script_module
        self._patches.set(torch.jit._recursive, "create_script_module", self._module(create))
        self._load()

    def _mapped(self, value: object) -> object:
        """The accelerator's device for a CUDA device or its name. Other values are returned as they are."""
        if isinstance(value, torch.device):
            found = self._devices.of(value)
            if found is None:
                return value
        elif isinstance(value, str) and _NAME.fullmatch(value):
            index = value[len(CUDA):]  # on the CPU, drop an index but keep a placeholder
            found = self._devices.type + ("" if self._devices.is_cpu and index[1:].isdigit() else index)
        else:
            return value
        self._usage.count(f'device "{value}" in TorchScript')
        return found

    def _string(self, build: typing.Callable) -> typing.Callable:

        def build_string(ctx: typing.Any, expr: ast.Constant) -> typing.Any:
            made, mapped = build(ctx, expr), self._mapped(expr.value)
            return made if mapped is expr.value else StringLiteral(made.range(), mapped)

        return build_string

    def _format(self, build: typing.Callable) -> typing.Callable:
        """f"cuda:{i}"."""

        def build_format(ctx: typing.Any, expr: ast.JoinedStr) -> typing.Any:
            first = expr.values[0] if expr.values else None
            if isinstance(first, ast.Constant) and first.value == CUDA + ":":
                start = ast.copy_location(ast.Constant(self._mapped(first.value)), first)
                expr = ast.copy_location(ast.JoinedStr([start, *expr.values[1:]]), expr)
            return build(ctx, expr)

        return build_format

    def _attribute(self, build: typing.Callable) -> typing.Callable:
        """`x.is_cuda` is `x.device.type == TYPE`. A module's own `self.is_cuda` stays as it is."""

        def build_attribute(ctx: typing.Any, expr: ast.Attribute) -> typing.Any:
            made = build(ctx, expr)
            if expr.attr != "is_cuda" or (isinstance(expr.value, ast.Name) and expr.value.id == "self"):
                return made
            place = made.range()
            self._usage.count("Tensor.is_cuda in TorchScript")
            device = Select(torch.jit.frontend.build_expr(ctx, expr.value), Ident(place, "device"))
            return BinOp("==", Select(device, Ident(place, "type")), StringLiteral(place, self._devices.type))

        return build_attribute

    def _call(self, build: typing.Callable) -> typing.Callable:
        """`x.cuda()` is `x.to(TYPE)`."""

        def build_call(ctx: typing.Any, expr: ast.Call) -> typing.Any:
            function = expr.func
            simple = not expr.args and all(k.arg == "non_blocking" for k in expr.keywords)
            if not isinstance(function, ast.Attribute) or function.attr != CUDA or not simple:
                return build(ctx, expr)
            self._usage.count("Tensor.cuda in TorchScript")
            base = torch.jit.frontend.build_expr(ctx, function.value)
            place = base.range()
            options = [Attribute(Ident(place, k.arg), torch.jit.frontend.build_expr(ctx, k.value)) for k in expr.keywords]
            return Apply(Select(base, Ident(place, "to")), [StringLiteral(place, self._devices.type)], options)

        return build_call

    def _defaults(self, get: typing.Callable) -> typing.Callable:

        @functools.wraps(get)
        def get_default_args(function: typing.Any) -> "dict[str, object]":
            return {name: self._mapped(value) for name, value in get(function).items()}

        return get_default_args

    def _module(self, create: typing.Callable) -> typing.Callable:

        @functools.wraps(create)
        def create_script_module(nn_module: torch.nn.Module, *arguments: typing.Any, **options: typing.Any) -> typing.Any:
            with contextlib.ExitStack() as stack:
                for module in nn_module.modules():
                    if not isinstance(module, torch.jit.ScriptModule) or module is nn_module:
                        self._replace_attributes(module, stack)
                return create(nn_module, *arguments, **options)

        return create_script_module

    def _replace_attributes(self, module: torch.nn.Module, stack: contextlib.ExitStack) -> None:
        """Replace devices in the attributes of a module and of its class until the stack is closed."""
        own = vars(module)
        values = {name: value for each in reversed(type(module).__mro__) for name, value in vars(each).items()} | own
        for name, value in values.items():
            if type(value) not in (str, torch.device):
                continue
            mapped = self._mapped(value)
            if mapped is value:
                continue
            if name in own:
                stack.callback(own.__setitem__, name, value)
            else:
                stack.callback(own.pop, name)  # an attribute of the class
            own[name] = mapped

    def _load(self) -> None:
        load = torch.jit.load

        @functools.wraps(load)
        def jit_load(f: typing.Any, map_location: typing.Any = None, *arguments: typing.Any, **options: typing.Any) -> typing.Any:
            with self._usage.one_call():
                place = self._devices.of(map_location)
                if place is not None:
                    self._usage.count("torch.jit.load of CUDA tensors")
                module = load(f, map_location if place is None else place, *arguments, **options)
            if any(_names_cuda(each) for each in module.modules()):
                self._usage.lacks("torch.jit.load", _LOADED)
            return module

        for place in (torch.jit, torch.jit._serialization):
            self._patches.set(place, "load", jit_load)


def _names_cuda(module: typing.Any) -> bool:
    """Whether a method of a loaded module names a CUDA device."""
    return any('"cuda' in module._c._get_method(name).code for name in module._c._method_names())
