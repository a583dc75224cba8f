"use strict";
(() => {
  const plans = JSON.parse(document.getElementById("plans").textContent);
  const at = (id) => document.getElementById(id);
  const CELL = 22, GAP = 14, MOST = 32, SHOWN = 12;
  let rule = plans.rules[plans.chosen];
  let where = []; // of the chosen output element, a place in each axis' list of known outputs
  let view = []; // the places that the table of outputs shows, for its rows and its columns

  const line = (axis) => plans.lines[axis.line];
  const outputs = (axis) => line(axis).output;
  const windowOf = (k) => {
    const axis = rule.axes[k], all = line(axis), i = where[k];
    return { output: all.output[i], start: all.start[i], stop: all.stop[i], first: all.first[i], last: all.last[i],
      inside: all.inside[i], divisor: all.divisor[i], weights_text: all.weights_text ? all.weights_text[i] : "" };
  };
  const multiplied = (numbers) => numbers.reduce((all, n) => all * BigInt(n), 1n);
  const rowAxis = () => rule.axes.length - 2;
  const columnAxis = () => rule.axes.length - 1;

  function made(name, attributes = {}, text) {
    const svg = ["svg", "rect", "text", "circle"].includes(name);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  // Which positions of an axis are drawn: all of a few, else the edges and what lies between; the window's own first,
  // of padding the shortest gaps alone.
  function runs(axis, seen) {
    const low = -axis.pads[0], high = axis.end;
    if (high - low <= MOST) return [[low, high]];
    const kept = new Set(edges(axis, seen).filter((p) => p >= low && p < high));
    const sorted = () => [...kept].sort((a, b) => a - b);
    const inside = (from) => from >= seen.start && from < seen.stop;
    const gaps = sorted().slice(1).map((p, i) => [sorted()[i] + 1, p]).filter(([from, to]) => to > from);
    gaps.sort((a, b) => inside(b[0]) - inside(a[0]) || a[1] - a[0] - b[1] + b[0]);
    for (const [from, to] of gaps) {
      const fits = kind(axis, from) === 0 && kept.size + to - from <= MOST;
      if (to - from <= 2 || fits) for (let p = from; p < to; p++) kept.add(p);
    }
    const found = [];
    for (const p of sorted()) {
      const last = found[found.length - 1];
      if (last && last[1] === p) last[1] = p + 1; else found.push([p, p + 1]);
    }
    return found;
  }

  function edges(axis, seen) {
    const beside = [-axis.pads[0], -1, 0, 1, axis.size - 2, axis.size - 1, axis.size, axis.end - 1];
    const own = [-2, -1, 0, 1].flatMap((d) => [seen.start + d, seen.stop + d]);
    return seen.first === null ? [...beside, ...own] : [...beside, ...own, seen.first, seen.last];
  }

  function layout(axis, seen, origin) {
    if (!axis) return { cells: [[0, origin]], end: origin + CELL };
    const cells = [];
    let edge = origin;
    runs(axis, seen).forEach(([from, to], i) => {
      if (i) edge += GAP;
      for (let p = from; p < to; p++, edge += CELL) cells.push([p, edge]);
    });
    return { cells, end: edge };
  }

  const isRead = (axis, seen, p) => !axis || (seen.first !== null && p >= seen.first && p <= seen.last && (p - seen.first) % axis.step === 0);
  const small = (p) => (p < 1000 ? "" : "small");
  const kind = (axis, p) => !axis || (p >= 0 && p < axis.size) ? 0 : p < axis.size + axis.pads[1] ? 1 : 2;

  function drawing(k, rows) { // of axis `k` as columns, with axis `rows` where there is one
    const across = rule.axes[k], down = rows === null ? null : rule.axes[rows];
    const seen = windowOf(k), above = rows === null ? null : windowOf(rows);
    const x = layout(across, seen, 46), y = layout(down, above, 34);
    const svg = made("svg", { width: x.end + 8, height: y.end + 8, viewBox: `0 0 ${x.end + 8} ${y.end + 8}`, "aria-hidden": "true" });
    svg.append(made("text", { x: 46, y: 12, class: "name" }, across.name));
    if (down) svg.append(made("text", { x: 4, y: 50, class: "name" }, down.name));
    for (const [p, px] of x.cells)
      if (kind(across, p) === 0) svg.append(made("text", { x: px + CELL / 2, y: 28, "text-anchor": "middle", class: small(p) }, p));
    for (const [q, qy] of y.cells) {
      if (down && kind(down, q) === 0) svg.append(made("text", { x: 42, y: qy + 15, "text-anchor": "end", class: small(q) }, q));
      for (const [p, px] of x.cells) {
        const worst = Math.max(kind(across, p), kind(down, q));
        const read = isRead(across, seen, p) && isRead(down, above, q);
        svg.append(made("rect", { x: px, y: qy, width: CELL, height: CELL, class: ["in", "pad", "past"][worst] + (read ? " read" : "") }));
      }
    }
    const edge = (cells, p) => cells.find(([q]) => q === p)[1];
    const left = edge(x.cells, seen.start), right = edge(x.cells, seen.stop - 1) + CELL;
    const top = down ? edge(y.cells, above.start) : 34, bottom = down ? edge(y.cells, above.stop - 1) + CELL : y.end;
    for (const name of ["halo", "window"])
      svg.append(made("rect", { x: left, y: top, width: right - left, height: bottom - top, class: name }));
    return svg;
  }

  const reads = (seen) => seen.first === null ? "nothing" : seen.first === seen.last ? `${seen.first}` : `${seen.first} to ${seen.last}`;

  function sentence() {
    const seen = rule.axes.map((_, k) => windowOf(k));
    const element = rule.axes.map((axis, k) => `${axis.name} ${seen[k].output}`).join(", ");
    const from = rule.axes.map((axis, k) => `${axis.name} ${reads(seen[k])}`).join(", ");
    if (seen.some((w) => w.first === null)) return `Output ${element} reads nothing${rule.nothing ? `: ${rule.nothing}` : ""}`;
    const sum = `Output ${element} = ${rule.verb} of input ${from}`;
    if (!rule.divides) return sum;
    const factors = seen.map((w) => w.divisor);
    if (rule.override !== null) return `${sum}, divided by ${rule.override}`;
    const how = factors.length > 1 ? `${factors.join(" × ")} = ${multiplied(factors)}` : factors[0];
    return `${sum}, divided by ${how}`;
  }

  function show() {
    const rest = rule.axes.length > 1 ? rowAxis() : null;
    const drawings = rule.axes.slice(0, Math.max(0, rule.axes.length - 2)).map((_, k) => drawing(k, null));
    at("input").replaceChildren(...drawings, drawing(columnAxis(), rest));
    at("formula").textContent = sentence();
    at("windows").tBodies[0].replaceChildren(...rule.axes.map((axis, k) => {
      const seen = windowOf(k), row = made("tr");
      const starts = `${axis.starts.replace("o", seen.output)} = ${seen.start}`;
      const divisor = !rule.divides ? "-" : rule.override !== null ? "override" : seen.divisor;
      row.append(made("th", { scope: "row" }, axis.name),
        ...[starts, `[${seen.start}, ${seen.stop})`, reads(seen) + (seen.weights_text ? `, weights ${seen.weights_text}` : ""), seen.inside, divisor, axis.formula].map((text) => made("td", {}, text)));
      return row;
    }));
    for (const input of at("steps").querySelectorAll("input")) input.value = windowOf(Number(input.dataset.axis)).output;
    for (const cell of at("output").querySelectorAll("td[data-at]")) {
      const chosen = cell.dataset.at === where.slice(-2).join(",");
      cell.setAttribute("aria-selected", chosen);
      cell.tabIndex = chosen ? 0 : -1;
    }
  }

  // The places of an axis that the table shows: all of a few, else some around the chosen one and both ends.
  function places(k) {
    const count = outputs(rule.axes[k]).length;
    if (count <= 2 * SHOWN) return [...Array(count).keys()];
    const from = Math.max(0, Math.min(where[k] - SHOWN / 2, count - SHOWN));
    const wanted = [0, ...Array.from({ length: SHOWN }, (_, i) => from + i), count - 1];
    return [...new Set(wanted)];
  }

  function cellText(i, j) {
    if (!rule.divides) return "";
    if (rule.override !== null) return rule.override;
    const at = [...where.slice(0, -2), ...(rule.axes.length > 1 ? [i] : []), j];
    return multiplied(rule.axes.map((axis, k) => line(axis).divisor[at[k]]));
  }

  function table() {
    const columns = places(columnAxis()), rows = rule.axes.length > 1 ? places(rowAxis()) : [0];
    view = [rows, columns];
    const names = outputs(rule.axes[columnAxis()]), downs = rule.axes.length > 1 ? outputs(rule.axes[rowAxis()]) : [""];
    const skips = (list, i) => i > 0 && list[i] !== list[i - 1] + 1;
    const label = rule.axes.slice(-2).map((axis) => axis.name);
    const head = made("tr");
    head.append(made("th", {}, label.length > 1 ? `${label[0]} \\ ${label[1]}` : label[0]));
    columns.forEach((j, n) => {
      if (skips(columns, n)) head.append(made("th", { "aria-hidden": "true" }, "…"));
      head.append(made("th", { scope: "col" }, names[j]));
    });
    const body = [head];
    rows.forEach((i, m) => {
      if (skips(rows, m)) {
        const gap = made("tr", { "aria-hidden": "true" });
        gap.append(made("th", {}, "⋮"));
        body.push(gap);
      }
      const row = made("tr");
      row.append(made("th", { scope: "row" }, downs[i]));
      columns.forEach((j, n) => {
        if (skips(columns, n)) row.append(made("td", { class: "gap", "aria-hidden": "true" }, "…"));
        const place = rule.axes.length > 1 ? `${i},${j}` : `${j}`;
        const named = rule.axes.length > 1 ? `${label[0]} ${downs[i]}, ${label[1]} ${names[j]}` : `${label[0]} ${names[j]}`;
        row.append(made("td", { role: "gridcell", "data-at": place, "aria-label": named }, cellText(i, j)));
      });
      body.push(row);
    });
    at("output").replaceChildren(...body);
  }

  const hidden = () => !view[1].includes(where[columnAxis()]) || (rule.axes.length > 1 && !view[0].includes(where[rowAxis()]));

  function go(target, focus) {
    const before = where;
    where = target.map((place, k) => Math.max(0, Math.min(place, outputs(rule.axes[k]).length - 1)));
    const moved = before.slice(0, -2).join() !== where.slice(0, -2).join();
    if (hidden() || moved) table();
    show();
    if (focus) at("output").querySelector("td[aria-selected=true]").focus();
  }

  function point(event) {
    const found = document.elementFromPoint(event.clientX, event.clientY);
    const cell = found && found.closest("#output td[data-at]");
    if (cell && cell.getAttribute("aria-selected") !== "true")
      go([...where.slice(0, -2), ...cell.dataset.at.split(",").map(Number)], event.type === "pointerdown");
  }

  // Keys that the page itself would scroll by, where nothing has the focus: the arrows are for the window.
  function keyOfThePage(event) {
    const nothing = document.activeElement === null || document.activeElement === document.body;
    if (nothing && event.key.startsWith("Arrow") && !event.shiftKey && !rule.refusal) key(event);
  }

  function key(event) {
    const last = where.length - 1, down = where.length > 1 ? last - 1 : last, deep = Math.max(0, last - 2);
    const target = [...where], count = outputs(rule.axes[last]).length;
    const moves = {
      ArrowRight: () => target[last]++, ArrowLeft: () => target[last]--, ArrowDown: () => target[down]++, ArrowUp: () => target[down]--,
      Home: () => (target[last] = 0), End: () => (target[last] = count - 1), PageDown: () => target[deep]++, PageUp: () => target[deep]--,
    };
    if (!moves[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    moves[event.key]();
    go(target, true);
  }

  function steps() {
    const legend = at("steps").querySelector("legend");
    at("steps").replaceChildren(legend, ...rule.axes.map((axis, k) => {
      const box = made("span"), known = outputs(axis);
      const step = (by) => { const to = [...where]; to[k] += by; go(to); };
      const input = made("input", { type: "number", min: 0, max: axis.output - 1, "data-axis": k, "aria-label": `${axis.name}, 0 to ${axis.output - 1}` });
      input.addEventListener("change", () => {
        const wanted = Number(input.value), to = [...where];
        to[k] = known.reduce((best, o, i) => Math.abs(o - wanted) < Math.abs(known[best] - wanted) ? i : best, 0);
        go(to);
      });
      const less = made("button", { type: "button", "aria-label": `${axis.name} back` }, "−");
      const more = made("button", { type: "button", "aria-label": `${axis.name} on` }, "+");
      less.addEventListener("click", () => step(-1));
      more.addEventListener("click", () => step(1));
      const left = known.length < axis.output ? ` (known: ${known.length / 2} at each end)` : "";
      box.append(`${axis.name} `, less, " ", input, " ", more, ` of ${axis.output}${left}`);
      return box;
    }));
  }

  function choose(number) {
    rule = plans.rules[number];
    at("refusal").hidden = !rule.refusal;
    at("shown").hidden = Boolean(rule.refusal);
    if (rule.refusal) {
      at("title").textContent = `${rule.name}: refused`;
      at("refusal").textContent = rule.refusal;
      return;
    }
    at("title").textContent = rule.title;
    at("causes").replaceChildren(...rule.causes.map((text) => made("li", {}, text)));
    at("caption").replaceChildren(...rule.caption.map((text) => made("p", {}, text)));
    at("numbers").hidden = !rule.divides;
    at("padding").hidden = rule.axes.every((axis) => axis.pads[0] === 0 && axis.pads[1] === 0);
    at("past").hidden = rule.axes.every((axis) => axis.end <= axis.size + axis.pads[1]);
    at("more").textContent = rule.axes.length > 2 ? `, Page Up and Page Down along ${rule.axes[rule.axes.length - 3].name}` : "";
    view = [[], []];
    steps();
    go(where.length ? where : rule.axes.map(() => 0));
  }

  plans.rules.forEach((each, i) => {
    const label = made("label", each.refusal ? { class: "refused" } : {});
    const radio = made("input", { type: "radio", name: "rule", value: i });
    radio.checked = i === plans.chosen;
    radio.addEventListener("change", () => choose(i));
    label.append(radio, ` ${each.name}`);
    at("rules").append(label);
  });
  at("output").addEventListener("pointerover", point);
  at("output").addEventListener("pointerdown", (event) => {
    if (event.target.releasePointerCapture && event.target.hasPointerCapture(event.pointerId)) event.target.releasePointerCapture(event.pointerId);
    point(event);
  });
  at("output").addEventListener("pointermove", point);
  at("output").addEventListener("keydown", key);
  document.addEventListener("keydown", keyOfThePage);
  document.querySelector("main").hidden = false;
  choose(plans.chosen);
})();
