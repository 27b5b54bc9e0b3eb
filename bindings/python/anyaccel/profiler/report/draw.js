// Draws the timeline. All sizes are CSS pixels.
const AXIS = 26, HEAD = 24, LANE = 14, PLOT = 50, ROW = { stream: 20, host: 17 }, DEEP = 10;
const HUES = [222, 206, 234, 214, 142, 118, 96, 74, 54, 246, 156, 198];

function colors() {
  const style = getComputedStyle(document.documentElement), found = {};
  for (const name of ["bg", "card", "text", "quiet", "line", "accent", "accent-soft", "grid", "lane", "head", "idle", "memory", "range", "copy", "collective", "sync", "runtime", "select", "bad"])
    found[name] = style.getPropertyValue("--" + name).trim();
  found.dark = document.documentElement.dataset.theme === "dark";
  return found;
}

// Color of an event: by kind, and by name for ops and kernels.
function colorOf(state, i) {
  const { data, colors: c } = state;
  switch (data.ev.category[i]) {
    case RANGE: return c.range;
    case COPY: return c.copy;
    case COLLECTIVE: return c.collective;
    case RUNTIME: return c.runtime;
    case IDLE: return c.idle;
    case SYNC: return c.sync;
  }
  const name = data.ev.name[i];
  return state.nameColors[name] ??= nameColor(data.strings[name], c.dark);
}

function nameColor(text, dark) {
  let hash = 2166136261;
  text = text.split(".")[0];
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619) >>> 0;
  const hue = HUES[hash % HUES.length], shift = (hash >>> 8) % 10;
  return dark ? `hsl(${hue} ${32 + shift}% ${36 + shift / 2}%)` : `hsl(${hue} ${48 + shift}% ${66 + shift / 2}%)`;
}

// Vertical layout: items {kind, y, height, ...} in process order.
function layout(state) {
  const { data, folded, deep } = state, items = [];
  let y = 0;
  data.processes.forEach((process, index) => {
    if (!data.tracks.some(track => track.process === index) && data.processes.length > 1) return;
    items.push({ kind: "head", y, height: HEAD, process, index, name: process.name });
    y += HEAD;
    if (folded.has(index)) return;
    const tracks = data.tracks.map((track, at) => ({ track, at })).filter(({ track }) => track.process === index && track.rows.length);
    const key = ({ track: t }) => (t.kind === "host" ? "~" : String(t.device).padStart(6)) + t.order.join();
    tracks.sort((a, b) => key(a) < key(b) ? -1 : 1);
    const add = kind => tracks.filter(({ track }) => kind(track)).forEach(({ track, at }) => {
      if (track.kind === "idle") { items.push({ kind: "idle", y, height: LANE, track, at, index, name: track.label }); y += LANE + 2; return; }
      const rows = deep.has(at) ? track.rows.length : Math.min(track.rows.length, DEEP), row = ROW[track.kind];
      items.push({ kind: "rows", y, height: rows * row, row, rows, track, at, index, name: track.label, hidden: track.rows.length - rows });
      y += rows * row + 6;
    });
    add(t => t.kind !== "host");
    process.memories.forEach((memory, at) => {
      if (!process.devices || !memory.host) { items.push({ kind: "memory", y, height: PLOT, memory, index, at, name: memory.label }); y += PLOT + 6; }
    });
    add(t => t.kind === "host");
    y += 4;
  });
  state.items = items;
  state.contentHeight = y + AXIS + 6;
}

function xOf(state, time) { return state.left + (time - state.t0) / (state.t1 - state.t0) * state.width; }
function timeOf(state, x) { return state.t0 + (x - state.left) / state.width * (state.t1 - state.t0); }

function tickStep(span, most) {
  const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(f => f * power >= raw);
}

