// The address of the page: it is the link to what is shown.
let awaited = null;
const asksForEpisodes = (query) => new URLSearchParams(query).has("panel");
window.leaderboard = {
  // Episodes stand at the end of a long page: a link to them has to lead there.
  sought: asksForEpisodes(location.search),
  // A link was followed: going back leads to where it was.
  moved(href) {
    history.pushState(null, "", href);
    this.sought = asksForEpisodes(href);
    this.reveal();
  },
  // What is above may still be drawn.
  reveal() {
    setTimeout(() => {
      const one = new URLSearchParams(location.search).has("episode");
      const part = document.querySelector(
        one ? ".lb-episode :is(h4, .lb-waiting)" : ".lb:has(> .lb-browser) > h3");
      if (!this.sought || !part?.offsetParent) return;
      const { top } = part.getBoundingClientRect();
      if (top < 0 || top > 0.6 * window.innerHeight) part.scrollIntoView();
      this.sought = part.matches(".lb-waiting");
    }, 150);
  },
  // A tab shows something else now; `step`: going back leads to the tab before.
  shown(tab, step = false) {
    // The last one says most: what is chosen within an entry stands below the entry.
    const link = [...tab.querySelectorAll("a.lb-view")].at(-1);
    // A tab that is opened for the first time has no content yet: the step is made with it.
    if (!link && step) awaited = tab;
    if (!link || tab.style.display === "none") return;
    if (tab === awaited) [step, awaited] = [true, null];
    const query = new URLSearchParams(link.getAttribute("href").slice(1));
    const theme = new URLSearchParams(location.search).get("__theme");
    if (theme) query.set("__theme", theme);
    if (`?${query}` === location.search) return;
    history[step ? "pushState" : "replaceState"](null, "", `?${query}`);
    // A page of the hub shows a Space in a frame and keeps its own address.
    if (window.parent !== window) {
      window.parent.postMessage({ queryString: query.toString() }, "https://huggingface.co");
    }
  },
};
window.addEventListener("popstate", () => location.reload());
// Tabs are chosen by a click, also in the menu of those that have no room.
let open = null;
const visible = () => [...document.querySelectorAll('[role="tabpanel"]')]
  .find((each) => each.style.display !== "none");
document.addEventListener("pointerdown", () => { open = visible() ?? open; }, true);
document.addEventListener("keydown", () => { open = visible() ?? open; }, true);
document.addEventListener("click", (event) => {
  if (event.target.closest?.("a")) return;
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const tab = visible();
    if (tab && tab !== open) window.leaderboard.shown(tab, true);
    open = tab ?? open;
  }));
});

// Gradio takes key presses for input, of which pasting, dictating, deleting and the keys of a telephone
// know nothing. Here whatever changes the words of a search is one.
const searches = (event) => event.target.closest?.("#search");
document.addEventListener("keypress", (event) => {
  if (event.isTrusted && event.key !== "Enter" && searches(event)) event.stopPropagation();
}, true);
document.addEventListener("input", (event) => {
  if (searches(event)) event.target.dispatchEvent(new KeyboardEvent("keypress", { bubbles: true }));
});

// The answer that came with the HTML is shown until Gradio has drawn its own (`serve/shell.py`).
new MutationObserver((_, observer) => {
  if (!document.querySelector("gradio-app .lb")) return;
  document.getElementById("lb-waiting")?.remove();
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });

// A button copies the text beside it, and says so.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.(".lb-copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
