/* Errors against their tolerance on a logarithmic axis, losses, and histograms, drawn by d3. */
const PLOT = { width: 1120, height: 220, left: 58, right: 12, top: 12, bottom: 24 };

/* Rows: {name, error, tolerance, passed, path}. A point that failed is red and larger; zero lies on the floor. */
function plotErrors(root, title, rows, chosen) {
  const points = rows.map((row, at) => ({ ...row, at, value: numeric(row.error), line: numeric(row.tolerance) }))
    .filter((p) => p.value !== null);
  if (!points.length) return;
  const figure = element(root, "figure");
  const failed = points.filter((p) => p.passed === false).length;
  element(figure, "figcaption", null, title);
  const finite = points.flatMap((p) => [p.value, p.line]).filter((v) => v > 0 && Number.isFinite(v));
  const [least, most] = finite.length ? d3.extent(finite) : [1e-9, 1];
  const low = 10 ** Math.floor(Math.log10(least)), high = 10 ** Math.ceil(Math.log10(most) + 0.1);
  const { width, height, left, right, top, bottom } = PLOT;
  const x = d3.scaleLinear([-0.5, rows.length - 0.5], [left, width - right]);
  const floor = height - bottom;
  const y = d3.scaleLog([low, Math.max(high, low * 10)], [floor - 24, top]);
  const place = (v) => (v === 0 ? floor - 5 : Number.isFinite(v) ? y(v) : top - 4);
  const svg = figure.append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img")
    .attr("aria-label", `${title}: ${points.length}, ${failed} ${say("failed")}`);
  const ticks = d3.axisLeft(y).ticks(4, "~e").tickSize(-(width - left - right));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`).call(ticks);
  svg.append("text").attr("class", "tick0").attr("x", left - 8).attr("y", floor - 1).attr("text-anchor", "end").text("0");
  const step = d3.line((p) => x(p.at), (p) => place(p.line)).defined((p) => p.line !== null && Number.isFinite(p.line)).curve(d3.curveStep);
  svg.append("path").attr("class", "tolerance").attr("d", step(points));
  svg.append("text").attr("class", "key").attr("x", width - right).attr("y", height - 6).attr("text-anchor", "end").text(`– – ${say("tolerance")}   ● ${say("error")}`);
  svg.append("g").selectAll("circle").data(points).join("circle")
    .attr("class", (p) => (p.passed === false ? "failed" : "point"))
    .attr("cx", (p) => x(p.at)).attr("cy", (p) => place(p.value)).attr("r", (p) => (p.passed === false ? 4.5 : points.length > 400 ? 2.2 : 3))
    .attr("fill", (p) => colour(excess(p.error, p.tolerance, p.passed)))
    .on("click", (event, p) => chosen && p.path !== undefined && chosen(p.path))
    .append("title").text((p) => `${p.name}\n${say("error")} ${short(p.error)}, ${say("tolerance")} ${short(p.tolerance)}${p.reason ? `\n${p.reason}` : ""}`);
}

function plotLosses(root, losses) {
  const { width, height, left, right, top, bottom } = PLOT;
  const figure = element(root, "figure");
  element(figure, "figcaption", null, say("losses"));
  const both = ["source", "target"].map((where) => losses[where].map(numeric));
  const values = both.flat().filter((v) => v !== null && Number.isFinite(v));
  if (!values.length) return;
  const x = d3.scaleLinear([0, Math.max(1, both[0].length - 1)], [left, width - right]);
  const y = d3.scaleLinear(d3.extent(values), [height - bottom, top]).nice();
  const svg = figure.append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label", say("losses"));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).ticks(4).tickSize(-(width - left - right)));
  svg.append("g").attr("class", "axis plain").attr("transform", `translate(0,${height - bottom})`).call(d3.axisBottom(x).ticks(Math.min(10, both[0].length)));
  both.forEach((series, at) => {
    const line = d3.line((v, i) => x(i), (v) => y(v)).defined((v) => v !== null && Number.isFinite(v));
    svg.append("path").attr("class", `loss ${["source", "target"][at]}`).attr("d", line(series));
    svg.append("text").attr("class", `key ${["source", "target"][at]}`).attr("x", width - right - 70 * (1 - at)).attr("y", top + 8).attr("text-anchor", "end").text(side(["source", "target"][at]));
  });
}

/* Small multiples: the source's bars up, the target's down, what the initial laws expect as lines. */
class Histograms {
  constructor(root, rows) {
    this.rows = d3.sort(rows, (h) => -(h.apart ?? -1));
    this.two = rows.some((h) => h.heights[1].length);
    const bar = element(root, "div", "bar");
    this.input = element(bar, "input").attr("type", "search").attr("placeholder", say("filter")).attr("aria-label", `${say("distributions")}: ${say("filter")}`);
    this.count = element(bar, "span", "muted").attr("role", "status");
    this.grid = element(root, "div", "grid");
    this.foot = element(root, "div", "bar");
    this.shown = 12;
    this.input.on("input", () => { this.shown = 12; this.draw(); });
    this.draw();
  }

  draw() {
    const wanted = this.input.property("value").toLowerCase();
    const found = this.rows.filter((h) => `${h.source} ${h.target}`.toLowerCase().includes(wanted));
    const page = found.slice(0, this.shown);
    this.count.text(say("count", { shown: page.length, count: this.rows.length }));
    this.grid.selectAll("figure").data(page, (h) => `${h.source} ${h.target}`).join((enter) => this.enter(enter)).order();
    this.foot.selectAll("*").remove();
    const rest = Math.min(24, found.length - page.length);
    if (rest > 0) button(this.foot, say("more", { n: rest }), say("more", { n: rest }), () => { this.shown += rest; this.draw(); });
  }

  enter(enter) {
    const two = this.two;
    return enter.append("figure").each(function (h) {
      const figure = d3.select(this);
      const name = h.source || h.target;
      const caption = element(figure, "figcaption");
      caption.append("bdi").text(clip(name, 44)).attr("title", h.target && h.target !== name ? `${name} → ${h.target}` : name);
      element(caption, "span", "muted", ` ${h.shape.join("×")}`);
      const width = 320, middle = two ? 62 : 100, height = two ? 124 : 104;
      const svg = figure.append("svg").attr("viewBox", `0 0 ${width} ${height + 14}`).attr("role", "img");
      const bins = Math.max(h.heights[0].length, h.heights[1].length);
      const x = d3.scaleLinear([0, bins], [1, width - 1]);
      const y = d3.scaleLinear([0, 999], [0, two ? 56 : 94]);
      ["source", "target"].forEach((where, at) => {
        const up = at === 0 ? -1 : 1;
        svg.append("g").attr("class", `bars ${where}`).selectAll("rect").data(h.heights[at]).join("rect")
          .attr("x", (v, i) => x(i) + 0.5).attr("width", x(1) - x(0) - 1)
          .attr("y", (v) => (up < 0 ? middle - y(v) : middle)).attr("height", (v) => y(v));
        if (h.laws[at].length) svg.append("path").attr("class", "law")
          .attr("d", d3.line((v, i) => x(i + 0.5), (v) => middle + up * y(v)).curve(d3.curveStep)(h.laws[at]));
      });
      svg.append("line").attr("class", "zero").attr("x1", 0).attr("x2", width).attr("y1", middle).attr("y2", middle);
      svg.append("text").attr("class", "under").attr("x", 1).attr("y", height + 11).text(short(h.low));
      svg.append("text").attr("class", "under").attr("x", width - 1).attr("y", height + 11).attr("text-anchor", "end").text(short(h.high));
      const lines = ["source", "target"].map((where, at) => h.moments[at].length ? [two ? side(where) : "",
        say("mean", { mean: short(h.moments[at][0]), deviation: short(h.moments[at][1]) }),
        h.moments[at][2] ? say("not_finite", { share: short(100 * h.moments[at][2]) }) : "", h.told[at]].filter(Boolean).join(" · ") : "");
      svg.attr("aria-label", [name, ...lines].filter(Boolean).join("; "));
      for (const line of lines) if (line) element(figure, "div", "under", line);
      if (h.apart > 0.001) element(figure, "div", "under strong", say("apart", { apart: short(100 * h.apart) }));
    });
  }
}
