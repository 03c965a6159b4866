// The graph: what is shown of a computation, its layout, and its picture.

const WHOLE = 150;  // instructions of a computation that is shown as a whole
const MOST = 120;   // instructions of a neighbourhood
const SHARED = 20;  // users from which on a value leads no neighbourhood to all of them
const LETTER = 6.7, SMALL_LETTER = 5.5;  // widths in pixels

const view = {
  stage: 0, side: "after", computation: null, selected: null,
  seeds: [],             // what the neighbourhood is around; of a computation that is shown whole, none
  extra: new Set(),      // instructions that somebody asked for besides
  unfolded: new Set(),   // instructions whose computations are shown within
  whole: new Set(),      // computations to show as a whole, whatever their size
  found: new Set(),      // what the search found
  lit: new Set(),        // instructions that a rule fired at
  colours: "op", depth: 5, shapes: true,
};

function shownState() {
  return stateAt(view.side === "before" && view.stage > 0 ? view.stage - 1 : view.stage);
}

// -- What is shown ------------------------------------------------------------------------------------------

function isWhole(computation) {
  return computation.list.length <= WHOLE || view.whole.has(computation.id);
}

// The instructions of a computation to show: all, or those around the seeds, nearest first.
function visible(computation, seeds) {
  if (isWhole(computation)) return computation.list;
  const state = shownState(), inside = new Set(computation.list.map((record) => record.id));
  const found = new Set(seeds.filter((id) => inside.has(id)).slice(0, MOST));
  if (!found.size) found.add(computation.root);
  let edge = [...found];
  for (let step = 0; step < view.depth && found.size < MOST; step++) {
    const next = [];
    for (const id of edge) {
      const users = state.users.get(id) || [];
      for (const other of [...state.instructions.get(id).record.operands, ...(users.length > SHARED ? [] : users)]) {
        if (found.has(other) || !inside.has(other)) continue;
        if (found.size >= MOST) break;
        found.add(other);
        next.push(other);
      }
    }
    edge = next;
  }
  for (const id of view.extra) if (inside.has(id)) found.add(id);
  return computation.list.filter((record) => found.has(record.id));
}

// -- Layout -------------------------------------------------------------------------------------------------

// The opcode and the rest of the title: dot.3, or dot logits.
function titleOf({opcode, name}) {
  return [opcode, name === opcode || name.startsWith(`${opcode}.`) ? name.slice(opcode.length) : ` ${cut(name, 32)}`];
}

function labels(record, computation) {
  const title = titleOf(record);
  const lines = [];
  if (record.opcode === "constant" || record.opcode === "parameter") lines.push(record.text.replace(/^.*? = /, ""));
  else if (!view.shapes || record.id === computation.root) lines.push(record.shape);
  const ns = nsOf(record);
  if (ns && lastStage()) lines.push(`${duration(ns / calls())} a call`);
  return {title, lines: lines.map((line) => cut(line, 44))};
}

// What flows along an edge: a shape; of a tuple that is taken apart, the number of the element.
function edgeText(record, operand) {
  const element = record.opcode === "get-tuple-element" && /, (index=\d+)/.exec(record.text);
  return element ? element[1] : cut(operand.shape, 34);
}

function lastStage() {
  return shownState().number === data.stages.length - 1;
}

function calls() {
  return data.profile ? Math.max(1, ...data.profile.runs.map((run) => run.calls)) : 1;
}

