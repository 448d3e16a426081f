"use strict";
// The episode browser.
(() => {
  const { $, visible, make, amount, boardOf, drawBoard, drawLegend } = Page;

  // ---- Data ----

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function read(data) {
    const episodes = data.episodes.map((fields) => {
      const [place, number, id, repeat, category, success, score, reward, penalty, error, differences, asked, start, turns, images = []] = fields;
      const panel = data.panels[number];
      const parsed = turns.map(([response, action, flags, reward, promptTokens, responseTokens, logProb, after, info, admissible]) => ({
        response, action, formatOk: Boolean(flags & 1), actionOk: Boolean(flags & 2), cut: Boolean(flags & 4),
        reward, promptTokens, responseTokens, logProb, after, info, admissible,
      }));
      const kind = error !== null ? "error" : success ? "solved" : "failed";
      const key = `${panel.task}/${panel.panel}/${id}`;
      const invalid = parsed.some((turn) => !(turn.formatOk && turn.actionOk));
      return { place, panel, id, repeat, category, score, reward, penalty, error, differences, asked, start, turns: parsed, images, kind, key, invalid };
    });
    return { panels: data.panels, episodes: episodes.sort((a, b) => a.place - b.place) };
  }

  // ---- State ----

  const SIGNS = { solved: "\u2713", failed: "\u2717", error: "!" };
  const NAMES = { solved: "solved", failed: "failed", error: "ended in an error" };
  const FILTERS = [
    ["all", "All", () => true],
    ["solved", "Solved", (episode) => episode.kind === "solved"],
    ["failed", "Failed", (episode) => episode.kind === "failed"],
    ["error", "Errors", (episode) => episode.kind === "error"],
    ["invalid", "Invalid responses", (episode) => episode.invalid],
    ["differs", "Do not replay", (episode) => episode.differences.length > 0],
  ];
  const LONG = 24; // characters of an id that find room in a row of the list
  const PAGE = 400; // rows of the list that are drawn at once: a run may have 100,000 episodes
  const state = { filter: "all", found: [], rows: PAGE, episode: null, turn: 0, open: { response: false, observation: false, admissible: false, info: false } };
  let panels = [], episodes = [];

  function address(episode, turn) {
    const parts = [`episode=${encodeURIComponent(episode.key).replaceAll("%2F", "/")}`];
    if (episode.panel.repeats > 1) parts.push(`repeat=${episode.repeat}`);
    parts.push(`turn=${turn < episode.turns.length ? turn + 1 : "end"}`);
    return `#${parts.join("&")}`;
  }

  /** The episode and turn that the page's address names, or null. */
  function addressed() {
    const fields = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
    const name = fields.get("episode");
    if (name === null) return null;
    const repeat = Number(fields.get("repeat") ?? 0);
    const named = (episode) => (episode.key === name || episode.id === name) && episode.repeat === repeat;
    const episode = episodes.find(named);
    if (!episode) return { episode: null, name };
    const turn = fields.get("turn") === "end" ? episode.turns.length : Number.parseInt(fields.get("turn") ?? "1", 10) - 1;
    return { episode, turn: Math.max(0, Math.min(turn || 0, episode.turns.length)) };
  }

  // ---- List ----

  function makeRow(episode) {
    const turns = episode.turns.length;
    const differs = episode.differences.length > 0;
    // Ids that begin with their category differ in what comes behind it: the row is short.
    const start = `${episode.category}-`;
    const short = episode.id.startsWith(start) && episode.id.length > LONG ? episode.id.slice(start.length) : episode.id;
    const label = `${short}${episode.panel.repeats > 1 ? `, repeat ${episode.repeat}` : ""}`;
    const tip = [episode.id, episode.asked].filter(Boolean).join(": ");
    episode.link = make("a", { href: address(episode, 0), tabindex: -1, title: tip },
      make("span", { class: `sign ${episode.kind}`, "aria-hidden": "true" }, SIGNS[episode.kind]),
      make("span", { class: "name" }, label),
      make("span", { class: "sub" }, `${turns} ${turns === 1 ? "turn" : "turns"}${differs ? " \u2260" : ""}`),
      make("span", { class: "visually-hidden" }, `, ${NAMES[episode.kind]}${differs ? ", does not replay" : ""}`));
    episode.row = make("li", {}, episode.link);
    return episode.row;
  }

  function drawList() {
    const drawn = state.found.slice(0, state.rows);
    $("list").replaceChildren(...drawn.map((episode) => episode.row ?? makeRow(episode)));
    const left = state.found.length - drawn.length;
    if (left) {
      const more = make("button", { type: "button" }, `Show ${Math.min(PAGE, left)} more`);
      more.addEventListener("click", () => {
        state.rows += PAGE;
        drawList();
        state.found[drawn.length].link.focus();
      });
      $("list").append(make("li", { class: "more" }, more));
    }
    markCurrent();
  }

  /** Mark the shown episode in the list; it alone, or else the first, is reached with Tab. */
  function markCurrent() {
    const drawn = state.found.slice(0, state.rows);
    const stop = drawn.includes(state.episode) ? state.episode : drawn[0];
    for (const episode of drawn) {
      if (episode === state.episode) episode.link.setAttribute("aria-current", "true");
      else episode.link.removeAttribute("aria-current");
      episode.link.tabIndex = episode === stop ? 0 : -1;
    }
  }

  function options(select, values) {
    select.replaceChildren(make("option", { value: "" }, "all"), ...values.map(([value, text]) => make("option", { value }, text)));
  }

  function buildFilters() {
    for (const [name, text, test] of FILTERS) {
      const count = episodes.filter(test).length;
      if (name === "differs" && !count) continue;
      const button = make("button", { type: "button", "aria-pressed": String(name === state.filter), "data-filter": name }, `${text} ${count}`);
      button.disabled = !count;
      button.addEventListener("click", () => {
        state.filter = name;
        for (const other of $("filters").children) other.setAttribute("aria-pressed", String(other === button));
        applyFilters();
      });
      $("filters").append(button);
    }
    $("panel-field").hidden = panels.length < 2;
    options($("panel-select"), panels.map((panel, index) => [index, `${panel.task}/${panel.panel}`]));
    $("panel-select").addEventListener("change", () => { fillCategories(); applyFilters(); });
    $("category-select").addEventListener("change", applyFilters);
    $("search").addEventListener("input", applyFilters);
    fillCategories();
  }

  function chosenPanels() {
    const chosen = $("panel-select").value;
    return chosen === "" ? panels : [panels[Number(chosen)]];
  }

  function fillCategories() {
    const chosen = chosenPanels();
    const found = new Set(episodes.filter((episode) => chosen.includes(episode.panel)).map((episode) => episode.category));
    const sorted = [...found].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    options($("category-select"), sorted.map((category) => [category, category]));
    const names = new Set(chosen.map((panel) => panel.category));
    $("category-name").replaceChildren(...visible(names.size === 1 ? [...names][0].replace(/^./u, (first) => first.toUpperCase()) : "Category"));
  }

  function applyFilters() {
    const test = FILTERS.find(([name]) => name === state.filter)[2];
    const chosen = chosenPanels();
    const category = $("category-select").value;
    const part = $("search").value.trim().toLowerCase();
    state.found = episodes.filter((episode) => test(episode) && chosen.includes(episode.panel)
      && (category === "" || episode.category === category) && episode.id.toLowerCase().includes(part));
    state.rows = PAGE;
    $("count").textContent = `${state.found.length} of ${episodes.length} episodes`;
    drawList();
    if (state.found.length && !state.found.includes(state.episode)) show(state.found[0], 0);
    else if (state.episode) reveal(state.episode);
  }

  /** Draw the list as far as an episode, and scroll to it. */
  function reveal(episode) {
    const index = state.found.indexOf(episode);
    if (index < 0) return markCurrent();
    if (index >= state.rows) {
      state.rows = index + PAGE;
      drawList();
    } else markCurrent();
    const list = $("list"), { row } = episode;
    const outside = row.offsetTop < list.scrollTop || row.offsetTop + row.offsetHeight > list.scrollTop + list.clientHeight;
    if (outside) list.scrollTop = row.offsetTop - 80;
  }

  function stepList(offset) {
    const focused = state.found.find((episode) => episode.link === document.activeElement);
    const next = state.found[state.found.indexOf(focused ?? state.episode) + offset];
    if (next) { go(next, 0); next.link.focus(); }
  }

  // ---- One episode ----

  function show(episode, turn) {
    if (episode !== state.episode) {
      state.episode = episode;
      reveal(episode);
      showHead(episode);
    }
    state.turn = turn;
    showTurn(episode, turn);
  }

  /** Show and put into the page's address, without a new entry in the browser's history. */
  function go(episode, turn) {
    history.replaceState(null, "", address(episode, turn));
    show(episode, turn);
  }

  function showHead(episode) {
    const { panel } = episode;
    $("episode-name").replaceChildren(make("span", { class: `sign ${episode.kind}`, "aria-hidden": "true" }, SIGNS[episode.kind]), ` `, ...visible(episode.id), `: ${NAMES[episode.kind]}`);
    const facts = [`${panel.task}/${panel.panel}`, `${panel.category} ${episode.category}`];
    if (panel.repeats > 1) facts.push(`repeat ${episode.repeat}`);
    facts.push(`score ${amount(episode.score)} ${panel.unit}`.trim(), `return ${amount(episode.reward - episode.penalty)} (rewards ${amount(episode.reward)}, penalties ${amount(-episode.penalty)})`);
    $("episode-facts").replaceChildren(...visible(facts.join(" \u00b7 ")));
    const notes = [];
    if (episode.asked) notes.push(make("p", { class: "asked" }, make("b", {}, "Instruction: "), episode.asked));
    if (episode.error !== null) notes.push(make("p", { class: "notice bad" }, make("b", {}, "Error. "), episode.error));
    if (episode.differences.length) {
      notes.push(make("div", { class: "notice bad" }, make("b", {}, "Does not replay."), " The record and the replay differ:",
        make("ul", {}, episode.differences.map((difference) => make("li", {}, difference)))));
    }
    $("episode-notes").replaceChildren(...notes);
    const steps = episode.turns.map((turn, index) => {
      const bad = !(turn.formatOk && turn.actionOk);
      return stepButton(episode, index, String(index + 1), `Turn ${index + 1}${bad ? ", invalid response" : ""}`, bad ? "invalid" : null);
    });
    $("strip").replaceChildren(...steps, stepButton(episode, steps.length, "end", "End of the episode", null));
  }

  function stepButton(episode, index, text, label, kind) {
    const button = make("button", { type: "button", "aria-label": label, class: kind }, text);
    button.addEventListener("click", () => go(episode, index));
    return button;
  }

  function showTurn(episode, index) {
    const ended = index === episode.turns.length;
    // Read here, as the event of a change may come after the next turn is shown.
    for (const { dataset, open } of $("detail").querySelectorAll("details")) state.open[dataset.name] = open;
    [...$("strip").children].forEach((button, number) => {
      if (number === index) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    $("previous").disabled = index === 0;
    $("next").disabled = ended;
    const observation = index === 0 ? episode.start : episode.turns[index - 1].after;
    $("scene").replaceChildren(...scene(episode, observation, ended, episode.images[index] || []));
    $("detail").replaceChildren(...(ended ? endDetail(episode, observation) : turnDetail(episode, index, observation)));
    const turn = episode.turns[index];
    $("announce").textContent = ended
      ? `End: ${NAMES[episode.kind]}.`
      : `Turn ${index + 1} of ${episode.turns.length}. ${turn.action === null ? "Nothing executed" : `Action ${turn.action}`}. Reward ${amount(turn.reward)}.`;
  }

  function scene(episode, observation, ended, images) {
    const when = ended ? "At the end" : "Before the action";
    if (images.length) {
      // Of the tasks' own drawings, not of anything that a model wrote.
      const shown = images.map((url) => make("img", { class: "board", src: url, alt: observation || "observation" }));
      return [make("p", { class: "small" }, `${when}, as an image`), ...shown];
    }
    const caption = make("p", { class: "small" }, when);
    const board = boardOf(observation, episode.panel.tiles);
    if (board) return [caption, drawBoard(board, episode.panel.tiles), drawLegend(episode.panel.tiles)];
    if (observation !== null) return [caption, make("pre", { class: "text", tabindex: 0 }, observation)];
    return [caption, make("p", { class: "text" }, episode.panel.replayed ? "The observation is not known." : "No observation: the run cannot be replayed here.")];
  }

  function amounts(entries) {
    return make("dl", { class: "amounts" }, entries.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  }

  /** A text on demand that stays open from turn to turn. */
  function disclosure(name, title, text) {
    const element = make("details", { "data-name": name }, make("summary", {}, title), make("pre", { class: "text", tabindex: 0 }, text));
    element.open = state.open[name];
    return element;
  }

  function block(title, content) {
    return make("div", {}, make("h4", {}, title), content);
  }

  function turnDetail(episode, index, observation) {
    const turn = episode.turns[index];
    const valid = turn.formatOk && turn.actionOk;
    const thought = turn.formatOk && episode.panel.thoughts ? /<think>([^]*?)<\/think>/i.exec(turn.response) : null;
    const parts = [];
    if (thought) parts.push(block("Thought", make("div", { class: "thought" }, thought[1].trim() || "\u2013")));
    else parts.push(block(turn.formatOk ? "Response" : "Response, not in the required format", make("pre", { class: "text", tabindex: 0 }, turn.response || "(empty)")));
    const wanted = thought ? /<action>([^]*?)<\/action>/i.exec(turn.response) : null;
    const nothing = `nothing executed${wanted && wanted[1].trim() ? `, asked for: ${wanted[1].trim()}` : ""}`;
    parts.push(block("Action", turn.action === null ? make("div", { class: "action none" }, nothing) : make("div", { class: turn.action.includes("\n") ? "action program" : "action" }, turn.action)));
    const flags = [[turn.formatOk, "format valid", "format invalid"], [turn.actionOk, "action valid", "action invalid"]];
    if (turn.cut) flags.push([false, "", "cut at the token limit"]);
    parts.push(make("ul", { class: "flags" }, flags.map(([good, yes, no]) => make("li", { class: good ? null : "no" }, `${good ? "\u2713" : "\u2717"} ${good ? yes : no}`))));
    const entries = [["Reward", amount(turn.reward)], ["Format penalty", amount(valid ? 0 : -episode.panel.penalty)]];
    entries.push(["Tokens in prompt", amount(turn.promptTokens)], ["Tokens in response", amount(turn.responseTokens)]);
    entries.push(["Log-probability", amount(turn.logProb)]);
    if (turn.logProb !== null && turn.responseTokens) entries.push(["per token", amount(turn.logProb / turn.responseTokens, 3)]);
    parts.push(amounts(entries));
    if (thought) parts.push(disclosure("response", "Raw response", turn.response));
    if (observation !== null) parts.push(disclosure("observation", "Raw observation", observation));
    if (turn.admissible) parts.push(disclosure("admissible", "Possible actions", turn.admissible));
    if (turn.info !== null) parts.push(disclosure("info", "Further facts of the turn", turn.info));
    return parts;
  }

  function endDetail(episode, observation) {
    const parts = [block("Outcome", make("div", { class: "action" }, NAMES[episode.kind]))];
    parts.push(amounts([
      [`Score${episode.panel.unit ? ` (${episode.panel.unit})` : ""}`, amount(episode.score)], ["Rewards", amount(episode.reward)],
      ["Format penalties", amount(-episode.penalty)], ["Return", amount(episode.reward - episode.penalty)], ["Turns", `${episode.turns.length} of ${episode.panel.maxTurns}`],
    ]));
    if (observation !== null) parts.push(disclosure("observation", "Raw observation", observation));
    return parts;
  }

  // ---- Start ----

  function step(offset) {
    const { episode, turn } = state;
    const next = turn + offset;
    if (episode && next >= 0 && next <= episode.turns.length) go(episode, next);
  }

  function onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const target = event.target;
    if (target instanceof Element && target.closest("input, select, textarea")) return;
    // Elsewhere on the page the keys step only while the browser is in view.
    const box = $("browser").getBoundingClientRect();
    const inside = target instanceof Element && target.closest("#browser");
    if (!inside && (box.bottom < 0 || box.top > window.innerHeight)) return;
    const vertical = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const horizontal = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (vertical && target instanceof Element && target.closest("#list")) stepList(vertical);
    else if (horizontal) step(horizontal);
    else return;
    event.preventDefault();
  }

  function onAddress() {
    const named = addressed();
    fault(named && !named.episode ? `This report has no episode ${named.name}.` : null);
    if (named?.episode) show(named.episode, named.turn);
    return Boolean(named?.episode);
  }

  function fault(text) {
    $("browser-fault").hidden = text === null;
    $("browser-fault").replaceChildren(...visible(text ?? ""));
  }

  async function start() {
    ({ panels, episodes } = read(await unpack($("data").textContent)));
    if (!episodes.length) return;
    buildFilters();
    $("previous").addEventListener("click", () => step(-1));
    $("next").addEventListener("click", () => step(1));
    document.addEventListener("keydown", onKey);
    window.addEventListener("hashchange", onAddress);
    applyFilters();
    if (onAddress()) $("episodes").scrollIntoView();
  }

  start().catch((error) => fault(`The episodes cannot be shown: ${error}`));
})();
