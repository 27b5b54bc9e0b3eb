"""`anyaccel port --verify`: comparing outputs, and running a program before and after the fixes. A
shell script takes the place of the program anyaccel; tests/e2e/port_test.py uses the real one.
"""
import json
import os

import pytest
from port_command import port, use_finder

from anyaccel_port import compare

LINE = "torch.cuda.synchronize()\n"


@pytest.mark.parametrize(
    "before, after, kinds",
    [
        ("loss 1.0000 at step 3", "loss 1.0004 at step 3", []),
        ("loss 1.0000 at step 3", "loss 1.0020 at step 3", ["number"]),
        ("loss 0.12", "loss 0.13", []),  # may be 0.12499 and 0.12501
        ("loss 0.12", "loss 0.14", ["number"]),
        ("accuracy 97", "accuracy 98", ["number"]),
        ("1e-05", "1.0001e-05", []),
        ("1e-05", "2e-05", ["number"]),
        ("loss nan", "loss nan", []),
        ("loss nan", "loss 1.0", ["number"]),
        ("loss inf", "loss inf", []),
        ("loss inf", "loss -inf", ["number"]),
        ("tensor(2.5, device='cuda:0')", "tensor(2.5, device='sim:0')", []),
        ("tensor(2.5, device='cuda:0')", "tensor(2.5)", ["only before", "only after"]),
        ("took 1.23 s, 35 it/s, 12 ms/step", "took 4.56 s, 17 it/s, 39 ms/step", []),
        ("time: 3.1 loss 2", "time: 9.9 loss 2", []),
        ("time: 3.1 loss 2", "time: 9.9 loss 3", ["number"]),
        ("2026-01-02 03:04:05,678 INFO 00:12<00:40", "2026-11-12 13:14:15,123 INFO 00:52<01:40", []),
        ("<T at 0x7f12>", "<T at 0x8a34>", []),
        ("saved /tmp/before/x/model.pt", "saved /tmp/after/x/model.pt", []),
        ("0%\r50%\r100% loss 2", "0%\r100% loss 2", []),
        ("a 1\nb 2\nc 3", "a 1\nc 3", ["only before"]),
        ("resnet50 v1.2.3", "resnet50 v1.2.3", []),
    ])
def test_compare(before, after, kinds):
    assert [each.kind for each in compare.compare(before, after, 1e-3, ("/tmp/before/x", "/tmp/after/x")).differences] == kinds


def test_compare_exactly():
    assert compare.compare("0.12", "0.13", 0.0).differences and not compare.compare("0.12 7", "0.12 7", 0.0).differences
    result = compare.compare("1.0 2.0\n4.0", "1.0 2.2\n4.0", 1e-3)
    assert (result.numbers, round(result.largest, 3)) == (3, 0.091)


# Stands in for `anyaccel sim run [OPTION VALUE]... -- PROGRAM`. Tells the program where it runs.
FAKE = """#!/bin/sh
shift 2
while [ "$1" != -- ]; do
  if [ "$1" = --json ]; then echo "{\\"problems\\": [$PROBLEMS]}" >"$2"; fi
  if [ "$1" = --stands-in-for ]; then export WHERE="before $2"; else WHERE=${WHERE:-after}; export WHERE; fi
  shift 2
done
shift
exec "$@"
"""


@pytest.fixture
def verify(tmp_path, monkeypatch, capfdbinary):
    use_finder(monkeypatch)
    fake = tmp_path / "anyaccel"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    monkeypatch.setenv("ANYACCEL_PORT_PROGRAM", str(fake))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "train.py").write_text(LINE)
    monkeypatch.chdir(tree)

    def run(command, *words):
        code, out, err = port(capfdbinary, "--verify", command, "--format", "json", *words, ".")
        assert (tree / "train.py").read_text() == LINE and os.listdir(tree) == ["train.py"]
        return code, json.loads(out), err

    return run


