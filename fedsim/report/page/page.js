"use strict";
(() => {
  const { axes, charts: data } = JSON.parse(document.getElementById("data").textContent);
  data.forEach((chart) => chart.curves.forEach((curve) => { curve.x = axes[curve.x]; }));
  const L = 54, R = 14, T = 14, B = 42, NEAR = 8, NS = "http://www.w3.org/2000/svg";
  const all = (what, from = document) => Array.from(from.querySelectorAll(what));
  const state = { axis: "round", off: new Set(), zoom: new Map(), paper: false };
  document.documentElement.classList.add("js");

  // axes, as the still pictures have them; one that is logarithmic stays so, its title says it
  const axis = (values, begin, end, share, whole, log = false) => {
    let low = Math.min(...values), high = Math.max(...values);
    if (!values.length) [low, high] = [0, 1];
    const room = Math.max(0.5, Math.abs(low) / 20);
    if (low === high) [low, high] = share ? [Math.max(low - 0.05, 0), Math.min(high + 0.05, 1)] : [low - room, high + room];
    log = log && low > 0;
    if (log) [low, high] = [low / 1.2, high * 1.2];
    else if (!whole) {
      const room = 0.04 * (high - low);
      [low, high] = share ? [Math.max(low - room, 0), Math.min(high + room, 1)] : [low - room, high + room];
    }
    const f = log ? Math.log10 : (v) => v;
    const at = (v) => begin + (f(log ? Math.max(v, low) : v) - f(low)) / (f(high) - f(low)) * (end - begin);
    const back = (p) => {
      const value = f(low) + (p - begin) / (end - begin) * (f(high) - f(low));
      return log ? 10 ** value : value;
    };
    return { low, high, log, at, back };
  };
  const ticks = (a) => {
    const found = [];
    if (a.log) {
      const first = Math.ceil(Math.log10(a.low) - 1e-9), last = Math.floor(Math.log10(a.high) + 1e-9);
      if (last - first < 2) return [...Array(last - first + 2).keys()].flatMap((k) => [1, 2, 5].map((t) => +(t * 10 ** (first - 1 + k)).toPrecision(12))).filter((t) => t >= a.low && t <= a.high);
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

  // a metric's charts share their height axis and what part of the rounds they show
  const charts = all(".chart").map((figure) => ({ figure, svg: figure.querySelector("svg"), ...data[+figure.dataset.chart] }));
  const shown = (chart) => chart.curves.filter((c) => !state.off.has(c.name));
  const within = (chart) => {
    const span = state.zoom.get(chart.group);
    return (v) => !span || (v >= span[0] && v <= span[1]);
  };
  const heights = (group) => charts.filter((c) => c.group === group).flatMap((chart) => {
    const inside = within(chart);
    return shown(chart).flatMap((c) => c.x[state.axis].flatMap((v, i) => inside(v) ? [(c.low || c.mean)[i], (c.high || c.mean)[i]] : []));
  });
  const factors = (group) => {  // whether some curves of a metric send many times the bytes of others
    const ends = charts.filter((c) => c.group === group).flatMap((chart) => chart.curves.map((c) => c.x[state.axis].at(-1))).filter((v) => v > 0);
    return ["bytes", "up", "down"].includes(state.axis) && Math.max(...ends) > 10 * Math.min(...ends);
  };
  const lengths = (chart) => {
    const log = factors(chart.group);
    return shown(chart).flatMap((c) => c.x[state.axis]).filter((v) => v > 0 || !log);
  };
  const paper = (figure) => {  // a picture's size in print, by how many stand in a row
    const panels = figure.closest(".panels").classList;
    return panels.contains("c1") ? [680, 300] : panels.contains("c2") ? [330, 220] : [225, 180];
  };
  const draw = (chart) => {
    const { figure, svg, curves, share, log, target, group } = chart;
    const [W, H] = state.paper ? paper(figure) : [svg.clientWidth, svg.clientHeight];
    if (!W) return;  // in a closed fold
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const span = state.zoom.get(group);
    const many = factors(group), x = axis(span || lengths(chart), L, W - R, false, true, many), y = axis(heights(group), H - B, T, share, false, log);
    Object.assign(chart, { x, y, W, H });
    const frame = svg.querySelector("clipPath rect");
    frame.setAttribute("width", W - L - R); frame.setAttribute("height", H - T - B);
    const grid = svg.querySelector(".axes"), plot = svg.querySelector(".plot");
    grid.replaceChildren();
    for (const t of ticks(y)) {
      const tick = element("g", { class: "tick" }), at = y.at(t).toFixed(1);
      tick.append(element("line", { x1: L, x2: W - R, y1: at, y2: at }), element("text", { x: L - 6, y: (y.at(t) + 4).toFixed(1), "text-anchor": "end" }, short(t)));
      grid.append(tick);
    }
    for (const t of ticks(x)) grid.append(element("text", { x: x.at(t).toFixed(1), y: H - B + 16, "text-anchor": "middle" }, short(t)));
    if (span) {  // the part that is shown, of the whole
      const whole = axis(lengths(chart), L, W - R, false, true, many), clip = (v) => Math.min(Math.max(whole.at(v), L), W - R);
      grid.append(element("line", { class: "part", x1: L, x2: W - R, y1: 4, y2: 4 }), element("line", { class: "part now", x1: clip(span[0]), x2: clip(span[1]), y1: 4, y2: 4 }));
    }
    const line = plot.querySelector("line.target");
    if (line) {
      line.setAttribute("x2", W - R); line.setAttribute("y1", y.at(target)); line.setAttribute("y2", y.at(target));
      plot.querySelector("text.target").setAttribute("y", y.at(target) > T + 15 ? y.at(target) - 5 : y.at(target) + 14);
    }
    all(".series", plot).forEach((one) => {
      const c = curves.find((curve) => curve.name === one.dataset.name), xs = c.x[state.axis];
      one.classList.toggle("off", state.off.has(c.name));
      const points = (values) => xs.map((v, i) => [v, values[i]]).filter(([v]) => v > 0 || !x.log);
      one.querySelector(".line").setAttribute("d", path(points(c.mean), x, y));
      const band = one.querySelector(".band");
      if (band) band.setAttribute("d", path([...points(c.high), ...points(c.low).reverse()], x, y) + "Z");
    });
    const name = svg.querySelector(".name");
    name.textContent = document.querySelector(`[data-axis="${state.axis}"]`).textContent + (x.log ? ", logarithmic" : "");
    name.setAttribute("x", (L + W - R) / 2); name.setAttribute("y", H - 8);
    svg.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent} by ${state.axis}`);
    chart.cursor.setAttribute("y2", H - B); chart.chosen.setAttribute("height", H - T - B);
  };
  const trace = (group) => {
    const place = document.querySelector(`.trace[data-group="${group}"]`), span = state.zoom.get(group);
    if (!place) return;
    place.hidden = !span;
    if (!span) return;
    const some = charts.filter((c) => c.group === group), whole = some.flatMap(lengths);
    const gone = new Set(some.flatMap((chart) => shown(chart).filter((c) => !c.x[state.axis].some(within(chart))).map((c) => c.name)));
    const words = gone.size ? ` Not in sight: ${[...gone].join(", ")}.` : "";
    place.textContent = `${short(+span[0].toPrecision(3))} to ${short(+span[1].toPrecision(3))} of ${short(Math.min(...whole))} to ${short(Math.max(...whole))} shown.${words}`;
  };
  const redraw = () => { charts.forEach(draw); new Set(charts.map((c) => c.group)).forEach(trace); };
  const zoom = (group, span) => {
    if (span) state.zoom.set(group, span); else state.zoom.delete(group);
    charts.filter((c) => c.group === group).forEach(draw);
    trace(group);
  };

  charts.forEach((chart) => {
    const { figure, svg, group } = chart, hint = figure.querySelector(".hint");
    chart.cursor = element("line", { class: "cursor", y1: T, visibility: "hidden" });
    chart.chosen = element("rect", { class: "chosen", y: T, visibility: "hidden" });
    svg.append(chart.chosen, chart.cursor);
    let from = null;
    const place = (event) => {  // of the pointer, in the picture's units
      const box = svg.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - box.left) / box.width * chart.W, L), chart.W - R);
    };
    const rest = () => { from = null; chart.chosen.setAttribute("visibility", "hidden"); };
    svg.addEventListener("pointermove", (event) => {
      const at = place(event), want = chart.x.back(at);
      chart.cursor.setAttribute("x1", at); chart.cursor.setAttribute("x2", at); chart.cursor.setAttribute("visibility", "visible");
      if (from !== null) {
        chart.chosen.setAttribute("x", Math.min(from, at)); chart.chosen.setAttribute("width", Math.abs(at - from)); chart.chosen.setAttribute("visibility", "visible");
      }
      const box = svg.getBoundingClientRect(), high = (event.clientY - box.top) / box.height * chart.H;
      const rows = shown(chart).map((c) => {
        const xs = c.x[state.axis];
        let i = 0;
        xs.forEach((v, k) => { if (Math.abs(v - want) < Math.abs(xs[i] - want)) i = k; });
        return [c.mean[i], `${c.name}: ${c.mean[i]}${c.low ? ` (${c.low[i]} to ${c.high[i]})` : ""} at ${short(xs[i])}`];
      }).sort((a, b) => Math.abs(chart.y.at(a[0]) - high) - Math.abs(chart.y.at(b[0]) - high));
      const more = rows.length > NEAR ? [`and ${rows.length - NEAR} farther from the pointer`] : [];
      hint.textContent = [...rows.slice(0, NEAR).sort((a, b) => b[0] - a[0]).map((row) => row[1]), ...more].join("\n");
      hint.hidden = false;
      const left = event.clientX - box.left;
      hint.style.left = `${left > box.width / 2 ? Math.max(left - hint.offsetWidth - 12, 0) : left + 12}px`;
    });
    svg.addEventListener("pointerdown", (event) => { from = place(event); });
    svg.addEventListener("pointerup", (event) => {
      const to = place(event);
      if (from !== null && Math.abs(to - from) > 8) zoom(group, [from, to].map(chart.x.back).sort((a, b) => a - b));
      rest();
    });
    svg.addEventListener("pointerleave", () => { rest(); hint.hidden = true; chart.cursor.setAttribute("visibility", "hidden"); });
    svg.addEventListener("dblclick", () => zoom(group, null));
    new ResizeObserver(() => { if (!state.paper) draw(chart); }).observe(svg);
  });

  all(".key").forEach((key) => {
    const name = key.dataset.name;
    const focus = (on) => all(".series").filter((one) => one.dataset.name === name).forEach((one) => one.classList.toggle("focus", on));
    key.addEventListener("click", () => {
      state.off.has(name) ? state.off.delete(name) : state.off.add(name);
      key.setAttribute("aria-pressed", !state.off.has(name));
      redraw();
    });
    for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) key.addEventListener(event, () => focus(on));
  });
  all("[data-axis]").forEach((button) => button.addEventListener("click", () => {
    state.axis = button.dataset.axis; state.zoom.clear();
    all("[data-axis]").forEach((other) => other.setAttribute("aria-pressed", other === button));
    redraw();
  }));
  all("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    for (const group of new Set(charts.map((c) => c.group))) {
      const [low, high] = state.zoom.get(group) || (() => { const xs = charts.filter((c) => c.group === group).flatMap(lengths); return [Math.min(...xs), Math.max(...xs)]; })();
      zoom(group, button.dataset.zoom === "out" ? null : [factors(group) ? Math.sqrt(low * high) : low + (high - low) / 2, high]);  // the later half: where methods part
    }
  }));

  redraw();

  const links = all("nav a").map((link) => [link, document.getElementById(link.hash.slice(1))]);
  const follow = () => {
    const [now] = links.filter(([, place]) => place.getBoundingClientRect().top < innerHeight / 3).pop() || links[0];
    links.forEach(([link]) => link === now ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
  };
  addEventListener("scroll", () => requestAnimationFrame(follow), { passive: true });
  follow();

  const opened = [];
  addEventListener("beforeprint", () => {
    all("details:not([open])").forEach((fold) => { fold.open = true; opened.push(fold); });
    state.paper = true; redraw();
  });
  addEventListener("afterprint", () => {
    opened.splice(0).forEach((fold) => { fold.open = false; });
    state.paper = false; redraw();
  });

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
