"use strict";
(() => {
  const { axes, charts: data } = JSON.parse(document.getElementById("data").textContent);
  data.forEach((chart) => chart.curves.forEach((curve) => { curve.x = axes[curve.x]; }));
  const W = 640, H = 260, L = 54, R = 12, T = 12, B = 40, NS = "http://www.w3.org/2000/svg";
  const all = (what, from = document) => Array.from(from.querySelectorAll(what));
  const state = { axis: "round", off: new Set(), zoom: new Map() };
  document.documentElement.classList.add("js");

  // axes, as the still pictures have them
  const axis = (values, begin, end, share, whole) => {
    let low = Math.min(...values), high = Math.max(...values), log = false;
    if (!values.length) [low, high] = [0, 1];
    if (low === high) [low, high] = share ? [Math.max(low - 0.05, 0), Math.min(high + 0.05, 1)] : [low - 0.5, high + 0.5];
    if (!whole && !share && low > 0 && high > 100 * low) [low, high, log] = [low / 1.2, high * 1.2, true];
    else if (!whole) {
      const room = 0.04 * (high - low);
      [low, high] = share ? [Math.max(low - room, 0), Math.min(high + room, 1)] : [low - room, high + room];
    }
    const f = log ? Math.log10 : (v) => v;
    const at = (v) => begin + (f(log ? Math.max(v, low) : v) - f(low)) / (f(high) - f(low)) * (end - begin);
    const back = (p) => f(low) + (p - begin) / (end - begin) * (f(high) - f(low));
    return { low, high, log, at, back };
  };
  const ticks = (a) => {
    const found = [];
    if (a.log) {
      const first = Math.ceil(Math.log10(a.low) - 1e-9), last = Math.floor(Math.log10(a.high) + 1e-9);
      for (let p = first, step = Math.max(Math.ceil((last - first) / 5), 1); p <= last; p += step) found.push(10 ** p);
      return found;
    }
    const rough = (a.high - a.low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((t) => unit * t).find((s) => s >= rough * (1 - 1e-9));
    for (let k = Math.ceil(a.low / step - 1e-9); k <= Math.floor(a.high / step + 1e-9); k++) found.push(+(step * k).toPrecision(12));
    return found;
  };
  const short = (v) => {
    for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]])
      if (Math.abs(v) >= size && Math.abs(v) < 1e14) return `${+(v / (letter === "k" ? 1e3 : size)).toPrecision(6)}${letter}`;
    return `${Math.abs(v) < 1e-4 && v ? v.toExponential(0) : +v.toPrecision(6)}`;
  };
  const tenth = (v) => `${+v.toFixed(1) || 0}`;
  const path = (points, x, y) => points.length ? "M" + points.map(([a, b]) => `${tenth(x.at(a))} ${tenth(y.at(b))}`).join("L") : "";
  const element = (name, attributes, text) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const scales = new Map();
  const draw = (figure) => {
    const id = +figure.dataset.chart, { curves, share, target } = data[id];
    const shown = curves.filter((c) => !state.off.has(c.name));
    const span = state.zoom.get(id), within = (v) => !span || (v >= span[0] && v <= span[1]);
    const x = axis(span ? span : shown.flatMap((c) => c.x[state.axis]), L, W - R, false, true);
    const kept = shown.flatMap((c) => c.x[state.axis].flatMap((v, i) => within(v) ? [(c.low || c.mean)[i], (c.high || c.mean)[i]] : []));
    const y = axis(kept, H - B, T, share, false);
    scales.set(id, { x, y });
    const svg = figure.querySelector("svg"), grid = svg.querySelector(".axes"), plot = svg.querySelector(".plot");
    grid.replaceChildren();
    for (const t of ticks(y)) {
      const tick = element("g", { class: "tick" }), at = y.at(t).toFixed(1);
      tick.append(element("line", { x1: L, x2: W - R, y1: at, y2: at }), element("text", { x: L - 6, y: (y.at(t) + 4).toFixed(1), "text-anchor": "end" }, short(t)));
      grid.append(tick);
    }
    for (const t of ticks(x)) grid.append(element("text", { x: x.at(t).toFixed(1), y: H - B + 16, "text-anchor": "middle" }, short(t)));
    const line = plot.querySelector(".target");
    if (line) { line.setAttribute("y1", y.at(target)); line.setAttribute("y2", y.at(target)); line.toggleAttribute("hidden", target < y.low || target > y.high); }
    all(".series", plot).forEach((group) => {
      const c = curves.find((one) => one.name === group.dataset.name);
      group.classList.toggle("off", state.off.has(c.name));
      const places = c.x[state.axis].map((v, i) => i).filter((i) => within(c.x[state.axis][i]));
      const points = (values) => places.map((i) => [c.x[state.axis][i], values[i]]);
      group.querySelector(".line").setAttribute("d", path(points(c.mean), x, y));
      const band = group.querySelector(".band");
      if (band) band.setAttribute("d", path([...points(c.high), ...points(c.low).reverse()], x, y) + "Z");
    });
    svg.querySelector(".name").textContent = document.querySelector(`[data-axis="${state.axis}"]`).textContent;
    svg.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent} by ${state.axis}`);
  };
  const figures = all(".chart"), redraw = () => figures.forEach(draw);

  // where the pointer is, in the picture's units
  const place = (event, svg) => {
    const box = svg.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width * W, L), W - R);
  };
  figures.forEach((figure) => {
    const svg = figure.querySelector("svg"), hint = figure.querySelector(".hint"), id = +figure.dataset.chart;
    const cursor = element("line", { class: "cursor", y1: T, y2: H - B, visibility: "hidden" });
    const chosen = element("rect", { class: "chosen", y: T, height: H - T - B, visibility: "hidden" });
    svg.append(chosen, cursor);
    let from = null;
    const hide = () => { hint.hidden = true; cursor.setAttribute("visibility", "hidden"); };
    svg.addEventListener("pointermove", (event) => {
      if (!scales.has(id)) draw(figure);
      const at = place(event, svg), { x } = scales.get(id), want = x.back(at);
      cursor.setAttribute("x1", at); cursor.setAttribute("x2", at); cursor.setAttribute("visibility", "visible");
      if (from !== null) {
        chosen.setAttribute("x", Math.min(from, at)); chosen.setAttribute("width", Math.abs(at - from)); chosen.setAttribute("visibility", "visible");
      }
      const rows = data[id].curves.filter((c) => !state.off.has(c.name)).map((c) => {
        const xs = c.x[state.axis];
        let i = 0;
        xs.forEach((v, k) => { if (Math.abs(v - want) < Math.abs(xs[i] - want)) i = k; });
        return [c.mean[i], `${c.name}: ${c.mean[i]}${c.low ? ` (${c.low[i]} to ${c.high[i]})` : ""} at ${short(xs[i])}`];
      });
      hint.textContent = rows.sort((a, b) => b[0] - a[0]).map((row) => row[1]).join("\n");
      hint.hidden = false;
      const box = figure.getBoundingClientRect(), left = event.clientX - box.left;
      hint.style.left = `${left > box.width / 2 ? Math.max(left - hint.offsetWidth - 12, 0) : left + 12}px`;
    });
    svg.addEventListener("pointerdown", (event) => { from = place(event, svg); });
    svg.addEventListener("pointerup", (event) => {
      const to = place(event, svg), { x } = scales.get(id) || { x: null };
      if (x && from !== null && Math.abs(to - from) > 8) { state.zoom.set(id, [from, to].map(x.back).sort((a, b) => a - b)); draw(figure); }
      from = null; chosen.setAttribute("visibility", "hidden");
    });
    svg.addEventListener("pointerleave", () => { from = null; chosen.setAttribute("visibility", "hidden"); hide(); });
    svg.addEventListener("dblclick", () => { state.zoom.delete(id); draw(figure); });
  });

  all(".key").forEach((key) => key.addEventListener("click", () => {
    const name = key.dataset.name;
    state.off.has(name) ? state.off.delete(name) : state.off.add(name);
    key.setAttribute("aria-pressed", !state.off.has(name));
    redraw();
  }));
  all("[data-axis]").forEach((button) => button.addEventListener("click", () => {
    state.axis = button.dataset.axis; state.zoom.clear();
    all("[data-axis]").forEach((other) => other.setAttribute("aria-pressed", other === button));
    redraw();
  }));
  all("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    figures.forEach((figure) => {
      const id = +figure.dataset.chart;
      if (button.dataset.zoom === "out") state.zoom.delete(id);
      else {
        if (!scales.has(id)) draw(figure);
        const { x } = scales.get(id);
        state.zoom.set(id, [x.low + (x.high - x.low) / 2, x.high]);  // the later half: where methods part
      }
    });
    redraw();
  }));
  all("table.sortable").forEach((table) => all("th", table).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button"; button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const compare = (a, b) => {
        const [m, n] = [value(a), value(b)], [p, q] = [parseFloat(m.replaceAll(",", "")), parseFloat(n.replaceAll(",", ""))];
        return Number.isNaN(p) || Number.isNaN(q) ? m.localeCompare(n, "en") : p - q;
      };
      const body = table.tBodies[0];
      body.append(...all("tr", body).sort((a, b) => up ? compare(a, b) : compare(b, a)));
    });
  }));
})();
