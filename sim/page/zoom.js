"use strict";
// The zoom into the timeline. The page says all it has to say without it.
(function () {
  const data = JSON.parse(document.getElementById("runs").textContent);
  const box = document.getElementById("zoom");
  const canvas = box.querySelector("canvas"), said = box.querySelector("output");
  const order = ["work", "other", "held", "wait"];
  const total = data.cycles, step = data.step;
  for (const lane of data.lanes) {
    const count = lane.runs.length / 2;
    lane.first = new Float64Array(count + 1);
    lane.state = new Uint16Array(count);
    for (let i = 0, at = 0; i < count; i++) {
      lane.first[i] = at;
      lane.state[i] = lane.runs[2 * i + 1];
      at += lane.runs[2 * i] * step;
      lane.first[i + 1] = Math.min(at, total);
    }
  }
  // The run that holds a cycle.
  function run(lane, cycle) {
    let low = 0, high = lane.state.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (lane.first[middle] <= cycle) low = middle; else high = middle - 1;
    }
    return low;
  }
  let from = 0, to = total, marked = -1;
  // Names of operations that find no room in their band stand upright above it, at a line to it.
  const row = 38, line = 13, leader = 12;
  const shortened = (name) => name.replace("layer.", "");
  const longest = Math.max(...data.operations.map(([name]) => shortened(name).length));
  const band = Math.round(6.4 * longest) + leader, top = band + 34;
  // Of six layers or more a band is a layer, not an operation.
  function bands() {
    const inside = data.operations.filter(([, first, last]) => last + 1 > from && first < to);
    const layer = ([name]) => (name.match(/^layer\.\d+/) || [name])[0];
    const named = new Map();
    for (const one of inside) {
      const name = layer(one), was = named.get(name) || [name, one[1], one[2]];
      named.set(name, [name, was[1], Math.max(was[2], one[2])]);
    }
    const layers = [...named.keys()].filter((name) => name.startsWith("layer."));
    return layers.length < 6 ? inside : [...named.values()];
  }
  function apart(centres, gap, low, high) {
    const places = [];
    for (const centre of centres) places.push(Math.max(centre, places.length ? places[places.length - 1] + gap : low));
    for (let i = places.length - 1, limit = high; i >= 0; limit = places[i] - gap, i--) places[i] = Math.min(places[i], limit);
    return places;
  }
  function clamp(a, b) {
    const width = Math.max(Math.min(b - a, total), Math.min(16, total));
    from = Math.max(0, Math.min(a, total - width));
    to = from + width;
    draw();
  }
  const cycleAt = (x) => from + (x / canvas.clientWidth) * (to - from);
  function draw() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth;
    const height = top + row * data.lanes.length + 6;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const g = canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.font = "12px system-ui, sans-serif";
    const x = (cycle) => ((cycle - from) / (to - from)) * width;
    let upright = [];
    bands().forEach(([name, first, last], i) => {
      const a = Math.max(0, x(first)), b = Math.min(width, x(last + 1));
      g.fillStyle = colour(i % 2 ? "code" : "paper");
      g.fillRect(a, band + 2, Math.max(b - a, 0.5), 18);
      g.fillStyle = colour("ink");
      const short = shortened(name);
      const fits = [name, short, short.split(".").slice(1).join(".")].find(
        (one) => one && g.measureText(one).width + 8 < b - a);
      if (fits) g.fillText(fits, (a + b - g.measureText(fits).width) / 2, band + 15);
      else upright.push({ short, centre: (a + b) / 2, wide: b - a });
    });
    upright = upright.sort((a, b) => b.wide - a.wide).slice(0, Math.floor(width / line));
    upright.sort((a, b) => a.centre - b.centre);
    const places = apart(upright.map((one) => one.centre), line, 6, width - 6);
    g.strokeStyle = colour("soft");
    upright.forEach(({ short, centre }, i) => {
      g.beginPath();
      g.moveTo(places[i], band - leader + 2);
      g.lineTo(centre, band);
      g.stroke();
      g.save();
      g.translate(places[i] + 4, band - leader);
      g.rotate(-Math.PI / 2);
      g.fillText(short, 0, 0);
      g.restore();
    });
    data.lanes.forEach((lane, place) => {
      const y = top + row * place, high = 18;
      g.fillStyle = colour("ink");
      g.fillText(lane.name, 0, y + 10);
      g.fillStyle = colour("grid");
      g.fillRect(0, y + 14 + high, width, 1);
      const columns = Math.ceil(width);
      for (let i = run(lane, from), column = 0; column < columns; column++) {
        const a = cycleAt(column), b = Math.min(cycleAt(column + 1), to);
        const share = [0, 0, 0, 0];
        while (i > 0 && lane.first[i] > a) i--;
        for (; i < lane.state.length && lane.first[i] < b; i++) {
          const kind = order.indexOf(lane.states[lane.state[i]][0]);
          const part = Math.min(b, lane.first[i + 1]) - Math.max(a, lane.first[i]);
          if (kind >= 0) share[kind] += part / (b - a);
        }
        if (i > 0) i--;
        let base = y + 14 + high;
        order.forEach((name, kind) => {
          if (share[kind] > 0) {
            g.fillStyle = colours[name];
            const up = share[kind] * high * (kind < 2 ? 1 : 0.34);
            g.fillRect(column, base - up, 1.02, up);
            base -= up;
          }
        });
      }
    });
    if (marked >= from && marked < to) {
      g.fillStyle = colour("ink");
      g.fillRect(x(marked), band + 22, Math.max(1, x(marked + 1) - x(marked)) > 3 ? 2 : 1, height - band - 24);
    }
    const shown = `cycles ${Math.floor(from).toLocaleString("en")} to ${Math.ceil(to - 1).toLocaleString("en")}`;
    box.querySelector(".window").textContent = shown;
    canvas.setAttribute("aria-label", `Timeline, ${shown}`);
  }
  let colours = {};
  function paint() {
    const style = getComputedStyle(document.documentElement);
    for (const name of order) colours[name] = style.getPropertyValue("--" + name).trim();
    draw();
  }
  function tell(cycle) {
    marked = Math.max(0, Math.min(total - 1, Math.floor(cycle)));
    const texts = data.lanes.map((lane) => {
      const i = run(lane, marked), length = lane.first[i + 1] - lane.first[i];
      return `${lane.name}: ${lane.states[lane.state[i]][1]} (${length.toLocaleString("en")} cycles from ${lane.first[i].toLocaleString("en")})`;
    });
    said.replaceChildren();
    const head = document.createElement("b");
    head.textContent = `Cycle ${marked.toLocaleString("en")}` + (step > 1 ? ` (in steps of ${step})` : "");
    said.append(head);
    for (const text of texts) {
      const line = document.createElement("div");
      line.textContent = text;
      said.append(line);
    }
    draw();
  }
  function zoom(factor, middle) {
    const around = middle === undefined ? (from + to) / 2 : middle;
    clamp(around - (around - from) * factor, around + (to - around) * factor);
  }
  const move = (share) => clamp(from + share * (to - from), to + share * (to - from));
  const acts = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.4), right: () => move(0.4),
    all: () => clamp(0, total),
  };
  for (const button of box.querySelectorAll("button[data-act]"))
    button.addEventListener("click", acts[button.dataset.act]);
  box.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const cycle = Number(box.querySelector("input").value);
    if (!Number.isFinite(cycle)) return;
    const width = Math.min(to - from, 400);
    clamp(cycle - width / 2, cycle + width / 2);
    tell(cycle);
  });
  canvas.tabIndex = 0;
  canvas.addEventListener("keydown", (event) => {
    const act = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", Home: "all" }[event.key];
    if (act) { event.preventDefault(); acts[act](); }
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, cycleAt(event.offsetX));
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.offsetX, from, to, moved: false }; });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const shift = ((drag.x - event.offsetX) / canvas.clientWidth) * (drag.to - drag.from);
    if (Math.abs(event.offsetX - drag.x) > 3) drag.moved = true;
    if (drag.moved) clamp(drag.from + shift, drag.to + shift);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) tell(cycleAt(event.offsetX));
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { drag = null; });
  canvas.addEventListener("dblclick", (event) => zoom(0.25, cycleAt(event.offsetX)));
  for (const cell of document.querySelectorAll("td[data-first]")) {
    const button = document.createElement("button");
    button.className = "show";
    button.textContent = cell.textContent;
    button.title = "show these cycles in the timeline";
    button.addEventListener("click", () => {
      const first = Number(cell.dataset.first), length = Number(cell.dataset.cycles);
      const around = Math.max(length * 2, 160);
      clamp(first - around / 2, first + length + around / 2);
      tell(first);
      box.scrollIntoView({ block: "start" });
    });
    cell.replaceChildren(button);
  }
  box.hidden = false;
  document.getElementById("still").hidden = true;
  paint();
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
})();
