// Unpacks the data: a gzip file in base64 that contains a JSON header and columns of numbers.
const OP = 0, RANGE = 1, KERNEL = 2, COPY = 3, COLLECTIVE = 4, RUNTIME = 5, IDLE = 6, FINDING = 7, SYNC = 8;
const CATEGORIES = ["op", "range", "kernel", "copy", "collective", "runtime call", "idle", "checker finding", "synchronization"];

async function unpack(text) {
  if (typeof DecompressionStream === "undefined") throw new Error("This browser is too old: it has no DecompressionStream. Use a browser of 2023 or later.");
  const binary = atob(text.trim()), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const buffer = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const kinds = { f64: Float64Array, u32: Uint32Array, i32: Int32Array, u8: Uint8Array };
  data.ev = {};
  for (const [name, [kind, at, count]] of Object.entries(data.columns)) data.ev[name] = new kinds[kind](buffer, 4 + length + at, count);
  data.count = data.ev.begin.length;
  return data;
}

// Rows: events of one track and depth are adjacent and sorted by begin.
function makeRows(data) {
  const { track, depth } = data.ev;
  for (const t of data.tracks) t.rows = [];
  for (let i = 0; i < data.count;) {
    let end = i;
    while (end < data.count && track[end] === track[i] && depth[end] === depth[i]) end++;
    data.tracks[track[i]].rows[depth[i]] = [i, end];
    i = end;
  }
  for (const t of data.tracks) for (let d = 0; d < t.rows.length; d++) t.rows[d] ??= [0, 0];
}

// First index in [low, high) whose value is at least `value`.
function lowerBound(values, value, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

// Index of a row's event at `time`, or -1.
function eventAt(data, row, time, slack = 0) {
  const { begin, duration } = data.ev;
  const i = lowerBound(begin, time + slack + 1e-9, row[0], row[1]) - 1;
  return i >= row[0] && begin[i] + duration[i] >= time - slack ? i : -1;
}

// Index of each event's parent (-1: none), which may have been dropped.
function parents(data) {
  if (data.parent) return data.parent;
  const { begin, duration, track, depth } = data.ev, parent = data.parent = new Int32Array(data.count).fill(-1);
  for (let i = 0; i < data.count; i++) {
    const rows = data.tracks[track[i]].rows;
    for (let d = depth[i] - 1; d >= 0 && parent[i] < 0; d--) {
      const at = lowerBound(begin, begin[i] + 1e-9, rows[d][0], rows[d][1]) - 1;
      if (at >= rows[d][0] && begin[at] + duration[at] >= begin[i] + duration[i]) parent[i] = at;
    }
  }
  return parent;
}

// Name of an event without the prefixes that torch adds.
function shortName(text) { return text.replace(/^aten::|^autograd::engine::evaluate_function: /, ""); }

function short(value) { return Math.abs(value) >= 99.95 ? value.toFixed(0) : Number(value.toPrecision(3)).toString(); }
function timeText(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return short(ns / 1e9) + " s";
  if (size >= 1e6) return short(ns / 1e6) + " ms";
  if (size >= 1e3) return short(ns / 1e3) + " µs";
  return Math.round(ns) + " ns";
}
function bytesText(n) {
  for (const [unit, power] of [["TiB", 40], ["GiB", 30], ["MiB", 20], ["KiB", 10]]) if (Math.abs(n) >= 2 ** power) return short(n / 2 ** power) + " " + unit;
  return Math.round(n) + " B";
}
function rateText(n, unit) {
  for (const [prefix, factor] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (n >= factor) return short(n / factor) + " " + prefix + unit + "/s";
  return short(n) + " " + unit + "/s";
}
function shareText(part, whole = 1) {
  const share = whole > 0 ? 100 * part / whole : 0;
  return (share > 0 && share < 9.95 ? share.toFixed(1) : share.toFixed(0)) + " %";
}
