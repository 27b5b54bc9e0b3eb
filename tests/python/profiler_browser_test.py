"""The profile page in a headless browser: it draws, zooms, searches and selects, without errors and
without the network. Skipped if no Chromium or Chrome is installed.
"""
import browser
import pytest
from profiler_case import Recording, training

from anyaccel.profiler.report import main

pytestmark = pytest.mark.skipif(browser.find() is None,
                                reason="no browser is installed (Debian: apt install chromium); ANYACCEL_TEST_BROWSER names one")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    training(folder, steps=4, layers=3)
    main.build(folder)
    return folder / "profile.html"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with browser.Browser(tmp_path_factory.mktemp("browser")) as b:
        yield b


@pytest.fixture
def page(shared, recording):
    shared.messages.clear()
    shared.requests.clear()
    shared.open(recording.as_uri())
    shared.frames()
    yield shared
    assert shared.messages == []
    assert shared.requests == [recording.as_uri()]


STATE = "[profile.timeline.t0, profile.timeline.t1]"
SELECTED = "(i => i < 0 ? null : profile.data.strings[profile.data.ev.name[i]])(profile.timeline.selected)"


def box(page, selector="#canvas"):
    """Return (left, top, width, height) of an element, scrolled into view."""
    return page.run(
        "(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "
        "return [r.left, r.top, r.width, r.height]; })"
        f"(document.querySelector('{selector}'))")


def place(page, name):
    """Return the position on the screen of the first visible event with a name."""
    left, top, _, _ = box(page)
    x, y = page.run(f"""(() => {{ const {{ data, timeline }} = profile;
        const i = data.ev.name.findIndex(n => data.strings[n] === "{name}"), b = boxOf(timeline, i);
        return [(Math.max(b.x, timeline.left) + b.end) / 2, b.y + b.height / 2]; }})()""")
    return left + x, top + y


# Fails if the timeline stays empty or panels have no content.
def test_draws(page):
    assert page.run("document.documentElement.dataset.ready") == "yes"
    assert page.run("Number(document.getElementById('canvas').dataset.drawn)") > 200
    colors = page.run(
        """(() => { const c = document.getElementById('canvas'), p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data,
          s = new Set();
        for (let i = 0; i < p.length; i += 4) s.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]); return s.size; })()""")
    assert colors > 20
    assert "2 processes" in page.run("document.getElementById('headline').textContent")
    assert page.run("document.querySelectorAll('#ops tbody tr').length") == 10
    assert page.run("document.querySelectorAll('#memory tbody tr').length") == 11
    assert page.run("document.querySelectorAll('#advice article').length") >= 3
    assert "model.py:32 in mlp" in page.run("document.getElementById('findings').textContent")


# Fails if keys or the mouse do not move the visible time.
def test_zoom_and_pan(page):
    t0, t1 = page.run(STATE)
    page.key("w")
    a0, a1 = page.run(STATE)
    assert a1 - a0 == pytest.approx((t1 - t0) * 0.7)
    page.key("d")
    b0, b1 = page.run(STATE)
    assert b0 > a0 and b1 - b0 == pytest.approx(a1 - a0)
    page.key("a")
    page.key("s")
    c0, c1 = page.run(STATE)
    assert c1 - c0 == pytest.approx(t1 - t0)
    left, top, width, _ = box(page)
    page.mouse("mouseWheel", left + width / 2, top + 100, deltaX=0, deltaY=-300, modifiers=2)
    page.wait(f"{STATE}[1] - {STATE}[0] < {(t1 - t0) * 0.8}")
    page.key("0")
    page.frames()
    assert page.run(STATE) == pytest.approx([t0, t1])
    drawn = page.run("Number(document.getElementById('canvas').dataset.drawn)")
    for _ in range(14):
        page.key("w")
    assert page.run("Number(document.getElementById('canvas').dataset.drawn)") < drawn


