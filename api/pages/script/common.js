"use strict";
/* Every text of a model reaches the page as text: nothing here writes HTML. */
const DATA = JSON.parse(document.getElementById("data").textContent);
const REPORT = DATA.report;

const say = (key, values = {}) => DATA.words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
const side = (name) => say(name);
const numeric = (x) =>
  x === null || x === undefined ? null : x === "inf" ? Infinity : x === "-inf" ? -Infinity : x === "nan" ? NaN : x;

function short(x) {
  const value = numeric(x);
  if (value === null) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return (size >= 1e-3 && size < 1e4 ? String(+value.toPrecision(3)) : value.toExponential(1)).replace(/-/g, "−");
}

const many = (n) => d3.format(n < 1000 ? "d" : ".3~s")(n).replace("G", "B");
const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const last = (path) => path.slice(path.lastIndexOf(".") + 1);

/* How far an error is from its tolerance, as a power of ten: 0 at it. */
function excess(error, tolerance, passed) {
  const value = numeric(error);
  if (value === null) return null;
  if (passed === false && !(value <= tolerance)) return Number.isFinite(value) && tolerance ? Math.log10(value / tolerance) : 4;
  if (passed === false) return 2;
  return value === 0 || !tolerance ? -4 : Math.min(0, Math.log10(value / tolerance));
}

const shade = d3.scaleLinear([-4, -1, 0, 0.01, 4], ["#3a9188", "#5aa899", "#d9b44a", "#e07a4f", "#b3202c"]).clamp(true);
const colour = (e) => (e === null || e === undefined ? "var(--none)" : shade(e));

function element(parent, name, kind, text) {
  const made = parent.append(name);
  if (kind) made.attr("class", kind);
  if (text !== undefined) made.text(text);
  return made;
}

function section(id, title, hint) {
  const made = d3.select("#page").append("section").attr("id", id).attr("aria-labelledby", `${id}-title`);
  element(made, "h2", null, title).attr("id", `${id}-title`);
  if (hint) element(made, "p", "hint", hint);
  return made;
}

function button(parent, text, label, act) {
  return element(parent, "button", null, text).attr("type", "button").attr("aria-label", label).attr("title", label).on("click", act);
}

/* Errors of the source's modules by path: the worst call counts. */
const ERRORS = new Map();
for (const row of REPORT ? REPORT.modules : []) {
  const path = row[0].slice(0, row[0].lastIndexOf("#"));
  const alone = row[9] === false;
  const found = { error: alone ? row[5] : row[2], at: null, state: row[7], reason: row[8] || row[10] };
  found.at = row[7] === null ? null : excess(found.error, alone ? row[6] || row[4] : row[4], row[7]);
  const known = ERRORS.get(path);
  if (!known || (found.at !== null && (known.at === null || found.at > known.at))) ERRORS.set(path, found);
}

/* Which path of one net is which of the other. */
const PAIRS = { source: new Map(), target: new Map() };
if (DATA.source && DATA.target) {
  const theirs = new Set(DATA.target.modules.map((m) => m[0]));
  const named = Object.keys(DATA.modules).length > 0;
  for (const [path] of DATA.source.modules) {
    const other = Object.hasOwn(DATA.modules, path) ? DATA.modules[path] : named && path !== "" ? undefined : path;
    if (other !== undefined && theirs.has(other)) {
      PAIRS.source.set(path, other);
      PAIRS.target.set(other, path);
    }
  }
}
const errorOf = (where, path) => ERRORS.get(where === "source" ? path : PAIRS.target.get(path));
