"""The memory timeline: its samples, marks, files and errors."""
import json
import xml.etree.ElementTree

import pytest
import torch

import anyaccel
from anyaccel import get_accelerator
from anyaccel.memory_timeline import MemoryTimeline

MIB = 1 << 20
NAMES = {"s": "http://www.w3.org/2000/svg"}


def record():
    device = get_accelerator().current_device_name()
    with MemoryTimeline() as timeline:
        timeline.mark("allocate")
        x = torch.ones(MIB // 4, device=device)
        y = torch.cat([x, x, x])
        timeline.mark("free <x>")
        del x
        z = y[:10] + 1
    return timeline, y, z


# Fails if a sample misses an allocation or a release, or the peak is attributed to the wrong op.
def test_samples():
    timeline, y, _z = record()
    before = timeline.samples[0].allocated
    cat = next(i for i, sample in enumerate(timeline.samples) if sample.op == "aten::cat")
    assert timeline.samples[cat].allocated - before == pytest.approx(3 * MIB, abs=4096)
    assert timeline.peak() == timeline.samples[cat]
    assert timeline.samples[-1].allocated == pytest.approx(timeline.samples[cat].allocated - MIB, abs=4096)
    assert [sample.seconds for sample in timeline.samples] == sorted(sample.seconds for sample in timeline.samples)
    assert timeline.marks == [(0, "allocate"), (cat + 1, "free <x>")]
    count = len(timeline.samples)
    y.add_(1)
    assert len(timeline.samples) == count


# Fails if ops of the backward pass are not recorded.
def test_backward():
    w = torch.ones(8, 8, device=get_accelerator().current_device_name(), requires_grad=True)
    with MemoryTimeline() as timeline:
        loss = w.mm(w).sum()
        timeline.mark("backward")
        loss.backward()
    start = timeline.marks[0][0]
    assert "aten::mm" in [sample.op for sample in timeline.samples[start:]]


# Fails if the picture does not show the peak, the marks, or a short peak in a long program.
def test_picture(tmp_path):
    timeline, *_ = record()
    timeline.save(tmp_path / "memory.svg")
    root = xml.etree.ElementTree.parse(tmp_path / "memory.svg").getroot()
    texts = [text.text for text in root.findall("s:text", NAMES)]
    assert "allocate" in texts and "free <x>" in texts
    assert any(text.endswith("MiB after aten::cat") for text in texts)
    circle = root.find("s:circle", NAMES)
    heights = [float(word) for word in root.find("s:path", NAMES).get("d").replace("L", " ").replace("M", " ").replace("Z", " ").split()[1::2]]
    assert float(circle.get("cy")) == min(heights)
    # 5000 ops with a single peak, which must survive the reduction to columns.
    sample = timeline.samples[0]._replace(allocated=MIB)
    timeline.samples = [sample] * 2500 + [sample._replace(allocated=5 * MIB)] + [sample] * 2500
    timeline.save(tmp_path / "long.svg")
    root = xml.etree.ElementTree.parse(tmp_path / "long.svg").getroot()
    path = root.find("s:path", NAMES).get("d")
    assert len(path) < 40000
    assert f" {float(root.find('s:circle', NAMES).get('cy')):.1f} " in path


# Fails if the JSON file lacks samples or marks.
def test_json(tmp_path):
    timeline, *_ = record()
    timeline.save(tmp_path / "memory.json")
    data = json.loads((tmp_path / "memory.json").read_text())
    assert data["device"] == f"{get_accelerator().name()}:0"
    assert data["samples"] == [list(sample) for sample in timeline.samples]
    assert data["marks"] == [list(mark) for mark in timeline.marks]


# Fails if misuse does not raise an error, or an error leaves a file behind.
def test_errors(tmp_path):
    timeline = MemoryTimeline()
    with pytest.raises(anyaccel.Error, match="no op was recorded"):
        timeline.save(tmp_path / "a.svg")
    with timeline, pytest.raises(anyaccel.Error, match="already active"):
        timeline.__enter__()
    torch.ones(3)
    assert not timeline.samples
    with pytest.raises(anyaccel.Error, match=r'unknown format; got "a.png", want a name that ends in .svg or .json'):
        timeline.save(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


# Fails if the axis does not reach the peak, or has too many or too few grid lines.
def test_scale():
    from anyaccel.memory_timeline import _scale
    for peak in [0, 1, 7, 1000, 1023, 1024, 3000, 5 * MIB, 81 * MIB, 999 * MIB, 1 << 30, 80 << 30, 141 << 30]:
        top, _unit, step = _scale(peak)
        assert top >= peak
        assert 1 <= round(top / step) <= 7, peak