function draw(state) {
  const { canvas, data, colors: c } = state, g = canvas.getContext("2d"), ratio = state.ratio, height = state.height, right = state.left + state.width;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.fillStyle = c.card;
  g.fillRect(0, 0, right, height);
  g.font = state.font;
  g.textBaseline = "middle";
  state.drawn = 0;
  const step = tickStep(state.t1 - state.t0, Math.max(3, state.width / 110)), first = Math.ceil((state.t0 - data.first) / step) * step;
  g.strokeStyle = c.grid;
  g.lineWidth = 1;
  g.beginPath();
  for (let t = first; t + data.first < state.t1; t += step) {
    const x = Math.round(xOf(state, t + data.first)) + 0.5;
    g.moveTo(x, AXIS);
    g.lineTo(x, height);
  }
  g.stroke();
  for (const item of state.items) {
    const y = item.y + AXIS - state.scroll;
    if (y > height || y + item.height < AXIS) continue;
    g.save();
    g.beginPath();
    g.rect(state.left, AXIS, state.width, height);
    g.clip();
    if (item.kind === "head") drawHead(state, g, item, y);
    else if (item.kind === "memory") drawMemory(state, g, item, y);
    else if (item.kind === "idle") drawRow(state, g, item.track.rows[0], y + 1, LANE - 2);
    else for (let d = 0; d < item.rows; d++) drawRow(state, g, item.track.rows[d], y + d * item.row, item.row - 1);
    g.restore();
    drawLabel(state, g, item, y);
  }
  drawArrows(state, g);
  drawSelection(state, g);
  g.fillStyle = c.card;
  g.fillRect(0, 0, right, AXIS);
  g.fillStyle = c.quiet;
  g.textAlign = "left";
  for (let t = first; t + data.first < state.t1; t += step) {
    const x = xOf(state, t + data.first);
    if (x < right - 50) g.fillText(tickText(t, step), x + 4, AXIS / 2);
    g.fillRect(Math.round(x), 6, 1, AXIS - 6);
  }
  g.fillRect(0, AXIS - 1, right, 0.5);
  g.fillText(timeText(state.t1 - state.t0) + " shown", 14, AXIS / 2);
  g.fillStyle = c.line;
  g.fillRect(state.left - 1, 0, 1, height);
  canvas.dataset.drawn = state.drawn;
}

// Label of a tick, with as many digits as the tick spacing requires.
function tickText(t, step) {
  const [unit, size] = step >= 1e8 || t >= 1e10 && step >= 1e7 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : step >= 100 ? ["µs", 1e3] : ["ns", 1];
  return (t / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9))) + " " + unit;
}

// Truncates text to a width. The widths of texts are cached, because measuring is slow.
function fitText(state, g, text, width) {
  if (width < 20) return "";
  const full = state.widths.get(text) ?? g.measureText(text).width;
  if (state.widths.size < 20000) state.widths.set(text, full);
  if (full <= width) return text;
  const most = Math.floor(text.length * (width - 9) / full);
  return most > 2 ? text.slice(0, most) + "…" : "";
}

function drawHead(state, g, item, y) {
  const { process } = item, c = state.colors;
  g.fillStyle = c.head;
  g.fillRect(state.left, y, state.width, HEAD - 2);
  g.fillStyle = c.grid;
  // Time between windows, in which nothing was recorded.
  const edges = process.windows.flat();
  for (let i = 1; i + 1 < edges.length; i += 2) hatch(state, g, xOf(state, edges[i]), y, xOf(state, edges[i + 1]) - xOf(state, edges[i]), HEAD - 2, c.line);
  g.fillStyle = process.ended && !process.state.includes("exception") ? c.quiet : c.bad;
  g.textAlign = "left";
  g.fillText(`${process.device}  ·  ${process.devices ? "device busy " + shareText(process.device_busy, process.device_span) : "in ops " + shareText(process.in_ops, process.span)}  ·  ${process.state}`,
    state.left + 10, y + HEAD / 2 - 1);
}

function hatch(state, g, x, y, width, height, color) {
  if (width < 1) return;
  g.save();
  g.beginPath();
  g.rect(x, y, width, height);
  g.clip();
  g.strokeStyle = color;
  g.lineWidth = 1.5;
  g.beginPath();
  const from = Math.max(x, state.left) - height, to = Math.min(x + width, state.left + state.width);
  for (let k = from - from % 7; k < to; k += 7) { g.moveTo(k, y + height); g.lineTo(k + height, y); }
  g.stroke();
  g.restore();
}

