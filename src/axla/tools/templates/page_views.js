// Everything beside the graph: details of an instruction, kernels and their code, profile, memory, source lines.

function link(text, click, more = "") {
  return element("span", {class: `link ${more}`, click}, text);
}

function instructionLink(id, more = "row") {
  const found = shownState().instructions.get(id);
  return link(found ? `%${found.record.name}` : `#${id}`, () => goTo(id), more);
}

function fact(name, value) {
  return element("div", {}, element("span", {class: "quiet"}, `${name}: `), value);
}

// A table; a row is {cells, click, selected}. Cells that are numbers stand right; a header sorts.
function table(headers, rows, most = 2000) {
  const body = element("tbody");
  const draw = () => body.replaceChildren(...rows.slice(0, most).map(({cells, click, selected}) =>
    element("tr", {class: `${click ? "go" : ""}${selected ? " selected" : ""}`, click}, ...cells.map((cell) => {
      const [shown, isNumber] = Array.isArray(cell) ? [cell[1], true] : [cell, typeof cell === "number"];
      return element("td", {class: isNumber ? "number" : null}, typeof shown === "number" ? String(shown) : shown);
    }))));
  const value = (cell) => (Array.isArray(cell) ? cell[0] : cell instanceof Element ? cell.textContent : cell);
  const numeric = (k) => rows.length && typeof value(rows[0].cells[k]) === "number";
  const sort = (k) => {
    rows.sort((a, b) => (numeric(k) ? value(b.cells[k]) - value(a.cells[k]) : String(value(a.cells[k])).localeCompare(String(value(b.cells[k])))));
    draw();
  };
  draw();
  const heads = headers.map((name, k) => element("th", {class: numeric(k) ? "number" : null, click: () => sort(k)}, name));
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
}

// -- Details ------------------------------------------------------------------------------------------------

function drawDetails() {
  const place = byId("right"), state = data.stages.length ? shownState() : null;
  const found = state && state.instructions.get(view.selected);
  if (!found) {
    place.replaceChildren(element("p", {class: "quiet"}, "Click an instruction for its details; double click to unfold it, or to go there."));
    return;
  }
  const {record, computation} = found;
  const parts = [element("h3", {}, `%${record.name}`), element("div", {class: "text", id: "text"}, record.text)];
  parts.push(fact("in", link(computation.name, () => openComputation(computation.id))));
  parts.push(fact("cost", `${quantity(record.operations)} operations, ${quantity(record.bytes, "B")}`));
  if (record.place) parts.push(fact("source", link(record.place, () => showSource(record.place))));
  if (record.opName) parts.push(fact("op name", record.opName));
  const kernel = kernelNameOf(record);
  if (kernel) parts.push(fact("kernel", link(kernel, () => showKernel(kernel))));
  if (nsOf(record)) parts.push(fact("time", `${duration(nsOf(record) / calls())} a call`));
  if (data.memory)
    for (const [name, allocation, offset, size, first, last] of data.memory.blocks)
      if (name === record.name) parts.push(fact("memory", `${allocation}[${offset}:${offset + size}], steps ${first} to ${last}`));
  for (const [title, ids] of [["operands", record.operands], ["users", state.users.get(record.id) || []], ["control predecessors", record.control]])
    if (ids.length) parts.push(element("h2", {}, `${title} (${ids.length})`), ...ids.slice(0, 60).map((id) => instructionLink(id)));
  const called = record.calls.map((id) => state.computations.get(id)).filter(Boolean);
  if (called.length) parts.push(element("h2", {}, "computations"));
  for (const one of called) {
    parts.push(link(`${one.name} (${one.list.length})`, () => openComputation(one.id), "row"));
    parts.push(element("div", {class: "text contents"}, ...one.list.slice(0, 40).map((inner) => element("div", {}, cut(inner.text, 160)))));
  }
  const callers = state.callers.get(computation.id) || [];
  if (callers.length) parts.push(element("h2", {}, "called by"), ...callers.slice(0, 20).map((id) => instructionLink(id)));
  if (data.stages.length > 1)
    parts.push(element("h2", {}, "history"), ...historyOf(record.id).map(([number, what]) =>
      link(number ? `${what} by ${data.stages[number].pass} (${number})` : "as given", () => setStage(number, what === "removed" ? "before" : "after"), `row ${what}`)));
  place.replaceChildren(...parts);
}

