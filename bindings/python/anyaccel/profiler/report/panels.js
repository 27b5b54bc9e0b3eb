// The panels around the timeline. Text from the program is inserted only through textContent.
function make(tag, text, attributes = {}, ...children) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) name === "class" ? node.className = value : name.startsWith("on") ? node.addEventListener(name.slice(2), value) : node.setAttribute(name, value);
  node.append(...children);
  return node;
}
function clickable(node, action) {
  node.tabIndex = 0;
  node.addEventListener("click", action);
  node.addEventListener("keydown", event => { if (event.key === "Enter" && event.target === node) { action(); event.preventDefault(); } });
  return node;
}
function meter(share, color) {
  const bar = make("i");
  bar.style.width = Math.max(0, Math.min(100, 100 * share)) + "%";
  if (color) bar.style.background = color;
  return make("div", null, { class: "meter" }, bar);
}

function fillCards(data) {
  const cards = [], used = data.processes.filter(p => p.span > 0);
  const card = (value, text, share, color) => cards.push(make("div", null, { class: "card" }, make("b", value), make("span", text, { title: text }), ...(share === undefined ? [] : [meter(share, color)])));
  const recorded = used.reduce((sum, p) => sum + p.span, 0);
  if (data.device) card(shareText(1 - data.idle), "device busy", 1 - data.idle);
  else if (recorded) { const share = Math.min(1, used.reduce((sum, p) => sum + p.in_ops, 0) / recorded); card(shareText(share), "of the time in ops on the host", share); }
  if (used.length) card(timeText(Math.max(...used.map(p => p.span))), `recorded of ${timeText(data.last - data.first)}, ${data.events.toLocaleString("en")} events`);
  const memories = data.processes.flatMap(p => p.memories.filter(m => !p.devices || !m.host).map(m => [m.peak, m.label, p.name]));
  if (memories.length) { const top = memories.reduce((a, b) => b[0] > a[0] ? b : a); card(bytesText(top[0]), `peak of ${top[1]}${data.processes.length > 1 ? ", " + top[2] : ""}`); }
  if (data.ops.length) card(shareText(data.ops[0].share), `of the ${data.device ? "device" : "host"} time in ${shortName(data.ops[0].name)}`, data.ops[0].share, "var(--copy)");
  const collective = used.reduce((sum, p) => sum + p.collective, 0);
  if (collective) card(shareText(collective, recorded), `of the time, a collective is in progress`, collective / recorded, "var(--collective)");
  document.getElementById("cards").append(...cards);
}

function fillAdvice(data, timeline) {
  const cards = data.suggestions.map(s => {
    const title = make("h3", null, {}, make("span", s.title));
    if (s.at) title.append(make("button", "Show", { title: "Show an example on the timeline", onclick: () => {
      const pad = (s.at[1] - s.at[0]) * 0.6 + 1000;
      timeline.glide(s.at[0] - pad, s.at[1] + pad);
      timeline.setRange(s.at);
      document.getElementById("timeline-section").scrollIntoView({ block: "nearest" });
    } }));
    const node = make("article", null, { class: "tip-card" }, title, make("p", s.text));
    if (s.lines.length) node.append(make("ul", null, { class: "lines" }, ...s.lines.slice(0, 3).map(([line, time]) =>
      make("li", null, {}, make("code", line, { title: line }), make("span", time ? timeText(time) : "", { class: "quiet" })))));
    node.append(make("details", null, {}, make("summary", "Why"), make("span", `${s.why} Rule: ${s.rule}.`)));
    return node;
  });
  document.getElementById("advice").append(...(cards.length ? cards : [make("p", "No rule found a problem in this recording.", { class: "quiet" })]));
}