function drawRow(state, g, row, y, height) {
  const { data, colors: c, matchNames } = state, { begin, duration, name, category } = data.ev, right = state.left + state.width;
  let i = Math.max(row[0], lowerBound(begin, state.t0, row[0], row[1]) - 1);
  while (i < row[1] && begin[i] < state.t1) {
    const x = Math.max(xOf(state, begin[i]), state.left - 2), end = Math.min(xOf(state, begin[i] + duration[i]), right + 2);
    if (end < state.left) { i++; continue; }
    const width = end - x, kind = category[i];
    state.drawn++;
    g.globalAlpha = matchNames && !matchNames[name[i]] ? 0.18 : kind === IDLE ? 0.4 : 1;
    g.fillStyle = colorOf(state, i);
    if (kind === FINDING) {
      drawFinding(state, g, x, y + height / 2, c);
    } else if (width < 1.2) {
      // One pixel represents all events that fall within it.
      g.fillRect(x, y, 1, height);
      const until = timeOf(state, x + 1);
      for (i++; i < row[1] && begin[i] + duration[i] <= until && category[i] !== FINDING;) i++;
      continue;
    } else {
      g.fillRect(x, y, Math.max(1, width - (width > 3 ? 0.6 : 0)), height);
      if (kind === IDLE) { g.globalAlpha = 1; hatch(state, g, x, y, width, height, c.idle); }
      const text = fitText(state, g, shortName(data.strings[name[i]]), width - 8);
      if (text && kind !== IDLE) {
        g.fillStyle = [RANGE, COPY, COLLECTIVE, SYNC].includes(kind) || c.dark ? "#fff" : "#10151f";
        g.textAlign = "left";
        g.fillText(text, x + 4, y + height / 2 + 0.5);
      }
    }
    i++;
  }
  g.globalAlpha = 1;
}

function drawFinding(state, g, x, y, c) {
  g.fillStyle = c.bad;
  g.beginPath();
  g.moveTo(x, y - 8); g.lineTo(x + 8, y + 6); g.lineTo(x - 8, y + 6);
  g.fill();
  g.fillStyle = "#fff";
  g.textAlign = "center";
  g.fillText("!", x, y + 0.5);
}

function drawMemory(state, g, item, y) {
  const { memory } = item, c = state.colors, { times, values, base } = memory;
  const top = memory.peak * 1.06 || 1, yOf = v => y + PLOT - v / top * (PLOT - 4), right = state.left + state.width;
  g.fillStyle = c.lane;
  g.fillRect(state.left, y, state.width, PLOT);
  const from = Math.max(0, lowerBound(times, state.t0 - base, 0, times.length) - 1), to = Math.min(times.length, lowerBound(times, state.t1 - base, 0, times.length) + 1);
  if (from >= to) return;
  g.beginPath();
  let value = values[from];
  const start = Math.max(state.left, xOf(state, times[from] + base));
  g.moveTo(start, y + PLOT);
  g.lineTo(start, yOf(value));
  for (let i = from; i < to; i++) {
    const x = Math.min(right, xOf(state, times[i] + base));
    g.lineTo(x, yOf(value));
    value = values[i];
    g.lineTo(x, yOf(value));
  }
  const end = to === times.length ? Math.min(right, xOf(state, state.data.last)) : right;
  g.lineTo(end, yOf(value));
  g.lineTo(end, y + PLOT);
  g.globalAlpha = 0.3;
  g.fillStyle = c.memory;
  g.fill();
  g.globalAlpha = 1;
  g.strokeStyle = c.memory;
  g.lineWidth = 1.3;
  g.stroke();
  state.drawn++;
  const x = xOf(state, memory.peak_time);
  if (x >= state.left && x <= right) {
    g.fillStyle = c.memory;
    g.beginPath();
    g.arc(x, yOf(memory.peak), 3.5, 0, 7);
    g.fill();
    g.fillStyle = c.text;
    g.textAlign = x > right - 130 ? "right" : "left";
    g.fillText("peak " + bytesText(memory.peak), x + (x > right - 130 ? -8 : 8), yOf(memory.peak) + 7);
  }
}