// -- Lists on the left --------------------------------------------------------------------------------------

function drawComputations() {
  const state = shownState(), {added, changed, removed} = difference(view.stage);
  const touched = new Map();
  for (const id of [...added, ...changed, ...removed]) {
    const found = state.instructions.get(id);
    if (found) touched.set(found.computation.id, (touched.get(found.computation.id) || 0) + 1);
  }
  const all = [...state.computations.values()];
  const rows = all.slice(0, 300).map((computation) => {
    const mark = touched.has(computation.id) ? ` \u2022${touched.get(computation.id)}` : "";
    const name = `${computation.id === state.entry ? "ENTRY " : ""}${computation.name} (${computation.list.length})`;
    return element("div", {class: "row"}, link(name, () => openComputation(computation.id)), element("span", {class: "changed"}, mark));
  });
  if (all.length > rows.length) rows.push(element("div", {class: "quiet"}, `and ${all.length - rows.length} more: search`));
  byId("computations").replaceChildren(...rows);
}

function drawChanges() {
  const {added, removed, changed} = difference(view.stage);
  const after = stateAt(view.stage).instructions, before = view.stage ? stateAt(view.stage - 1).instructions : after;
  const list = [];
  for (const [ids, what, instructions, side] of [[removed, "removed", before, "before"], [changed, "changed", after, null], [added, "added", after, "after"]])
    for (const id of [...ids].slice(0, 20)) {
      const go = () => {
        if (side && side !== view.side) setStage(view.stage, side, false);
        goTo(id);
      };
      list.push(link(`${{added: "+", removed: "\u2212", changed: "~"}[what]} ${cut(instructions.get(id).record.name, 40)}`, go, `row ${what}`));
    }
  const total = added.size + removed.size + changed.size;
  if (total > list.length) list.push(element("div", {class: "quiet"}, `and ${total - list.length} more`));
  byId("changes-title").hidden = !total;
  byId("changes").replaceChildren(...list);
}

function drawPass() {
  const stage = data.stages[view.stage], {added, removed, changed} = difference(view.stage);
  const what = view.stage ? stage.pass : "as given";
  const counts = view.stage && !(added.size + removed.size + changed.size) ? [", another order"] : view.stage ? [
    element("span", {class: "added"}, ` +${added.size}`), element("span", {class: "removed"}, ` \u2212${removed.size}`),
    element("span", {class: "changed"}, ` ~${changed.size}`),
  ] : [];
  if (view.stage) counts.push(`, ${stage.ms.toFixed(1)} ms`);
  byId("pass").replaceChildren(`${view.stage}/${data.stages.length - 1} `, element("b", {}, what), ...counts);
  const rules = Object.entries(stage.rules).map(([name, ids]) => {
    const made = element("span", {class: "rule", click: () => showRule(ids), ...tip(data.equations[name] || name)});
    made.append(`${name} \u00d7${ids.length}`);
    return made;
  });
  byId("rules").replaceChildren(...rules);
  for (const button of byId("side").children) button.setAttribute("aria-pressed", button.dataset.side === view.side);
  byId("slider").value = view.stage;
}

// The instructions that a rule fired at: in the state before, where most of them still are.
function showRule(ids) {
  setStage(view.stage, "before", false);
  view.lit = new Set(ids);
  const first = ids.find((id) => shownState().instructions.has(id));
  if (first !== undefined) goTo(first, ids);
  else drawAll();
}

// -- Kernels ------------------------------------------------------------------------------------------------

let shownKernel = "entry";

