"""Names, order and defaults of arguments are the same in DeepSpeed, in the stub and at run time.
The stub's docstrings are the same as at run time.
"""

import ast
import inspect
import pathlib
import pydoc
import re

import pytest
import torch

import anyaccel
from anyaccel import get_accelerator

# Public members of DeepSpeed 0.19.8's abstract accelerator: their arguments after self, or None for
# a property.
DEEPSPEED = {
    "is_synchronized_device": "",
    "use_host_timers": "",
    "resolves_data_dependency": "",
    "handles_memory_backpressure": "",
    "device_name": "device_index",
    "device": "device_index",
    "set_device": "device_index",
    "current_device": "",
    "current_device_name": "",
    "device_count": "",
    "synchronize": "device_index=None",
    "random": "",
    "set_rng_state": "new_state, device_index=None",
    "get_rng_state": "device_index=None",
    "manual_seed": "seed",
    "manual_seed_all": "seed",
    "initial_seed": "",
    "default_generator": "device_index",
    "Stream": None,
    "stream": "stream",
    "current_stream": "device_index=None",
    "default_stream": "device_index=None",
    "Event": None,
    "empty_cache": "",
    "memory_allocated": "device_index=None",
    "max_memory_allocated": "device_index=None",
    "reset_max_memory_allocated": "device_index=None",
    "memory_cached": "device_index=None",
    "max_memory_cached": "device_index=None",
    "reset_max_memory_cached": "device_index=None",
    "memory_stats": "device_index=None",
    "reset_peak_memory_stats": "device_index=None",
    "memory_reserved": "device_index=None",
    "max_memory_reserved": "device_index=None",
    "total_memory": "device_index=None",
    "available_memory": "device_index=None",
    "is_bf16_supported": "",
    "is_fp16_supported": "",
    "is_fp64_supported": "",
    "supported_dtypes": "",
    "is_available": "",
    "range_push": "msg, domain=None, category=None",
    "range_pop": "domain=None",
    "lazy_call": "callback",
    "supports_nvtx_domain": "",  # a plain attribute in DeepSpeed
    "communication_backend_name": "",
    "is_triton_supported": "",
    "prefer_triton_grouped_mm": "",
    "is_current_stream_capturing": "",
    "create_graph": "",
    "capture_to_graph": "graph, pool=None, stream=None",
    "replay_graph": "graph",
    "BFloat16Tensor": None,
    "ByteTensor": None,
    "DoubleTensor": None,
    "FloatTensor": None,
    "HalfTensor": None,
    "IntTensor": None,
    "LongTensor": None,
    "register_host_memory": "address, num_bytes",
    "unregister_host_memory": "address",
    "pin_memory_alignment": "",
    "pin_memory": "tensor, make_copy=True, match_shape=True",
    "pin_empty": "*size, dtype, device='cpu'",
    "pin_empty_like": "tensor, device='cpu', dtype=None",
    "is_pinned": "tensor",
    "unpin_memory": "tensor",
    "on_accelerator": "tensor",
    "op_builder_dir": "",
    "create_op_builder": "class_name",
    "get_op_builder": "class_name",
    "build_extension": "",
    "export_envs": "",
    "visible_devices_envs": "",
    "set_visible_devices_envs": "current_env, local_accelerator_ids",
    "get_compile_backend": "",
    "set_compile_backend": "backend",
}
BUILDERS = ("AsyncIOBuilder", "CCLCommBuilder", "CPUAdagradBuilder", "CPUAdamBuilder", "CPULionBuilder", "EvoformerAttnBuilder", "FPQuantizerBuilder",
            "FusedAdamBuilder", "FusedLambBuilder", "FusedLionBuilder", "InferenceBuilder", "InferenceCoreBuilder", "PinMemoryBuilder",
            "QuantizerBuilder", "RaggedOpsBuilder", "RaggedUtilsBuilder", "RandomLTDBuilder", "ShareMemCommBuilder", "SparseAttnBuilder",
            "SpatialInferenceBuilder", "StochasticTransformerBuilder", "TransformerBuilder", "UtilsBuilder")
STUB = pathlib.Path(anyaccel.accelerator.__file__).with_name("accelerator.pyi")


def parameters(text):
    """Return {name: (kind, default)} of an argument list. The default is None for an argument
    without one.
    """
    arguments = ast.parse(f"def f({text}): ...").body[0].args
    found = {}
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + [ast.unparse(d) for d in arguments.defaults]
    for argument, default in zip(arguments.args, defaults):
        found[argument.arg] = ("plain", default)
    if arguments.vararg:
        found[arguments.vararg.arg] = ("*", None)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        found[argument.arg] = ("keyword", default and ast.unparse(default))
    return found


def in_stub():
    """Return {name: parameters after self, or None for a property} of the stub's class."""
    (made,) = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)]
    found = {}
    for function in made.body:
        if isinstance(function, ast.FunctionDef):
            own = parameters(ast.unparse(function.args))
            own.pop("self")
            found[function.name] = None if function.decorator_list else own
    return found


def at_run_time(name):
    """Return the parameters of the class itself. pybind11 writes the signature into the first line
    of its docstrings.
    """
    member = inspect.getattr_static(anyaccel.Accelerator, name)
    if isinstance(member, property):
        return None
    if inspect.isfunction(member):
        signature = inspect.signature(member)
        found = {p.name: ({p.VAR_POSITIONAL: "*", p.KEYWORD_ONLY: "keyword"}.get(p.kind, "plain"),
                          None if p.default is p.empty else repr(p.default)) for p in signature.parameters.values()}
    else:
        line = member.__doc__.splitlines()[0]
        inside = line[line.index("(") + 1:line.rindex(") -> ")]
        starts = [(m.start(1), m.group(1)) for m in re.finditer(r"(?:^|, )(\w+): ", inside)] + [(len(inside), "")]
        found = {}
        for (begin, word), (end, _) in zip(starts, starts[1:]):
            _, equals, default = inside[begin:end].rstrip(", ").partition(" = ")
            found[word] = ("plain", default if equals else None)
    found.pop("self")
    return found


