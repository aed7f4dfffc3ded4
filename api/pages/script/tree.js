/* Both module trees beside each other: folded to classes, rows of a pair on one line, one selection. */
const ROW = 26, INDENT = 16;

class Trees {
  constructor(root, sides, chosen) {
    this.sides = sides;
    this.chosen = chosen;
    this.scale = 1;
    this.open = {};
    this.focus = {};
    this.roots = {};
    const bar = element(root, "div", "bar");
    button(bar, "+", say("zoom_in"), () => this.zoom(1.2));
    button(bar, "−", say("zoom_out"), () => this.zoom(1 / 1.2));
    button(bar, say("fit"), say("fit"), () => this.zoom(0));
    button(bar, say("expand"), say("expand"), () => this.openAll(true));
    button(bar, say("collapse"), say("collapse"), () => this.openAll(false));
    if (REPORT) this.legend(bar);
    const panels = element(root, "div", sides.length > 1 ? "pair" : "single");
    this.panel = {};
    for (const where of sides) {
      const net = DATA[where];
      const box = element(panels, "div", "panel");
      const head = element(box, "h3");
      if (sides.length > 1) element(head, "span", "side", `${side(where)} `);
      head.append("bdi").text(net ? net.title : "");
      element(head, "span", "muted", net ? ` ${net.framework}` : "");
      if (!net) {
        element(box, "p", "hint", say("no_net"));
        continue;
      }
      this.roots[where] = this.fold(net, where);
      this.open[where] = new Set([""]);
      this.focus[where] = "";
      const scroll = element(box, "div", "scroll");
      const svg = scroll.append("svg").attr("role", "tree").attr("aria-label", `${side(where)}: ${net.title}`);
      this.panel[where] = { scroll, svg };
      scroll.on("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 1.1 : 1 / 1.1);
      }, { passive: false });
      scroll.on("scroll", () => {
        for (const other of Object.values(this.panel))
          if (other.scroll !== scroll) other.scroll.node().scrollTop = scroll.node().scrollTop;
      });
    }
    this.draw();
    new ResizeObserver(() => this.draw()).observe(panels.node());
  }

  legend(bar) {
    const box = element(bar, "span", "legend");
    for (const [key, at] of [["legend_low", -4], ["legend_at", -0.01], ["legend_high", 4], ["not_compared", null]]) {
      element(box, "span", "dot").style("background", colour(at));
      element(box, "span", null, say(key));
    }
  }

  /* Modules with their children; three and more of one class that follow each other become one row. */
  fold(net, where) {
    const nodes = net.modules.map(([path, cls, above, trained, other, notes]) => (
      { key: path, path, name: last(path) || net.title, cls, above, trained, other, notes, children: [], count: 1 }));
    for (const node of nodes) if (node.above >= 0) nodes[node.above].children.push(node);
    const total = (node) => {
      node.total = node.trained + d3.sum(node.children, total);
      const own = errorOf(where, node.path);
      node.error = own ? own.error : null;
      node.reason = own ? own.reason : "";
      node.at = own ? own.at : null;
      node.worst = d3.max([node.at, ...node.children.map((c) => c.worst)].filter((e) => e !== null)) ?? null;
      return node.total;
    };
    const group = (node) => {
      const folded = [];
      for (let at = 0; at < node.children.length; ) {
        let end = at;
        while (end < node.children.length && node.children[end].cls === node.children[at].cls) end++;
        const members = node.children.slice(at, end);
        if (members.length > 2 && node.children.length > 3) {
          const name = `${members[0].name} … ${members.at(-1).name}`;
          const worst = d3.max(members.map((m) => m.worst).filter((e) => e !== null)) ?? null;
          folded.push({ key: `${members[0].path} …`, path: null, name, cls: members[0].cls, children: members, notes: "",
            count: members.length, total: d3.sum(members, (m) => m.total), worst, at: worst, error: null, reason: "" });
        } else folded.push(...members);
        at = end;
      }
      node.children.forEach(group);
      node.children = folded;
    };
    if (!nodes.length) return null;
    total(nodes[0]);
    group(nodes[0]);
    return d3.hierarchy(nodes[0]);
  }

  visible(where) {
    const rows = [];
    const walk = (node) => {
      rows.push(node);
      if (this.open[where].has(node.data.key)) (node.children || []).forEach(walk);
    };
    if (this.roots[where]) walk(this.roots[where]);
    return rows;
  }

  /* The key of the other side's row that stands for this one. */
  pair(where, node) {
    if (node.data.path !== null) return PAIRS[where].get(node.data.path);
    const first = this.pair(where, node.children[0]);
    return first === undefined ? undefined : `${first} …`;
  }

  draw() {
    const rows = {};
    for (const where of Object.keys(this.panel)) rows[where] = this.visible(where);
    const lines = this.align(rows);
    for (const [where, { scroll, svg }] of Object.entries(this.panel)) {
      const width = Math.max(260, scroll.node().clientWidth / this.scale);
      const height = lines * ROW + 8;
      svg.attr("viewBox", `0 0 ${width} ${height}`).attr("width", width * this.scale).attr("height", height * this.scale);
      const item = svg.selectAll("g.item").data(rows[where], (d) => d.data.key).join((enter) => this.enter(enter, where));
      item.attr("transform", (d) => `translate(0,${d.line * ROW + 4})`)
        .attr("tabindex", (d) => (d.data.key === this.focus[where] ? 0 : -1))
        .attr("aria-level", (d) => d.depth + 1)
        .attr("aria-selected", (d) => String(d.data.key === this.focus[where]))
        .attr("aria-expanded", (d) => (d.children ? String(this.open[where].has(d.data.key)) : null))
        .classed("selected", (d) => d.data.key === this.focus[where]);
      item.select("rect.back").attr("width", width);
      item.select("text.caret").text((d) => (d.children ? (this.open[where].has(d.data.key) ? "▾" : "▸") : ""));
      item.select("circle").attr("fill", (d) => colour(this.open[where].has(d.data.key) && d.data.at !== null ? d.data.at : d.data.worst));
      item.select("text.numbers").attr("x", width - 8);
      const room = Math.floor((width - 130) / 7);
      item.each(function (d) {
        const most = Math.max(8, room - Math.ceil((d.depth * INDENT) / 7));
        const label = d3.select(this).select("text.label");
        const name = clip(d.data.name, most);
        label.select(".name").text(name);
        label.select(".cls").text(clip(`  ${d.data.cls}${d.data.count > 1 ? ` × ${d.data.count}` : ""}`, Math.max(2, most - name.length)));
      });
    }
  }

  enter(enter, where) {
    const item = enter.append("g").attr("class", "item").attr("role", "treeitem")
      .attr("aria-label", (d) => this.label(d))
      .on("click", (event, d) => {
        this.select(where, d);
        this.toggle(where, d);
        if (d.data.path !== null) this.chosen(where, d.data.path, false);
      })
      .on("keydown", (event, d) => this.press(event, where, d));
    item.append("title").text((d) => this.label(d));
    item.append("rect").attr("class", "back").attr("height", ROW - 2).attr("rx", 5);
    item.append("text").attr("class", "caret").attr("x", (d) => d.depth * INDENT + 6).attr("y", 17);
    item.append("circle").attr("cx", (d) => d.depth * INDENT + 26).attr("cy", 12).attr("r", 5);
    const label = item.append("text").attr("class", "label").attr("x", (d) => d.depth * INDENT + 38).attr("y", 17);
    label.append("tspan").attr("class", "name");
    label.append("tspan").attr("class", "cls").attr("xml:space", "preserve");
    item.append("text").attr("class", "numbers").attr("y", 17).attr("text-anchor", "end")
      .text((d) => [d.data.error === null ? "" : short(d.data.error), d.data.total ? many(d.data.total) : ""].filter(Boolean).join("   "));
    return item;
  }

  label(d) {
    const parts = [d.data.path || d.data.name, `${d.data.cls}${d.data.count > 1 ? ` × ${d.data.count}` : ""}`];
    if (d.data.total) parts.push(say("parameters", { n: many(d.data.total) }));
    if (d.data.error !== null) parts.push(`${say("error")} ${short(d.data.error)}`);
    return [...parts, d.data.reason, d.data.notes].filter(Boolean).join(", ");
  }

  /* Give rows their lines, those of a pair the same one. */
  align(rows) {
    const [mine, theirs] = [rows.source || [], rows.target || []];
    const place = new Map(theirs.map((node, at) => [node.data.key, at]));
    let line = 0, next = 0;
    for (const node of mine) {
      const at = place.get(this.pair("source", node));
      if (at !== undefined && at >= next) {
        while (next < at) theirs[next++].line = line++;
        theirs[next++].line = line;
      }
      node.line = line++;
    }
    while (next < theirs.length) theirs[next++].line = line++;
    return line;
  }

  toggle(where, node, to) {
    if (!node.children) return;
    const opened = to === undefined ? !this.open[where].has(node.data.key) : to;
    const set = (name, key) => (opened ? this.open[name].add(key) : this.open[name].delete(key));
    set(where, node.data.key);
    const other = where === "source" ? "target" : "source";
    const key = this.roots[other] ? this.pair(where, node) : undefined;
    if (key !== undefined) set(other, key);
    this.draw();
  }

  openAll(opened) {
    for (const [where, root] of Object.entries(this.roots)) {
      this.open[where] = new Set([""]);
      if (opened) root.each((node) => node.children && this.open[where].add(node.data.key));
      else this.focus[where] = "";
    }
    this.draw();
  }

  /* Select a row and its counterpart; `moved` puts the keyboard there too. */
  select(where, node, moved = true) {
    this.focus[where] = node.data.key;
    const other = where === "source" ? "target" : "source";
    const key = this.roots[other] ? this.pair(where, node) : undefined;
    if (key !== undefined) this.focus[other] = key;
    this.draw();
    const found = this.panel[where].svg.selectAll("g.item").filter((d) => d === node).node();
    if (found && moved) {
      found.focus({ preventScroll: true });
      found.scrollIntoView({ block: "nearest" });
    }
  }

  /* Open everything above a path of the source and select it. */
  reveal(path) {
    const node = this.roots.source && this.roots.source.find((n) => n.data.path === path);
    if (!node) return;
    for (const above of node.ancestors().slice(1)) if (!this.open.source.has(above.data.key)) this.toggle("source", above, true);
    this.select("source", node);
  }

  press(event, where, node) {
    const rows = this.visible(where);
    const at = rows.indexOf(node);
    const open = this.open[where].has(node.data.key);
    const moves = {
      ArrowDown: () => rows[at + 1] && this.select(where, rows[at + 1]),
      ArrowUp: () => rows[at - 1] && this.select(where, rows[at - 1]),
      Home: () => this.select(where, rows[0]),
      End: () => this.select(where, rows.at(-1)),
      ArrowRight: () => (node.children && !open ? this.toggle(where, node, true) : node.children && this.select(where, node.children[0])),
      ArrowLeft: () => (node.children && open ? this.toggle(where, node, false) : node.parent && this.select(where, node.parent)),
      Enter: () => (node.data.path === null ? this.toggle(where, node) : this.chosen(where, node.data.path, true)),
      " ": () => this.toggle(where, node),
      "+": () => this.zoom(1.2), "=": () => this.zoom(1.2), "-": () => this.zoom(1 / 1.2), 0: () => this.zoom(0),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(moves, event.key)) return;
    event.preventDefault();
    moves[event.key]();
  }

  zoom(by) {
    this.scale = by ? Math.min(3, Math.max(0.4, this.scale * by)) : 1;
    this.draw();
  }
}
