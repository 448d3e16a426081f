// What a tab shows, as gradio's HTML component runs it: `element`, `trigger` and `watch` are given.
// Links within the page are followed by asking for their view; the address follows what is shown.
const inTab = () => element.closest('[role="tabpanel"]') ?? document;

function follow(event) {
  const link = event.target.closest("a[data-go]");
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.button);
  if (!link || !plain) return;
  event.preventDefault();
  const href = link.getAttribute("href");
  window.leaderboard.moved(href);
  trigger("select", { href });
}

element.addEventListener("click", follow);
watch("value", () => window.leaderboard.shown(inTab()));
