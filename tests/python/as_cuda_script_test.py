"""TorchScript under the redirection: compiled code uses the accelerator."""
from as_cuda_case import everywhere, run_file

SCRIPT = """
import tempfile, torch, typing
import anyaccel.as_cuda
x, real = torch.ones(2), torch.ones(2).cuda()

def literals(x):
    y = x.to("cuda") + torch.zeros(2, device="cuda") + torch.ones([2], device=torch.device("cuda", 0))
    return y.to(torch.device("cuda:0")).cuda(non_blocking=True)
def composed(x, i: int):
    return x.to(f"cuda:{i}") + x.to("cuda:{}".format(i)) + x.to("cuda:" + str(i))
def defaults(x, name: str = "cuda", place: torch.device = torch.device("cuda")):
    return x.to(name) + x.to(place)
def questions(x) -> typing.Tuple[bool, bool, bool]:
    return x.is_cuda, x.to("cpu").is_cuda, x.device.type == "cuda"
def words(x, word: str) -> typing.Tuple[str, bool]:
    return "cudagraphs" + f"", word == "cuda_x"

for function in (literals, defaults):
    for compiled in (torch.jit.script(function), torch.jit.script(function)):
        assert compiled(x).device == real.device, function
assert torch.jit.script(composed)(x, 0).device == real.device
assert torch.jit.script(questions)(real) == (True, torch.ones(2).is_cuda, True)
assert torch.jit.script(words)(x, "cuda_x") == ("cudagraphs", True)
assert torch.jit.script(literals)(real).tolist() == [2.0, 2.0]

class Inner(torch.nn.Module):
    def __init__(self, place):
        super().__init__()
        self.place = place
    def forward(self, x):
        return x.to(self.place)
class Model(torch.nn.Module):
    kind: torch.jit.Final[str] = "cuda"
    def __init__(self):
        super().__init__()
        self.inner, self.layer, self.place = Inner(torch.device("cuda")), torch.nn.Linear(2, 2), "cuda"
    def forward(self, x, device: torch.device = torch.device("cuda")):
        return self.layer(self.inner(x)) + torch.zeros(2, device=self.kind) + x.to(device)
class Flag(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.is_cuda = True
    def forward(self, x):
        return x + 1 if self.is_cuda else x
class Old(torch.jit.ScriptModule):
    @torch.jit.script_method
    def forward(self, x):
        return x.cuda()
model = Model().cuda()
compiled = torch.jit.script(model)
assert torch.equal(compiled(torch.ones(1, 2)), model(torch.ones(1, 2)))
assert (model.place, model.kind, model.inner.place, vars(model).get("kind")) == ("cuda", "cuda", torch.device("cuda"), None)
assert Old()(x).device == real.device
assert torch.jit.script(Flag())(x).tolist() == [2.0, 2.0]
with tempfile.NamedTemporaryFile() as file:
    torch.jit.save(compiled, file.name)
    for options in ({}, {"map_location": "cuda"}, {"map_location": torch.device("cuda:0")}):
        assert torch.jit.load(file.name, **options)(torch.ones(1, 2)).device == real.device
report = anyaccel.as_cuda.report()
assert not report["no_equivalent"]
names = {entry["name"] for entry in report["redirected"]}
assert {'device "cuda" in TorchScript', "Tensor.cuda in TorchScript", "Tensor.is_cuda in TorchScript"} <= names

anyaccel.as_cuda.disable()
def after(x) -> bool:
    return x.is_cuda or x.device.type == "cuda"
assert not torch.jit.script(after)(x)
def unported(x):
    return x.to("cuda:0")
with tempfile.NamedTemporaryFile() as file:
    torch.jit.save(torch.jit.script(unported), file.name)
    anyaccel.as_cuda.enable()
    torch.jit.load(file.name)
assert [entry["name"] for entry in anyaccel.as_cuda.report()["no_equivalent"]] == ["torch.jit.load"]
"""


# Fails if TorchScript compiles a CUDA device, if a module's attributes stay changed, or if
# disable() leaves the frontend patched.
@everywhere
def test_torchscript(accelerator, tmp_path):
    file = tmp_path / "program.py"  # the compiler reads the source
    file.write_text(SCRIPT)
    found = run_file(file, accelerator, options=["--quiet"])
    assert found.returncode == 0, found.stderr[-3000:]
