// Sorts a table of cases by the column whose heading is clicked, and shows the rows that hold the words typed.
const table = document.querySelector("table.cases");
const body = table.tBodies[0];
const given = [...body.rows];
const compare = new Intl.Collator("en", { numeric: true }).compare;

for (const heading of table.tHead.rows[0].cells) {
  heading.querySelector("button")?.addEventListener("click", () => {
    const next = { none: "ascending", ascending: "descending", descending: "none" }[heading.ariaSort ?? "none"];
    for (const other of table.tHead.rows[0].cells) other.ariaSort = null;
    if (next === "none") return body.append(...given);
    heading.ariaSort = next;
    const at = heading.cellIndex;
    const number = heading.className === "n";
    const value = (row) => row.cells[at].textContent;
    const order = number ? (a, b) => (parseFloat(value(a)) || 0) - (parseFloat(value(b)) || 0) : (a, b) => compare(value(a), value(b));
    const sorted = [...given].sort(order);
    body.append(...(next === "ascending" ? sorted : sorted.reverse()));
  });
}

document.querySelector("input").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const row of given) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
});
