"""ANYACCEL_DEEPSPEED=1 in programs that do not import anyaccel.deepspeed: multiprocessing workers,
ranks of three launchers, and ds_report.

Python reads .pth files only in site-packages, so a sitecustomize module adds the build's folder.
"""

import os
import pathlib
import re
import socket
import sys

import pytest

pytest.importorskip("deepspeed")

import ranks  # noqa: E402
import run_child  # noqa: E402

HERE = pathlib.Path(__file__).parent


@pytest.fixture
def hooked(tmp_path):
    package = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    (tmp_path / "sitecustomize.py").write_text(f"import site; site.addsitedir({package!r})\n")
    return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}", "ANYACCEL_DEEPSPEED": "1"}


def test_workers_use_our_accelerator(hooked):
    """Fails if the hook has no effect in a worker, for any start method."""
    found = run_child.result(HERE / "hook_workers.py", **hooked)
    assert found.keys() == {"fork", "forkserver", "spawn"}
    assert all(module.startswith("anyaccel.deepspeed") for module in found.values()), found


@pytest.mark.parametrize("how", ["accelerator", "import"])
def test_user_import_hook(how):
    """Fails if anyaccel.deepspeed cannot be imported right after DeepSpeed's accelerator module, or
    DeepSpeed then uses its own accelerator.
    """
    assert run_child.result(HERE / "own_hook.py", how) == {"accelerator": True, "bound": True, "builder": "anyaccel.deepspeed.builders",
                                                           "op": "anyaccel.ops.cpu_adam", "changed": True, "hook": True}


def test_late_import_error_names_the_valid_orders():
    """Fails if `import anyaccel.deepspeed` succeeds after `import deepspeed`, or its error does not
    say when to import it.
    """
    text = run_child.child("-c", "import deepspeed\ntry:\n    import anyaccel.deepspeed\nexcept RuntimeError as error:\n    print(error.code, error)")
    assert "invalid_state" in text
    for order in ("before deepspeed", "ANYACCEL_DEEPSPEED=1", "import hook right after deepspeed.accelerator.real_accelerator is executed"):
        assert order in text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


LAUNCHERS = {
    "anyaccel launch": lambda: None,
    "torchrun": lambda: [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", free_port()],
    "deepspeed": lambda: [sys.executable, "-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--master_port", free_port()],
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_use_our_accelerator(hooked, launcher):
    """Fails if a launcher's ranks use stock DeepSpeed's accelerator, or cannot communicate through
    AnyAccel's.
    """
    found = ranks.results(HERE / "hook_rank.py", launcher=LAUNCHERS[launcher](), **hooked)
    assert [each[1:] for each in found] == [[3.0, "0"], [3.0, "1"]]
    assert all(module.startswith("anyaccel.deepspeed") for module, *_ in found), found


def test_ds_report_lists_available_ops(hooked):
    """Fails if ds_report fails with AnyAccel's builders, or reports an op that AnyAccel lacks as
    available. `child` checks the exit status.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", run_child.child("-m", "deepspeed.env_report", **hooked))
    table = dict(re.findall(r"^(\w+) \.* *\[\w+\] \.* \[(\w+)\]", text, re.MULTILINE))
    assert table.get("cpu_adam") == "OKAY", text
    assert table.get("transformer_inference") == "OKAY" and table.get("gds") == "NO", text
