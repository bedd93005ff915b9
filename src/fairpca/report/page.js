"use strict";
(() => {
  const { audit, new: fresh, words, measures, rows: total } = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  // Colours of groups, set in page.css for light, dark and paper. None is that of PCA or FairPCA.
  // They are told apart with every kind of colour vision; more lines are drawn thin and grey.
  const COLOURS = [0, 1, 2, 3, 4, 5].map((i) => `var(--g${i})`);
  const state = { side: "new" in words ? "new" : "hand", index: audit.ranks.indexOf(audit.n_components), measure: "loss", chosen: null };
  const rank = () => audit.ranks[state.index];
  // What is known of a reducer: on the rows in hand, of new rows, on the side that is chosen.
  const inHand = (reducer, r) => audit.findings.find((f) => f.reducer === reducer && f.n_components === r);
  const ofNew = (reducer, r) => fresh.find((f) => f.reducer === reducer && f.n_components === r);
  const at = (reducer, r) => (state.side === "new" ? ofNew : inHand)(reducer, r);
  const text = () => words[state.side][rank()];
  // What is worst: the largest loss or error, the smallest share of variance kept; what is not
  // known comes last.
  const sign = () => (state.measure === "share" ? -1 : 1);
  const badness = (f, i) => (f[state.measure][i] === null ? -Infinity : sign() * f[state.measure][i]);
  const order = (values) => [...values.keys()].sort((a, b) => (values[a] === values[b] ? a - b : values[b] - values[a]));
  const worstFirst = (f) => order(audit.groups.map((_, i) => badness(f, i)));
  const many = audit.groups.length > 12, curves = audit.ranks.length > 1;
  // The groups in the charts: those served worst, whatever the switches say, until somebody chooses.
  const shownOf = (f) => worstFirst(f).filter((i, place) => (state.chosen ? state.chosen.has(i) : place < (many ? 8 : 12)));

  // Numbers are written as fairpca.auditing.verdict writes them.
  function number(x) {
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (!(size >= 1e-4 && size < 1e12)) return x.toExponential(1).replace("e+", "e");
    const digits = Math.max(0, 2 - Math.floor(Math.log10(size)));
    return (size < 1e6 ? x : Number(x.toPrecision(3))).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }
  function percent(x) {
    const size = Math.abs(x);
    if (size < 1e-9) return "0%";
    if (size < 1e-4) return "under 0.01%";
    const fine = size < 0.1 || (size >= 0.99 && size < 1);
    return (100 * x).toFixed(fine ? (size >= 0.01 ? 1 : 2) : 0) + "%";
  }
  const written = (x) => (state.measure === "share" ? percent(x) : number(x));

  function make(parent, name, attributes = {}, text) {
    const node = document.createElementNS(parent instanceof SVGElement || name === "svg" ? SVG : "http://www.w3.org/1999/xhtml", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }
  function drawing(holder, height, label) {
    holder.replaceChildren();
    const width = Math.max(holder.clientWidth, 260);
    const svg = make(holder, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    return { svg, width, height };
  }
  function shorten(node, room) {
    if (node.getComputedTextLength() <= room) return;
    // The middle goes: names of one house often begin alike, and differ at their ends.
    const letters = Array.from(node.textContent);
    for (let kept = letters.length - 1; kept > 0; kept -= Math.max(1, Math.floor(kept / 12))) {
      const head = Math.ceil(kept / 2);
      node.textContent = letters.slice(0, head).join("") + "…" + letters.slice(letters.length - (kept - head)).join("");
      if (node.getComputedTextLength() <= room) return;
    }
  }
  function ticks(top, count, low = 0) {
    if (!(top > low)) return [low, low + 1];
    const rough = (top - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    const found = [];
    for (let i = Math.floor(low / step); i * step < top + 1e-4 * (top - low); i += 1) found.push(i * step);
    if (found.at(-1) < top - 1e-3 * (top - low)) found.push(found.at(-1) + step);
    return found;
  }
  // 250M takes less room than 250000000, which would be cut off.
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
  const axisNumber = (x, share) => (share ? Math.round(1000 * x) / 10 + "%" : Math.abs(x) < 1e4 ? String(Number(x.toPrecision(6))) : short.format(x));

  // One tip for mouse, pen and finger.
  const tip = $("tip");
  function hover(node, textAt, onClick) {
    const show = (event) => {
      tip.textContent = textAt(event);
      tip.hidden = !tip.textContent;
      const box = tip.getBoundingClientRect();
      tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
      tip.style.top = Math.max(4, event.clientY - box.height - 12) + "px";
    };
    node.addEventListener("pointermove", show);
    node.addEventListener("pointerdown", show);
    node.addEventListener("pointerleave", () => { tip.hidden = true; });
    if (onClick) node.addEventListener("click", onClick);
  }
  const STYLES = { PCA: "c-pca", FairPCA: "c-fair", "shrunk FairPCA": "c-shrunk" };
  const styleOf = (reducer) => STYLES[reducer] || "c-other";
  const colourOf = (reducer) => COLOURS[audit.reducers.indexOf(reducer) % 6];
  function mark(svg, reducer, x, y) {
    if (reducer === "PCA") return make(svg, "circle", { cx: x, cy: y, r: 5.5, class: "c-pca" });
    if (reducer === "FairPCA") return make(svg, "rect", { x: x - 5, y: y - 5, width: 10, height: 10, class: "c-fair" });
    if (reducer in STYLES) return make(svg, "path", { d: `M${x} ${y - 6}l6.5 11h-13z`, class: STYLES[reducer], "stroke-width": 0 });
    return make(svg, "path", { d: `M${x} ${y - 6.5}l6.5 6.5l-6.5 6.5l-6.5 -6.5z`, fill: colourOf(reducer), stroke: "none" });
  }

  const spanOf = (f, i) => { const pair = (f.intervals[state.measure] || [])[i]; return pair && pair[0] !== null ? pair : undefined; };
  const spanText = (pair) => (pair ? `${written(pair[0])} to ${written(pair[1])}` : "");
  // One line a group, one mark a reducer.
  function drawGroups() {
    const holder = $("chart-groups"), share = state.measure === "share", noun = measures[state.measure][0];
    const found = audit.reducers.map((name) => at(name, rank())).filter(Boolean);
    if (!found.length) return;
    const groups = shownOf(at("PCA", rank()));
    $("keys").replaceChildren();
    found.forEach((f) => {
      const node = make($("keys"), "span", { class: "key" }), svg = make(node, "svg", { class: "swatch", viewBox: "0 0 14 14", "aria-hidden": "true" });
      mark(svg, f.reducer, 7, 7);
      make(node, "bdi", {}, f.reducer);
    });
    const level = state.side === "new" ? "95%" : `${percent((audit.provenance.parameters || {}).level || 0.95)} bootstrap`;
    const barred = found.some((f) => f.intervals[state.measure]);
    $("bars").textContent = (barred ? `Bars: ${level} interval.` : "No interval is known for these numbers.") +
      (groups.length < audit.groups.length ? ` ${groups.length} of ${audit.groups.length} groups; the table has all.` : "");
    // On a narrow screen labels stand above their marks, where they have room.
    const narrow = holder.clientWidth < 520, above = narrow ? 20 : 0;
    const row = 12 * found.length + (groups.length > 6 ? 10 : 22) + above, top = 8, bottom = 42;
    const { svg, width, height } = drawing(holder, top + bottom + row * groups.length,
      `${noun} by group under ${found.map((f) => f.reducer).join(", ")}, ${text().state}; the table below has the numbers`);
    if (!groups.length) { make(svg, "text", { x: 4, y: 30, class: "soft" }, "Choose at least one group."); return; }
    const room = narrow ? width - 12 : Math.min(width * 0.34, 240);
    const worst = text()[state.measure].worst.PCA;
    const labels = groups.map((i, j) => {
      const y = top + row * j + (narrow ? 17 : row / 2 + 4);
      const text = make(svg, "text", { x: narrow ? 16 : room, y, class: worst.includes(i) ? "halo strong" : "halo", "text-anchor": narrow ? "start" : "end" }, audit.groups[i].text);
      shorten(text, room - 4);
      return text;
    });
    const longest = Math.max(...labels.map((t) => t.getComputedTextLength()));
    const left = narrow ? 10 : Math.min(room, longest + 6) + 12;
    if (!narrow) labels.forEach((t) => t.setAttribute("x", left - 12));
    const ends = groups.flatMap((i) => found.flatMap((f) => [f[state.measure][i] ?? 0, ...(spanOf(f, i) || [])]));
    const marks = ticks(Math.max(0, ...ends), width < 500 ? 4 : 7, Math.min(0, ...ends));
    const scale = (v) => left + 8 + (width - left - 32) * ((v - marks[0]) / (marks.at(-1) - marks[0]));
    marks.forEach((v) => {
      make(svg, "line", { x1: scale(v), x2: scale(v), y1: top, y2: height - bottom + 4, class: v === 0 ? "axis" : "grid" });
      make(svg, "text", { x: scale(v), y: height - bottom + 20, "text-anchor": "middle", class: "soft" }, axisNumber(v, share));
    });
    make(svg, "text", { x: (left + width) / 2, y: height - 5, "text-anchor": "middle", class: "soft" }, noun + (share ? "" : ", per row"));
    svg.append(...labels);
    groups.forEach((i, j) => {
      const line = make(svg, "g"), middle = top + row * j + (row + above) / 2;
      make(line, "rect", { x: 0, y: top + row * j, width, height: row, fill: "transparent" });
      const known = found.filter((f) => f[state.measure][i] !== null);
      if (!known.length) make(line, "text", { x: scale(0) + 8, y: middle + 4, class: "soft" }, "too few rows to check");
      known.forEach((f, p) => {
        const y = middle + 12 * (p - (known.length - 1) / 2), pair = spanOf(f, i), value = f[state.measure][i];
        if (pair) make(line, "line", { x1: scale(pair[0]), x2: scale(pair[1]), y1: y, y2: y, class: styleOf(f.reducer), "stroke-width": 3, opacity: 0.45, stroke: colourOf(f.reducer) });
        mark(line, f.reducer, scale(value), y).setAttribute("data-value", value);
      });
      hover(line, () => [`${audit.groups[i].text} (${audit.groups[i].count.toLocaleString("en")} rows)`,
        ...known.map((f) => `${f.reducer}: ${written(f[state.measure][i])}${spanOf(f, i) ? ` (${spanText(spanOf(f, i))})` : ""}`)].join("\n"));
    });
  }

  // The groups shown, those that PCA serves worst first; the first six have a colour of their own.
  const ranked = () => shownOf(inHand("PCA", audit.n_components));
  const strokeAt = (place) => COLOURS[place] || "var(--soft)";
  function swatch(parent, place) {
    const svg = make(parent, "svg", { class: "swatch", viewBox: "0 0 14 14", "aria-hidden": "true" });
    make(svg, "line", { x1: 0, x2: 14, y1: 7, y2: 7, "stroke-width": place < 6 ? 4 : 1.5, stroke: strokeAt(place) });
  }
  function rankAxis(svg, x, left, right, width, height, bottom) {
    let last = -99;
    audit.ranks.forEach((r) => {
      if (x(r) - last <= 30) return;
      last = x(r);
      make(svg, "text", { x: x(r), y: height - bottom + 18, "text-anchor": "middle", class: "soft" }, r);
    });
    make(svg, "text", { x: (left + width - right) / 2, y: height - 5, "text-anchor": "middle", class: "soft" }, "number of components");
  }
  function nearest(svg, event, x, width, ranks) {
    const box = svg.getBoundingClientRect(), where = ((event.clientX - box.left) / box.width) * width;
    return ranks.reduce((a, b) => (Math.abs(x(b) - where) < Math.abs(x(a) - where) ? b : a));
  }
  function drawRanks() {
    const holder = $("chart-ranks");
    const panels = audit.reducers.filter((name) => audit.ranks.filter((r) => inHand(name, r)).length > 1);
    holder.replaceChildren();
    const groups = ranked(), key = (place, text) => {
      const node = make($("line-keys"), "span");
      swatch(node, place);
      make(node, "bdi", {}, text);
    };
    $("line-keys").replaceChildren();
    groups.slice(0, groups.length === 7 ? 7 : 6).forEach((i, place) => key(place, audit.groups[i].text));
    if (groups.length > 7) key(6, `${groups.length - 6} other groups, which PCA serves better with ${words.hand[audit.n_components].components}`);
    const all = panels.flatMap((name) => audit.ranks.flatMap((r) => (inHand(name, r) ? groups.map((i) => inHand(name, r)[state.measure][i]) : [])));
    const marks = ticks(Math.max(...all, 0), 5), share = state.measure === "share";
    // All cells first: a panel takes its width from the finished grid.
    const cells = panels.map(() => make(holder, "div"));
    panels.forEach((name, p) => {
      const { svg, width, height } = drawing(cells[p], 300, `${measures[state.measure][0]} of each group over the number of components, ${name}`);
      const left = 50, right = 14, top = 30, bottom = 44, ranks = audit.ranks.filter((r) => inHand(name, r));
      const low = audit.ranks[0], span = Math.max(audit.ranks.at(-1) - low, 1);
      const x = (r) => left + (width - left - right) * ((r - low) / span), y = (v) => height - bottom - (height - top - bottom) * (v / marks.at(-1));
      make(svg, "text", { x: left, y: 16, class: "strong" }, name);
      marks.forEach((v) => {
        make(svg, "line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" });
        make(svg, "text", { x: left - 6, y: y(v) + 4, "text-anchor": "end", class: "soft" }, axisNumber(v, share));
      });
      rankAxis(svg, x, left, right, width, height, bottom);
      make(svg, "line", { x1: x(rank()), x2: x(rank()), y1: top, y2: height - bottom, class: "guide", "data-guide": rank() });
      // The grey lines first, below the others. Earlier lines are wider, so that lines on top of each
      // other all stay visible.
      const places = [...groups.keys()];
      [...places.slice(6), ...places.slice(0, 6)].forEach((j) => {
        const i = groups[j], colour = strokeAt(j);
        const points = ranks.map((r) => `${x(r).toFixed(1)} ${y(inHand(name, r)[state.measure][i]).toFixed(1)}`);
        const extra = groups.length > 1 && groups.length < 7 ? (3.5 * (groups.length - 1 - j)) / (groups.length - 1) : 0;
        make(svg, "path", { d: "M" + points.join("L"), class: "nofill", "stroke-width": j < 6 ? 2 + extra : 1, "stroke-linejoin": "round", stroke: colour, opacity: j < 6 ? 1 : 0.6 });
        if (j < 6 && inHand(name, rank())) make(svg, "circle", { cx: x(rank()), cy: y(inHand(name, rank())[state.measure][i]), r: 4, fill: colour });
      });
      hover(svg, (event) => {
        const r = nearest(svg, event, x, width, ranks), f = inHand(name, r), sorted = worstFirst(f).filter((i) => groups.includes(i));
        const lines = sorted.slice(0, 10).map((i) => `${audit.groups[i].text}: ${written(f[state.measure][i])}`);
        return [`${name}, ${words.hand[r].components}`, ...lines, ...(sorted.length > 10 ? [`and ${sorted.length - 10} more`] : [])].join("\n");
      }, (event) => choose(audit.ranks.indexOf(nearest(svg, event, x, width, ranks))));
    });
  }

  function drawPrice() {
    const points = audit.ranks.map((r) => inHand("FairPCA", r)), holder = $("chart-price");
    const { svg, width, height } = drawing(holder, 320, "How much the worst loss shrinks and how much the error over all rows grows, over the number of components");
    const left = 56, right = 20, top = width < 480 ? 50 : 34, bottom = 44, low = audit.ranks[0], span = Math.max(audit.ranks.at(-1) - low, 1);
    const marks = ticks(Math.max(...points.map((f) => Math.max(f.cut, f.price)), 0.01), 5);
    const x = (r) => left + (width - left - right) * ((r - low) / span), y = (v) => height - bottom - (height - top - bottom) * (Math.max(v, 0) / marks.at(-1));
    marks.forEach((v) => {
      make(svg, "line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" });
      make(svg, "text", { x: left - 6, y: y(v) + 4, "text-anchor": "end", class: "soft" }, axisNumber(v, true));
    });
    rankAxis(svg, x, left, right, width, height, bottom);
    const lines = [["cut", "c-fair", "worst loss shrinks by", "■"], ["price", "c-pca", "error over all rows rises by", "●"]];
    let key = left;
    lines.forEach(([field, style, text, sign]) => {
      make(svg, "path", { d: "M" + points.map((f) => `${x(f.n_components).toFixed(1)} ${y(f[field]).toFixed(1)}`).join("L"), class: `${style} nofill`, "stroke-width": 2.4 });
      points.forEach((f) => {
        const size = f.n_components === rank() ? 6 : 3.5, px = x(f.n_components), py = y(f[field]);
        if (field === "price") make(svg, "circle", { cx: px, cy: py, r: size, class: style });
        else make(svg, "rect", { x: px - size, y: py - size, width: 2 * size, height: 2 * size, class: style });
      });
      const label = make(svg, "text", { x: key, y: 16 });
      make(label, "tspan", { class: style, "stroke-width": 0 }, sign + " ");
      make(label, "tspan", {}, text);
      key += label.getComputedTextLength() + 18;
      if (key > width) { label.setAttribute("x", left); label.setAttribute("y", 32); }
    });
    make(svg, "line", { x1: x(rank()), x2: x(rank()), y1: top, y2: height - bottom, class: "guide" });
    hover(svg, (event) => {
      const f = inHand("FairPCA", nearest(svg, event, x, width, audit.ranks));
      return `${words.hand[f.n_components].components}\nworst loss ${percent(f.cut)} smaller\nerror over all rows ${percent(f.price)} larger`;
    }, (event) => choose(audit.ranks.indexOf(nearest(svg, event, x, width, audit.ranks))));
  }

  function fillTable() {
    const table = $("table"), r = rank(), said = text()[state.measure], head = table.tHead.rows[0], body = table.tBodies[0], foot = table.tFoot;
    if (!at("PCA", r)) return;
    const title = head.cells[0].textContent;
    head.replaceChildren();
    [title, "rows", "variance"].forEach((name, j) => make(head, "th", { scope: "col", class: ["", "n", "n wide"][j] }, name));
    audit.reducers.forEach((name) => {
      const cell = make(head, "th", { scope: "col", class: "n" });
      make(cell, "bdi", {}, name);
      cell.append(` ${measures[state.measure][0]}`);
    });
    body.replaceChildren();
    worstFirst(at("PCA", r)).forEach((i) => {
      const group = audit.groups[i], row = make(body, "tr", group.small ? { class: "few" } : {});
      make(make(row, "th", { scope: "row" }), "bdi", { title: group.text }, group.text);
      const count = make(row, "td", { class: "n" }, group.count.toLocaleString("en") + " ");
      make(count, "small", {}, `${percent(group.count / (total || 1))} of all`);
      make(row, "td", { class: "n wide", "data-value": group.variance }, number(group.variance));
      audit.reducers.forEach((name) => {
        const f = at(name, r), value = f ? f[state.measure][i] : null;
        if (value === null) { make(row, "td", { class: "n", "data-reducer": name, "data-value": "" }, "–"); return; }
        const cell = make(row, "td", { class: "n" + (said.worst[name].includes(i) ? " worst" : ""), "data-reducer": name, "data-value": value });
        const changed = said.changes[name][i], up = changed * sign() > 0;
        if (changed) make(cell, "small", { class: "change" }, `${up ? "↑" : "↓"} ${changed > 0 ? "pays" : "gains"}`);
        cell.append(` ${written(value)}`);
        const below = (style, note) => { cell.append(" "); make(cell, "small", style, note); };
        if (spanOf(f, i)) below({ class: "range" }, spanText(spanOf(f, i)));
        if (state.measure !== "share" && group.variance > 0) below({}, `${percent(value / group.variance)} of its variance`);
      });
    });
    foot.replaceChildren();
    said.totals.forEach(([name, ...cells]) => {
      const row = make(foot, "tr");
      make(row, "th", { scope: "row" }, name);
      make(row, "td");
      make(row, "td", { class: "wide" });
      cells.forEach((cell) => make(row, "td", { class: "n" }, cell));
    });
  }
  function fillWords() {
    const r = rank(), said = text(), { verdict, tiles } = said[state.measure];
    $("verdict").replaceChildren();
    verdict.forEach((sentence) => make($("verdict"), "p", {}, sentence));
    $("tiles").replaceChildren();
    $("tiles").hidden = !tiles.length;
    tiles.forEach((tile) => {
      const box = make($("tiles"), "div", tile.advised ? { class: "advised" } : {}), style = (STYLES[tile.reducer] || "").slice(2);
      make(box, "dt", {}, tile.title);
      make(box, "dd", { class: style, "data-tile": tile.reducer, "data-value": tile.value }, tile.text);
      make(box, "dd", { class: "small" }, tile.note);
    });
    $("advice").textContent = said.advice;
    if ($("call")) $("call").hidden = !said.call;
    $("proof").textContent = said.proof;
    $("rank-text").textContent = r;
    $("rank").setAttribute("aria-valuetext", said.components);
    $("measure-text").textContent = measures[state.measure][1];
    document.querySelectorAll("[data-text=state]").forEach((node) => { node.textContent = said.state; });
    // What is about one side only, and what is not known in this position of the switches.
    document.querySelectorAll("[data-side]").forEach((node) => { node.hidden = node.dataset.side !== state.side; });
    const holds = { hand: state.side === "hand", asked: r === audit.n_components, side: Boolean(at("PCA", r)) };
    document.querySelectorAll("[data-needs]").forEach((section) => {
      const known = section.dataset.needs.split(" ").every((need) => holds[need]);
      section.classList.toggle("absent", !known);
      section.querySelector(".missing").hidden = known;
      section.querySelector(".body").hidden = !known;
    });
  }
  const charts = () => { drawGroups(); if (curves && state.side === "hand") { drawRanks(); drawPrice(); } };
  function update() { fillWords(); fillTable(); charts(); showChosen(); }
  function choose(index) { state.index = index; $("rank").value = index; update(); }
  function showChosen() {
    const found = at("PCA", rank()), shown = new Set(found ? shownOf(found) : []);
    if (found) document.querySelectorAll("#groups input[type=checkbox]").forEach((box) => { box.checked = shown.has(Number(box.value)); });
  }

  function buildToggles() {
    const holder = $("groups");
    const tools = make(holder, "div", { class: "tools" }), boxes = make(holder, "div", { class: "boxes" });
    const set = (wanted) => { state.chosen = wanted && new Set(wanted); charts(); showChosen(); };
    make(tools, "button", { type: "button" }, "all").addEventListener("click", () => set(audit.groups.keys()));
    make(tools, "button", { type: "button" }, "none").addEventListener("click", () => set([]));
    if (many) {
      make(tools, "button", { type: "button" }, "8 worst").addEventListener("click", () => set(null));
      const search = make(tools, "input", { type: "search", placeholder: "find a group", "aria-label": "find a group" });
      search.addEventListener("input", () => {
        const wanted = search.value.toLocaleLowerCase();
        boxes.querySelectorAll("label").forEach((label) => { label.hidden = !label.textContent.toLocaleLowerCase().includes(wanted); label.style.display = label.hidden ? "none" : ""; });
      });
    }
    audit.groups.forEach((group, i) => {
      const label = make(boxes, "label"), box = make(label, "input", { type: "checkbox", value: i });
      box.addEventListener("change", () => set([...boxes.querySelectorAll("input:checked")].map((node) => Number(node.value))));
      make(label, "bdi", { title: group.text }, group.text);
    });
  }

  $("rank").addEventListener("input", (event) => choose(Number(event.target.value)));
  ["side", "measure"].forEach((name) => document.querySelectorAll(`input[name=${name}]`).forEach((radio) => radio.addEventListener("change", () => { state[name] = radio.value; update(); })));
  $("download").hidden = false;
  $("download").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(audit)], { type: "application/json" }));
    link.download = "audit.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  // What only a script can fill is not there without one.
  document.querySelectorAll("[data-script]").forEach((node) => { node.hidden = node.classList.contains("pictures") && !curves; });
  buildToggles();
  update();
  let pending = 0, width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; cancelAnimationFrame(pending); pending = requestAnimationFrame(charts); } });
})();
