"use strict";
// Elements and boards. Whatever comes from the run is inserted as text: the page's content
// security policy forbids markup from strings.
const Page = (() => {
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  // The same list as in html_text.py.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]/gu;

  // ---- Elements ----

  /** Text as nodes, hidden characters as their code points. */
  function visible(text) {
    const nodes = [];
    let end = 0;
    for (const match of text.matchAll(HIDDEN)) {
      if (match.index > end) nodes.push(text.slice(end, match.index));
      const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      const mark = document.createElement("span");
      mark.className = "hidden-character";
      mark.textContent = `U+${code}`;
      nodes.push(mark);
      end = match.index + match[0].length;
    }
    if (end < text.length) nodes.push(text.slice(end));
    return nodes;
  }

  /** An element with attributes; strings among the children become visible text. */
  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== null) element.setAttribute(key, value);
    }
    for (const child of children.flat()) {
      if (child === null) continue;
      element.append(...(typeof child === "string" ? visible(child) : [child]));
    }
    return element;
  }

  function shape(name, attributes, ...children) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  function amount(value, digits = 2) {
    if (value === null) return "\u2013";
    // Adding 0 makes a negative zero positive.
    const text = (Number(value.toFixed(digits)) + 0).toLocaleString("en", { maximumFractionDigits: digits });
    return text.replace(/^-/, "\u2212");
  }

  // ---- Boards ----

  const GLYPHS = {
    dot: (x, y) => [shape("circle", { cx: x + 0.5, cy: y + 0.5, r: 0.15, fill: "#b07a1c" })],
    box: (x, y) => [
      shape("rect", { x: x + 0.14, y: y + 0.14, width: 0.72, height: 0.72, rx: 0.06, fill: "#b5793f", stroke: "#6d441c", "stroke-width": 0.06 }),
      shape("path", { d: `M${x + 0.26} ${y + 0.26}l.48 .48m0 -.48l-.48 .48`, stroke: "#6d441c", "stroke-width": 0.06, fill: "none" }),
    ],
    player: (x, y) => [
      shape("circle", { cx: x + 0.5, cy: y + 0.3, r: 0.16, fill: "#2a64a5" }),
      shape("path", { d: `M${x + 0.2} ${y + 0.86}v-.1a.3 .27 0 0 1 .6 0v.1z`, fill: "#2a64a5" }),
    ],
  };

  /** The lines of an observation that consist of nothing but tiles, or null if there are none. */
  function boardOf(observation, tiles) {
    if (observation === null || !Object.keys(tiles).length) return null;
    const rows = observation.split("\n").map((line) => [...line]);
    const board = rows.filter((row) => row.length && row.every((symbol) => Object.hasOwn(tiles, symbol)));
    return board.length ? board : null;
  }

  function cell(x, y, symbol, tiles) {
    const [, fill, glyph] = tiles[symbol];
    const parts = [shape("rect", { x, y, width: 1, height: 1, fill, "shape-rendering": "crispEdges" })];
    for (const name of glyph.split(" ").filter((word) => Object.hasOwn(GLYPHS, word))) parts.push(...GLYPHS[name](x, y));
    return parts;
  }

  function drawBoard(board, tiles) {
    const width = Math.max(...board.map((row) => row.length));
    const svg = shape("svg", { class: "board", viewBox: `0 0 ${width} ${board.length}`, width: width * 52, height: board.length * 52, role: "img" });
    const found = new Map();
    board.forEach((row, y) => row.forEach((symbol, x) => {
      svg.append(...cell(x, y, symbol, tiles));
      const [kind, , glyph] = tiles[symbol];
      if (glyph) found.set(kind, [...(found.get(kind) ?? []), `row ${y} column ${x}`]);
    }));
    const edges = [];
    for (let x = 1; x < width; x++) edges.push(`M${x} 0V${board.length}`);
    for (let y = 1; y < board.length; y++) edges.push(`M0 ${y}H${width}`);
    svg.append(shape("path", { d: edges.join(""), stroke: "#000", "stroke-opacity": 0.1, "stroke-width": 0.02 }));
    const pieces = [...found].map(([kind, places]) => `${kind} at ${places.join(" and ")}`);
    svg.setAttribute("aria-label", `Board of ${board.length} rows and ${width} columns, counted from 0: ${pieces.join("; ")}`);
    return svg;
  }

  function drawLegend(tiles) {
    return make("div", { class: "legend", "aria-hidden": "true" }, Object.entries(tiles).map(([symbol, [kind]]) =>
      make("span", {}, shape("svg", { viewBox: "0 0 1 1" }, ...cell(0, 0, symbol, tiles)), kind)));
  }

  return { $, visible, make, amount, boardOf, drawBoard, drawLegend };
})();
