// An episode is read and played again, which may take seconds: what stands in its place asks for it.
function fetchEpisode() {
  const waiting = element.querySelector(".lb-waiting");
  if (waiting) trigger("input", { href: waiting.dataset.query });
}

watch("value", fetchEpisode);
watch("value", () => window.leaderboard.reveal());
fetchEpisode();
window.leaderboard.reveal();
// Where too many ask at once the server declines. What is being answered is not asked for twice.
setInterval(() => {
  const waiting = element.querySelector(".lb-waiting");
  if (waiting) waiting.textContent = "Many episodes are being read just now: yours takes longer …";
  fetchEpisode();
}, 3000);

// Words in the search leave only the episodes that hold all of them.
element.addEventListener("input", (event) => {
  if (!event.target.matches(".lb-find")) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of element.querySelectorAll(".lb-list li")) {
    const text = item.textContent.toLowerCase();
    item.hidden = !words.every((word) => text.includes(word));
  }
});

// One turn at a time, by buttons or arrow keys; 0 shows all of them again. Plays beside each other go
// on together, and one that has ended stays at its last turn.
function step(by) {
  const plays = [...element.querySelectorAll(".lb-turns")].map((list) => [...list.children]);
  const last = Math.max(...plays.map((turns) => turns.length)) - 1;
  const at = Math.max(
    ...plays.map((turns) => turns.findIndex((turn) => turn.classList.contains("lb-now"))));
  const next = at < 0 ? (by > 0 ? 0 : last) : Math.min(Math.max(at + by, 0), last);
  for (const turns of plays) {
    turns[0]?.parentElement.classList.toggle("lb-single", by !== 0);
    const own = Math.min(next, turns.length - 1);
    turns.forEach((turn, place) => turn.classList.toggle("lb-now", by !== 0 && place === own));
  }
}

element.addEventListener("click", (event) => {
  const button = event.target.closest("[data-step]");
  if (button) step(Number(button.dataset.step));
});
element.addEventListener("keydown", (event) => {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  const by = { ArrowLeft: -1, ArrowRight: 1, Escape: 0 }[event.key];
  if (by === undefined || !event.target.closest(".lb-episode")) return;
  event.preventDefault();
  step(by);
});
