// Charts of rectangles over time: timelines, and memory.

// Round numbers within a range, at most so many, at least so far apart.
function ticks(from, to, most, least) {
  const wanted = Math.max(least, (to - from) / Math.max(1, most)), power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= wanted * 0.999), found = [];
  for (let k = Math.ceil(from / step); k * step <= to; k++) found.push(k * step);
  return found;
}

// `blocks` are {x0, x1, y0, y1, colour, label, note, click, lit}. `lanes` are names, of which each is 1 high; without
// them y is bytes. `unit` turns x into text, `least` is the least distance of its ticks. The wheel zooms into x,
// double click shows all again.
function chart(blocks, {lanes = null, line = [], height = 260, unit = String, least = 0, end = null}) {
  const names = (lanes || []).map((name) => cut(name, 30));
  const left = lanes ? 20 + LETTER * Math.max(...names.map((name) => name.length)) : 70, bottom = 18;
  const range = {from: 0, to: end ?? Math.max(1e-9, ...blocks.map((block) => block.x1))};
  const whole = {...range};
  const top = lanes ? lanes.length : Math.max(1, ...blocks.map((block) => block.y1), ...line);
  const made = svg("svg", {class: "chart", height});

  function draw() {
    const width = Math.max(200, made.getBoundingClientRect().width || 900), right = width - 10;
    const x = (value) => left + ((value - range.from) / (range.to - range.from)) * (right - left);
    const y = (value) => lanes ? 4 + (value / top) * (height - bottom - 4) : (height - bottom) - (value / top) * (height - bottom - 8);
    made.replaceChildren();
    for (const value of ticks(range.from, range.to, (right - left) / 90, least)) {
      made.append(svg("line", {class: "grid", x1: x(value), x2: x(value), y1: 0, y2: height - bottom}));
      made.append(svg("text", {class: "axis", x: x(value), y: height - 5, "text-anchor": x(value) > right - 20 ? "end" : "middle"}, unit(value)));
    }
    names.forEach((name, k) => made.append(svg("text", {class: "axis", x: 4, y: y(k + 0.5) + 4}, name)));
    if (!lanes) for (const value of ticks(0, top, height / 50, 1)) made.append(svg("text", {class: "axis", x: left - 4, y: y(value) + 4, "text-anchor": "end"}, quantity(value, "B")));
    const last = [];  // of each lane: the pixel up to which it is drawn
    for (const block of blocks) {
      if (block.x1 < range.from || block.x0 > range.to) continue;
      const from = Math.max(left, x(block.x0)), to = Math.min(right, x(block.x1));
      if (lanes && to - from < 0.3 && to - (last[block.y0] ?? -1) < 0.5) continue;  // thousands on one pixel
      last[block.y0] = to;
      const high = Math.abs(y(block.y1) - y(block.y0)), edge = Math.min(y(block.y0), y(block.y1));
      made.append(svg("rect", {
        x: from, y: edge, width: Math.max(0.7, to - from - (to - from > 4 ? 0.5 : 0)), height: Math.max(1, high - 1),
        fill: block.colour, class: block.lit ? "lit" : null, "data-label": block.label, click: block.click, ...tip(block.note),
      }));
      const room = Math.floor((to - from - 6) / LETTER);
      if (room > 3 && high > 11) made.append(svg("text", {x: from + 3, y: edge + high / 2 + 4}, cut(block.label, room)));
    }
    if (line.length) {
      const points = line.flatMap((value, k) => [`${x(k)},${y(value)}`, `${x(k + 1)},${y(value)}`]);
      made.append(svg("polyline", {points: points.join(" "), fill: "none", stroke: "#c62828", "stroke-width": 1.5}));
    }
  }

  made.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = made.getBoundingClientRect(), share = Math.max(0, (event.clientX - box.left - left) / (box.width - left - 10));
    const at = range.from + share * (range.to - range.from), factor = Math.exp(event.deltaY * 0.0015);
    range.from = Math.max(whole.from, at - (at - range.from) * factor);
    range.to = Math.min(whole.to, at + (range.to - at) * factor);
    draw();
  }, {passive: false});
  made.addEventListener("dblclick", () => { Object.assign(range, whole); draw(); });
  requestAnimationFrame(draw);
  return made;
}
