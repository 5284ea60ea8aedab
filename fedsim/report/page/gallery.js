"use strict";
(() => {
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const list = document.querySelector(".cards");
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  const cards = all(".cards article");
  const states = all("[data-state]").filter((one) => one.tagName === "BUTTON");
  const orders = all("button[data-sort]");
  document.documentElement.classList.add("js");

  // ---------------------------------------------------------------- filter

  // A card is shown if its state is, and if it has every word.
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const on = states.filter((one) => one.getAttribute("aria-pressed") === "true");
    const shown = new Set(on.map((one) => one.dataset.state));
    for (const card of cards) {
      const text = card.textContent.toLowerCase();
      card.hidden = !shown.has(card.dataset.state) || !words.every((word) => text.includes(word));
    }
    const visible = cards.filter((card) => !card.hidden).length;
    count.textContent = visible === cards.length ? "" : `${visible} of ${cards.length}`;
  };
  filter.addEventListener("input", show);
  for (const button of states) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
      show();
    });
  }

  // ---------------------------------------------------------------- order

  const byName = (one, other) => one.dataset.name.localeCompare(other.dataset.name, "en");
  const newestFirst = (one, other) => {
    const [a, b] = [one.dataset.started, other.dataset.started];
    return a === b ? byName(one, other) : b.localeCompare(a, "en");
  };
  // Those without a score come last.
  const highestFirst = (one, other) => {
    const [a, b] = [one, other].map((card) => parseFloat(card.dataset.score || "-Infinity"));
    return b > a ? 1 : b < a ? -1 : byName(one, other);
  };
  const byState = (one, other) => {
    const [a, b] = [one.dataset.state, other.dataset.state];
    return a === b ? byName(one, other) : a.localeCompare(b, "en");
  };
  const comparisons = { name: byName, started: newestFirst, score: highestFirst, state: byState };

  // A second click turns the order round.
  for (const button of orders) {
    button.addEventListener("click", () => {
      const again = button.getAttribute("aria-pressed") === "true";
      for (const other of orders) other.setAttribute("aria-pressed", other === button);
      if (again) cards.reverse();
      else cards.sort(comparisons[button.dataset.sort]);
      list.append(...cards);
    });
  }
})();
