"use strict";
(() => {
  // ---------------------------------------------------------------- data, and what is shown of them

  const { axes, charts: data } = JSON.parse(document.getElementById("data").textContent);
  for (const chart of data) {
    for (const curve of chart.curves) curve.x = axes[curve.x];
  }
  const LEFT = 54, RIGHT = 14, TOP = 14, BOTTOM = 42;  // margins, as the still pictures have them
  const SQUEEZED = 5, OTHERS = 3;  // where an axis is cut, as in pictures/cut.py
  const NEAR = 8;  // methods that the hint lists, at most
  const opening = document.querySelector('[data-axis][aria-pressed="true"]');
  const state = {
    axis: opening?.dataset.axis,  // of all charts
    off: new Set(),  // methods that are switched off
    zoom: new Map(),  // group of charts -> the part of the axis that it shows
    paper: false,  // whether the page is being printed
  };
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  document.documentElement.classList.add("js");

  // ---------------------------------------------------------------- axes, as in scales.py

  // The smallest and the largest value; a little around a single one.
  const range = (values, share) => {
    if (!values.length) return [0, 1];
    const low = Math.min(...values);
    const high = Math.max(...values);
    if (low < high) return [low, high];
    if (share) return [Math.max(low - 0.05, 0), Math.min(high + 0.05, 1)];
    const margin = Math.max(0.5, Math.abs(low) / 20);
    return [low - margin, high + margin];
  };

  // Whether an upright axis is logarithmic never changes: the title of its chart says so.
  const axis = (values, begin, end, { share = false, whole = false, log = false }) => {
    let [low, high] = range(values, share);
    log = log && low > 0;
    if (log) {
      low /= 1.2;
      high *= 1.2;
    } else if (!whole) {
      const margin = 0.04 * (high - low);
      low -= margin;
      high += margin;
      if (share) {
        low = Math.max(low, 0);
        high = Math.min(high, 1);
      }
    }

    const scaled = log ? Math.log10 : (value) => value;
    const span = scaled(high) - scaled(low);
    const at = (value) => {
      const number = log ? Math.max(value, low) : value;
      return begin + (scaled(number) - scaled(low)) / span * (end - begin);
    };
    const numberAt = (position) => {
      const number = scaled(low) + (position - begin) / (end - begin) * span;
      return log ? 10 ** number : number;
    };
    return { low, high, log, at, numberAt };
  };

  const exact = (number) => +number.toPrecision(12);

  const linearTicks = ({ low, high }) => {
    const smallest = (high - low) / 5;
    const unit = 10 ** Math.floor(Math.log10(smallest));
    const steps = [1, 2, 2.5, 5, 10].map((times) => unit * times);
    const step = steps.find((candidate) => candidate >= smallest * (1 - 1e-9));
    const found = [];
    const last = Math.floor(high / step + 1e-9);
    for (let k = Math.ceil(low / step - 1e-9); k <= last; k++) found.push(exact(step * k));
    return found;
  };

  const logarithmicTicks = ({ low, high }) => {
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    const found = [];
    if (last - first < 2) {
      for (let power = first - 1; power <= last; power++) {
        for (const times of [1, 2, 5]) found.push(exact(times * 10 ** power));
      }
      return found.filter((tick) => tick >= low && tick <= high);
    }
    const step = Math.max(Math.ceil((last - first) / 5), 1);
    for (let power = first; power <= last; power += step) found.push(10 ** power);
    return found;
  };

  const ticks = (along) => along.log ? logarithmicTicks(along) : linearTicks(along);

  const short = (value) => {
    const size = Math.abs(value);
    for (const [smallest, unit, letter] of [[1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]]) {
      if (size >= smallest && size < 1e14) return `${+(value / unit).toPrecision(6)}${letter}`;
    }
    if (value && size < 1e-4) return value.toExponential(0);
    return `${+value.toPrecision(6)}`;
  };

  // ---------------------------------------------------------------- SVG

  const set = (element, attributes) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  };

  const create = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    set(element, attributes);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const tenth = (value) => `${+value.toFixed(1) || 0}`;

  const path = (points, x, y) => {
    if (!points.length) return "";
    return "M" + points.map(([a, b]) => `${tenth(x.at(a))} ${tenth(y.at(b))}`).join("L");
  };

  // ---------------------------------------------------------------- what charts show

  // The charts of a group, one per variation, show the same metric on the same axes.
  const charts = all(".chart").map((figure) => {
    const svg = figure.querySelector("svg");
    return { figure, svg, ...data[+figure.dataset.chart] };
  });
  const groups = () => new Set(charts.map((chart) => chart.group));
  const chartsOf = (group) => charts.filter((chart) => chart.group === group);

  const shown = (chart) => chart.curves.filter((curve) => !state.off.has(curve.name));

  // Whether a group's part of the axis contains a value.
  const within = (group) => {
    const span = state.zoom.get(group);
    return (value) => !span || (value >= span[0] && value <= span[1]);
  };

  // The ends of all bands of a group, which its upright axis spans; without a method that would
  // squeeze all others.
  const heights = (group) => {
    const inside = within(group);
    const ends = new Map();  // by method
    for (const curve of chartsOf(group).flatMap(shown)) {
      if (!ends.has(curve.name)) ends.set(curve.name, []);
      curve.x[state.axis].forEach((value, index) => {
        if (!inside(value)) return;
        const { mean, low = mean, high = mean } = curve;
        ends.get(curve.name).push(low[index], high[index]);
      });
    }
    return withoutOutlier([...ends.values()]);
  };

  // As in pictures/cut.py: all numbers but those of the only row that squeezes all others.
  const withoutOutlier = (rows) => {
    const spanned = (left) => rows.filter((_, index) => index !== left).flat();
    const present = [...rows.keys()].filter((index) => rows[index].length);
    if (present.length <= OTHERS) return rows.flat();
    const lengthWithout = (left) => Math.max(...spanned(left)) - Math.min(...spanned(left));
    const lengths = new Map(present.map((index) => [index, lengthWithout(index)]));
    const farthest = present.reduce((a, b) => lengths.get(b) < lengths.get(a) ? b : a);
    const rest = lengths.get(farthest);
    const squeezes = rest > 0 && rest * SQUEEZED <= lengthWithout(null);
    return squeezes ? spanned(farthest) : rows.flat();
  };

  // Whether some curves of a group send many times the bytes of others: its lower axis is
  // logarithmic then.
  const bytesDiffer = (group) => {
    if (!["bytes", "up", "down"].includes(state.axis)) return false;
    const curves = chartsOf(group).flatMap((chart) => chart.curves);
    const sent = curves.map((curve) => curve.x[state.axis].at(-1)).filter((bytes) => bytes > 0);
    return Math.max(...sent) > 10 * Math.min(...sent);
  };

  // All positions along the lower axis of a chart.
  const lengths = (chart) => {
    const log = bytesDiffer(chart.group);
    const values = shown(chart).flatMap((curve) => curve.x[state.axis]);
    return values.filter((value) => value > 0 || !log);
  };

  // ---------------------------------------------------------------- drawing

  // The size of a picture in print, by how many are side by side.
  const paperSize = (figure) => {
    const panels = figure.closest(".panels").classList;
    if (panels.contains("c1")) return [680, 300];
    return panels.contains("c2") ? [330, 220] : [225, 180];
  };

  const draw = (chart) => {
    const { svg, group } = chart;
    const screen = [svg.clientWidth, svg.clientHeight];
    const [width, height] = state.paper ? paperSize(chart.figure) : screen;
    if (!width) return;  // in a closed fold
    const span = state.zoom.get(group);
    const across = { whole: true, log: bytesDiffer(group) };
    const x = axis(span || lengths(chart), LEFT, width - RIGHT, across);
    const upright = { share: chart.share, log: chart.log };
    const y = axis(heights(group), height - BOTTOM, TOP, upright);
    Object.assign(chart, { x, y, width, height });

    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const frame = svg.querySelector("clipPath rect");
    set(frame, { width: width - LEFT - RIGHT, height: height - TOP - BOTTOM });
    drawGrid(chart);
    if (span) drawSpan(chart, span, across);
    for (const series of all(".series", svg)) drawSeries(chart, series);
    drawTarget(chart);
    drawCut(chart);
    drawNames(chart);
    chart.cursor.setAttribute("y2", height - BOTTOM);
    chart.selection.setAttribute("height", height - TOP - BOTTOM);
  };

  const drawGrid = ({ svg, x, y, width, height }) => {
    const grid = svg.querySelector(".axes");
    grid.replaceChildren();
    for (const tick of ticks(y)) {
      const at = y.at(tick);
      const line = { x1: LEFT, x2: width - RIGHT, y1: at.toFixed(1), y2: at.toFixed(1) };
      const label = { x: LEFT - 6, y: (at + 4).toFixed(1), "text-anchor": "end" };
      const parts = create("g", { class: "tick" });
      parts.append(create("line", line), create("text", label, short(tick)));
      grid.append(parts);
    }
    for (const tick of ticks(x)) {
      const below = height - BOTTOM + 16;
      const label = { x: x.at(tick).toFixed(1), y: below, "text-anchor": "middle" };
      grid.append(create("text", label, short(tick)));
    }
  };

  // Above the curves, which part of the axis is shown.
  const drawSpan = (chart, span, across) => {
    const { svg, width } = chart;
    const right = width - RIGHT;
    const full = axis(lengths(chart), LEFT, right, across);
    const [begin, end] = span.map((value) => Math.min(Math.max(full.at(value), LEFT), right));
    svg.querySelector(".axes").append(
      create("line", { class: "part", x1: LEFT, x2: right, y1: 4, y2: 4 }),
      create("line", { class: "part now", x1: begin, x2: end, y1: 4, y2: 4 }),
    );
  };

  const drawSeries = ({ curves, x, y }, series) => {
    const curve = curves.find(({ name }) => name === series.dataset.name);
    const pointsOf = (values) => {
      const points = curve.x[state.axis].map((value, index) => [value, values[index]]);
      return points.filter(([value]) => value > 0 || !x.log);
    };
    series.classList.toggle("off", state.off.has(curve.name));
    series.querySelector(".line").setAttribute("d", path(pointsOf(curve.mean), x, y));
    const band = series.querySelector(".band");
    if (band) {
      const outline = [...pointsOf(curve.high), ...pointsOf(curve.low).reverse()];
      band.setAttribute("d", outline.length ? `${path(outline, x, y)}Z` : "");
    }
  };

  // The line of the target, and its name at the right end on the side with more space.
  const drawTarget = (chart) => {
    const { svg, y, target, width, height } = chart;
    const line = svg.querySelector("line.target");
    if (!line) return;
    const at = y.at(target);
    set(line, { x2: width - RIGHT, y1: at, y2: at });

    const ends = endHeights(chart);
    const spaceAbove = Math.min(at - TOP, ...ends.filter((end) => end <= at).map((end) => at - end));
    const spaceBelow = Math.min(
      height - BOTTOM - at, ...ends.filter((end) => end > at).map((end) => end - at),
    );
    const baseline = spaceAbove >= spaceBelow ? at - 5 : at + 14;
    set(svg.querySelector("text.target"), { x: width - RIGHT - 4, y: baseline });
  };

  // The names of methods whose curves leave an axis that is cut.
  const drawCut = (chart) => {
    const { svg, y, height } = chart;
    for (const old of all("text.beyond", svg)) old.remove();
    const inside = within(chart.group);
    for (const curve of shown(chart).filter((one) => one.x[state.axis].length)) {
      const shownOf = (values) => values.filter((_, index) => inside(curve.x[state.axis][index]));
      const highs = shownOf(curve.high || curve.mean);
      const lows = shownOf(curve.low || curve.mean);
      const add = (arrow, at) => {
        const text = `${arrow} ${curve.name} beyond, axis cut`;
        svg.append(create("text", { class: "beyond", x: LEFT + 6, y: at }, text));
      };
      if (Math.max(...highs) > y.high) add("\u25b2", TOP + 12);
      if (Math.min(...lows) < y.low) add("\u25bc", height - BOTTOM - 6);
    }
  };

  // The heights of the curves that reach the right end of a chart.
  const endHeights = ({ x, y, width, group, ...chart }) => {
    const right = LEFT + 0.8 * (width - LEFT - RIGHT);
    const ends = [];
    for (const curve of shown(chart)) {
      const positions = curve.x[state.axis];
      const index = positions.findLastIndex(within(group));
      if (index >= 0 && x.at(positions[index]) >= right) ends.push(y.at(curve.mean[index]));
    }
    return ends;
  };

  const axisTitle = () => document.querySelector(`[data-axis="${state.axis}"]`).textContent;

  const drawNames = ({ figure, svg, x, width, height }) => {
    const name = axisTitle();
    const label = svg.querySelector(".name");
    label.textContent = x.log ? `${name}, logarithmic` : name;
    set(label, { x: (LEFT + width - RIGHT) / 2, y: height - 8 });
    const caption = figure.querySelector("figcaption").textContent;
    svg.setAttribute("aria-label", `${caption} by ${name}`);
  };

  // Below a group, which part of the axis is shown, and which methods have no point in it.
  const describeZoom = (group) => {
    const line = document.querySelector(`.trace[data-group="${group}"]`);
    const span = state.zoom.get(group);
    if (!line) return;
    line.hidden = !span;
    if (!span) return;

    const full = chartsOf(group).flatMap(lengths);
    const outside = chartsOf(group).flatMap(shown)
      .filter((curve) => !curve.x[state.axis].some(within(group)))
      .map((curve) => curve.name);
    const rounded = span.map((value) => short(+value.toPrecision(3)));
    const ends = [Math.min(...full), Math.max(...full)].map(short);
    line.textContent = `${rounded.join(" to ")} of ${ends.join(" to ")} shown.`;
    if (outside.length) {
      line.textContent += ` Out of sight: ${[...new Set(outside)].join(", ")}.`;
    }
  };

  // Which axis is shown, and which methods have no points along it.
  const describeAxis = () => {
    const title = document.querySelector(".over");
    if (!title) return;
    title.textContent = axisTitle();
    const lacking = charts.flatMap(shown).filter((curve) => !curve.x[state.axis].length);
    const line = document.querySelector(".lacking");
    line.hidden = !lacking.length;
    const names = new Set(lacking.map((curve) => curve.name));
    line.textContent = lacking.length ? `Not on this axis: ${[...names].join(", ")}.` : "";
  };

  const redraw = () => {
    charts.forEach(draw);
    describeAxis();
    groups().forEach(describeZoom);
  };

  const zoom = (group, span) => {
    if (span) state.zoom.set(group, span);
    else state.zoom.delete(group);
    chartsOf(group).forEach(draw);
    describeZoom(group);
  };

  // ---------------------------------------------------------------- the pointer on a chart

  // The values of the methods nearest to the pointer, the largest first.
  const hintAt = (chart, x, y) => {
    const wanted = chart.x.numberAt(x);
    const counted = shown(chart).filter((curve) => curve.x[state.axis].length);
    const rows = counted.map((curve) => {
      const positions = curve.x[state.axis];
      const distances = positions.map((value) => Math.abs(value - wanted));
      const index = distances.indexOf(Math.min(...distances));
      const mean = curve.mean[index];
      const range = curve.low ? ` (${curve.low[index]} to ${curve.high[index]})` : "";
      const text = `${curve.name}: ${mean}${range} at ${short(positions[index])}`;
      return { mean, text, distance: Math.abs(chart.y.at(mean) - y) };
    });
    const nearest = rows.sort((a, b) => a.distance - b.distance).slice(0, NEAR);
    const lines = nearest.sort((a, b) => b.mean - a.mean).map((row) => row.text);
    if (rows.length > NEAR) lines.push(`and ${rows.length - NEAR} farther from the pointer`);
    return lines.join("\n");
  };

  for (const chart of charts) {
    const { figure, svg, group } = chart;
    const hint = figure.querySelector(".hint");
    chart.cursor = create("line", { class: "cursor", y1: TOP, visibility: "hidden" });
    chart.selection = create("rect", { class: "chosen", y: TOP, visibility: "hidden" });
    svg.append(chart.selection, chart.cursor);

    let begin = null;  // of the part that is being selected
    const stopSelecting = () => {
      begin = null;
      chart.selection.setAttribute("visibility", "hidden");
    };
    // The pointer in the picture's units, inside the axes.
    const position = (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * chart.width;
      return Math.min(Math.max(x, LEFT), chart.width - RIGHT);
    };

    svg.addEventListener("pointermove", (event) => {
      const x = position(event);
      set(chart.cursor, { x1: x, x2: x, visibility: "visible" });
      if (begin !== null) {
        const selected = { x: Math.min(begin, x), width: Math.abs(x - begin) };
        set(chart.selection, { ...selected, visibility: "visible" });
      }

      const box = svg.getBoundingClientRect();
      const y = (event.clientY - box.top) / box.height * chart.height;
      hint.textContent = hintAt(chart, x, y);
      hint.hidden = false;
      const left = event.clientX - box.left;
      const leftOfPointer = Math.max(left - hint.offsetWidth - 12, 0);
      hint.style.left = `${left > box.width / 2 ? leftOfPointer : left + 12}px`;
    });
    svg.addEventListener("pointerdown", (event) => { begin = position(event); });
    svg.addEventListener("pointerup", (event) => {
      const end = position(event);
      if (begin !== null && Math.abs(end - begin) > 8) {
        zoom(group, [begin, end].map(chart.x.numberAt).sort((a, b) => a - b));
      }
      stopSelecting();
    });
    svg.addEventListener("pointerleave", () => {
      stopSelecting();
      hint.hidden = true;
      chart.cursor.setAttribute("visibility", "hidden");
    });
    svg.addEventListener("dblclick", () => zoom(group, null));
    new ResizeObserver(() => { if (!state.paper) draw(chart); }).observe(svg);
  }

  // ---------------------------------------------------------------- buttons

  for (const key of all(".key")) {
    const name = key.dataset.name;
    const series = all(".series").filter((one) => one.dataset.name === name);
    const focus = (on) => series.forEach((one) => one.classList.toggle("focus", on));
    key.addEventListener("click", () => {
      if (!state.off.delete(name)) state.off.add(name);
      key.setAttribute("aria-pressed", !state.off.has(name));
      redraw();
    });
    for (const event of ["pointerenter", "focus"]) key.addEventListener(event, () => focus(true));
    for (const event of ["pointerleave", "blur"]) key.addEventListener(event, () => focus(false));
  }

  const axisButtons = all("[data-axis]");
  for (const button of axisButtons) {
    button.addEventListener("click", () => {
      state.axis = button.dataset.axis;
      state.zoom.clear();
      for (const other of axisButtons) other.setAttribute("aria-pressed", other === button);
      redraw();
    });
  }

  // The later half of what is shown: where methods part.
  const laterHalf = (group) => {
    const values = chartsOf(group).flatMap(lengths);
    const [low, high] = state.zoom.get(group) || [Math.min(...values), Math.max(...values)];
    const middle = bytesDiffer(group) ? Math.sqrt(low * high) : low + (high - low) / 2;
    return [middle, high];
  };

  for (const button of all("[data-zoom]")) {
    button.addEventListener("click", () => {
      for (const group of groups()) {
        zoom(group, button.dataset.zoom === "out" ? null : laterHalf(group));
      }
    });
  }

  redraw();

  // ---------------------------------------------------------------- navigation

  const links = all("nav a").map((link) => {
    return { link, section: document.getElementById(link.hash.slice(1)) };
  });
  const followScrolling = () => {
    const begun = links.filter(({ section }) => {
      return section.getBoundingClientRect().top < innerHeight / 3;
    });
    const current = begun.pop() || links[0];
    for (const { link } of links) {
      if (link === current.link) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const onScroll = () => requestAnimationFrame(followScrolling);
  addEventListener("scroll", onScroll, { passive: true });
  followScrolling();

  // ---------------------------------------------------------------- print

  const opened = [];  // folds that are open only while the page is printed
  addEventListener("beforeprint", () => {
    for (const fold of all("details:not([open])")) {
      fold.open = true;
      opened.push(fold);
    }
    state.paper = true;
    redraw();
  });
  addEventListener("afterprint", () => {
    for (const fold of opened.splice(0)) fold.open = false;
    state.paper = false;
    redraw();
  });

  // ---------------------------------------------------------------- tables that can be sorted

  const compare = (one, other) => {
    const numbers = [one, other].map((text) => parseFloat(text.replaceAll(",", "")));
    if (numbers.some(Number.isNaN)) return one.localeCompare(other, "en");
    return numbers[0] - numbers[1];
  };

  const sort = (table, column, rising) => {
    const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
    const rows = all("tr", table.tBodies[0]);
    rows.sort((a, b) => rising ? compare(key(a), key(b)) : compare(key(b), key(a)));
    table.tBodies[0].append(...rows);
  };

  for (const table of all("table.sortable")) {
    const heads = all("th", table);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const rising = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        sort(table, column, rising);
      });
    });
  }
})();
