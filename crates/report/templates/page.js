// Tables as CSV: plain values where cells show formatted ones.
for (const button of document.querySelectorAll("button.csv")) button.addEventListener("click", () => {
  const table = document.getElementById(button.dataset.table);
  const quote = text => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const lines = [...table.rows].map(row => [...row.cells].map(cell => quote(cell.dataset.value ?? cell.textContent)).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  link.download = button.dataset.file;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
});
// Values on hover and on touch, at once instead of after the browser's delay.
const tip = document.getElementById("tip");
for (const mark of document.querySelectorAll("svg .mark")) {
  const title = mark.querySelector("title");
  if (!title) continue;
  mark.dataset.tip = title.textContent;
  title.remove();
}
function show(event) {
  const mark = event.target.closest?.("[data-tip]");
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4)) + "px";
  tip.style.top = (event.clientY > height + 20 ? event.clientY - height - 12 : event.clientY + 18) + "px";
}
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.querySelector("button.theme")?.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