# Fails if the program does not run before and after the fix, or runs in the original folder.
def test_runs_before_and_after(verify, tmp_path):
    code, result, _ = verify(f"cat train.py >> {tmp_path}/log; echo $WHERE >> {tmp_path}/log; echo x > new; echo loss 1.5")
    assert (tmp_path / "log").read_text() == "torch.cuda.synchronize()\nbefore cuda\nget_accelerator().synchronize()\nafter\n"
    assert code == 0 and result["same"] and result["fixed"] == 1 and result["numbers"] == 1


# Fails if a wrong number, a failure or a report of the checker is not seen.
def test_differences(verify, monkeypatch):
    code, result, _ = verify('case "$WHERE" in after) echo loss 2.0;; *) echo loss 1.0;; esac')
    assert (code, result["same"]) == (
        1, False) and result["differences"][0]["before"] == "loss 1.0" and result["largest_relative_difference"] == 0.5
    assert verify('case "$WHERE" in after) echo loss 2.0;; *) echo loss 1.0;; esac', "--tolerance", "0.6")[0] == 0
    # The log is often on standard error. Other lines there may differ.
    assert verify('case "$WHERE" in after) echo loss 2.0; echo w;; *) echo loss 1.0;; esac >&2')[0] == 1
    assert verify('case "$WHERE" in after) echo warning >&2;; esac')[0] == 0
    code, result, _ = verify('case "$WHERE" in after) exit 3;; esac')
    assert code == 1 and (result["before"]["exit_code"], result["after"]["exit_code"]) == (0, 3)
    assert verify("exit 3")[0] == 1  # a program that fails proves nothing
    monkeypatch.setenv("PROBLEMS", '{"kind": "wrong_device", "what": "x"}')
    code, result, _ = verify("echo 1")
    assert code == 1 and [each["kind"] for each in result["problems"]] == ["wrong_device"]


# Fails if numbers that differ between two runs of the unchanged program count as differences.
def test_numbers_that_always_vary(verify, tmp_path):
    count = f"echo >> {tmp_path}/count; echo run $(wc -l < {tmp_path}/count); "
    code, result, _ = verify(count + "echo loss 1.0")
    assert code == 0 and result["ignored_differences"] == 1
    assert verify(count + 'case "$WHERE" in after) echo loss 2.0;; *) echo loss 1.0;; esac')[0] == 1


# Fails if a program that never ends blocks the command, or if its processes survive.
def test_time_limit(verify, tmp_path):
    code, result, _ = verify(f"sleep 300 & echo $! > {tmp_path}/pid; wait", "--verify-timeout", "0.5")
    assert code == 1 and result["before"]["exit_code"] is None
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int((tmp_path / "pid").read_text()), 0)
            if open(f"/proc/{int((tmp_path / 'pid').read_text())}/stat").read().split()[2] == "Z":
                raise ProcessLookupError


def test_runs_on_the_cpu(verify):
    code, result, _ = verify('test -z "$WHERE" && echo "before [$CUDA_VISIBLE_DEVICES]" >&2; echo 1', "--verify-before", "cpu")
    assert code == 0 and result["same"]


def test_text_report(tmp_path, monkeypatch, capfdbinary, verify):
    code, out, _ = port(capfdbinary, "--verify", 'case "$WHERE" in after) echo loss 2.0; exit 1;; *) echo loss 1.0;; esac', ".")
    for line in ("1 finding fixed in a copy.", "before: ended with exit code 0", "after: ended with exit code 1",
                 "numbers differ by 0.5:", "    before: loss 1.0", "    after:  loss 2.0", "1 number compared",
                 "1 difference, 0 checker problems."):
        assert line in out, out
    assert code == 1


def test_without_the_program(monkeypatch, capfdbinary, verify):
    monkeypatch.delenv("ANYACCEL_PORT_PROGRAM")
    monkeypatch.setenv("PATH", "/nonexistent")
    code, _, err = port(capfdbinary, "--verify", "true", ".")
    assert code == 1 and "--verify requires the command anyaccel" in err