// Positions of what is shown of a computation. What is unfolded is laid out first, as one large node.
function layOut(computation, seeds) {
  const state = shownState(), list = visible(computation, seeds);
  const shown = new Set(list.map((record) => record.id));
  const graph = new dagre.graphlib.Graph({multigraph: true});
  graph.setGraph({rankdir: "TB", nodesep: 18, ranksep: view.shapes ? 22 : 30, edgesep: 8});
  graph.setDefaultEdgeLabel(() => ({}));
  const nodes = new Map();
  for (const record of list) {
    const {title, lines} = labels(record, computation);
    let width = Math.max((title[0].length + title[1].length) * LETTER, ...lines.map((line) => line.length * LETTER)) + 14;
    if (record.calls.length) width += 16;
    let height = 18 + 13 * lines.length;
    const inner = [];
    if (view.unfolded.has(record.id)) {
      for (const id of record.calls) {
        const called = state.computations.get(id);
        if (called) inner.push(layOut(called, [called.root]));
      }
      width = Math.max(width, inner.reduce((sum, one) => sum + one.width + 12, 12));
      height += Math.max(0, ...inner.map((one) => one.height)) + 30;
    }
    const hidden = {
      operands: [...new Set(record.operands)].filter((id) => !shown.has(id)),
      users: (state.users.get(record.id) || []).filter((id) => !shown.has(id)),
    };
    const node = {record, title, lines, width, height, inner, hidden};
    nodes.set(record.id, node);
    graph.setNode(String(record.id), node);
  }
  const edges = [];
  for (const record of list) {
    record.operands.forEach((operand, number) => {
      if (!shown.has(operand)) return;
      const shape = view.shapes ? edgeText(record, state.instructions.get(operand).record) : "";
      const label = record.operands.length > 1 && shape ? `${number}: ${shape}` : shape;
      const size = label ? {width: label.length * SMALL_LETTER + 4, height: 11, labelpos: "c"} : {};
      edges.push({from: operand, to: record.id, label, number, ...size});
      graph.setEdge(String(operand), String(record.id), edges[edges.length - 1], String(number));
    });
    for (const before of record.control) {
      if (!shown.has(before)) continue;
      edges.push({from: before, to: record.id, label: "", control: true});
      graph.setEdge(String(before), String(record.id), edges[edges.length - 1], "control");
    }
  }
  dagre.layout(graph);
  const size = graph.graph();
  return {computation, nodes: [...nodes.values()], edges, width: (size.width || 0) + 16, height: (size.height || 0) + 16};
}

// -- Colours ------------------------------------------------------------------------------------------------

const OP_COLOURS = [
  ["parameter", /^parameter$/, "#f2c57c"], ["constant", /^(constant|iota)$/, "#d9d9d9"],
  ["tuples", /tuple/, "#ffffff"], ["products", /^(dot|convolution|ragged-dot|scaled-dot)$/, "#9ecae1"],
  ["fusion", /^fusion$/, "#a1d99b"], ["control", /^(while|conditional|call|async-.*)$/, "#fdae6b"],
  ["reductions", /^(reduce.*|scatter|gather|sort|select-and-scatter|scan)$/, "#c6b4e3"],
  ["custom call", /^custom-call$/, "#fc9272"],
  ["movement", /^(broadcast|reshape|bitcast.*|transpose|slice|copy.*|concatenate|pad|reverse|dynamic-.*)$/, "#d7ecd9"],
  ["collective", /^(all-.*|collective-.*|send.*|recv.*|partition-id|replica-id)$/, "#f7b6d2"],
  ["other", /./, "#ededf7"],
];

function heat(share) {  // 0: white, 1: red
  const light = Math.round(97 - 42 * Math.max(0, Math.min(1, share)));
  return `hsl(8, 85%, ${light}%)`;
}

function hue(number) {
  return `hsl(${(number * 137.5) % 360}, 60%, 78%)`;
}

const COLOURS = {
  op: {
    label: "by op", colour: (record) => OP_COLOURS.find(([, pattern]) => pattern.test(record.opcode))[2],
    legend: () => OP_COLOURS.filter(([, , colour]) => current.nodes.some((node) => COLOURS.op.colour(node.record) === colour))
      .map(([name, , colour]) => [name, colour]),
  },
  operations: costColours("by operations", (record) => record.operations, "operations"),
  bytes: costColours("by bytes", (record) => record.bytes, "bytes"),
  time: {
    ...costColours("by time", nsOf, "share of the time"),
    usable: () => timeOf.size > 0,
  },
  kernel: {
    label: "by kernel", usable: () => kernelOf.size > 0,
    colour: (record) => (kernelNameOf(record) ? hue(kernelNumber(kernelNameOf(record))) : "#f5f5f5"),
    legend: () => {
      const shown = new Set(current ? current.nodes.map((node) => kernelNameOf(node.record)).filter(Boolean) : []);
      return [...shown].slice(0, 12).map((name) => [name, hue(kernelNumber(name))]);
    },
  },
  changes: {
    label: "by changes", usable: () => data.stages.length > 1,
    colour: (record) => ({added: "#c8e6c9", removed: "#ffcdd2", changed: "#ffe0b2"})[changeOf(record.id)] || "#f5f5f5",
    legend: () => [["added", "#c8e6c9"], ["removed", "#ffcdd2"], ["changed", "#ffe0b2"]],
  },
};