async function drawKernels() {
  const place = byId("view-kernels"), chosen = shownKernel;
  const texts = await codeOf(chosen);
  const times = new Map();
  for (const [name, , kernel] of data.steps) if (kernel) times.set(kernel, (times.get(kernel) || 0) + (timeOf.get(name) || 0));
  const known = [{name: "entry", kind: "what calls the kernels"}, ...data.kernels];
  const list = element("div", {class: "list"}, ...known.map((kernel) => {
    const time = times.get(kernel.name) ? `, ${duration(times.get(kernel.name) / calls())}` : "";
    const row = link(kernel.name, () => showKernel(kernel.name), kernel.name === chosen ? "mark" : "");
    return element("div", {class: "row"}, row, element("span", {class: "quiet"}, ` ${kernel.kind}${time}`));
  }));
  const column = (title, text, id) => element("div", {id}, element("h2", {}, title), element("pre", {}, cut(text, 1000000)));
  const users = data.steps.filter(([, , kernel]) => kernel === chosen).slice(0, 40);
  const steps = element("div", {class: "row"}, users.length ? "steps: " : "", ...users.map(([name]) => link(`%${name} `, () => goToName(name), "")));
  const columns = [column(chosen === "entry" ? "program" : "computation and plan", texts[0] || "", "code-program")];
  if (texts.length > 1) columns.push(column("LLVM", texts[1], "code-llvm"), column("assembly", texts[2], "code-assembly"));
  columns[0].prepend(steps);
  place.replaceChildren(element("div", {class: "side-by-side"}, list, ...columns));
}

function showKernel(name) {
  shownKernel = name;
  openTab("kernels");
}

// -- Profile ------------------------------------------------------------------------------------------------

function drawProfile() {
  const {runs, spans, machine} = data.profile, parts = [];
  parts.push(element("p", {}, `machine: ${machine[0].toFixed(1)} GB/s, ${machine[1].toFixed(1)} GFLOP/s (f32), measured`));
  for (const run of runs) {
    const total = Math.max(1, run.ns), count = Math.max(1, run.calls);
    parts.push(element("p", {}, element("b", {}, run.program), ` (${run.backend}): ${run.calls} calls, ${duration(run.ns / count)} each`));
    parts.push(stepLanes(run, count));
    const rows = run.rows.filter((row) => row[7]).map(([name, kind, bytes, operations, location, parallel, ns, times]) => ({
      cells: [
        [ns, duration(ns / count)], [ns / total, `${((100 * ns) / total).toFixed(1)}`], times,
        [ns ? (bytes * times) / ns : 0, ns ? ((bytes * times) / ns).toFixed(1) : ""],
        [ns ? (operations * times) / ns : 0, ns ? ((operations * times) / ns).toFixed(1) : ""],
        element("span", {}, element("span", {class: "bar", style: `width: ${(160 * ns) / total}px`}), ` ${name}`),
        `${kind}${parallel ? ", threads" : ""}`, location,
      ],
      click: () => goToName(name), ns,
    })).sort((a, b) => b.ns - a.ns);
    parts.push(table(["a call", "%", "calls", "GB/s", "GFLOP/s", "step", "kind", "source"], rows));
  }
  if (spans.length) {
    const threads = [...new Set(spans.map(([, category, thread]) => `${category} ${thread}`))];
    // Spans within spans: a lane for each depth.
    const lanes = [], blocks = [];
    for (const thread of threads) {
      const ends = [];
      const first = lanes.length;
      for (const [name, category, id, start, length] of spans.filter((span) => `${span[1]} ${span[2]}` === thread)) {
        let depth = ends.findIndex((end) => end <= start + 1e-6);
        if (depth < 0) depth = ends.length;
        ends[depth] = start + length;
        if (lanes.length <= first + depth) lanes.push(depth ? "" : `${category}, thread ${id}`);
        blocks.push({x0: start, x1: start + length, y0: first + depth, y1: first + depth + 1, colour: hue(first + name.length), label: name, note: `${name}: ${duration(length * 1e3)}`});
      }
    }
    parts.push(element("p", {}, element("b", {}, "timeline"), " of compilation, transfers and calls; the wheel zooms, double click shows all"));
    parts.push(chart(blocks, {lanes, height: 24 + 18 * lanes.length, unit: (value) => duration(value * 1e3)}));
  }
  byId("view-profile").replaceChildren(...parts);
}

// One call as its steps are in the program, each as long as its mean; a lane for each device.
function stepLanes(run, count) {
  const devices = run.devices.length ? run.devices : [run.rows.map((row) => row[6])];
  const blocks = [];
  devices.forEach((times, lane) => {
    let at = 0;
    run.rows.forEach(([name, kind], k) => {
      const ns = (times[k] ?? 0) / count;
      if (!ns) return;
      const kernel = kernelOf.get(name);
      blocks.push({
        x0: at, x1: at + ns, y0: lane, y1: lane + 1, label: name, note: `${name}, ${kind}: ${duration(ns)} a call`,
        colour: kernel ? hue(kernelNumber(kernel)) : data.kernels ? "#cfd8dc" : hue(k), click: () => goToName(name),
      });
      at += ns;
    });
  });
  const lanes = devices.map((_, k) => (run.devices.length ? `device ${k}` : "steps of a call"));
  return chart(blocks, {lanes, height: 24 + 24 * lanes.length, unit: duration});
}

