// The data of the page, and what follows from it: the states of the module, and what changed between them.
// Texts are those of a program that nobody vouches for: they become text nodes, never markup.

const FIELDS = ["id", "name", "opcode", "shape", "operands", "text", "calls", "control", "place", "opName", "operations", "bytes"];

let data = null;      // what Python wrote, see docs/design/0015-looking-inside.md
let records = [];     // its records, as objects
const kernelOf = new Map();  // id and name of an instruction -> name of the kernel that computes it
const stepOf = new Map();    // id of an instruction of the last state -> name of its step
const timeOf = new Map();    // name of a step -> nanoseconds of all its calls together

async function unpack(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function load() {
  data = await unpack("data");
  records = data.records.map((values) => Object.fromEntries(FIELDS.map((name, k) => [name, values[k]])));
  for (const run of data.profile ? data.profile.runs : [])
    for (const [name, , , , , , ns] of run.rows) timeOf.set(name, (timeOf.get(name) || 0) + ns);
}

// Which kernel computes what: steps have the names of instructions of the last state, and a kernel computes what
// is in the computations of its instruction. Earlier states know the instructions that are still there then.
function findKernels() {
  if (!data.steps || !data.stages.length) return;
  const state = stateAt(data.stages.length - 1), names = new Map();
  // A reducer may have the names of the entry, which comes first.
  for (const {record} of state.instructions.values()) if (!names.has(record.name)) names.set(record.name, record);
  for (const [name, , kernel] of data.steps) {
    if (names.has(name)) stepOf.set(names.get(name).id, name);
    if (!kernel) continue;
    kernelOf.set(name, kernel);
    const stack = names.has(name) ? [names.get(name)] : [];
    while (stack.length) {
      const record = stack.pop();
      kernelOf.set(record.id, kernel);
      if (record.opcode !== "parameter") kernelOf.set(record.name, kernel);
      for (const id of record.calls) stack.push(...state.computations.get(id).list);
    }
  }
}

// Nanoseconds of all calls of the step that an instruction is.
function nsOf(record) {
  return timeOf.get(stepOf.get(record.id)) || 0;
}

function kernelNameOf(record) {
  return kernelOf.get(record.id) ?? kernelOf.get(record.name);
}

// The texts of a kernel (or "entry"): program, LLVM, assembly.
const codes = new Map();
async function codeOf(name) {
  const number = data.codes.indexOf(name);
  if (number < 0) return [];
  if (!codes.has(name)) codes.set(name, await unpack(`code-${number}`));
  return codes.get(name);
}

// A state: its computations, and where each instruction is. Two are kept, as the slider shows two.
const states = new Map();
function stateAt(number) {
  if (states.has(number)) return states.get(number);
  const latest = new Map();
  for (const stage of data.stages.slice(0, number + 1))
    for (const [id, made] of Object.entries(stage.computations)) latest.set(Number(id), made);
  const stage = data.stages[number];
  const state = {number, entry: stage.entry, computations: new Map(), instructions: new Map(), users: new Map(), callers: new Map()};
  for (const id of stage.order) {
    const [name, root, list] = latest.get(id);
    const computation = {id, name, root, list: list.map((n) => records[n])};
    state.computations.set(id, computation);
    for (const record of computation.list) {
      state.instructions.set(record.id, {record, computation});
      for (const operand of new Set(record.operands)) push(state.users, operand, record.id);
      for (const called of record.calls) push(state.callers, called, record.id);
    }
  }
  if (states.size > 3) states.delete(states.keys().next().value);
  states.set(number, state);
  return state;
}

function push(map, key, value) {
  const found = map.get(key);
  if (found) found.push(value);
  else map.set(key, [value]);
}

// What stage `number` did to the one before: ids that were added, removed, changed.
const differences = new Map();
function difference(number) {
  if (differences.has(number)) return differences.get(number);
  const found = {added: new Set(), removed: new Set(), changed: new Set()};
  if (number > 0) {
    const before = stateAt(number - 1).instructions, after = stateAt(number).instructions;
    for (const [id, {record}] of after) {
      if (!before.has(id)) found.added.add(id);
      else if (before.get(id).record !== record) found.changed.add(id);
    }
    for (const id of before.keys()) if (!after.has(id)) found.removed.add(id);
  }
  differences.set(number, found);
  return found;
}

// The stages that added, changed and removed an instruction.
function historyOf(id) {
  const found = [];
  let last;
  const latest = new Map();
  data.stages.forEach((stage, number) => {
    for (const [computation, made] of Object.entries(stage.computations)) latest.set(computation, made[2]);
    let now;
    const order = new Set(stage.order.map(String));
    for (const [computation, list] of latest)
      if (order.has(computation)) for (const n of list) if (data.records[n][0] === id) now = n;
    if (now !== last) found.push([number, last === undefined ? "added" : now === undefined ? "removed" : "changed"]);
    last = now;
  });
  return found;
}

function matches(record, words) {
  const text = `${record.text} ${record.place} ${record.opName}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

// Numbers as people read them.
function quantity(number, unit = "") {
  for (const [factor, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(number) >= factor) return `${(number / factor).toPrecision(3)} ${prefix}${unit}`;
  return `${Number.isInteger(number) ? number : number.toPrecision(3)}${unit ? ` ${unit}` : ""}`;
}

function duration(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toPrecision(3)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toPrecision(3)} ms`;
  return ns >= 1e3 ? `${(ns / 1e3).toPrecision(3)} us` : `${Math.round(ns)} ns`;
}

function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}\u2026`;
}

// Elements. Children are elements or strings, which become text.
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

// A note beside the pointer.
function tip(text) {
  return {
    pointermove: (event) => {
      const note = byId("tip");
      note.textContent = typeof text === "function" ? text() : text;
      note.hidden = false;
      note.style.left = `${Math.min(event.clientX + 14, innerWidth - note.offsetWidth - 4)}px`;
      note.style.top = `${Math.min(event.clientY + 14, innerHeight - note.offsetHeight - 4)}px`;
    },
    pointerleave: () => { byId("tip").hidden = true; },
  };
}