# Fails if typing into the search box zooms, or Enter does not go to a match.
def test_search(page):
    before = page.run(STATE)
    page.key("/")
    assert page.run("document.activeElement.id") == "search"
    page.type("gelu")
    matches = page.run("document.getElementById('matches').textContent")
    assert int(matches.split()[0]) == page.run("profile.timeline.matches.length") > 0
    assert page.run(STATE) == before
    seen = []
    for _ in range(3):
        page.key("Enter")
        assert "gelu" in page.run(SELECTED).lower()
        seen.append(page.run("profile.timeline.selected"))
    assert len(set(seen)) == 3
    page.key("Enter", shift=True)
    assert page.run("profile.timeline.selected") == seen[1]
    page.key("Escape")
    assert page.run("profile.timeline.matches.length") == 0 and page.run(SELECTED) is None
    page.key("/")
    page.type("no such op")
    assert page.run("document.getElementById('matches').textContent") == "0 matches"


# Fails if a click does not show an event's details, or the launched work is not linked.
def test_click(page):
    page.click(*place(page, "aten::item"))
    text = page.run("document.getElementById('details').textContent")
    assert page.run(SELECTED) == "aten::item"
    assert "synchronization" in text and "train.py:38 in main" in text
    page.run(
        "(() => { const { data, timeline } = profile; timeline.select(data.ev.link.findIndex(i => i >= 0), { reveal: true, "
        "zoom: true }); })()"
    )
    page.frames()
    kernel = page.run("profile.timeline.selected")
    page.run("document.querySelector('#details button.link').click()")
    op = page.run("profile.timeline.selected")
    assert op == page.run(f"profile.data.ev.link[{kernel}]") and page.run(
        f"profile.data.tracks[profile.data.ev.track[{op}]].kind") == "host"
    assert page.run(
        f"profile.data.tracks[profile.data.ev.track[{op}]].process === profile.data.tracks[profile.data.ev.track[{kernel}]].process"
    )


# Fails if dragging shows no statistics, or they do not add up.
def test_selected_time(page):
    left, top, width, _ = box(page)
    page.drag(left + width * 0.4, top + 90, left + width * 0.6, top + 120)
    text = page.run("document.getElementById('details').textContent")
    assert "selected" in text and "rank 1, sim:0 stream 0" in text and "Peak of sim:0 memory" in text
    stats = page.run(
        "(([a, b]) => { const s = rangeStats(profile.data, a, b); return [s.total, s.lanes.filter(l => "
        "l[0].includes('stream')).reduce((n, l) => n + l[1], 0)]; })"
        "(profile.timeline.range)")
    assert stats[0] == pytest.approx(stats[1], rel=0.01) and stats[0] > 0
    whole = page.run("(s => s.top.reduce((n, t) => n + t[1], 0))(rangeStats(profile.data, profile.data.first, profile.data.last))")
    assert whole == pytest.approx(page.run("profile.data.ops.reduce((n, op) => n + op.time, 0)"), rel=0.02)


# Fails if a click on a label does not fold a process.
def test_fold(page):
    left, top, _, _ = box(page)
    before = page.run("profile.timeline.items.length")
    page.click(left + 60, top + 38)
    assert page.run("profile.timeline.items.length") < before
    page.click(left + 60, top + 38)
    assert page.run("profile.timeline.items.length") == before


# Fails if arrow keys do not move the selection.
def test_arrow_keys(page):
    page.run(
        "(() => { const { data, timeline } = profile; timeline.select(data.ev.name.findIndex(n => data.strings[n] === "
        "'aten::_local_scalar_dense')); })()"
    )
    page.key("ArrowUp")
    assert page.run(SELECTED) == "aten::item"
    page.key("ArrowDown")
    assert page.run(SELECTED) == "aten::_local_scalar_dense"
    at = page.run("profile.timeline.selected")
    page.key("ArrowRight")
    assert page.run("profile.timeline.selected") == at + 1