function fillOps(data, timeline, find) {
  document.getElementById("ops-title").textContent = `Most expensive ops by ${data.device ? "device" : "host"} time`;
  const peak = data.ops.some(op => op.flops_peak !== null || op.bytes_peak !== null);
  const above = data.ops.some(op => op.flops_peak > 1 || op.bytes_peak > 1);
  const hint = "The peak was measured while the machine was busy, or the op's data was in a cache, which is faster than memory.";
  const head = ["Op", data.device ? "Device time" : "Host time", "Calls", "Mean", "Compute", "Bandwidth"];
  const achieved = (value, unit, part) => {
    const cell = make("td", value === null ? "n/a" : rateText(value, unit), { class: value === null ? "n quiet" : "n" });
    if (part !== null) cell.append(make("small", (part > 1 ? "> 100 %" : shareText(part)) + " of peak", part > 1 ? { title: hint } : {}));
    return cell;
  };
  const rows = data.ops.map(op => {
    const name = make("td", null, {}, make("code", op.name.replace("autograd::engine::evaluate_function: ", ""), { title: op.name }));
    for (const [line] of op.lines.slice(0, 2)) name.append(make("small", line, { title: op.lines.map(([text, time]) => `${text}: ${timeText(time)}`).join("\n") }));
    const row = make("tr", null, { title: "Find on the timeline" }, name, make("td", timeText(op.time), { class: "n" }, make("small", shareText(op.share)), meter(op.share)),
      make("td", op.calls.toLocaleString("en"), { class: "n" }), make("td", timeText(op.time / Math.max(1, op.calls)), { class: "n" }), achieved(op.flops, "FLOP", op.flops_peak), achieved(op.bytes, "B", op.bytes_peak));
    return clickable(row, () => find(op.name));
  });
  document.getElementById("ops").append(make("thead", null, {}, make("tr", null, {}, ...head.map((text, i) => make("th", text, { class: i ? "n" : "" })))), make("tbody", null, {}, ...rows));
  if (!peak && rows.length) document.getElementById("ops-section").append(make("p", "The recording has no measured peak of this device, so shares of the peak are not shown.", { class: "quiet" }));
  if (above) document.getElementById("ops-section").append(make("details", null, { class: "quiet" }, make("summary", "Why more than 100 % of the peak?"), make("span", hint)));
  if (!rows.length) document.getElementById("ops").append(make("caption", "No ops were recorded."));
}

function fillMemory(data, timeline) {
  const panel = document.getElementById("memory"), all = data.processes.flatMap(p => p.memories.map(m => ({ p, m })));
  all.sort((a, b) => a.m.host - b.m.host || b.m.peak - a.m.peak);
  const body = make("div");
  const show = ({ p, m }) => {
    const rows = m.largest.map(t => clickable(make("tr", null, { title: "Show the allocation on the timeline" },
      make("td", bytesText(t.bytes), { class: "n" }, meter(t.bytes / Math.max(1, m.largest[0].bytes), "var(--memory)")),
      make("td", null, {}, make("code", t.op || "outside of ops"), ...[t.line, t.ranges && "in " + t.ranges].filter(Boolean).map(text => make("small", text, { title: text })))), () => {
      timeline.glide(t.time - 2e5, t.time + 2e5);
      timeline.setRange([t.time - 500, t.time + 500]);
    }));
    if (m.before > 0) rows.push(make("tr", null, {}, make("td", bytesText(m.before), { class: "n" }), make("td", "allocated before the recording began")));
    body.replaceChildren(make("p", null, { class: "memory-head" }, make("b", bytesText(m.peak)), make("span", `peak of ${m.label} at ${timeText(m.peak_time - data.first)}`, { class: "quiet" }),
      make("button", "Show", { onclick: () => { const d = (data.last - data.first) / 20; timeline.glide(m.peak_time - d, m.peak_time + d); } })),
      make("div", null, { class: "wide" }, make("table", null, {}, make("thead", null, {}, make("tr", null, {}, make("th", "Size", { class: "n" }), make("th", "Largest tensors alive at the peak, and where they were allocated"))), make("tbody", null, {}, ...rows))));
  };
  if (!all.length) { panel.append(make("p", "The recording has no allocations.", { class: "quiet" })); return; }
  if (all.length > 1) {
    const choice = make("select", null, { "aria-label": "Device" }, ...all.slice(0, 500).map(({ p, m }, i) => make("option", `${p.name}: ${m.label}`, { value: i })));
    choice.addEventListener("change", () => show(all[choice.value]));
    panel.append(make("p", null, {}, choice));
  }
  panel.append(body);
  show(all[0]);
}

