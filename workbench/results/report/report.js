"use strict";
// The page's own script: theme, figures, leaderboards. No library but Plotly, no request.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // Theme: the system's until the button is used; remembered where the browser allows it.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const storage = {
    get: () => { try { return localStorage.getItem("workbench-theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("workbench-theme", value); } catch { /* private window */ } },
  };
  const theme = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const drawn = new Map();
  const applyTheme = () => {
    button.setAttribute("aria-pressed", String(theme() === "dark"));
    for (const [plot, spec] of drawn) Plotly.react(plot, plot.data, fitted(spec, plot, plot.layout), config);
  };

  // Figures. Their menus become HTML controls, which keyboards and screen readers can use.
  // A finger that drags scrolls the page; it does not zoom a figure.
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const config = { displayModeBar: isTouch ? false : "hover", responsive: true, displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const NARROW = 560;

  function fitted(spec, plot, layout) {
    const width = plot.parentElement.clientWidth;
    const result = { ...layout, template: data.templates[theme()], height: spec.height };
    if (isTouch) result.dragmode = false;
    if (width < NARROW && spec.items > 1) {
      // The legend goes below the axis, where it may take lines.
      result.legend = { orientation: "h", y: -0.22, yanchor: "top", x: 0, xanchor: "left" };
      result.height = spec.height + 14 * spec.items;
      result.margin = { l: 48, ...spec.margin, r: 8, t: 16, b: 40 };
    }
    return result;
  }

  function draw(plot) {
    const figure = data.figures[plot.id];
    const { updatemenus = [], ...layout } = figure.layout;
    const parallel = figure.data.find((trace) => trace.type === "parcoords");
    // Parallel coordinates scroll in their box when there is no room for their axes.
    if (parallel) plot.style.minWidth = `${parallel.dimensions.length * 84 + 120}px`;
    const spec = {
      height: layout.height,
      margin: layout.margin,
      items: layout.showlegend === false || parallel ? 0 : figure.data.filter((trace) => trace.name).length,
    };
    drawn.set(plot, spec);
    Plotly.newPlot(plot, figure.data, fitted(spec, plot, layout), config);
    const controls = document.getElementById(`${plot.id}-controls`);
    for (const menu of updatemenus) controls.append(menu.type === "dropdown" ? selection(plot, menu) : choice(plot, menu));
  }

  function choice(plot, menu) {
    const group = element("div", { className: "choice" });
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", menu.name);
    menu.buttons.forEach((item, place) => {
      const made = element("button", { type: "button", textContent: plain(item.label) });
      made.setAttribute("aria-pressed", String(place === 0));
      made.addEventListener("click", () => {
        Plotly.update(plot, ...item.args);
        for (const other of group.children) other.setAttribute("aria-pressed", String(other === made));
      });
      group.append(made);
    });
    return group;
  }

  function selection(plot, menu) {
    const select = element("select");
    menu.buttons.forEach((item, place) => select.append(element("option", { value: place, textContent: plain(item.label) })));
    select.addEventListener("change", () => Plotly.update(plot, ...menu.buttons[select.value].args));
    return element("label", {}, `${menu.name} `, select);
  }

  // Figures escape names for Plotly, which reads HTML; elements take text.
  const plain = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        watcher.unobserve(entry.target);
        if (!drawn.has(entry.target)) draw(entry.target);
      }
    }
  }, { rootMargin: "600px" });
  const plots = [...document.querySelectorAll(".plot")];

  // Leaderboards: all rows are in `data`, one page of them is in the document.
  const PAGE = 50;
  const collator = new Intl.Collator("en", { numeric: true });
  const formats = {
    count: (value) => value.toLocaleString("en"),
    score: (value) => value.toFixed(4),
    decimal: (value) => value.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 }),
    value: (value) => String(Number(value.toPrecision(6))),
    text: (value) => value,
  };

  function leaderboard(section) {
    const board = data.boards[section.dataset.board];
    const columns = board.columns.map((column) => ({
      ...column,
      at: column.texts ? (row) => column.texts[column.values[row]] ?? null : (row) => column.values[row] ?? null,
    }));
    const byKey = Object.fromEntries(columns.map((column) => [column.key, column]));
    const part = (name) => section.querySelector(name);
    const state = { words: [], status: "", key: null, descending: false, page: 0 };
    let rows = [];
    let texts = null;

    for (const status of board.statuses) part(".status").append(element("option", { value: status, textContent: status }));

    const headings = columns.map((column) => {
      const sort = element("button", { type: "button", textContent: column.label });
      const heading = element("th", { scope: "col", className: column.kind === "text" ? "" : "number" }, sort);
      sort.addEventListener("click", () => {
        // First click: the best scores, the smallest of everything else; then the other way round.
        const first = column.key === "score" && board.direction === "max";
        state.descending = state.key === column.key ? !state.descending : first;
        state.key = column.key;
        update();
      });
      return heading;
    });
    part("thead").append(element("tr", {}, ...headings));

    const shown = (column, row) => (column.at(row) === null ? "" : formats[column.kind](column.at(row)));
    const rowText = (row) => columns.map((column) => `${column.label}=${shown(column, row)}`).join("\n").toLowerCase();

    function select() {
      rows = Array.from({ length: board.rows }, (_, row) => row);
      if (state.status) rows = rows.filter((row) => byKey.status.at(row) === state.status);
      if (state.words.length) {
        texts ??= rows.length === board.rows ? rows.map(rowText) : Array.from({ length: board.rows }, (_, row) => rowText(row));
        rows = rows.filter((row) => state.words.every((word) => texts[row].includes(word)));
      }
      if (state.key) {
        const { at } = byKey[state.key];
        const sign = state.descending ? -1 : 1;
        rows.sort((a, b) => {
          const [left, right] = [at(a), at(b)];
          if (left === null || right === null) return (left === null) - (right === null);
          return sign * (typeof left === "number" ? left - right : collator.compare(left, right));
        });
      }
    }

    function update() {
      state.page = 0;
      select();
      headings.forEach((heading, place) => {
        if (columns[place].key === state.key) heading.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
        else heading.removeAttribute("aria-sort");
      });
      show();
    }

    function cell(column, row) {
      const text = shown(column, row);
      if (column.key !== "trial_id") {
        const kind = column.key === "error" && text ? "long" : column.kind === "text" ? "" : "number";
        return element("td", { className: kind, textContent: text });
      }
      const heading = element("th", { scope: "row" });
      if (board.styles[text]) heading.append(swatch(board.styles[text]));
      heading.append(text);
      return heading;
    }

    function show() {
      const pages = Math.max(1, Math.ceil(rows.length / PAGE));
      const start = state.page * PAGE;
      const visible = rows.slice(start, start + PAGE);
      part("tbody").replaceChildren(
        ...visible.map((row) => element("tr", {}, ...columns.map((column) => cell(column, row)))));
      part(".previous").disabled = state.page === 0;
      part(".next").disabled = state.page >= pages - 1;
      const filtered = rows.length < board.rows ? `, of ${formats.count(board.rows)} in all` : "";
      const order = state.key ? `, by ${byKey[state.key].label}, ${state.descending ? "descending" : "ascending"}` : "";
      part(".told").textContent = rows.length
        ? `Rows ${formats.count(start + 1)} to ${formats.count(start + visible.length)} of ${formats.count(rows.length)}${filtered}${order}`
        : `No trial fits the filter${filtered}`;
    }

    const turn = (by) => { state.page += by; show(); };
    part(".previous").addEventListener("click", () => turn(-1));
    part(".next").addEventListener("click", () => turn(1));
    part(".status").addEventListener("change", (event) => { state.status = event.target.value; update(); });
    let waiting;
    part(".filter").addEventListener("input", (event) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
        update();
      }, 120);
    });
    update();
  }

  function swatch({ color, dash }, made = element("span", { className: "swatch" })) {
    made.setAttribute("aria-hidden", "true");
    made.style.borderTop = `3px ${{ solid: "solid", dash: "dashed", dot: "dotted" }[dash]} ${color}`;
    return made;
  }

  const remembered = storage.get();
  if (remembered === "light" || remembered === "dark") root.dataset.theme = remembered;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    storage.set(root.dataset.theme);
    applyTheme();
  });
  system.addEventListener("change", applyTheme);
  applyTheme();
  document.querySelectorAll("[data-study]").forEach((made) => swatch(data.studies[made.dataset.study], made));
  document.querySelectorAll("[data-board]").forEach(leaderboard);
  plots.forEach((plot) => watcher.observe(plot));
  addEventListener("beforeprint", () => plots.filter((plot) => !drawn.has(plot)).forEach(draw));
})();
