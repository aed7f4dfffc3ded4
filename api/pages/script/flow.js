/* The dataflow of one call of a module: its operators and the calls that it makes, laid out by dagre. */
const OPERATOR = 0, INPUT = 1, CONSTANT = 2, PARAMETER = 3;
const MOST_BOXES = 300;

class Flow {
  constructor(root, sides) {
    this.sides = sides.filter((where) => DATA[where] && DATA[where].nodes.length);
    this.head = element(root, "h3", "path").attr("aria-live", "polite");
    this.panels = element(root, "div", sides.length > 1 ? "pair" : "single");
    this.at = { source: 0, target: 0 };
  }

  /* Show a module of one side, and its counterpart of the other. */
  show(where, path) {
    const other = where === "source" ? "target" : "source";
    this.shown = { [where]: path, [other]: PAIRS[where].get(path) };
    this.at = { source: 0, target: 0 };
    this.draw();
  }

  draw() {
    this.head.selectAll("*").remove();
    const first = this.shown.source !== undefined ? "source" : "target";
    this.crumbs(first, this.shown[first] || "");
    this.panels.selectAll("*").remove();
    for (const where of this.sides) {
      const box = element(this.panels, "div", "panel");
      if (this.sides.length > 1) element(box, "h4", "side", side(where));
      const path = this.shown[where];
      const made = path === undefined ? null : this.view(DATA[where], path, this.at[where]);
      if (!made || !made.boxes.size) {
        element(box, "p", "hint", say("no_calls"));
        continue;
      }
      if (made.calls > 1) {
        const bar = element(box, "div", "bar");
        const named = (by) => say("call", { n: ((this.at[where] + by + made.calls) % made.calls) + 1, count: made.calls });
        button(bar, "‹", named(-1), () => this.step(where, -1, made.calls));
        element(bar, "span", "muted", named(0));
        button(bar, "›", named(1), () => this.step(where, 1, made.calls));
      }
      if (made.left) element(box, "p", "hint", say("too_many", { shown: MOST_BOXES, count: made.left }));
      this.paint(box, where, made);
    }
  }

  step(where, by, count) {
    this.at[where] = (this.at[where] + by + count) % count;
    this.draw();
  }

  crumbs(where, path) {
    element(this.head, "span", "muted", `${say("flow")}: `);
    const parts = path ? path.split(".") : [];
    button(this.head, DATA[where].title, DATA[where].title, () => this.show(where, ""));
    parts.forEach((part, at) => {
      element(this.head, "span", "muted", " › ");
      const whole = parts.slice(0, at + 1).join(".");
      button(this.head, part, whole, () => this.show(where, whole));
    });
  }

  /* Boxes and edges of one call. */
  view(net, path, number) {
    const module = net.modules.findIndex((m) => m[0] === path);
    const calls = net.calls.map((c, at) => [c, at]).filter(([c]) => c[0] === module).map(([, at]) => at);
    const flat = path === "" && !calls.length;
    if (!calls.length && !flat) return null;
    const call = flat ? -1 : calls[number % calls.length];
    const above = new Map();
    const inside = (at) => {  /* the box of a call: what the shown call makes directly, null outside it */
      if (above.has(at)) return above.get(at);
      const found = at === call ? "own" : at < 0 ? (path === "" ? "own" : null) : net.calls[at][1] === call ? at : inside(net.calls[at][1]);
      above.set(at, found);
      return found;
    };
    const boxes = new Map(), boxOf = new Map(), edges = new Map();
    let seen = 0;
    net.nodes.forEach(([label, at, kind, details], key) => {
      if (kind !== OPERATOR) return;
      const place = inside(at);
      if (place === null) return;
      const id = place === "own" ? `n${key}` : `c${place}`;
      if (!boxes.has(id)) {
        seen++;
        if (boxes.size >= MOST_BOXES) return;
        const child = place === "own" ? null : net.modules[net.calls[place][0]];
        boxes.set(id, child ? { kind: "call", label: last(child[0]) || "·", under: child[1], path: child[0], tip: child[0] }
          : { kind: "op", label: label.replace(/^regraft\./, ""), under: "", path: null, tip: details });
      }
      boxOf.set(key, id);
    });
    const connect = (from, to, text, value) => edges.set(`${from} ${value} ${to}`, { from, to, text });
    for (const [from, output, to] of net.edges) {
      const [source, target] = [boxOf.get(from), boxOf.get(to)];
      if (source === undefined && target === undefined) continue;
      if (source === target) continue;
      const [label, , kind, , types] = net.nodes[from];
      const text = net.types[types[output]] ?? "";
      const value = `${from}.${output}`;
      if (source !== undefined && target !== undefined) connect(source, target, text, value);
      else if (target !== undefined && kind === PARAMETER) {
        const box = boxes.get(target);
        if (box.kind === "op") box.under += `${box.under ? "\n" : ""}${last(label)} ${text}`;
      } else if (target !== undefined && kind !== CONSTANT) {
        const id = `i${value}`;
        if (!boxes.has(id)) boxes.set(id, { kind: "in", label: kind === INPUT ? label : say("input"), under: "", path: null, tip: text });
        connect(id, target, text, value);
      } else if (source !== undefined) this.leave(boxes, connect, source, text, value, say("output"));
    }
    for (const [name, node, output] of net.outputs) {
      const source = boxOf.get(node);
      if (source !== undefined) this.leave(boxes, connect, source, net.types[net.nodes[node][4][output]] ?? "", `${node}.${output}`, name);
    }
    return { boxes, edges, calls: calls.length, left: seen > MOST_BOXES ? seen : 0 };
  }