function fillRest(data, timeline) {
  const rows = data.processes.map(p => make("tr", null, {}, make("td", p.name), make("td", null, {}, make("code", p.argv.join(" ").slice(0, 300)), make("small", `${p.host}, process ${p.pid}`)), make("td", p.device),
    make("td", timeText(p.span), { class: "n" }), make("td", null, {}, make("span", p.state, { class: p.ended && !p.state.includes("exception") ? "pill" : "pill bad" })),
    make("td", [p.dropped_events && `${p.dropped_events} events and ${p.dropped_windows} windows not recorded`, p.offset && `clock offset ${timeText(p.offset)}`,
      p.overhead && `${timeText(p.overhead)} spent writing`, `torch ${p.torch}, Python ${p.python}`].filter(Boolean).join("; "))));
  document.getElementById("processes").append(make("thead", null, {}, make("tr", null, {}, ...["Process", "Command", "Device", "Recorded", "End", "Notes"].map((text, i) => make("th", text, { class: i === 3 ? "n" : "" })))), make("tbody", null, {}, ...rows));
  const notes = data.problems.map(text => `Not read completely: ${text}`);
  if (data.problem_count > data.problems.length) notes.push(`and ${data.problem_count - data.problems.length} more files`);
  if (data.dropped) notes.unshift(`The ${data.dropped.toLocaleString("en")} shortest events are not shown. The totals include them, and trace.json.gz contains them.`);
  document.getElementById("problems").append(...notes.map(text => make("li", text)));
  if (!data.findings.length) return;
  document.getElementById("findings-section").hidden = false;
  document.getElementById("findings").append(...data.findings.map(f => {
    const node = make("article", null, { class: "tip-card" }, make("h3", null, {}, make("span", f.what || f.kind), ...(f.time === null ? [] : [make("button", "Show", { onclick: () => timeline.glide(f.time - 1e6, f.time + 1e6) })])));
    for (const [name, text] of [["", `${data.processes[f.process].name}, ${f.op}, ${f.stream}`], ["Line: ", f.line], ["Fix: ", f.remedy]]) if (text) node.append(make("p", name + text));
    return node;
  }));
}

function facts(pairs) {
  return make("dl", null, { class: "facts" }, ...pairs.filter(([, value]) => value).map(([name, value, full]) =>
    make("div", null, { class: full ? "full" : "" }, make("dt", name), value instanceof Node ? make("dd", null, {}, value) : make("dd", value))));
}

// Details of the selected event, or statistics for the selected time range.
function fillDetails(data, timeline) {
  const panel = document.getElementById("details"), i = timeline.selected, { ev, strings } = data;
  if (i >= 0) {
    const parent = parents(data), ranges = [], ops = [];
    for (let p = parent[i]; p >= 0; p = parent[p]) (ev.category[p] === RANGE ? ranges : ops).unshift(strings[ev.name[p]]);
    let count = 0, total = 0;
    for (let k = 0; k < data.count; k++) if (ev.name[k] === ev.name[i] && ev.category[k] === ev.category[i]) { count++; total += ev.duration[k]; }
    const go = (k, text) => make("button", text, { class: "link", onclick: () => timeline.select(k, { reveal: true }) });
    const children = launchedBy(data).get(i) ?? [], track = data.tracks[ev.track[i]];
    const work = children.reduce((sum, k) => sum + ev.duration[k], 0);
    panel.replaceChildren(make("h3", null, {}, make("span", strings[ev.name[i]]), make("span", CATEGORIES[ev.category[i]], { class: "pill" }), make("button", "Zoom", { title: "Zoom to this event (F)", onclick: () => timeline.select(i, { reveal: true, zoom: true }) })), facts([
      ["Duration", timeText(ev.duration[i])], ["Start", timeText(ev.begin[i] - data.first)], ["Where", `${data.processes[track.process].name}, ${track.label}`],
      ["All of this name on the page", `${count.toLocaleString("en")}, ${timeText(total)} in all, ${timeText(total / count)} each`],
      ["Launched by", ev.link[i] >= 0 && go(ev.link[i], shortName(strings[ev.name[ev.link[i]]]) + `, ${timeText(ev.begin[i] - ev.begin[ev.link[i]])} before`)],
      ["Launched", children.length > 0 && go(children[0], `${children.length} on the device, ${timeText(work)}`)],
      ["Source line", strings[ev.line[i]]], ["Ranges", ranges.join(" › ")], ["Inside of", ops.slice(-4).join(" › "), true], ["Inputs", strings[ev.shapes[i]], true]]));
  } else if (timeline.range) {
    const stats = rangeStats(data, ...timeline.range), rows = stats.top.map(([name, time, calls]) => make("tr", null, {}, make("td", null, {}, make("code", strings[name])), make("td", timeText(time), { class: "n" }), make("td", shareText(time, stats.total), { class: "n" }), make("td", String(calls), { class: "n" })));
    panel.replaceChildren(make("h3", null, {}, make("span", `${timeText(stats.span)} selected`), make("button", "Zoom", { title: "Zoom to the selected time (F)", onclick: () => timeline.glide(...timeline.range) })), facts([
      ["From, to", `${timeText(timeline.range[0] - data.first)}, ${timeText(timeline.range[1] - data.first)}`], ["Events", stats.events.toLocaleString("en")],
      ...stats.lanes.slice(0, 16).map(([name, time]) => [name, `${shareText(time, stats.span)} busy (${timeText(time)})`]), ...stats.peaks.slice(0, 8)]));
    if (rows.length) panel.append(make("div", null, { class: "wide" }, make("table", null, { id: "range-table" }, make("thead", null, {}, make("tr", null, {}, make("th", data.device ? "Device work in this time" : "Ops in this time (own time)"), ...["Time", "Share", "Count"].map(t => make("th", t, { class: "n" })))), make("tbody", null, {}, ...rows))));
  } else panel.replaceChildren(make("span", "Click an event for its details. Drag over the timeline to select a time and see its statistics. W A S D zoom and pan; ? shows all keys.", { class: "quiet" }));
}

