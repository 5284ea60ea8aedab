"use strict";
(() => {
  const NEAR = 8;  // methods that the hint lists, at most
  const LEFT = 54, RIGHT = 14;  // pixels beside the axes, as in on_page.py
  const all = (selector, from = document) => Array.from(from.querySelectorAll(selector));
  const charts = all(".chart").map((figure) => {
    return { figure, ...JSON.parse(figure.dataset.numbers) };
  });
  const axisButtons = all("[data-axis]");
  const opening = axisButtons.find((button) => button.getAttribute("aria-pressed") === "true");
  const state = { axis: opening?.dataset.axis, off: new Set() };
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

  // Where a number lies on the lower axis: from 0 at its beginning to 1 at its end.
  const shareOf = ([low, high, log], value) => {
    return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  };

  // Every method's number nearest to a place on the axis, in the order of the lines from the top.
  const numbersAt = ({ spans, axes, curves }, key, place) => {
    const rows = [];
    for (const { name, look, x, y } of curves) {
      const distances = axes[x][key].map((at) => Math.abs(shareOf(spans[key], at) - place));
      if (!distances.length || state.off.has(name)) continue;
      const nearest = distances.indexOf(Math.min(...distances));
      rows.push({ name, look, at: axes[x][key][nearest], y: y[nearest] });
    }
    return rows.sort((one, other) => other.y - one.y);
  };

  // Methods may have their points at different places, as over seconds: each says its own.
  const fill = (hint, rows, title) => {
    const together = rows.every(({ at }) => at === rows[0].at);
    const head = document.createElement("b");
    head.textContent = together ? `${title}: ${short(rows[0].at)}` : title;
    hint.replaceChildren(head);
    for (const { name, look, at, y } of rows) {
      const row = document.createElement("span");
      const swatch = document.createElement("i");
      const number = document.createElement("b");
      row.className = look;
      swatch.className = "swatch";
      number.textContent = together ? brief(y) : `${brief(y)} at ${short(at)}`;
      row.append(swatch, name, number);
      hint.append(row);
    }
  };

  for (const chart of charts) {
    const hint = chart.figure.querySelector(".hint");
    const cursor = document.createElement("i");
    cursor.className = "cursor";
    cursor.hidden = true;
    chart.figure.append(cursor);
    chart.figure.addEventListener("pointermove", ({ target, clientX, clientY }) => {
      const svg = target.closest(".chart > svg");
      const box = svg?.getBoundingClientRect();
      const unit = svg ? box.width / svg.viewBox.baseVal.width : 0;
      const begin = LEFT * unit;
      const wide = svg ? box.width - begin - RIGHT * unit : 1;
      const place = svg ? (clientX - box.left - begin) / wide : -1;
      const key = svg?.dataset.along;
      const rows = place >= 0 && place <= 1 ? numbersAt(chart, key, place) : [];
      cursor.hidden = hint.hidden = !rows.length;
      if (!rows.length) return;

      // of many methods those around the pointer's height
      const middle = Math.round((clientY - box.top) / box.height * rows.length - NEAR / 2);
      const first = Math.max(Math.min(middle, rows.length - NEAR), 0);
      fill(hint, rows.slice(first, first + NEAR), chart.spans[key][3]);
      const together = rows.every(({ at }) => at === rows[0].at);
      const left = begin + wide * (together ? shareOf(chart.spans[key], rows[0].at) : place);
      const top = box.top - chart.figure.getBoundingClientRect().top;
      Object.assign(cursor.style, { left: `${left}px`, top: `${top}px`, height: `${box.height}px` });
      hint.style.left = `${left > box.width / 2 ? left - hint.offsetWidth - 12 : left + 12}px`;
    });
    chart.figure.addEventListener("pointerleave", () => { cursor.hidden = hint.hidden = true; });
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

  for (const button of axisButtons) {
    button.addEventListener("click", () => {
      state.axis = button.dataset.axis;
      for (const other of axisButtons) other.setAttribute("aria-pressed", other === button);
      for (const { figure } of charts.filter((chart) => chart.spans[state.axis])) {
        const others = (svg) => svg.dataset.along !== state.axis;
        for (const svg of all("svg", figure)) svg.toggleAttribute("hidden", others(svg));
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
  addEventListener("scroll", () => requestAnimationFrame(followScrolling), { passive: true });
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
