// An episode is read and played again, which may take seconds: what stands in its place asks for it.
function fetchEpisode() {
  const waiting = element.querySelector(".lb-waiting");
  if (waiting) trigger("input", { href: waiting.dataset.query });
}

watch("value", fetchEpisode);
fetchEpisode();
