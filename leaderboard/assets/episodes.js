// The page was opened at an episode: ask for it once the tab is there.
if (new URLSearchParams(location.search).get("tab") === "entry") {
  trigger("input", { href: location.search });
}
