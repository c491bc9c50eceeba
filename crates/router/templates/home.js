"use strict";
// The page works without this script. With it, answers appear in place and the figures stay current.
const main = document.getElementById("answer"), form = document.getElementById("lookup"), life = document.getElementById("life");
let asking = null;

async function show(address, push) {
  if (asking) asking.abort();
  const request = asking = new AbortController();
  form.setAttribute("aria-busy", "true");
  try {
    const reply = await fetch(address, { signal: request.signal, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const answer = page.getElementById("answer");
    if (!answer) throw new Error(`the server answered with status ${reply.status}`);
    main.replaceChildren(...answer.childNodes);
    document.title = page.title;
    for (const name of ["url", "datetime"]) form.elements[name].value = page.getElementById(name).value;
    if (push) history.pushState(null, "", address);
    main.focus({ preventScroll: !push });
  } catch (error) {
    if (error.name === "AbortError") return;
    const text = document.createElement("p");
    text.className = "problem";
    text.setAttribute("role", "alert");
    text.textContent = `The router cannot be reached: ${error.message}. Try again in a moment.`;
    main.replaceChildren(text);
  } finally {
    if (asking === request) form.removeAttribute("aria-busy");
  }
}

form.addEventListener("submit", event => {
  event.preventDefault();
  const words = new URLSearchParams(new FormData(form));
  if (!words.get("datetime")) words.delete("datetime");
  show(form.getAttribute("action") + "?" + words, true);
});
main.addEventListener("click", event => {
  const link = event.target.closest("a.zoom");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(link.getAttribute("href"), true);
});
addEventListener("popstate", () => show(location.pathname + location.search, false));

function refresh(state) {
  for (const fact of state.facts) {
    const place = life.querySelector(`[data-fact="${fact.key}"]`);
    if (place && place.textContent !== fact.value) place.textContent = fact.value;
  }
  for (const row of state.rows) {
    const place = life.querySelector(`[data-archive="${CSS.escape(row.id)}"]`);
    if (!place) continue;
    for (const name of ["state", "asked", "hits", "spared", "latency", "summaries"]) {
      const cell = place.querySelector(`[data-cell="${name}"]`);
      if (cell.textContent !== row[name]) cell.textContent = row[name];
    }
  }
}
new EventSource(life.dataset.events).addEventListener("message", event => refresh(JSON.parse(event.data)));