function costColours(label, cost, unit) {
  const largest = () => Math.max(1, ...(current ? current.nodes : []).map((node) => cost(node.record)));
  return {
    label,
    colour: (record, most) => heat(cost(record) / most),
    most: largest,
    legend: () => [[`0`, heat(0)], [unit === "share of the time" ? "longest" : `${quantity(largest())} ${unit}`, heat(1)]],
  };
}

function kernelNumber(name) {
  return data.kernels.findIndex((kernel) => kernel.name === name);
}

function changeOf(id) {
  const {added, removed, changed} = difference(view.stage);
  if (changed.has(id)) return "changed";
  return view.side === "after" ? (added.has(id) ? "added" : "") : removed.has(id) ? "removed" : "";
}

// -- The picture --------------------------------------------------------------------------------------------

let current = null;  // the layout that is shown
const camera = {x: 0, y: 0, scale: 1};

function drawGraph(fit = true) {
  const state = shownState();
  if (!state.computations.has(view.computation)) view.computation = state.entry;
  const computation = state.computations.get(view.computation);
  current = layOut(computation, view.seeds);
  const canvas = byId("canvas");
  const scene = svg("g", {id: "scene"});
  canvas.replaceChildren(
    svg("defs", {}, svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto"},
      svg("path", {d: "M0,1 L8,4 L0,7 z", fill: "context-stroke"}))),
    scene,
  );
  const colours = COLOURS[view.colours], most = colours.most ? colours.most() : 1;
  scene.append(...picture(current, (record) => colours.colour(record, most)));
  byId("computation").textContent = `${computation.id === state.entry ? "ENTRY " : ""}${computation.name}`;
  const part = current.nodes.length < computation.list.length;
  byId("extent").textContent = part
    ? `${current.nodes.length} of ${computation.list.length} instructions, around what is selected`
    : `${computation.list.length} instructions`;
  byId("depth-label").hidden = byId("whole").hidden = isWhole(computation);
  byId("unfold").hidden = !current.nodes.some((node) => node.record.calls.length);
  byId("legend").replaceChildren(...colours.legend().map(([name, colour]) =>
    element("span", {}, element("span", {class: "swatch", style: `background: ${colour}`}), name)));
  if (fit) fitGraph(true);
  else placeScene();
  lightUp();
}

function picture(layout, colour) {
  return [
    ...layout.edges.map((edge) => svg("path", {
      class: `edge${edge.control ? " control" : ""}`, "data-from": edge.from, "data-to": edge.to, d: curve(edge.points), "marker-end": "url(#arrow)",
    })),
    ...layout.edges.filter(({label}) => label).map((edge) => svg("text", {class: "label", x: edge.x, y: edge.y + 3, "text-anchor": "middle"}, edge.label)),
    ...layout.nodes.map((node) => nodePicture(node, layout, colour)),
  ];
}