// Summarizes a time range: the work by name, and how busy each stream or thread is.
function rangeStats(data, t0, t1) {
  const { ev } = data, parent = parents(data), time = new Map(), lanes = [], own = new Map();
  let events = 0, total = 0;
  for (const track of data.tracks) {
    if (track.kind === "idle") continue;
    let busy = 0, until = t0;
    const found = [];
    for (const [from, to] of track.rows) {
      const i0 = Math.max(from, lowerBound(ev.begin, t0, from, to) - 1);
      for (let i = i0; i < to && ev.begin[i] < t1; i++) if (ev.begin[i] + ev.duration[i] > t0) found.push(i);
    }
    for (const i of found) {
      const clipped = Math.min(t1, ev.begin[i] + ev.duration[i]) - Math.max(t0, ev.begin[i]);
      events++;
      if (ev.category[i] === RANGE || ev.category[i] === FINDING) continue;
      own.set(i, (own.get(i) ?? 0) + clipped);
      if (parent[i] >= 0 && ev.category[parent[i]] !== RANGE) own.set(parent[i], (own.get(parent[i]) ?? 0) - clipped);
    }
    for (const i of found.filter(k => ev.category[k] !== RANGE).sort((a, b) => ev.begin[a] - ev.begin[b])) {
      const a = Math.max(until, ev.begin[i]), b = Math.min(t1, ev.begin[i] + ev.duration[i]);
      if (b > a) { busy += b - a; until = b; }
    }
    if (found.length) lanes.push([`${data.processes.length > 1 ? data.processes[track.process].name + ", " : ""}${track.label}`, busy]);
    if (track.kind === "stream" || !data.device) for (const i of found) {
      if (!own.has(i)) continue;
      const entry = time.get(ev.name[i]) ?? [ev.name[i], 0, 0];
      entry[1] += Math.max(0, own.get(i));
      entry[2]++;
      total += Math.max(0, own.get(i));
      time.set(ev.name[i], entry);
    }
  }
  const peaks = data.processes.flatMap(p => p.memories.filter(m => !p.devices || !m.host).map(m => {
    const a = Math.max(0, lowerBound(m.times, t0 - m.base, 0, m.times.length) - 1), b = lowerBound(m.times, t1 - m.base, 0, m.times.length);
    let peak = 0;
    for (let i = a; i < b; i++) peak = Math.max(peak, m.values[i]);
    return [`Peak of ${m.label}${data.processes.length > 1 ? ", " + p.name : ""}`, bytesText(peak)];
  }));
  return { span: t1 - t0, events, total, lanes, peaks, top: [...time.values()].sort((a, b) => b[1] - a[1]).slice(0, 10) };
}