# Fails if the dark page looks like the light one.
def test_theme(page):
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.run(color)
    page.run("document.getElementById('theme').click()")
    assert page.run(color) != light


# Fails if a name from the program runs as a script, or a page without device work breaks.
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_odd_recordings(shared, tmp_path, device):
    evil = "</script><img src=x onerror=\"document.title='broken'\"><b>"
    r = Recording(tmp_path, device_type=device, accelerator=device, device_name=evil, argv=[evil], end_ns=None)
    if device == "cpu":
        r.host(evil, 0, 10, line=evil)
        r.memory(5, 1, 100, 100, kind=0, device=-1)
    r.finish()
    main.build(tmp_path)
    shared.messages.clear()
    shared.open((tmp_path / "profile.html").as_uri())
    shared.frames()
    assert shared.run("document.documentElement.dataset.ready") == "yes"
    assert shared.messages == [] and shared.run("document.images.length") == 0 and "broken" != shared.run("document.title")
    assert evil in shared.run("document.getElementById('command').textContent")


# Fails if a long event that begins in the same pixel as a short one is not drawn.
def test_long_event_after_a_short_one(shared, tmp_path):
    r = Recording(tmp_path)
    r.host("aten::short", 0, 1)
    r.host("aten::long", 1.5, 100_000)
    r.finish()
    main.build(tmp_path)
    shared.open((tmp_path / "profile.html").as_uri())
    shared.frames()
    drawn, empty = shared.run("""(() => { const { data, timeline } = profile, c = timeline.canvas.getContext('2d');
        const b = boxOf(timeline, data.ev.name.findIndex(n => data.strings[n] === 'aten::long'));
        const at = (x, y) => [...c.getImageData(x, y, 1, 1).data].join();
        return [at(b.x + (b.end - b.x) * 0.437, b.y + 3), at(b.x + (b.end - b.x) * 0.437, b.y + 40)]; })()""")
    assert drawn != empty


# Fails if a damaged page shows nothing.
def test_damaged_page(shared, recording, tmp_path):
    text = recording.read_text("utf-8")
    at = text.index("application/octet-stream") + 400
    (tmp_path / "cut.html").write_text(text[:at] + text[at + 4000:], "utf-8")
    shared.open((tmp_path / "cut.html").as_uri())
    assert shared.run("document.documentElement.dataset.ready") == "failed"
    assert "The page cannot be shown" in shared.run("document.getElementById('message').textContent")


# Fails if a page with many events is too slow to use.
def test_many_events(shared, tmp_path):
    r = Recording(tmp_path)
    for i in range(60_000):
        r.kernel(f"kernel {i % 50}", 10 * i, 4 + i % 5, r.host("aten::add", 10 * i, 6))
    r.finish()
    main.build(tmp_path)
    shared.open((tmp_path / "profile.html").as_uri())
    assert shared.run("profile.data.count") >= 120_000
    seconds = shared.run(
        "(() => { const b = performance.now(); for (let i = 0; i < 10; i++) draw(profile.timeline); return (performance.now() "
        "- b) / 1e4; })()"
    )
    assert seconds < 0.5


# Fails if the page shows a rate above the measured peak as a precise share, or does not explain it.
def test_above_the_peak(shared, tmp_path):
    r = Recording(tmp_path, peak={"flops": {"float32": 1e7}, "bytes_per_second": 1e12})
    r.kernel("gemm", 100, 300, r.host("aten::mm", 50, 40, shapes=[([64, 32], "float"), ([32, 16], "float")]))
    r.finish()
    main.build(tmp_path)
    shared.open((tmp_path / "profile.html").as_uri())
    shared.frames()
    cells = shared.run("[...document.querySelectorAll('#ops tbody td:nth-child(n+5) small')].map(e => e.textContent)")
    assert cells[0] == "> 100 % of peak" and ">" not in cells[1]
    hint = shared.run("document.querySelector('#ops-section details').textContent")
    assert "busy" in hint and "cache" in hint
    shared.messages.clear()
