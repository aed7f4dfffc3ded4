/* A table that sorts by a click on its head and is filtered by what is typed. */
class Rows {
  /* Columns: {name, value(row), shown(row), number}. */
  constructor(root, id, columns, rows, { failed, chosen } = {}) {
    Object.assign(this, { columns, rows, failed, chosen, shown: 50, sorted: null, down: false });
    const bar = element(root, "div", "bar");
    this.input = element(bar, "input").attr("type", "search").attr("placeholder", say("filter")).attr("aria-label", `${say("filter")}: ${id}`)
      .on("input", () => this.draw());
    if (failed && rows.some(failed)) {
      const label = element(bar, "label");
      this.only = element(label, "input").attr("type", "checkbox").on("change", () => this.draw());
      element(label, "span", null, ` ${say("failing")}`);
    }
    this.count = element(bar, "span", "muted").attr("role", "status");
    const table = element(element(root, "div", "wide"), "table");
    const head = element(table, "thead").append("tr");
    columns.forEach((column, at) => {
      const cell = element(head, "th", column.number ? "number" : null).attr("scope", "col").attr("aria-sort", "none");
      column.head = cell;
      element(cell, "button", null, column.name).attr("type", "button").on("click", () => this.sort(at));
    });
    this.body = element(table, "tbody");
    this.foot = element(root, "div", "bar");
    this.draw();
  }

  sort(at) {
    this.down = this.sorted === at ? !this.down : Boolean(this.columns[at].number);
    this.sorted = at;
    this.columns.forEach((column, i) => column.head.attr("aria-sort", i !== at ? "none" : this.down ? "descending" : "ascending"));
    this.draw();
  }

  found() {
    const wanted = this.input.property("value").toLowerCase();
    let found = this.rows.filter((row) => !wanted || this.columns.some((c) => String(c.shown(row)).toLowerCase().includes(wanted)));
    if (this.only && this.only.property("checked")) found = found.filter(this.failed);
    if (this.sorted === null) return found;
    const value = this.columns[this.sorted].value;
    const order = (a, b) => {
      const [one, other] = [value(a), value(b)];
      if (typeof one === "string" && typeof other === "string") return one.localeCompare(other, undefined, { numeric: true });
      const rank = (v) => (v === null ? -Infinity : Number.isNaN(v) ? Infinity : Number(v));
      return rank(one) === rank(other) ? 0 : rank(one) < rank(other) ? -1 : 1;
    };
    found = found.slice().sort(order);
    return this.down ? found.reverse() : found;
  }

  draw() {
    const found = this.found();
    const page = found.slice(0, this.shown);
    this.count.text(say("count", { shown: found.length, count: this.rows.length }));
    const line = this.body.selectAll("tr").data(page).join("tr").attr("class", (row) => (this.failed && this.failed(row) ? "failed" : null));
    line.selectAll("td").data((row) => this.columns.map((c) => [c, row])).join("td")
      .attr("class", ([c]) => (c.number ? "number" : c.name === say("result") ? "reason" : null)).text(([c, row]) => c.shown(row));
    this.foot.selectAll("*").remove();
    const rest = Math.min(200, found.length - page.length);
    if (rest > 0) button(this.foot, say("more", { n: rest }), say("more", { n: rest }), () => { this.shown += rest; this.draw(); });
  }
}
