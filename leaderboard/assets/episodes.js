// An episode is read and played again, which may take seconds: what stands in its place asks for it.
function fetchEpisode() {
  const waiting = element.querySelector(".lb-waiting");
  if (waiting) trigger("input", { href: waiting.dataset.query });
}

watch("value", fetchEpisode);
fetchEpisode();
// Where too many ask at once the server declines. What is being answered is not asked for twice.
setInterval(() => {
  const waiting = element.querySelector(".lb-waiting");
  if (waiting) waiting.textContent = "Many episodes are being read just now: yours takes longer …";
  fetchEpisode();
}, 3000);
