// Sorts a table of cases by the column whose heading is clicked, and shows the rows that hold the words typed.
const table = document.querySelector("table.cases");
const body = table.tBodies[0];
const given = [...body.rows];
const compare = new Intl.Collator("en", { numeric: true }).compare;

// Emptied first and outside of its table: the time for rows moved one by one grows with the square of their number.
function arrange(rows) {
  body.remove();
  body.replaceChildren();
  for (const row of rows) body.append(row);
  table.append(body);
}

function sorted(at, number) {
  const keys = given.map(({ cells }) => (number ? parseFloat(cells[at].textContent) || 0 : cells[at].textContent));
  const order = number ? (a, b) => keys[a] - keys[b] : (a, b) => compare(keys[a], keys[b]);
  return [...given.keys()].sort(order).map((which) => given[which]);
}

for (const heading of table.tHead.rows[0].cells) {
  heading.querySelector("button")?.addEventListener("click", () => {
    const next = { none: "ascending", ascending: "descending", descending: "none" }[heading.ariaSort ?? "none"];
    for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
    if (next === "none") return arrange(given);
    heading.ariaSort = next;
    const rows = sorted(heading.cellIndex, heading.className === "n");
    arrange(next === "ascending" ? rows : rows.reverse());
  });
}

// The words of a row, without those of its trend, which are of earlier sweeps.
const text = (row) => [...row.cells].map((cell) => (cell.querySelector("svg") ? "" : cell.textContent)).join(" ");
let texts;
document.querySelector("input").addEventListener("input", (event) => {
  texts ??= given.map((row) => text(row).toLowerCase());
  const words = event.target.value.toLowerCase().split(/\s+/);
  body.remove();
  given.forEach((row, at) => (row.hidden = !words.every((word) => texts[at].includes(word))));
  table.append(body);
});