  leave(boxes, connect, source, text, value, label) {
    const id = `o${value}`;
    if (!boxes.has(id)) boxes.set(id, { kind: "out", label, under: "", path: null, tip: text });
    connect(source, id, text, value);
  }

  paint(box, where, { boxes, edges }) {
    const graph = new dagre.graphlib.Graph({ multigraph: true });
    graph.setGraph({ rankdir: "TB", nodesep: 28, ranksep: 30, edgesep: 16, marginx: 16, marginy: 16 });
    for (const [id, b] of boxes) {
      b.lines = b.under ? b.under.split("\n").slice(0, 4).map((line) => clip(line, 34)) : [];
      b.text = clip(b.label, 30);
      const widest = Math.max(b.text.length * 7.4, ...b.lines.map((line) => line.length * 6.2));
      graph.setNode(id, { width: widest + (b.path === null ? 24 : 46), height: 26 + 14 * b.lines.length });
    }
    for (const [id, e] of edges) graph.setEdge(e.from, e.to, { width: e.text.length * 6 + 8, height: 16, labelpos: "c" }, id);
    dagre.layout(graph);
    const size = graph.graph();
    const svg = box.append("svg").attr("class", "flow").attr("role", "group")
      .attr("aria-label", say("flow_of", { name: this.shown[where] || DATA[where].title }));
    const width = box.node().clientWidth - 2, height = Math.min(640, Math.max(160, size.height + 8));
    svg.attr("width", width).attr("height", height);
    const canvas = svg.append("g");
    const zoom = d3.zoom().scaleExtent([0.05, 4]).filter((event) => event.type !== "wheel" || event.ctrlKey)
      .on("zoom", (event) => canvas.attr("transform", event.transform));
    const fit = () => {
      const scale = Math.min(1, width / size.width, Math.max(0.75, height / size.height));
      svg.call(zoom.transform, d3.zoomIdentity.translate((width - size.width * scale) / 2, 4).scale(scale));
    };
    svg.call(zoom).on("dblclick.zoom", null);
    fit();
    const bar = element(box, "div", "bar over");
    button(bar, "+", say("zoom_in"), () => svg.call(zoom.scaleBy, 1.3));
    button(bar, "−", say("zoom_out"), () => svg.call(zoom.scaleBy, 1 / 1.3));
    button(bar, say("fit"), say("fit"), fit);
    const curve = d3.line((p) => p.x, (p) => p.y).curve(d3.curveBasis);
    const arrows = canvas.selectAll("g.edge").data(graph.edges()).join("g").attr("class", "edge");
    arrows.append("path").attr("d", (e) => curve(graph.edge(e).points));
    arrows.append("path").attr("class", "tip").attr("d", "M-4,-7L0,0L4,-7Z")
      .attr("transform", (e) => { const p = graph.edge(e).points.at(-1); return `translate(${p.x},${p.y})`; });
    arrows.append("text").attr("x", (e) => graph.edge(e).x).attr("y", (e) => graph.edge(e).y + 4)
      .attr("text-anchor", "middle").text((e) => edges.get(e.name).text);
    const item = canvas.selectAll("g.box").data([...boxes]).join("g").attr("class", ([, b]) => `box ${b.kind}`)
      .attr("transform", ([id]) => { const n = graph.node(id); return `translate(${n.x - n.width / 2},${n.y - n.height / 2})`; });
    item.append("title").text(([, b]) => [b.label, b.tip, b.under].filter(Boolean).join("\n"));
    item.append("rect").attr("width", ([id]) => graph.node(id).width).attr("height", ([id]) => graph.node(id).height)
      .attr("rx", ([, b]) => (b.kind === "op" ? 4 : 12));
    item.filter(([, b]) => b.path !== null).append("circle").attr("cx", 11).attr("cy", 13).attr("r", 4)
      .attr("fill", ([, b]) => colour(errorOf(where, b.path)?.at));
    item.append("text").attr("x", ([id]) => graph.node(id).width / 2).attr("y", 17).attr("text-anchor", "middle").text(([, b]) => b.text);
    item.each(function ([id, b]) {
      b.lines.forEach((line, at) => d3.select(this).append("text").attr("class", "under").attr("x", graph.node(id).width / 2)
        .attr("y", 31 + 14 * at).attr("text-anchor", "middle").text(line));
    });
    item.filter(([, b]) => b.path !== null).attr("tabindex", 0).attr("role", "button").attr("aria-label", ([, b]) => say("flow_of", { name: b.path }))
      .on("click", (event, [, b]) => this.show(where, b.path))
      .on("keydown", (event, [, b]) => { if (event.key === "Enter") this.show(where, b.path); });
  }
}
