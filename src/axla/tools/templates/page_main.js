// What the controls do, and the start.

const TABS = {
  graph: {usable: () => data.stages.length, draw: () => drawGraph()},
  kernels: {usable: () => data.kernels, draw: drawKernels},
  profile: {usable: () => data.profile, draw: drawProfile},
  memory: {usable: () => data.memory, draw: drawMemory},
  source: {usable: () => data.stages.length, draw: drawSource},
};
let tab = "graph";

function openTab(name) {
  markTab(name);
  return TABS[name].draw();
}

function markTab(name) {
  tab = name;
  for (const other of Object.keys(TABS)) byId(`view-${other}`).hidden = other !== name;
  for (const button of byId("tabs").children) button.setAttribute("aria-selected", button.dataset.tab === name);
  byId("left").hidden = byId("right").hidden = name !== "graph";
}

function drawAll(fit = true) {
  drawPass();
  drawComputations();
  drawChanges();
  if (tab === "graph") drawGraph(fit);
  else TABS[tab].draw();
  drawDetails();
}

// Shows the state after, or before, a stage; goes to what changed there.
function setStage(number, side = view.side, follow = true) {
  view.stage = Math.max(0, Math.min(data.stages.length - 1, number));
  view.side = view.stage ? side : "after";
  view.lit = new Set();
  view.extra = new Set();
  const state = shownState(), {added, removed, changed} = difference(view.stage);
  const counts = new Map();
  for (const id of [...changed, ...(view.side === "after" ? added : removed)]) {
    const found = state.instructions.get(id);
    if (found) push(counts, found.computation.id, id);
  }
  if (!state.computations.has(view.computation)) view.computation = state.entry;
  if (follow && counts.size) {
    if (!counts.has(view.computation)) view.computation = [...counts].sort((a, b) => b[1].length - a[1].length)[0][0];
    view.seeds = counts.get(view.computation).slice(0, 12);
  }
  if (byId("search").value) search();
  drawAll();
}

function select(id) {
  view.selected = id;
  lightUp();
  drawDetails();
}

// Shows an instruction, in the middle, with others that belong to it.
function goTo(id, together = [id]) {
  const found = shownState().instructions.get(id);
  if (!found) return;
  view.computation = found.computation.id;
  view.seeds = [...new Set([id, ...together])];
  view.extra = new Set();
  view.selected = id;
  markTab("graph");
  drawAll();
}

// The instruction of a step or value: those of programs are of the last state.
function goToName(name) {
  if (!data.stages.length) return;
  setStage(data.stages.length - 1, "after", false);
  for (const [id, {record}] of shownState().instructions) if (record.name === name) return goTo(id);
}

function openComputation(id) {
  view.computation = id;
  view.seeds = [];
  markTab("graph");
  drawAll();
}

function search() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const place = byId("results");
  place.hidden = !words.length;
  view.found = new Set();
  if (words.length) {
    if (tab !== "graph") openTab("graph");
    for (const [id, {record}] of shownState().instructions) if (matches(record, words)) view.found.add(id);
    const rows = [...view.found].slice(0, 200).map((id) => {
      const {record, computation} = shownState().instructions.get(id);
      return element("div", {class: "row"}, link(`%${record.name}`, () => goTo(id)), element("span", {class: "quiet"}, ` ${record.opcode}, ${computation.name}`));
    });
    const computations = [...shownState().computations.values()].filter(({name}) => words.every((word) => name.toLowerCase().includes(word)));
    for (const {id, name} of computations.slice(0, 20).reverse())
      rows.unshift(element("div", {class: "row"}, link(name, () => openComputation(id)), element("span", {class: "quiet"}, " computation")));
    place.replaceChildren(element("h2", {}, `${view.found.size} found`), ...rows);
  }
  for (const made of document.querySelectorAll("#scene .node")) made.classList.toggle("found", view.found.has(Number(made.dataset.id)));
}

function listen() {
  byId("slider").max = data.stages.length - 1;
  byId("slider").addEventListener("input", (event) => setStage(Number(event.target.value)));
  byId("earlier").addEventListener("click", () => setStage(view.stage - 1));
  byId("later").addEventListener("click", () => setStage(view.stage + 1));
  for (const button of byId("side").children) button.addEventListener("click", () => setStage(view.stage, button.dataset.side));
  byId("search").addEventListener("input", search);
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && view.found.size) goTo([...view.found][0]);
  });
  byId("fit").addEventListener("click", () => fitGraph());
  byId("whole").addEventListener("click", () => { view.whole.add(view.computation); drawGraph(); });
  byId("unfold").addEventListener("click", () => {
    const folded = current.nodes.filter((node) => node.record.calls.length && !node.inner.length);
    if (folded.length) folded.slice(0, 60).forEach((node) => view.unfolded.add(node.record.id));
    else view.unfolded.clear();
    drawGraph();
  });
  byId("shapes").addEventListener("change", (event) => { view.shapes = event.target.checked; drawGraph(); });
  byId("depth").addEventListener("input", (event) => { view.depth = Number(event.target.value) || 1; view.extra = new Set(); drawGraph(); });
  for (const [name, {label, usable}] of Object.entries(COLOURS))
    if (!usable || usable()) byId("colours").append(element("option", {value: name}, label));
  byId("colours").addEventListener("change", (event) => { view.colours = event.target.value; drawGraph(false); });
  for (const [name, {usable}] of Object.entries(TABS))
    if (usable()) byId("tabs").append(element("button", {role: "tab", "data-tab": name, click: () => openTab(name)}, name));
  listenToPointer();
}

async function start() {
  await load();
  findKernels();
  byId("title").textContent = data.title + (data.target ? `, for ${data.target}` : "");
  listen();
  if (data.stages.length) {
    byId("passes").hidden = data.stages.length < 2;
    view.computation = stateAt(0).entry;
    markTab("graph");
    setStage(0);
  } else {
    byId("search").hidden = true;
    openTab("profile");
  }
  for (const note of data.notes) byId("left").prepend(element("p", {class: "removed"}, note));
  document.documentElement.dataset.ready = String(Math.round(performance.now()));  // milliseconds since it was opened
}

start().catch((error) => {
  document.body.prepend(element("p", {class: "removed", id: "error"}, `This page could not be shown: ${error}`));
  throw error;
});
