"use strict";
// Sorting, filtering and hints. The state of a table is in the address, to be kept or sent:
// #kernels?sort=total.down&filter=gemm&all
(() => {
  const tables = new Map();

  class Table {
    constructor(table) {
      this.table = table;
      this.body = table.tBodies[0];
      this.rows = [...this.body.rows];
      this.words = this.rows.map((row) => row.textContent.toLowerCase());
      this.heads = [...table.tHead.rows[0].cells];
      this.most = Number(table.dataset.shown);
      this.sort = null;
      this.down = false;
      this.all = false;
      const tools = table.closest(".table").querySelector(".tools");
      this.input = tools && tools.querySelector("input");
      this.more = tools && tools.querySelector(".all");
      this.count = tools && tools.querySelector(".count");
      this.heads.forEach((head, i) =>
        head.querySelector("button").addEventListener("click", () => this.toggle(i)));
      if (tools) {
        tools.hidden = false;
        this.input.addEventListener("input", () => this.changed());
        this.more.addEventListener("click", () => { this.all = !this.all; this.changed(); });
      }
      this.draw();
    }

    toggle(i) {
      const numbers = this.heads[i].classList.contains("number");
      this.down = this.sort === i ? !this.down : numbers;
      this.sort = i;
      this.changed();
    }

    changed() {
      this.draw();
      const state = [];
      if (this.sort !== null) {
        const key = this.heads[this.sort].dataset.key;
        state.push(`sort=${encodeURIComponent(key)}.${this.down ? "down" : "up"}`);
      }
      if (this.input && this.input.value) state.push(`filter=${encodeURIComponent(this.input.value)}`);
      if (this.all) state.push("all");
      const hash = `#${this.table.id}${state.length ? "?" + state.join("&") : ""}`;
      history.replaceState(null, "", hash);
    }

    restore(text) {
      for (const part of text.split("&")) {
        const [name, value = ""] = part.split("=").map(decoded);
        if (name === "all") this.all = true;
        if (name === "filter" && this.input) this.input.value = value;
        if (name === "sort") {
          const dot = value.lastIndexOf(".");
          const i = this.heads.findIndex((head) => head.dataset.key === value.slice(0, dot));
          if (i >= 0) { this.sort = i; this.down = value.slice(dot + 1) === "down"; }
        }
      }
      this.draw();
    }

    show(row) {
      this.all = true;
      if (this.input) this.input.value = "";
      this.draw();
      row.scrollIntoView({ block: "center" });
    }

    draw() {
      const order = this.rows.map((_, i) => i);
      if (this.sort !== null) {
        const keys = this.rows.map((row) => {
          const cell = row.cells[this.sort];
          return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
        });
        const sign = this.down ? -1 : 1;
        order.sort((a, b) =>
          missing(keys[a]) - missing(keys[b]) || sign * compare(keys[a], keys[b]) || a - b);
      }
      this.heads.forEach((head, i) => {
        if (i === this.sort) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      const wanted = this.input ? this.input.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
      let matching = 0, shown = 0;
      for (const i of order) {
        const fits = wanted.every((word) => this.words[i].includes(word));
        matching += fits;
        const visible = fits && (this.all || shown < this.most);
        shown += visible;
        this.rows[i].hidden = !visible;
        this.body.append(this.rows[i]);
      }
      if (this.count) {
        this.count.textContent = `${shown} of ${this.rows.length} rows`;
        this.more.hidden = this.all ? this.rows.length <= this.most : matching <= shown;
        this.more.textContent = this.all ? "Show fewer" : `Show all ${matching}`;
      }
    }
  }

  // What has no value stands last of either order.
  const missing = (key) => key === "-";

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  // A part of an address that somebody has written by hand may be none.
  function decoded(text) {
    try { return decodeURIComponent(text); } catch { return text; }
  }

  function follow() {
    const [name, state] = location.hash.slice(1).split("?");
    const table = tables.get(name);
    if (table && state !== undefined) {
      table.restore(state);
      table.table.scrollIntoView();
      return;
    }
    const row = name && document.getElementById(name);
    if (row && row.tagName === "TR") tables.get(row.closest("table").id).show(row);
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    tables.set(table.id, new Table(table));
  }
  addEventListener("hashchange", follow);
  follow();

  const tip = document.getElementById("tip");
  function hint(target) {
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.dataset.tip;
    const box = target.getBoundingClientRect();
    const left = Math.min(box.left, innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 8;
    const top = below + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 8 : below;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, top)}px`;
  }
  const hinted = (event) => event.target.closest && event.target.closest("[data-tip]");
  addEventListener("pointerover", (event) => hint(hinted(event)));
  addEventListener("focusin", (event) => hint(hinted(event)));
  addEventListener("scroll", () => hint(null), { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hint(null); });

  // One stop of the Tab key for all points of a chart; the arrow keys go from one to the next.
  for (const chart of document.querySelectorAll("svg.points")) {
    const points = [...chart.querySelectorAll("a")];
    points.forEach((point, i) => point.setAttribute("tabindex", i ? "-1" : "0"));
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const at = points.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      const next = (at + step + points.length) % points.length;
      points[at].setAttribute("tabindex", "-1");
      points[next].setAttribute("tabindex", "0");
      points[next].focus();
    });
  }
})();