function drawLabel(state, g, item, y) {
  const c = state.colors;
  g.save();
  g.beginPath();
  g.rect(0, AXIS, state.left - 2, state.height);
  g.clip();
  g.fillStyle = item.kind === "head" ? c.head : c.card;
  g.fillRect(0, y, state.left - 1, item.height - (item.kind === "head" ? 2 : 0));
  g.textAlign = "left";
  if (item.kind === "head") {
    g.fillStyle = c.text;
    g.font = "600 " + state.font;
    g.fillText((state.folded.has(item.index) ? "▸ " : "▾ ") + item.name, 12, y + HEAD / 2 - 1);
    g.font = state.font;
  } else {
    g.fillStyle = item.kind === "idle" ? c.idle : c.quiet;
    g.fillText(fitText(state, g, item.name, state.left - 34), 26, y + Math.min(item.height, ROW.stream) / 2);
    if (item.hidden > 0) g.fillText(`+ ${item.hidden} levels`, 26, y + item.height - 9);
    if (item.kind === "memory") g.fillText("0 – " + bytesText(item.memory.peak), 26, y + PLOT - 12);
  }
  g.restore();
}

// Position of an event, or null if its track is folded.
function boxOf(state, i) {
  const item = state.items.find(x => x.at === state.data.ev.track[i] && (x.kind === "rows" || x.kind === "idle"));
  if (!item) return null;
  const depth = Math.min(state.data.ev.depth[i], (item.rows ?? 1) - 1), row = item.row ?? LANE;
  return { x: xOf(state, state.data.ev.begin[i]), end: xOf(state, state.data.ev.begin[i] + state.data.ev.duration[i]), y: item.y + AXIS - state.scroll + depth * row, height: row - 1 };
}

// Arrows between an op and the work that it launched.
function drawArrows(state, g) {
  const i = state.selected;
  if (i < 0) return;
  const links = state.data.ev.link[i] >= 0 ? [[state.data.ev.link[i], i]] : (launchedBy(state.data).get(i) ?? []).slice(0, 50).map(k => [i, k]);
  g.save();
  g.beginPath();
  g.rect(state.left, AXIS, state.width, state.height);
  g.clip();
  g.strokeStyle = state.colors.accent;
  g.lineWidth = 1.5;
  for (const [from, to] of links) {
    const a = boxOf(state, from), b = boxOf(state, to);
    if (!a || !b) continue;
    const up = b.y < a.y, y0 = up ? a.y : a.y + a.height, y1 = up ? b.y + b.height : b.y, middle = (y0 + y1) / 2;
    g.beginPath();
    g.moveTo(a.x + 1, y0);
    g.bezierCurveTo(a.x + 1, middle, b.x + 1, middle, b.x + 1, y1);
    g.stroke();
  }
  g.restore();
}

function launchedBy(data) {
  if (!data.launched) {
    data.launched = new Map();
    data.ev.link.forEach((from, to) => { if (from >= 0) data.launched.has(from) ? data.launched.get(from).push(to) : data.launched.set(from, [to]); });
  }
  return data.launched;
}

function drawSelection(state, g) {
  const c = state.colors, right = state.left + state.width;
  if (state.selected >= 0) {
    const box = boxOf(state, state.selected);
    if (box && box.y > AXIS - box.height && box.end >= state.left && box.x <= right) {
      const x = Math.max(state.left + 1, box.x), width = Math.max(3, Math.min(right - 1, box.end) - x);
      g.strokeStyle = c.select;
      g.lineWidth = 2;
      g.strokeRect(x, box.y, width, box.height);
    }
  }
  if (state.range) {
    const a = Math.max(state.left, xOf(state, Math.min(...state.range))), b = Math.min(right, xOf(state, Math.max(...state.range)));
    g.globalAlpha = 0.13;
    g.fillStyle = c.accent;
    g.fillRect(a, AXIS, b - a, state.height);
    g.globalAlpha = 1;
    g.fillRect(a, AXIS, 1, state.height);
    g.fillRect(b - 1, AXIS, 1, state.height);
  }
}