// -- Memory -------------------------------------------------------------------------------------------------

function drawMemory() {
  const {blocks, live, ...sizes} = data.memory, place = byId("view-memory");
  const peak = Math.max(0, ...live), at = live.indexOf(peak);
  const facts = ["parameters", "results", "constants", "workspace"].map((name) => `${name} ${quantity(sizes[name], "B")}`);
  const parts = [element("p", {id: "peak"}, `${facts.join(", ")}; `,
    element("b", {}, `most in use at a time: ${quantity(peak, "B")}`), data.steps.length ? `, at step ${at}, ` : "",
    data.steps.length ? link(`%${data.steps[at][0]}`, () => goToName(data.steps[at][0])) : "")];
  const selected = data.stages.length ? shownState().instructions.get(view.selected)?.record.name : "";
  const loops = data.steps.filter(([, , , , first, last]) => last > first).map(([name, kind, , , first, last]) => ({
    x0: first, x1: last + 1, y0: 0, colour: "#f5f5f5", label: "", note: `${name}, ${kind}: steps ${first} to ${last}`, click: () => goToName(name),
  }));
  // Of a loop the steps of one trip are shown.
  const steps = {unit: String, least: 1, end: live.length};
  for (const allocation of [...new Set(blocks.map((block) => block[1]))].sort((a, b) => (b === "workspace") - (a === "workspace")).slice(0, 20)) {
    const mine = blocks.filter((block) => block[1] === allocation);
    const y1 = Math.max(...mine.map(([, , offset, size]) => offset + size));
    parts.push(element("p", {}, element("b", {}, allocation), ": bytes upwards, steps to the right; loops and branches are grey"));
    parts.push(chart(loops.map((loop) => ({...loop, y1})).concat(mine.map(([name, , offset, size, first, last], k) => ({
      x0: first, x1: last + 1, y0: offset, y1: offset + size, colour: hue(k), label: name, lit: name === selected,
      note: `${name}: ${quantity(size, "B")} at ${offset}, steps ${first} to ${last}`, click: () => goToName(name),
    }))), {height: allocation === "workspace" ? 320 : 110, ...steps}));
  }
  parts.push(element("p", {}, element("b", {}, "bytes in use"), " but for parameters and constants, step by step"));
  parts.push(chart([], {line: live, height: 140, ...steps}));
  place.replaceChildren(...parts);
}

// -- Source lines -------------------------------------------------------------------------------------------

function drawSource() {
  const lines = new Map();
  for (const {record} of shownState().instructions.values()) {
    if (!record.place) continue;
    const line = lines.get(record.place) || {count: 0, operations: 0, bytes: 0, ns: 0, first: record.id, ids: []};
    line.count += 1;
    line.operations += record.operations;
    line.bytes += record.bytes;
    line.ns += nsOf(record);
    line.ids.push(record.id);
    lines.set(record.place, line);
  }
  const rows = [...lines].map(([name, line]) => ({
    cells: [name, line.count, [line.operations, quantity(line.operations)], [line.bytes, quantity(line.bytes, "B")], ...(timeOf.size ? [[line.ns, duration(line.ns / calls())]] : [])],
    selected: name === chosenLine,
    click: () => { view.found = new Set(line.ids); goTo(line.first, line.ids); },
  })).sort((a, b) => b.cells.at(-1)[0] - a.cells.at(-1)[0]);
  const text = "Source lines that the instructions name, in the state that the slider shows; a click shows their instructions.";
  const heads = ["source", "instructions", "operations", "bytes", ...(timeOf.size ? ["time a call"] : [])];
  byId("view-source").replaceChildren(...(rows.length ? [element("p", {}, text), table(heads, rows)] : [element("p", {}, "The instructions name no source lines.")]));
}

let chosenLine = "";
function showSource(line) {
  chosenLine = line;
  openTab("source");
  document.querySelector("#view-source tr.selected")?.scrollIntoView({block: "center"});
}
