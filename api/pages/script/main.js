/* The page from top to bottom: verdict, causes, structure, errors, distributions, rows, names, what is open. */
const SIDES = ["source", "target"].filter((where) => where === "source" || REPORT || DATA.target);
const page = d3.select("#page");
const header = element(page, "header", REPORT ? REPORT.state : "net");
if (REPORT) {
  const line = element(header, "h1");
  element(line, "span", "mark", { equal: "✓", different: "✗", unproven: "?" }[REPORT.state]).attr("aria-hidden", "true");
  line.append("span").text(say(REPORT.state));
  element(header, "p", "line", REPORT.line);
  element(header, "p", "sides").call((p) => {
    p.append("bdi").text(REPORT.source);
    p.append("span").text("  →  ");
    p.append("bdi").text(REPORT.target);
  });
  if (REPORT.covered) element(header, "p", "muted", REPORT.covered);
} else {
  element(header, "h1").append("bdi").text(DATA.source.title);
  element(header, "p", "line", [DATA.source.framework, say("parameters", { n: many(d3.sum(DATA.source.modules, (m) => m[3])) })].filter(Boolean).join(" · "));
}
const nav = element(page, "nav").attr("aria-label", say("sections"));
const jump = (id) => document.getElementById(id).scrollIntoView({ behavior: "smooth" });

if (REPORT && REPORT.told) {
  const causes = section("causes", say("causes"));
  element(causes, "pre", null, REPORT.told);
}

const structure = section("structure", say("structure"), say("structure_hint"));
let flow = null;
const trees = new Trees(structure, SIDES, (where, path, go) => {
  if (!flow || path === null) return;
  flow.show(where, path);
  if (go) jump("flow");
});
if (SIDES.some((where) => DATA[where] && DATA[where].nodes.some((n) => n[2] === OPERATOR))) {
  flow = new Flow(section("flow", say("flow")), SIDES);
  flow.show("source", "");
}

const pathOf = (call) => call.slice(0, call.lastIndexOf("#"));
const reveal = (path) => { jump("structure"); trees.reveal(path); };
if (REPORT) {
  const depth = section("depth", say("depth"), `${say("depth_hint")} ${say("yardstick", { text: REPORT.yardstick })}`);
  plotErrors(depth, say("modules"), REPORT.modules.map((r) => ({ name: r[0], error: r[2], tolerance: r[4], passed: r[7], reason: r[8], path: pathOf(r[0]) })), reveal);
  plotErrors(depth, say("outputs"), REPORT.outputs.map((r) => ({ name: `${r[0]} ${r[1]}`, error: r[3], tolerance: r[5], passed: r[6], reason: r[7] })));
  for (const [key, at] of [["gradients", 2], ["statistics", 4], ["updates", 3]])
    plotErrors(depth, say(key), REPORT.training.filter((r) => r[at] !== null)
      .map((r) => ({ name: r[0], error: r[at], tolerance: r[at === 3 ? 8 : 5], passed: r[6], reason: r[7] })));
  plotErrors(depth, say("nodes"), REPORT.nodes.map((r) => ({ name: r[0], error: r[2], tolerance: r[4], passed: r[5], reason: r[6] })));
  if (REPORT.losses) plotLosses(depth, REPORT.losses);
}

if (DATA.histograms.length) {
  const two = DATA.histograms.some((h) => h.heights[1].length);
  const hint = two ? say("distributions_hint", { source: side("source"), target: side("target") }) : say("one_distribution_hint");
  new Histograms(section("distributions", say("distributions"), hint), DATA.histograms);
}

const text = (name, at) => ({ name, value: (r) => r[at] ?? "", shown: (r) => r[at] ?? "" });
const number = (name, at) => ({ name, number: true, value: (r) => numeric(r[at]), shown: (r) => short(r[at]) });
const result = (state, reason) => {
  const shown = (r) => [say(r[state] === null ? "not_compared" : r[state] ? "passed" : "failed"), r[reason]].filter(Boolean).join(": ");
  return { name: say("result"), value: shown, shown };
};
if (REPORT) {
  const rows = section("rows", say("rows"));
  const tables = [
    ["modules", [text(say("name"), 0), text(say("class"), 1), number(say("max_abs"), 2), number(say("max_rel"), 3), number(say("tolerance"), 4), number(say("alone"), 5), result(7, 8)], (r) => r[7] === false],
    ["outputs", [text(say("name"), 0), text(say("inputs"), 1), text(say("shape"), 2), number(say("max_abs"), 3), number(say("max_rel"), 4), number(say("tolerance"), 5), result(6, 7)], (r) => !r[6]],
    ["training", [text(say("name"), 0), text(say("to"), 1), number(say("gradient"), 2), number(say("after"), 3), number(say("statistic"), 4), number(say("tolerance"), 5), result(6, 7)], (r) => r[6] === false],
    ["nodes", [text(say("name"), 0), text(say("class"), 1), number(say("max_abs"), 2), number(say("max_rel"), 3), number(say("tolerance"), 4), result(5, 6)], (r) => r[5] === false],
  ].filter(([key]) => REPORT[key].length);
  const tabs = element(rows, "div", "tabs").attr("role", "tablist");
  const body = element(rows, "div").attr("role", "tabpanel").attr("tabindex", -1);
  const show = (at) => {
    body.selectAll("*").remove();
    tabs.selectAll("button").attr("aria-selected", (d, i) => String(i === at)).attr("tabindex", (d, i) => (i === at ? 0 : -1));
    new Rows(body, say(tables[at][0]), tables[at][1], REPORT[tables[at][0]], { failed: tables[at][2] });
  };
  tables.forEach(([key], at) => element(tabs, "button", null, `${say(key)} (${REPORT[key].length})`).attr("type", "button").attr("role", "tab")
    .on("click", () => show(at))
    .on("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const next = (at + by + tables.length) % tables.length;
      show(next);
      tabs.selectAll("button").nodes()[next].focus();
    }));
  if (tables.length) show(0);

  const renames = section("renames", say("renames"));
  if (DATA.renames.length)
    new Rows(renames, say("renames"), [text(say("name"), 0), text(say("to"), 1), text(say("transform"), 2), text(say("by"), 3), text(say("tie"), 4)], DATA.renames);
  else element(renames, "p", "hint", say("no_renames"));

  const open = section("unproved", say("unproved"));
  const list = element(open, "ul");
  for (const line of REPORT.unproven) element(list, "li", null, line);
  if (!REPORT.unproven.length) element(open, "p", "hint", say("nothing_unproved"));
}

const notes = [...DATA.notes, ...(REPORT ? REPORT.notes : [])];
if (notes.length) {
  const list = element(section("notes", say("notes")), "ul");
  for (const line of notes) element(list, "li", null, line);
}
for (const each of page.selectAll("section").nodes())
  element(nav, "a", null, d3.select(each).select("h2").text()).attr("href", `#${each.id}`);
document.documentElement.dataset.ready = String(Math.round(performance.now()));
