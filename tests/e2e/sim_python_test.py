"""Tests of libanyaccel_sim.so in a Python program that does not use AnyAccel: training gives
bitwise the same results as on the CPU.
"""
import os
import subprocess
import sys
import unittest

from shell import libtorch_accelerator

LIBRARY = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "lib", "libanyaccel_sim.so")

# Attributes that torch requires in the module registered for an out-of-tree device type.
MODULE = """
import types
module = types.ModuleType("torch.sim")
module._lazy_init = lambda: None
module.is_available = lambda: True
module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda seed: None
torch._register_device_module("sim", module)
"""

PROGRAM = """
import copy, sys
import torch
import torch.nn.functional as F
torch.ops.load_library(sys.argv[1])
{module}
torch.set_num_threads(1)
device = torch.device("{name}", 1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = torch.nn.Conv2d(1, 8, 3), torch.nn.LayerNorm(36), torch.nn.Linear(8, 4)

    def forward(self, x):
        x = self.norm(F.gelu(self.conv(x)).flatten(2))
        return self.out(F.scaled_dot_product_attention(x, x, x).mean(2))

torch.manual_seed(0)
net = Net()
x, y = torch.randn(16, 1, 8, 8), torch.randint(4, (16,))

def train(net, x, y):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return [loss.item(), *(p.detach().cpu() for p in net.parameters())]

here = train(copy.deepcopy(net), x, y)
there = train(net.to(device), x.to(device), y.to(device))
assert next(net.parameters()).device == device
assert there[0] == here[0] < 1.35, (there[0], here[0])
assert all(torch.equal(a, b) for a, b in zip(here[1:], there[1:]))
with torch.autocast("{name}", dtype=torch.bfloat16):
    assert net.out(torch.ones(1, 8, device=device)).dtype == torch.bfloat16
stream, event = torch.Stream(device), torch.Event(device=device)
event.record(stream)
event.synchronize()
print(torch.ones(2, device=device))
"""


class SimPython(unittest.TestCase):
    def run_program(self, name, module=""):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SIM_")}
        if name != "sim":
            environment["SIM_STANDS_IN_FOR"] = name
        return subprocess.run([sys.executable, "-c", PROGRAM.format(name=name, module=module), LIBRARY], env=environment,
                              capture_output=True, text=True, timeout=100, check=False)

    # Fails if training on the simulator in Python differs from training on the CPU in any bit.
    def test_training_matches_cpu(self):
        for name, module in (("sim", MODULE), *(() if libtorch_accelerator() else (("mtia", ""),))):
            with self.subTest(name):
                done = self.run_program(name, module)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"device='{name}:1'", done.stdout)

    # Fails if the simulator does not reject a device type that this LibTorch uses itself.
    @unittest.skipUnless(libtorch_accelerator(), "this LibTorch has no accelerator of its own")
    def test_device_types_of_libtorch(self):
        for name in ("cuda", "mtia"):
            done = self.run_program(name)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("[sim] the LibTorch loaded in this process", done.stderr)


if __name__ == "__main__":
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print(f"SKIP: {error}")
        sys.exit(77)
    if not os.path.exists(LIBRARY):
        print("SKIP: this build has no simulated accelerator (-DANYACCEL_SIM=ON)")
        sys.exit(77)
    unittest.main()