// The strip above the timeline: how busy the devices (or, without devices, the hosts) are.
function drawOverview(state) {
  const { overview: canvas, data, colors: c } = state, g = canvas.getContext("2d"), width = canvas.clientWidth, height = 44;
  canvas.width = width * state.ratio;
  canvas.height = height * state.ratio;
  g.setTransform(state.ratio, 0, 0, state.ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  const bins = density(state), per = state.width / bins.length;
  g.fillStyle = c.lane;
  g.fillRect(state.left, 0, state.width, height);
  g.fillStyle = c.accent;
  g.globalAlpha = 0.55;
  bins.forEach((value, i) => g.fillRect(state.left + i * per, height - 4 - value * (height - 10), Math.max(per, 0.6), value * (height - 10)));
  g.globalAlpha = 1;
  g.font = state.font;
  g.textBaseline = "middle";
  g.fillStyle = c.quiet;
  g.fillText(data.device ? "device busy" : "host in ops", 14, 15);
  g.fillText(timeText(data.last - data.first), 14, 31);
  const total = data.last - data.first, a = state.left + (state.t0 - data.first) / total * state.width, b = state.left + (state.t1 - data.first) / total * state.width;
  g.globalAlpha = 0.55;
  g.fillStyle = c.card;
  g.fillRect(state.left, 0, Math.max(0, a - state.left), height);
  g.fillRect(b, 0, Math.max(0, state.left + state.width - b), height);
  g.globalAlpha = 1;
  g.strokeStyle = c.accent;
  g.lineWidth = 1.5;
  g.strokeRect(Math.max(a, state.left) + 0.75, 0.75, Math.max(2, Math.min(b, state.left + state.width) - Math.max(a, state.left) - 1.5), height - 1.5);
  g.fillStyle = c.line;
  g.fillRect(state.left - 1, 0, 1, height);
}

// The time range to show first. Omits long periods at either end in which almost nothing happens.
function busyPart(state) {
  const { data } = state, bins = density(state), total = bins.reduce((sum, x) => sum + x, 0), size = (data.last - data.first) / bins.length;
  let low = 0, high = bins.length;
  for (let sum = 0; low < high && (sum += bins[low]) <= 0.01 * total;) low++;
  for (let sum = 0; high > low && (sum += bins[high - 1]) <= 0.01 * total;) high--;
  const margin = 0.03 * (high - low);
  if (high - low > 0.6 * bins.length || !total) return [data.first, data.last];
  return [Math.max(data.first, data.first + (low - margin) * size), Math.min(data.last, data.first + (high + margin) * size)];
}

// Divides the whole time into bins, and returns the fraction of each bin, 0 to 1, that work covers.
function density(state) {
  if (state.bins) return state.bins;
  const { data } = state, { begin, duration, category } = data.ev, count = 600, size = (data.last - data.first) / count || 1, bins = state.bins = new Float64Array(count);
  const rows = data.tracks.filter(t => data.device ? t.kind === "stream" : t.kind === "host");
  const lanes = data.device ? new Set(rows.map(t => t.process + "/" + t.device)).size : new Set(rows.map(t => t.process)).size;
  for (const track of rows) {
    let until = -Infinity; // outermost work only
    const events = [];
    for (const [from, to] of track.rows) for (let i = from; i < to; i++) if (category[i] !== RANGE && category[i] !== FINDING) events.push(i);
    events.sort((a, b) => begin[a] - begin[b]);
    for (const i of events) {
      let a = Math.max(begin[i], until);
      const b = begin[i] + duration[i];
      if (b <= a) continue;
      until = b;
      for (let k = Math.max(0, Math.floor((a - data.first) / size)); k < count && a < b; k++) {
        const edge = Math.min(b, data.first + (k + 1) * size);
        bins[k] += (edge - a) / size / lanes;
        a = edge;
      }
    }
  }
  for (let i = 0; i < count; i++) bins[i] = Math.min(1, bins[i]);
  return bins;
}
