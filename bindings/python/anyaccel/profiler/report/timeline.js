// State of the timeline, and input handling.
function makeTimeline(data, changed) {
  const $ = id => document.getElementById(id);
  const state = {
    data, canvas: $("canvas"), overview: $("overview"), scroller: $("scroller"), t0: data.first, t1: data.last, scroll: 0, left: 190, width: 100, height: 100, ratio: 1,
    selected: -1, range: null, folded: new Set(), deep: new Set(), nameColors: {}, widths: new Map(), matchNames: null, matches: [], match: -1, items: [],
    font: '11.5px system-ui, -apple-system, "Segoe UI", sans-serif', colors: colors(),
  };
  const { canvas, overview, scroller } = state;
  [state.t0, state.t1] = busyPart(state);
  let queued = false;
  const redraw = () => {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; draw(state); drawOverview(state); });
  };
  state.redraw = redraw;

  state.resize = () => {
    state.ratio = Math.min(2, window.devicePixelRatio || 1);
    layout(state);
    $("spacer").style.height = "0px";
    const wanted = Math.min(state.contentHeight, Math.max(220, Math.round(window.innerHeight * 0.62)));
    if (!state.sized) { scroller.style.height = wanted + "px"; state.sized = true; }
    const width = scroller.clientWidth, height = scroller.clientHeight;
    state.left = width < 700 ? 110 : 190;
    state.width = Math.max(50, width - state.left);
    state.height = height;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    canvas.width = width * state.ratio;
    canvas.height = height * state.ratio;
    $("spacer").style.height = Math.max(0, state.contentHeight - height) + "px";
    redraw();
  };
  scroller.addEventListener("scroll", () => { state.scroll = scroller.scrollTop; hideTip(); redraw(); });
  new ResizeObserver(() => state.resize()).observe(scroller);

  state.show = (t0, t1) => {
    const total = data.last - data.first, span = Math.min(Math.max(t1 - t0, 20), total * 1.02), middle = (t0 + t1) / 2;
    const from = Math.min(Math.max(middle - span / 2, data.first - total * 0.01), data.last + total * 0.01 - span);
    state.goal = null;
    state.t0 = from;
    state.t1 = from + span;
    redraw();
  };
  // Animate the move, so that users keep track of where they are.
  state.glide = (t0, t1) => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return state.show(t0, t1);
    const a = [state.t0, state.t1], begin = performance.now(), goal = {};
    const frame = now => {
      if (goal !== state.goal) return;
      const f = Math.min(1, (now - begin) / 180), e = 1 - (1 - f) ** 3;
      state.show(a[0] + (t0 - a[0]) * e, a[1] + (t1 - a[1]) * e);
      if (f < 1) { state.goal = goal; requestAnimationFrame(frame); }
    };
    state.goal = goal;
    frame(begin + 1);
  };
  state.zoom = (factor, x = state.left + state.width / 2) => {
    const t = timeOf(state, x);
    state.show(t - (t - state.t0) * factor, t + (state.t1 - t) * factor);
  };
  state.pan = share => { const d = (state.t1 - state.t0) * share; state.show(state.t0 + d, state.t1 + d); };
  state.fit = () => state.glide(data.first, data.last);

  state.select = (i, options = {}) => {
    state.selected = i;
    if (i >= 0) state.range = null;
    if (i >= 0 && options.reveal) {
      const { begin, duration, track, depth } = data.ev;
      state.folded.delete(data.tracks[track[i]].process);
      if (depth[i] >= DEEP) state.deep.add(track[i]);
      state.resize();
      const span = Math.max(duration[i] * 6, Math.min(state.t1 - state.t0, (data.last - data.first) / 20), 200);
      const middle = begin[i] + duration[i] / 2;
      if (options.zoom || begin[i] < state.t0 || begin[i] + duration[i] > state.t1 || duration[i] < (state.t1 - state.t0) / 2000) state.glide(middle - span / 2, middle + span / 2);
      const box = boxOf(state, i);
      if (box && (box.y < AXIS + 10 || box.y + box.height > state.height - 10)) scroller.scrollTop = state.scroll + box.y - state.height / 2;
    }
    redraw();
    changed();
  };
  state.setRange = range => { state.range = range; if (range) state.selected = -1; redraw(); changed(); };

  // Returns {item, event} under a point of the canvas.
  state.hit = (x, y) => {
    const item = state.items.find(it => y >= it.y + AXIS - state.scroll && y < it.y + AXIS - state.scroll + it.height);
    if (!item || x < state.left) return { item, event: -1 };
    const slack = 3 * (state.t1 - state.t0) / state.width, time = timeOf(state, x);
    if (item.kind === "idle") return { item, event: eventAt(data, item.track.rows[0], time) };
    if (item.kind !== "rows") return { item, event: -1 };
    const row = item.track.rows[Math.min(item.rows - 1, Math.floor((y - (item.y + AXIS - state.scroll)) / item.row))];
    const event = eventAt(data, row, time);
    return { item, event: event >= 0 ? event : eventAt(data, row, time, slack) };
  };

  const tip = $("tip");
  function hideTip() { tip.hidden = true; }
  function showTip(x, y, lines) {
    tip.replaceChildren(...lines.filter(Boolean).map((line, at) => make(at ? "span" : "b", line)).flatMap((node, at) => at > 1 ? [make("br"), node] : [node]));
    tip.hidden = false;
    const frame = tip.parentElement.getBoundingClientRect(), box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, frame.width - box.width - 8)) + "px";
    tip.style.top = Math.max(2, y + 44 + 18 + box.height > frame.height ? y + 44 - box.height - 10 : y + 44 + 18) + "px";
  }
  function hover(x, y) {
    const { item, event } = state.hit(x, y), ev = data.ev;
    canvas.style.cursor = x < state.left ? "pointer" : event >= 0 ? "pointer" : "crosshair";
    if (event >= 0) {
      showTip(x, y, [data.strings[ev.name[event]], `${timeText(ev.duration[event])} at ${timeText(ev.begin[event] - data.first)}`, data.strings[ev.line[event]], data.strings[ev.shapes[event]]]);
    } else if (item?.kind === "memory" && x >= state.left) {
      const { memory } = item, at = lowerBound(memory.times, timeOf(state, x) - memory.base + 1, 0, memory.times.length) - 1;
      if (at < 0) hideTip(); else showTip(x, y, [bytesText(memory.values[at]), `${memory.label} at ${timeText(timeOf(state, x) - data.first)}`]);
    } else hideTip();
  }

  let drag = null;
  const point = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", event => {
    if (event.button > 1) return;
    const [x, y] = point(event);
    drag = { x, y, pan: event.shiftKey || event.button === 1, t0: state.t0, t1: state.t1, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    const [x, y] = point(event);
    state.mouse = x;
    if (!drag) return hover(x, y);
    if (Math.abs(x - drag.x) > 3) drag.moved = true;
    if (!drag.moved || drag.x < state.left) return;
    hideTip();
    if (drag.pan) {
      const d = (drag.x - x) / state.width * (drag.t1 - drag.t0);
      state.show(drag.t0 + d, drag.t1 + d);
    } else {
      state.range = [timeOf(state, Math.max(state.left, drag.x)), timeOf(state, Math.max(state.left, x))];
      state.selected = -1;
      redraw();
    }
  });
  canvas.addEventListener("pointerup", event => {
    const [x, y] = point(event), was = drag;
    drag = null;
    if (!was) return;
    if (was.moved) { if (!was.pan && state.range) state.setRange([Math.min(...state.range), Math.max(...state.range)]); return; }
    const { item, event: found } = state.hit(x, y);
    if (item && x < state.left) {
      if (item.kind === "head") state.folded.has(item.index) ? state.folded.delete(item.index) : state.folded.add(item.index);
      else if (item.kind === "rows") state.deep.has(item.at) ? state.deep.delete(item.at) : state.deep.add(item.at);
      state.resize();
      return;
    }
    state.range = null;
    state.select(found);
  });
  canvas.addEventListener("pointerleave", () => { state.mouse = undefined; hideTip(); });
  canvas.addEventListener("dblclick", event => { const { event: i } = state.hit(...point(event)); if (i >= 0) state.select(i, { reveal: true, zoom: true }); });
  scroller.addEventListener("wheel", event => {
    const [x] = point(event), size = event.deltaMode === 1 ? 20 : 1;
    if (event.ctrlKey || event.metaKey) state.zoom(Math.exp(event.deltaY * size * 0.003), Math.max(state.left, x));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) state.pan((event.deltaX || event.deltaY) * size / state.width);
    else return;
    event.preventDefault();
    hideTip();
  }, { passive: false });

  const scrub = event => {
    const box = overview.getBoundingClientRect(), t = data.first + (event.clientX - box.left - state.left) / state.width * (data.last - data.first);
    if (event.type === "pointerdown") { overview.setPointerCapture(event.pointerId); overview.grab = t; }
    else if (overview.grab === undefined) return;
    else if (Math.abs(t - overview.grab) > (data.last - data.first) / 300) state.show(Math.min(t, overview.grab), Math.max(t, overview.grab));
    if (event.type === "pointerup") {
      if (Math.abs(t - overview.grab) <= (data.last - data.first) / 300) { const half = (state.t1 - state.t0) / 2; state.glide(t - half, t + half); }
      overview.grab = undefined;
    }
  };
  for (const kind of ["pointerdown", "pointermove", "pointerup"]) overview.addEventListener(kind, scrub);

  // Moves the selection: to the event before or after it in its row, to its parent or its first child.
  state.step = key => {
    const ev = data.ev, i = state.selected, rows = data.tracks[ev.track[i]].rows, row = rows[ev.depth[i]];
    let to = -1;
    if (key === "ArrowLeft" && i > row[0]) to = i - 1;
    if (key === "ArrowRight" && i + 1 < row[1]) to = i + 1;
    if (key === "ArrowUp") to = parents(data)[i];
    if (key === "ArrowDown" && rows[ev.depth[i] + 1]) {
      const next = rows[ev.depth[i] + 1], at = lowerBound(ev.begin, ev.begin[i], next[0], next[1]);
      if (at < next[1] && ev.begin[at] < ev.begin[i] + ev.duration[i]) to = at;
    }
    if (to >= 0) state.select(to, { reveal: true });
  };

  state.search = text => {
    const wanted = text.trim().toLowerCase(), ev = data.ev;
    state.matches = [];
    state.match = -1;
    state.matchNames = null;
    if (wanted) {
      const hit = data.strings.map(s => s.toLowerCase().includes(wanted));
      state.matchNames = new Uint8Array(data.strings.length);
      for (let i = 0; i < data.count; i++) {
        if (!hit[ev.name[i]] && !hit[ev.line[i]]) continue;
        state.matchNames[ev.name[i]] = 1;
        state.matches.push(i);
      }
      state.matches.sort((a, b) => ev.begin[a] - ev.begin[b]);
    }
    redraw();
  };
  state.jump = step => {
    if (!state.matches.length) return;
    const from = state.match < 0 && step > 0 ? state.matches.findIndex(i => data.ev.begin[i] >= state.t0) - 1 : state.match;
    state.match = ((from < -1 ? -1 : from) + step + state.matches.length) % state.matches.length;
    state.select(state.matches[state.match], { reveal: true });
  };
  return state;
}
