"""Checks that AnyAccel's op modules match DeepSpeed's bindings: tools/deepspeed_signatures finds no
difference, and detects differences that the tests add.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest
import torch

from anyaccel import get_accelerator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import deepspeed_bindings as bindings  # noqa: E402


def load_tool():
    loader = importlib.machinery.SourceFileLoader("deepspeed_signatures", str(ROOT / "tools/deepspeed_signatures"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


tool = load_tool()
VERSION, OPS = bindings.from_text(tool.DATA.read_text())


def compare(ops=OPS, page=None):
    return tool.compare(ops, lambda op: tool.read_stub(tool.STUBS / f"{op}.pyi"), tool.PAGE.read_text() if page is None else page)


# Fails if AnyAccel's bindings reject a call that DeepSpeed's accept, without a reason in
# docs/reference/deepspeed.md.
def test_all_differences_have_a_reason():
    assert compare() == []
    assert len(OPS) == 22 and sum(map(len, OPS.values())) > 200


# Fails if the tool misses a difference.
@pytest.mark.parametrize("line, wanted", [
    ("no_such_function(int) -> None", "is missing"),
    ("adam_update(int, int) -> int", "requires lr"),
    ("destroy_adam(int, int) -> int", "takes 1 arguments, not 2"),
    ("destroy_adam(str) -> int", "is int, not str"),
    ("destroy_adam(number: int) -> int", "does not know the keyword `number`"),
    ("zenflow_adam_destroy(int) -> int", "returns None, not int"),
    ("create_adam(optimizer_id: int, lr: float = 0.5) -> int", "has the default 0.001, not 0.5"),
])
def test_differences_are_found(line, wanted):
    (message,) = compare({**OPS, "cpu_adam": [*OPS["cpu_adam"], line]})
    assert wanted in message and message.startswith("cpu_adam." + line.split("(")[0])


# Fails if the tool accepts a reason for a difference that no longer exists.
def test_stale_reasons_are_found():
    page = tool.PAGE.read_text().replace("| --- | --- | --- |\n| `transformer_inference", "| --- | --- | --- |\n| `cpu_adam.adam_update` | is missing | no reason |\n| `transformer_inference")
    assert compare(page=page) == ["cpu_adam.adam_update: 'is missing' is in docs/reference/deepspeed.md but no longer applies"]


# Fails if the stored signatures differ from those of the installed DeepSpeed.
def test_stored_signatures_match_deepspeed():
    found = tool.installed()
    if found is None or found[0] != VERSION:
        pytest.skip(f"DeepSpeed {VERSION} is not installed")
    assert bindings.to_text(VERSION, bindings.extract(found[1])) == tool.DATA.read_text()


# Fails if the parser misreads a declaration, a macro, an overload or a default.
def test_parser(tmp_path):
    for path in {path for paths in bindings.SOURCES.values() for path in paths}:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("// empty\n")
    source = tmp_path / bindings.SOURCES["utils"][0]
    (source.parent / "handle.h").write_text("""
        struct base { virtual int64_t count(const at::Tensor& t, int n) const; };
        struct handle : base { bool put(std::vector<torch::Tensor>& all, const char* name); };
        std::optional<at::Tensor> twice(at::Tensor&, std::vector<std::vector<float>> x = {});  // int twice(int);
        int twice(std::string);
    """)
    source.write_text("""
        template <typename T> std::vector<at::Tensor> make(const int64_t count, c10::optional<at::Tensor>& like, bool fast) { return {}; }
        PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
        #define EACH(_name, _dtype) \\
            m.def("make_" #_name, &make<_dtype>, "Makes, (f(x), g) <them>");
            EACH(fp32, float);
        #if defined(__linux__)
            EACH(fp16, __half);
        #endif
            m.def("twice", py::overload_cast<at::Tensor&, std::vector<std::vector<float>>>(&twice));
            m.def("twice", py::overload_cast<std::string>(&twice), "text"_a);
            py::class_<handle>(m, "handle").def(py::init<int, const bool>(), "size"_a = 4 * 8, py::arg("safe") = true)
                .def("count", &handle::count, py::call_guard<py::gil_scoped_release>())
                .def("put", [](handle& h, std::vector<torch::Tensor>& all, const char* name) { return h.put(all, name); }, "all"_a, "name"_a);
        }
        TORCH_LIBRARY(mine, m) { m.def("op(Tensor a)" " -> Tensor"); }
    """)
    assert bindings.extract(tmp_path)["utils"] == [
        "make_fp32(int, Tensor?, bool) -> Tensor[]", "make_fp16(int, Tensor?, bool) -> Tensor[]", "twice(Tensor, float[][]) -> Tensor?",
        "twice(text: str) -> int", "handle.__init__(size: int = 32, safe: bool = True) -> None", "handle.count(Tensor, int) -> int",
        "handle.put(all: Tensor[], name: str) -> bool", "torch.ops.mine.op(Tensor a) -> Tensor"]
    new = tmp_path / "ops/new.cpp"
    new.write_text("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { }")
    with pytest.raises(bindings.Unreadable, match="in no table"):
        bindings.extract(tmp_path)


# Fails if an op that DeepSpeed registers with torch has a different schema in AnyAccel.
def test_schemas_of_torch_ops(tmp_path):
    builder = get_accelerator().create_op_builder("ShareMemCommBuilder")
    if not builder.is_compatible():
        pytest.skip(builder.compatibility().reason)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    builder.load().initialize(1, 0)  # registers the names
    torch.distributed.destroy_process_group()
    lines = [line.removeprefix("torch.ops.") for line in OPS["deepspeed_shm_comm"] if line.startswith("torch.ops.")]
    assert len(lines) == 2
    for line in lines:
        wanted = torch._C.parse_schema(line.replace(".", "::", 1))
        assert str(getattr(torch.ops.deepspeed, wanted.name.split("::")[1]).default._schema) == str(wanted), line


OPTIMIZERS = {
    "adam": ((0.1, 0.9, 0.999, 1e-8, 0.0, True), 4),
    "adagrad": ((0.1, 1e-8, 0.0), 3),
    "lion": ((0.1, 0.9, 0.99, 0.0), 3),
}


# Fails if an optimizer function does not return 0 like DeepSpeed's, in the fast call or through
# torch's dispatcher.
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_return_zero(name):
    options, tensors = OPTIMIZERS[name]
    op = get_accelerator().create_op_builder({"adam": "CPUAdamBuilder", "adagrad": "CPUAdagradBuilder", "lion": "CPULionBuilder"}[name]).load()
    assert getattr(op, "create_" + name)(7) == 0
    update = getattr(op, name + "_update")
    values = [torch.ones(4) for _ in range(tensors)]
    assert update(7, 1, *options, *values) == 0
    assert update(7, 2, *options, *values[:-1], torch.nn.Parameter(values[-1]).detach().as_subclass(Subclass)) == 0
    if name == "adam":
        assert op.adam_rollback(7, 2, *options, *values) == 0
    assert getattr(op, "destroy_" + name)(7) == 0


class Subclass(torch.Tensor):
    pass
