// Starts the page and handles the keyboard.
const KEYS = [["W / S", "Zoom in and out"], ["A / D", "Pan left and right"], ["Arrow keys", "Move from the selected event to its neighbors, its parent and its children"], ["F", "Zoom to the selection"],
  ["0", "Show everything"], ["/", "Search; Enter and Shift+Enter go to the next and previous match"], ["Escape", "Clear the selection and the search"], ["Drag", "Select a time, with statistics"],
  ["Shift+drag", "Pan"], ["Ctrl+wheel", "Zoom at the pointer"], ["Shift+wheel", "Pan"], ["Click a label", "Fold a process, or show all levels of a thread"], ["Double click", "Zoom to an event"]];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

async function start() {
  const $ = id => document.getElementById(id), media = matchMedia("(prefers-color-scheme: dark)");
  const wanted = new URLSearchParams(location.hash.slice(1)).get("theme");
  setTheme(wanted === "dark" || wanted === "light" ? wanted : media.matches ? "dark" : "light");
  const data = await unpack($("data").textContent);
  makeRows(data);
  const command = data.processes[0].argv.join(" ");
  document.title = (command ? command.slice(0, 80) + " – " : "") + "Profile";
  $("command").textContent = command;
  $("command").title = command;
  $("headline").textContent = data.headline;
  $("main").hidden = false;
  const timeline = makeTimeline(data, () => fillDetails(data, timeline));
  const recolor = () => { timeline.colors = colors(); timeline.nameColors = {}; timeline.redraw(); };
  $("theme").onclick = () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); recolor(); };
  media.addEventListener("change", () => { setTheme(media.matches ? "dark" : "light"); recolor(); });
  const search = text => {
    timeline.search(text);
    $("matches").textContent = text.trim() ? `${timeline.matches.length.toLocaleString("en")} matches` : "";
  };
  $("search").addEventListener("input", () => search($("search").value));
  $("search").addEventListener("keydown", event => { if (event.key === "Enter") { timeline.jump(event.shiftKey ? -1 : 1); event.preventDefault(); } });
  const find = name => { $("search").value = name; search(name); timeline.match = -1; timeline.jump(1); $("timeline-section").scrollIntoView({ block: "nearest" }); };
  $("next").onclick = () => timeline.jump(1);
  $("previous").onclick = () => timeline.jump(-1);
  $("in").onclick = () => timeline.zoom(0.5);
  $("out").onclick = () => timeline.zoom(2);
  $("fit").onclick = () => timeline.fit();
  $("help-button").onclick = () => $("help").showModal();
  for (const [keys, text] of KEYS) $("keys").append(make("dt", null, {}, make("kbd", keys)), make("dd", text));
  const legend = [["range", RANGE, "range"], ["copy", COPY, "copy"], ["collective", COLLECTIVE, "collective"], ["sync", SYNC, "synchronization"], ["idle", IDLE, "device idle"]];
  const present = new Set(data.ev.category);
  for (const [color, kind, text] of legend) if (present.has(kind)) { const swatch = make("i"); swatch.style.background = `var(--${color})`; $("legend").append(make("span", null, {}, swatch, text)); }
  fillCards(data);
  fillAdvice(data, timeline);
  fillOps(data, timeline, find);
  fillMemory(data, timeline);
  fillRest(data, timeline);
  fillDetails(data, timeline);
  timeline.resize();
  window.addEventListener("resize", timeline.resize);

  document.addEventListener("keydown", event => {
    if (event.target.matches?.("input, select, textarea") && event.key !== "Escape" || event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    const at = timeline.mouse >= timeline.left ? timeline.mouse : undefined, onCanvas = event.target === timeline.canvas || event.target === document.body;
    const actions = {
      w: () => timeline.zoom(0.7, at), s: () => timeline.zoom(1 / 0.7, at), a: () => timeline.pan(-0.15), d: () => timeline.pan(0.15), "+": () => timeline.zoom(0.7), "-": () => timeline.zoom(1 / 0.7), "0": timeline.fit,
      f: () => timeline.selected >= 0 ? timeline.select(timeline.selected, { reveal: true, zoom: true }) : timeline.range && timeline.glide(...timeline.range),
      "/": () => $("search").focus(), "?": () => $("help").showModal(), n: () => timeline.jump(1), p: () => timeline.jump(-1),
      escape: () => { $("search").value = ""; search(""); $("search").blur(); timeline.range = null; timeline.select(-1); },
    };
    const arrows = { arrowleft: () => timeline.pan(-0.1), arrowright: () => timeline.pan(0.1) };
    const key = event.key.toLowerCase();
    let action = actions[key];
    if (!action && onCanvas && key.startsWith("arrow")) action = timeline.selected >= 0 ? () => timeline.step(event.key) : arrows[key];
    if (!action) return;
    action();
    event.preventDefault();
  });
  window.profile = { data, timeline };
  document.documentElement.dataset.ready = "yes";
}

start().catch(error => {
  const message = document.getElementById("message");
  message.textContent = "The page cannot be shown: " + error.message;
  message.hidden = false;
  document.documentElement.dataset.ready = "failed";
  console.error(error);
});
