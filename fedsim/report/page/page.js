"use strict";
(() => {
  const NEAR = 8;  // methods that the hint lists, at most
  const LEFT = 54, RIGHT = 14, TOP = 14, BOTTOM = 42;  // pixels beside axes, as in on_page.py
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  const opening = document.querySelector('[data-axis][aria-pressed="true"]');
  const state = { axis: opening?.dataset.axis, off: new Set() };
  const charts = all(".chart").map((figure) => {
    return { figure, ...JSON.parse(figure.dataset.numbers) };
  });
  document.documentElement.classList.add("js");

  const short = (value) => {
    const size = Math.abs(value);
    for (const [smallest, unit, letter] of [[1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]]) {
      if (size >= smallest && size < 1e14) return `${+(value / unit).toPrecision(4)}${letter}`;
    }
    return `${+value.toPrecision(4)}`;
  };
  const brief = (value) => Math.abs(value) < 1000 ? value.toFixed(3) : short(value);

  // ---------------------------------------------------------------- numbers beside the pointer

  const create = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  // The number along the lower axis at a share of its length, and back.
  const numberAt = ([low, high, log], share) => {
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
  const shareOf = ([low, high, log], value) => {
    return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  };

  // The point of the first curve that is nearest to the pointer, and every method's number there,
  // in the order of the lines from the top.
  const numbersAt = ({ spans, axes, curves }, key, share) => {
    const wanted = numberAt(spans[key], share);
    const rows = [];
    for (const { name, look, x, y } of curves) {
      const positions = axes[x][key];
      if (!positions.length || state.off.has(name)) continue;
      let nearest = 0;
      positions.forEach((value, index) => {
        if (Math.abs(value - wanted) < Math.abs(positions[nearest] - wanted)) nearest = index;
      });
      rows.push({ name, look, at: positions[nearest], y: y[nearest] });
    }
    return rows.sort((one, other) => other.y - one.y);
  };

  const fill = (hint, rows, title) => {
    const at = document.createElement("b");
    at.textContent = title;
    hint.replaceChildren(at);
    for (const { name, look, y } of rows) {
      const row = document.createElement("span");
      const swatch = document.createElement("i");
      const number = document.createElement("b");
      row.className = look;
      swatch.className = "swatch";
      number.textContent = brief(y);
      row.append(swatch, name, number);
      hint.append(row);
    }
  };

  // Of many methods those around the pointer's height.
  const around = (rows, share) => {
    const first = Math.round(share * rows.length - NEAR / 2);
    const begin = Math.max(Math.min(first, rows.length - NEAR), 0);
    return rows.slice(begin, begin + NEAR);
  };

  for (const chart of charts) {
    const { figure, spans } = chart;
    const hint = figure.querySelector(".hint");
    for (const svg of all("svg", figure)) {
      const { width, height } = svg.viewBox.baseVal;
      const wide = width - LEFT - RIGHT;
      const key = svg.dataset.along;
      const cursor = create("line", { class: "cursor", y1: TOP, y2: height - BOTTOM });
      svg.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect();
        const place = (event.clientX - box.left) / box.width * width;
        const share = Math.min(Math.max((place - LEFT) / wide, 0), 1);
        const rows = numbersAt(chart, key, share);
        if (!rows.length) return;
        const at = LEFT + shareOf(spans[key], rows[0].at) * wide;
        cursor.setAttribute("x1", at);
        cursor.setAttribute("x2", at);
        svg.append(cursor);
        const title = `${spans[key][3]}: ${short(rows[0].at)}`;
        fill(hint, around(rows, (event.clientY - box.top) / box.height), title);
        hint.hidden = false;
        const left = at / width * box.width;
        hint.style.left = `${left > box.width / 2 ? left - hint.offsetWidth - 12 : left + 12}px`;
      });
      svg.addEventListener("pointerleave", () => {
        hint.hidden = true;
        cursor.remove();
      });
    }
  }

  // ---------------------------------------------------------------- buttons

  for (const button of all(".key")) {
    const name = button.dataset.name;
    const series = all(".series").filter((one) => one.dataset.name === name);
    const focus = (on) => series.forEach((one) => one.classList.toggle("focus", on));
    button.addEventListener("click", () => {
      if (!state.off.delete(name)) state.off.add(name);
      button.setAttribute("aria-pressed", !state.off.has(name));
      series.forEach((one) => one.classList.toggle("off", state.off.has(name)));
      describeAxis();
    });
    for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => focus(true));
    for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => focus(false));
  }

  // Which axis is shown, and which methods have no points along it.
  const describeAxis = () => {
    const title = document.querySelector(".over");
    if (!title) return;
    title.textContent = document.querySelector(`[data-axis="${state.axis}"]`).textContent;
    const lacking = charts.flatMap(({ spans, axes, curves }) => {
      if (!spans[state.axis]) return [];
      return curves.filter(({ x }) => !axes[x][state.axis].length).map(({ name }) => name);
    });
    const names = new Set(lacking.filter((name) => !state.off.has(name)));
    const line = document.querySelector(".lacking");
    line.hidden = !names.size;
    line.textContent = names.size ? `Not on this axis: ${[...names].join(", ")}.` : "";
  };

  const axisButtons = all("[data-axis]");
  for (const button of axisButtons) {
    button.addEventListener("click", () => {
      state.axis = button.dataset.axis;
      for (const other of axisButtons) other.setAttribute("aria-pressed", other === button);
      for (const { figure } of charts.filter((chart) => chart.spans[state.axis])) {
        for (const svg of all("svg", figure)) svg.toggleAttribute("hidden", svg.dataset.along !== state.axis);
      }
      describeAxis();
    });
  }

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
  });
  addEventListener("afterprint", () => {
    for (const fold of opened.splice(0)) fold.open = false;
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