function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x},${first.y}`;
  rest.forEach((point, k) => {
    const next = rest[k + 1];
    path += next ? ` Q${point.x},${point.y} ${(point.x + next.x) / 2},${(point.y + next.y) / 2}` : ` L${point.x},${point.y}`;
  });
  return path;
}

function nodePicture(node, layout, colour) {
  const {record, width, height} = node;
  const left = node.x - width / 2, top = node.y - height / 2;
  const classes = ["node", changeOf(record.id)];
  if (record.id === layout.computation.root) classes.push("root");
  if (record.id === view.selected) classes.push("selected");
  if (view.found.has(record.id) || view.lit.has(record.id)) classes.push("found");
  const group = svg("g", {class: classes.filter(Boolean).join(" "), "data-id": record.id, transform: `translate(${left},${top})`});
  group.append(svg("rect", {
    width, height, rx: 3, fill: colour(record), ...tip(() => cut(record.text, 700)),
    click: () => select(record.id),
    dblclick: () => (record.calls.length ? toggleFold(record.id) : goTo(record.id)),
  }));
  const title = svg("text", {x: 6, y: 13}, svg("tspan", {class: "opcode"}, node.title[0]), node.title[1]);
  group.append(title);
  node.lines.forEach((line, k) => group.append(svg("text", {x: 6, y: 26 + 13 * k}, line)));
  if (record.calls.length)
    group.append(svg("text", {x: width - 14, y: 13, class: "fold", click: () => toggleFold(record.id)}, node.inner.length ? "\u2212" : "+"));
  if (node.hidden.operands.length) group.append(more(node.hidden.operands, 6, -3));
  if (node.hidden.users.length) group.append(more(node.hidden.users, 6, height + 10));
  let x = 12;
  for (const inner of node.inner) {
    const box = svg("g", {class: "inner", transform: `translate(${x},${20 + 13 * node.lines.length})`});
    box.append(svg("rect", {width: inner.width, height: inner.height + 16}), svg("text", {x: 4, y: 11}, inner.computation.name));
    box.append(svg("g", {transform: "translate(8,20)"}, ...picture(inner, colour)));
    group.append(box);
    x += inner.width + 12;
  }
  return group;
}

function more(hidden, x, y) {
  const show = () => {
    hidden.slice(0, 40).forEach((id) => view.extra.add(id));
    drawGraph(false);
  };
  return svg("text", {x, y, class: "more", click: show}, `+${hidden.length}`);
}

function toggleFold(id) {
  if (!view.unfolded.delete(id)) view.unfolded.add(id);
  drawGraph(false);
}

function lightUp() {
  for (const made of document.querySelectorAll("#scene .node"))
    made.classList.toggle("selected", Number(made.dataset.id) === view.selected);
  for (const edge of document.querySelectorAll("#scene .edge"))
    edge.classList.toggle("lit", [edge.dataset.from, edge.dataset.to].includes(String(view.selected)));
}

// -- Zooming and moving -------------------------------------------------------------------------------------

function placeScene() {
  byId("scene").setAttribute("transform", `translate(${camera.x},${camera.y}) scale(${camera.scale})`);
}

// All of the graph; a readable part of it, around what is selected or else the root, where letters were too small.
function fitGraph(readable = false) {
  const {width, height} = byId("canvas").getBoundingClientRect();
  if (!width || !current) return;
  camera.scale = Math.min(1.2, Math.max(width / current.width, 0.02), Math.max(height / current.height, 0.02));
  if (readable && camera.scale < 0.7) {
    const ids = [view.selected, ...view.seeds, current.computation.root];
    const middle = ids.map((id) => current.nodes.find((node) => node.record.id === id)).find(Boolean) || current.nodes[0];
    camera.scale = 0.8;
    const within = (at, room, size) => (size < room ? (room - size) / 2 : Math.min(8, Math.max(room - size, room / 2 - at)));
    camera.x = within(middle.x * camera.scale, width, current.width * camera.scale);
    camera.y = within(middle.y * camera.scale, height, current.height * camera.scale);
    placeScene();
    return;
  }
  camera.x = (width - current.width * camera.scale) / 2;
  camera.y = Math.max(8, (height - current.height * camera.scale) / 2);
  placeScene();
}

function listenToPointer() {
  const canvas = byId("canvas");
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect(), factor = Math.exp(-event.deltaY * 0.0015);
    const x = event.clientX - box.left, y = event.clientY - box.top;
    camera.x = x - (x - camera.x) * factor;
    camera.y = y - (y - camera.y) * factor;
    camera.scale *= factor;
    placeScene();
  }, {passive: false});
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = [event.clientX - camera.x, event.clientY - camera.y]; });
  addEventListener("pointerup", () => { held = null; });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    camera.x = event.clientX - held[0];
    camera.y = event.clientY - held[1];
    placeScene();
  });
}