# Fails if a call with positional or keyword arguments that DeepSpeed accepts is rejected.
@pytest.mark.parametrize("name", DEEPSPEED)
def test_arguments_match_deepspeed(name):
    ours = at_run_time(name)
    if DEEPSPEED[name] is None:
        assert ours is None and hasattr(get_accelerator(), name)
        return
    theirs = parameters(DEEPSPEED[name])
    assert list(ours)[:len(theirs)] == list(theirs)
    for argument, (kind, default) in ours.items():
        if argument not in theirs:
            assert default is not None, f"{name} requires {argument}, which DeepSpeed lacks"
            continue
        assert kind == theirs[argument][0]
        # Defaults must be the same as DeepSpeed's.
        assert theirs[argument][1] in (None, default)


# Fails if one of the 77 members is missing from the table above.
def test_all_members_of_deepspeed_are_listed():
    assert len(DEEPSPEED) == 77


# Fails if the stub and the class differ in methods or arguments.
def test_stub_matches_the_class():
    stub = in_stub()
    public = {name for name in dir(anyaccel.Accelerator) if not name.startswith("_")}
    assert public == set(stub) - {"__init__"}
    for name in sorted(public):
        assert at_run_time(name) == stub[name], name


def stubs_of_ops():
    for stub in sorted((STUB.parents[1] / "ops").glob("*.pyi")):
        if stub.stem != "__init__":
            yield pytest.param(stub, id=stub.stem)


def stub_signatures(stub):
    """Yield (name in the module, parameters) of the functions and methods of a stub."""
    for node in ast.parse(stub.read_text()).body:
        for function in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(function, ast.FunctionDef) and function.name != "__getattr__":
                own = parameters(ast.unparse(function.args))
                own = {name: kind for name, kind in own.items() if name not in ("self", "cls")}
                yield (f"{node.name}.{function.name}" if node is not function else function.name), own


def assert_fits(function, wanted, method):
    """Check that a function accepts each of its overloads, with positional and keyword arguments.
    """
    also = getattr(function, "also_named", {})
    signature = inspect.signature(function)
    own = ["self"] if method else []
    signature.bind(*own, **{also.get(name, name): 0 for name in wanted})
    signature.bind(*own, *(name for name, (kind, _) in wanted.items() if kind == "plain"),
                   **{also.get(name, name): 0 for name, (kind, _) in wanted.items() if kind == "keyword"})


def in_schema(function):
    """Return the parameters of an op from torch's dispatcher."""
    return {a.name: ("plain", repr(a.default_value) if a.has_default_value() else None) for a in function.default._schema.arguments}


# Fails if an op's stub and its module differ in functions or arguments.
@pytest.mark.parametrize("stub", list(stubs_of_ops()))
def test_stubs_of_ops(stub):
    builder = next((name for name in BUILDERS if anyaccel.get_accelerator().create_op_builder(name).name() == stub.stem), None)
    answer = anyaccel.get_accelerator().create_op_builder(builder).compatibility()
    if not answer.compatible:
        pytest.skip(f"the op {builder} is not compatible here: {answer.reason}")
    module = anyaccel.get_accelerator().create_op_builder(builder).load()
    named = {}
    for name, wanted in stub_signatures(stub):
        named.setdefault(name, []).append(wanted)
    for name, overloads in named.items():
        wanted = overloads[0]
        found = module
        for part in name.split("."):
            found = getattr(found, part)
        if len(overloads) > 1:
            for one in overloads:
                assert_fits(found, one, "." in name)
            continue
        op = getattr(torch.ops.anyaccel, name, None) if name in getattr(module, "__all__", ()) else None
        if op is not None:
            assert in_schema(op) == wanted, name
            continue
        signature = {p.name: ({p.VAR_POSITIONAL: "*", p.KEYWORD_ONLY: "keyword"}.get(p.kind, "plain"), p.empty if p.default is p.empty else p.default)
                     for p in inspect.signature(found).parameters.values() if p.name not in ("self", "cls") and p.kind is not p.VAR_KEYWORD}
        assert signature == {key: (kind, inspect.Parameter.empty if default is None else eval(default)) for key, (kind, default) in wanted.items()}, name
    public = [name for name, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"]
    assert {*public, *getattr(module, "__all__", ())} <= set(named)


# Fails if a method's docstring at run time differs from the header's text, which the stub contains.
def test_docstrings_match_the_header():
    for name, wanted in docstrings():
        native = getattr(anyaccel._native.Accelerator, name, None)
        shown = inspect.getdoc(getattr(anyaccel.Accelerator, name))
        assert shown, name
        # Methods implemented in Python may have a different docstring.
        if native is not None:
            assert wanted in " ".join(native.__doc__.split()), name
    page = pydoc.plain(pydoc.render_doc(get_accelerator().memory_allocated))
    assert "Bytes occupied by live tensors on a device." in page and "device_index" in page
    # Methods that are implemented in Python for speed also have the library's docstring.
    assert 'for example "cuda"' in inspect.getdoc(get_accelerator().device_name)


def docstrings():
    """Yield (name, description) of the stub's methods."""
    (made,) = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)]
    for function in made.body:
        if isinstance(function, ast.FunctionDef) and function.name not in ("__init__", "device_type"):
            yield function.name, " ".join(ast.get_docstring(function).split())
