// The page: sections, controls and what they do to each other. Knows the model and the charts.

const data = JSON.parse(document.getElementById("data").textContent);
const model = new Model(data);
const GRID = 160; // points of a curve
const SURFACE = 36; // points of a surface's numeric axis
const MINIS = 20; // small pictures of the path before "show all"
const FIELDS = 20; // inputs before "show all"
const LEVELS = 200; // levels of a column before "show all"
const STEPS = 10; // rows of the waterfall before they are summed up
const PLAY = 12000; // milliseconds from the first iteration to the last

const state = { scale: "score", output: Math.max(0, model.q - 1), iteration: model.path.best };
const listeners = [];
const wholeForPrint = []; // what shows all of a list
const changed = () => listeners.forEach((listener) => listener());
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// --- effects: terms of the same columns, added up -------------------------------------------------

class Group {
  constructor(columns, terms) {
    this.columns = columns;
    this.terms = terms;
    this.of = columns.map((c) => model.columns[c]);
    this.name = this.of.map((c) => c.name).join(" × ");
    this.chosen = terms.some((k) => model.terms[k].chosen);
    this.axes = this.of.map((column) => axisOf(column, terms, columns.length > 1));
    this.kind = columns.length > 1 ? "surface" : this.axes[0].levels ? "levels" : "curve";
    const names = terms.map((k) => model.terms[k].name);
    this.edited = data.edits.some((e) => names.includes(e.term) || (columns.length === 1 && e.term === this.of[0].name));
    this.first = Math.min(...terms.map((k) => model.path.terms[k].first ?? Infinity));
    this.importance = data.importance === null ? null
      : names.reduce((sum, name) => sum + (data.importance[name] ?? 0), 0);
  }

  /** Values of the columns at all points; those of a surface in the order of its first column. */
  get points() {
    const [a, b] = this.axes;
    return b ? a.at.flatMap((x) => b.at.map((y) => [x, y])) : a.at.map((x) => [x]);
  }

  get rows() {
    this.kept ??= this.points.map((values) => this.terms.map((k) => model.basisRow(model.terms[k], values)));
    return this.kept;
  }

  /** The effect at all points: an array of outputs for each; of an iteration, if it is given. */
  effects(iteration = null) {
    const beta = this.terms.map((k) => (iteration === null ? model.terms[k].beta : model.path.beta(k, iteration)));
    const means = this.terms.map((k, t) => Array.from({ length: model.q }, (_, o) => model.meanOf(model.terms[k], o, beta[t])));
    return this.rows.map((rows) => {
      const out = new Array(model.q).fill(0);
      rows.forEach((row, t) => {
        for (let o = 0; o < model.q; o++) {
          let sum = -means[t][o];
          for (let r = 0; r < row.at.length; r++) sum += row.value[r] * beta[t][row.at[r] * model.q + o];
          out[o] += sum;
        }
      });
      return out;
    });
  }

  get final() {
    this.finalKept ??= this.effects();
    return this.finalKept;
  }

  /** Of a surface: whether training rows are near each point. */
  get near() {
    if (!this.nearKept) {
      const term = model.terms[this.terms[0]];
      const everywhere = term.axes.some(({ basis }) => basis.kind === "powers");
      const mass = this.rows.map(([row]) => row.at.reduce((sum, i, r) => sum + row.value[r] * Math.abs(term.mean[i]), 0));
      const least = 2e-4 * Math.max(...mass);
      this.nearKept = mass.map((m) => everywhere || m > least);
    }
    return this.nearKept;
  }

  contribution(parts, output) {
    return this.terms.reduce((sum, k) => sum + (parts[k] ? parts[k][output] : 0), 0);
  }
}

const after = (x) => x + Math.max(Math.abs(x) * 2 ** -52, Number.MIN_VALUE);

/** Where an effect is shown: numbers from the least to the largest, or levels. */
function axisOf(column, terms, pair) {
  if (column.by_level || column.low === null || column.low === column.high) {
    const known = column.levels.map((_, i) => (column.numeric ? column.numbers[i] : i));
    const names = [...column.levels];
    if (!known.length) {
      known.push(presentValue(column));
      names.push(column.numeric && column.low !== null && column.low === column.high ? format(column.low) : "present");
    }
    const missing = column.missing || !column.levels.length;
    return { name: column.name, at: missing ? [...known, NaN] : known, levels: missing ? [...names, "missing"] : names, missing };
  }
  const { low, high } = column;
  const mine = terms.map((k) => model.terms[k]);
  const cuts = mine.flatMap((t) => t.axes.filter((_, i) => model.columns[t.columns[i]] === column).flatMap((a) => Array.from(a.cuts ?? [])));
  const stepped = mine.every((t) => t.axes.every((a) => a.cuts)) && !pair;
  const n = pair ? SURFACE : GRID;
  const at = stepped ? [low, high] : Array.from({ length: n }, (_, i) => low + (i / (n - 1)) * (high - low));
  at[at.length - 1] = high;
  if (!pair) at.push(...cuts.flatMap((c) => [c, after(c)]), ...(column.numbers ?? []));
  const sorted = [...new Set(at)].filter((x) => x >= low && x <= high).sort((x, y) => x - y);
  return { name: column.name, at: column.missing && !pair ? [...sorted, NaN] : sorted, levels: null, missing: column.missing && !pair };
}

/** A value that stands for "not missing" where only that matters. */
function presentValue(column) {
  return column.numeric ? column.low ?? 0 : -1;
}

function makeGroups() {
  const found = new Map();
  model.terms.forEach((term, k) => {
    const key = term.columns.join(",");
    if (!found.has(key)) found.set(key, { columns: term.columns, terms: [] });
    found.get(key).terms.push(k);
  });
  const groups = [...found.values()].map(({ columns, terms }) => new Group(columns, terms));
  for (const group of groups) {
    const reach = () => Math.max(...group.final.flat().map(Math.abs), 0);
    group.weight = group.importance ?? reach();
  }
  groups.sort((a, b) => b.chosen - a.chosen || b.weight - a.weight);
  groups.forEach((group, i) => { group.id = `effect-${i}`; });
  return groups;
}

const groups = makeGroups();
const inModel = groups.filter((group) => group.chosen);
const singles = inModel.filter((group) => group.kind !== "surface");
const pairs = inModel.filter((group) => group.kind === "surface");
const totalWeight = inModel.reduce((sum, group) => sum + group.weight, 0) || 1;

// --- words ----------------------------------------------------------------------------------------

const scaleNames = { identity: "effect", log: "effect on the log", logit: "effect on the log odds", softmax: "effect on the score" };
const hasResponse = ["log", "logit", "softmax"].includes(data.link);

function outputName() {
  if (model.q > 1) return data.outputs[state.output];
  return data.link === "logit" && data.classes.length ? data.classes[1] : "";
}

function responseName() {
  if (data.link === "logit" || data.link === "softmax") return `probability of ${cut(outputName(), 40)}`;
  if (data.link === "log" && data.exposure) return "prediction per unit of exposure";
  return "prediction";
}

function yLabel() {
  return state.scale === "score" ? scaleNames[data.link ?? "identity"] : `${responseName()}, all else average`;
}

/** An effect on the scale that is shown. */
function shown(effect, output = state.output) {
  if (state.scale === "score") return effect[output];
  return model.response(effect.map((e, o) => e + model.intercept[o]))[output];
}

const shownNumber = (value) => (state.scale === "score" ? signed(value) : format(value, 3));
const zeroOf = () => shown(new Array(model.q).fill(0));
const shareText = (group) => percent(group.weight / totalWeight);

function section(id, title, words, tools, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title`, tabindex: "-1" },
    h("div", { class: "head" },
      h("div", {}, h("h2", { id: `${id}-title`, text: title }), words ? h("p", { text: words }) : null),
      tools ? h("div", { class: "tools" }, tools) : null),
    ...children);
}

/** A button that makes a list whole. */
function moreButton(n, what, act) {
  const button = h("button", { type: "button", class: "link", text: `show all ${n} ${what}`, onclick: () => { button.closest(".more").remove(); act(); } });
  return h("div", { class: "more" }, button);
}

// --- overview -------------------------------------------------------------------------------------

function tile(value, words) {
  return h("div", { class: "tile" }, h("b", { text: value }), h("span", { text: words }));
}

function overview() {
  const path = model.path;
  const at = (risks) => path.riskAt(risks, path.best);
  const tiles = [tile(`${format(path.risk[0], 3)} → ${format(at(path.risk), 3)}`, "training risk, from start to model")];
  if (path.validation_risk) tiles.push(tile(`${format(path.validation_risk[0], 3)} → ${format(at(path.validation_risk), 3)}`, "validation risk"));
  tiles.push(tile(`${inModel.length}`, `effects: ${singles.length} of one column, ${pairs.length} of two`));
  tiles.push(tile(path.best.toLocaleString("en-US"), path.best === path.last ? "iterations" : `iterations kept of ${path.last.toLocaleString("en-US")}`));
  const parts = [h("div", { class: "tiles" }, tiles)];
  if (data.judged) parts.push(...judgedTiles());
  const left = h("div", { class: "card" }, h("dl", { class: "facts" }, data.facts.flatMap(([name, value]) => [
    h("dt", { text: name }), h("dd", { dir: "auto", text: cut(value, 400) })])), formula(), columnsTable());
  const right = data.judged ? calibrationCard() : null;
  parts.push(right ? h("div", { class: "two" }, left, right) : left);
  return section("overview", "Overview", null, null, ...parts);
}

function judgedTiles() {
  const tiles = data.judged.metrics.map(([name, value]) => tile(name === "accuracy" ? percent(value) : format(value, 4), name));
  const n = data.judged.n.toLocaleString("en-US");
  return [
    h("p", { class: "quiet judged", text: `On the ${n} rows given to this report (they say how good the model is only if the fit did not see them):` }),
    h("div", { class: "tiles" }, tiles)];
}

/** The model in one line. */
function formula() {
  const most = 6;
  const signs = inModel.slice(0, most).flatMap((group) => [" ", h("span", { class: "part" }, "+ f(", label(group.name), ")")]);
  const more = inModel.length > most ? ` + ${inModel.length - most} more` : "";
  const fixed = (data.offset ? " + offset" : "") + (data.exposure ? " + log(exposure)" : "");
  const start = h("span", {});
  const show = () => { start.textContent = `score = ${format(model.intercept[state.output], 4)}${fixed}`; };
  show();
  listeners.push(show);
  const links = { log: "prediction = exp(score)", logit: "probability = 1 / (1 + exp(−score))", softmax: "probabilities = softmax of the scores" };
  return h("p", { class: "formula" }, start, ...signs, more, links[data.link] ? [h("br"), links[data.link]] : null);
}

function columnsTable() {
  const heads = ["column", "kind", "range or levels", "missing"];
  const rows = model.columns.map((column) => {
    const range = column.low !== null && !column.by_level ? `${format(column.low)} to ${format(column.high)}` : `${column.levels.length} levels`;
    const gone = column.spread && column.spread.missing ? percent(column.spread.missing) : column.missing ? "some" : "none";
    return [column.name, column.numeric ? (column.by_level ? "numbers as levels" : "numbers") : "text", range, gone];
  });
  const make = () => plainTable(heads, rows, "columns");
  const out = valuesOf(`${rows.length} columns in the terms`, make);
  out.classList.remove("values");
  wholeForPrint.push(() => { out.open = true; out.replaceChildren(out.firstChild, make()); });
  return out;
}

function calibrationCard() {
  const axis = () => (["logit", "softmax"].includes(data.link) ? responseName() : data.judged.per_exposure ? "per unit of exposure" : data.aim.replace("the ", ""));
  const holder = drawn("calibration", (width) => calibrationChart({
    width, height: Math.min(380, Math.max(280, Math.round(width * 0.7))),
    groups: data.judged.calibration[state.output], xLabel: `predicted ${axis()}`, yLabel: "observed",
    probability: ["logit", "softmax"].includes(data.link),
    about: `Predicted against observed in ${data.judged.calibration[state.output].predicted.length} groups of rows; the table below has the numbers`,
  }));
  listeners.push(() => redraw(holder));
  const values = valuesOf("values", () => {
    const { predicted, observed, low, high, rows } = data.judged.calibration[state.output];
    return plainTable(["predicted", "observed", "from", "to", "rows"], predicted.map((p, i) => [p, observed[i], low[i] ?? "", high[i] ?? "", rows[i]]), "calibration");
  });
  return h("div", { class: "card" },
    h("div", { class: "title" }, h("h3", { text: "Calibration" }), h("span", { text: "groups of rows by their prediction; bars: 95%" })),
    holder, values);
}

/** Numbers behind a chart, made when asked for. */
function valuesOf(words, make) {
  const out = h("details", { class: "values" }, h("summary", { text: words }));
  out.addEventListener("toggle", () => { if (out.open) out.replaceChildren(out.firstChild, make()); });
  return out;
}

// --- the path -------------------------------------------------------------------------------------

function growth() {
  const path = model.path;
  const hold = path.validation_risk;
  const series = [{ kind: "first", values: path.risk }, ...(hold ? [{ kind: "second", values: hold }] : [])];
  const events = [{ name: path.best === path.last ? "model" : "the model: best", kind: "best", place: path.best }];
  if (path.switched_after >= 0) events.push({ name: "switch", kind: "", place: path.switched_after });
  let chart = null;
  const holder = drawn("risk", (width) => {
    chart = riskChart({
      width, height: 280, at: path.points, last: path.last, series, events,
      about: `Risk over ${path.last} iterations: training from ${format(path.risk[0])} to ${format(path.risk.at(-1))}${hold ? `, validation from ${format(hold[0])} to ${format(hold.at(-1))}` : ""}`,
    });
    const drag = (event) => { if (event.buttons & 1) { stop(); go(chart.place(event)); } };
    chart.svg.addEventListener("pointerdown", drag);
    chart.svg.addEventListener("pointermove", drag);
    show();
    return chart.svg;
  });

  const slider = h("input", { type: "range", id: "iteration", min: 0, max: path.last, step: 1, value: state.iteration, "aria-label": "iteration", oninput: () => { stop(); go(Number(slider.value)); } });
  const said = h("output", { for: "iteration" });
  const standing = h("div", { class: "standing" });
  const play = h("button", { type: "button", class: "main", id: "play", text: "▶ Play", onclick: () => (timer ? stop() : start()) });
  const back = h("button", { type: "button", text: "The model", onclick: () => { stop(); go(path.best); } });
  const minis = makeMinis();

  function go(iteration) {
    state.iteration = Math.min(path.last, Math.max(0, iteration));
    show();
  }

  function show() {
    const at = state.iteration;
    const whole = Math.round(at);
    slider.value = whole;
    const risks = series.map(({ values }) => path.riskAt(values, at));
    said.textContent = `iteration ${whole.toLocaleString("en-US")} of ${path.last.toLocaleString("en-US")}`;
    slider.setAttribute("aria-valuetext", `iteration ${whole}, training risk ${format(risks[0])}`);
    const entered = groups.filter((group) => group.first <= at).sort((x, y) => y.first - x.first);
    standing.replaceChildren(
      h("span", {}, "training risk ", h("b", { text: format(risks[0], 4) })),
      ...(hold ? [h("span", {}, "validation risk ", h("b", { text: format(risks[1], 4) }))] : []),
      h("span", {}, h("b", { text: `${entered.length} of ${groups.length}` }), " effects in"),
      ...(entered.length ? [h("span", {}, `the last to enter, at ${entered[0].first}: `, label(entered[0].name))] : []));
    if (chart) chart.move(at, risks);
    minis.show(at);
  }

  let timer = 0;
  function start() {
    const frames = path.at.length - 1;
    if (!frames) return;
    let from = state.iteration >= path.last ? 0 : path.place(state.iteration).frame;
    if (from === 0) go(0);
    let began = null;
    play.textContent = "❚❚ Pause";
    const each = PLAY / frames; // a frame takes as long as any other: slow where they are dense
    const tick = (now) => {
      began ??= now;
      const place = from + (now - began) / each;
      const frame = Math.min(frames, Math.floor(place));
      const next = Math.min(frames, frame + 1);
      const share = calm.matches ? 0 : place - frame;
      go(frame >= frames ? path.last : path.at[frame] + share * (path.at[next] - path.at[frame]));
      timer = frame >= frames ? 0 : requestAnimationFrame(tick);
      if (!timer) stop();
    };
    timer = requestAnimationFrame(tick);
  }
  function stop() {
    cancelAnimationFrame(timer);
    timer = 0;
    play.textContent = "▶ Play";
  }
  listeners.push(() => { minis.rebuild(); show(); });
  queueMicrotask(show);

  const words = hold || series.length > 1 ? h("div", { class: "legend-line" },
    h("span", {}, h("i"), "training"), h("span", {}, h("i", { class: "second" }), "validation")) : null;
  const about = "In every iteration the one term that helps most moved a little. Play it, or move the slider: the curves grow, terms enter, the risk falls. Grey is where each effect ends."
    + (data.edits.length ? " This is the fit as it was before the edits." : "");
  return section("growth", "How it grew", about, null,
    h("div", { class: "card" }, words, holder,
      h("div", { class: "player" }, play, slider, said, back), standing),
    minis.element);
}

/** Small pictures of all effects at an iteration. */
function makeMinis() {
  const grid = h("div", { class: "minis" });
  const element = h("div", {}, grid);
  let shownAll = groups.length <= MINIS;
  let list = [];
  let last = state.iteration;
  const build = () => {
    list = (shownAll ? groups : groups.slice(0, MINIS)).map(makeMini);
    grid.replaceChildren(...list.map((mini) => mini.element));
  };
  const show = (at) => {
    last = at;
    for (const mini of list) mini.show(at);
  };
  build();
  if (!shownAll) element.append(moreButton(groups.length, "effects", () => { shownAll = true; build(); show(last); }));
  wholeForPrint.push(() => { shownAll = true; build(); show(last); });
  return { element, show, rebuild: build };
}

function makeMini(group) {
  const count = h("span", {});
  const holder = h("div", { class: "mini" }, h("div", {}, label(group.name), count));
  const picture = group.kind === "surface" ? miniSurface(group) : miniCurve(group);
  holder.append(picture.element);
  const show = (at) => {
    const out = group.first > at;
    holder.classList.toggle("out", out);
    const n = group.terms.reduce((sum, k) => sum + model.path.count(k, at, "chosen") + model.path.count(k, at, "corrected"), 0);
    count.textContent = out ? "not in yet" : `${n.toLocaleString("en-US")}×`;
    picture.show(at);
  };
  return { element: holder, show };
}

function miniSurface(group) {
  const canvas = h("canvas", { width: 180, height: 74, role: "img", "aria-label": `effect of ${cut(group.name)} at the iteration chosen` });
  const size = group.axes[1].at.length;
  const end = group.effects(model.path.best);
  const top = Math.max(...end.map((e) => Math.abs(e[state.output]))) || 1;
  return { element: canvas, show: (at) => {
    const found = group.effects(at);
    const values = group.axes[0].at.map((_, i) => group.axes[1].at.map((__, j) => (group.near[i * size + j] ? found[i * size + j][state.output] : null)));
    paint(canvas, values, top, 0, !group.axes[0].levels && !group.axes[1].levels);
  } };
}

function miniCurve(group) {
  const svg = s("svg", { viewBox: "0 0 200 74", preserveAspectRatio: "none", role: "img", "aria-label": `effect of ${cut(group.name)} at the iteration chosen` });
  const o = state.output;
  const end = group.effects(model.path.best).map((e) => e[o]);
  const late = group.effects(model.path.last).map((e) => e[o]);
  const y = extent([...end, ...late], { zero: true, room: 0.08 });
  const sy = (v) => 74 - ((v - y[0]) / (y[1] - y[0])) * 74;
  svg.append(s("line", { x1: 0, x2: 200, y1: sy(0), y2: sy(0) }));
  if (group.kind === "curve") {
    const at = group.axes[0].at;
    const n = group.axes[0].missing ? at.length - 1 : at.length;
    const low = at[0];
    const high = at[n - 1];
    const line = (values) => path(values.slice(0, n).map((v, i) => [200 * ((at[i] - low) / (high - low || 1)), Math.min(200, Math.max(-200, sy(v)))]));
    const now = s("path", { class: "curve" });
    svg.append(s("path", { class: "curve ghost", d: line(end) }), now);
    return { element: svg, show: (m) => now.setAttribute("d", line(group.effects(m).map((e) => e[o]))) };
  }
  const order = end.map((_, i) => i).sort((i, j) => end[i] - end[j]);
  const wide = 200 / order.length;
  const box = (v) => ({ y: Math.min(sy(v), sy(0)), height: Math.max(0.01, Math.abs(sy(v) - sy(0))) });
  const bars = order.map((_, r) => s("rect", { x: r * wide + wide * 0.15, width: wide * 0.7 }));
  order.forEach((i, r) => svg.append(s("rect", { class: "ghost", x: r * wide + wide * 0.15, width: wide * 0.7, ...box(end[i]) }), bars[r]));
  return { element: svg, show: (m) => {
    const found = group.effects(m);
    order.forEach((i, r) => {
      const v = found[i][o];
      fill(bars[r], { ...box(v), class: v < 0 ? "below" : "above" }, []);
    });
  } };
}

// --- importance -----------------------------------------------------------------------------------

function importance() {
  const holder = h("div", { class: "card" });
  const known = data.importance !== null;
  const show = (all) => {
    const some = all || inModel.length <= MINIS ? inModel : inModel.slice(0, MINIS);
    const items = some.map((group) => ({ name: group.name, value: group.weight, note: known ? format(group.weight, 3) : "" }));
    const words = (v) => (known ? percent(v / totalWeight) : format(v, 3));
    holder.replaceChildren(barList(items, { shown: words, about: "importance of the effects", caption: known ? "share of the fall of the risk" : "largest effect", noteCaption: "fall of the risk" }));
    if (some.length < inModel.length) holder.append(moreButton(inModel.length, "effects", () => show(true)));
    holder.append(termsTable());
  };
  show(false);
  wholeForPrint.push(() => show(true));
  const rows = data.importance_rows === "given" ? "the rows given" : "the training rows";
  const words = known
    ? `How much of the fall of the risk on ${rows} each effect accounts for, as a share and in units of the risk.`
    : "The importance of an edited model is known only on rows: give report a table with the target. Until then: the size of the largest effect on the score.";
  return section("importance", "Importance", words, null, holder);
}

function termsTable() {
  const out = valuesOf(`${model.terms.length} terms: kinds, degrees of freedom, choices`, () => plainTable(
    ["term", "learner", "df", "net df", "times chosen", "corrected", "first", "importance"],
    model.terms.map((term, k) => [term.name, term.learner, term.df ?? "", term.net_df ?? "", model.path.count(k, model.path.best, "chosen"), model.path.count(k, model.path.best, "corrected"), model.path.terms[k].first ?? "–",
      data.importance ? data.importance[term.name] ?? 0 : "–"]), "terms"));
  return out;
}

// --- effects --------------------------------------------------------------------------------------

/** A card with the effect of a group; `before`: with the effect that the fit gave it. */
function effectCard(group, id) {
  const before = group.edited;
  const body = group.kind === "levels" ? levelsBody(group, before) : chartBody(group, before);
  const kinds = [...new Set(group.terms.filter((k) => model.terms[k].chosen).map((k) => model.terms[k].learner))].join(" + ") || "set to zero";
  const column = group.of[0];
  const gone = group.kind !== "surface" && column.spread && column.spread.missing ? `, ${percent(column.spread.missing)} missing` : "";
  const share = group.chosen && data.importance !== null ? ` · ${shareText(group)} of importance` : "";
  const note = h("span", { text: `${kinds}${share}${gone}` });
  const legend = before ? h("div", { class: "legend-line" },
    group.kind === "curve" ? [h("span", {}, h("i"), "edited"), h("span", {}, h("i", { class: "before" }), "as fitted")]
      : h("span", { text: group.kind === "levels" ? "upright marks: as fitted" : "edited after the fit" })) : null;
  return h("article", { class: "card", id, "data-name": group.name },
    h("div", { class: "title" }, label(group.name, "h3"), note), legend, body,
    valuesOf("values", () => effectTable(group)));
}

function describe(group) {
  const { at, levels } = group.axes[0];
  const values = group.final.map((e) => shown(e));
  const least = values.indexOf(Math.min(...values));
  const most = values.indexOf(Math.max(...values));
  const name = (i) => (levels ? cut(levels[i], 30) : Number.isNaN(at[i]) ? "missing cells" : format(at[i]));
  if (group.kind === "surface") return `Heat map of the joint ${yLabel()} of ${cut(group.name)}, from ${format(values[least], 3)} to ${format(values[most], 3)}`;
  return `${yLabel()} of ${cut(group.name)}: least ${format(values[least], 3)} at ${name(least)}, largest ${format(values[most], 3)} at ${name(most)}`;
}

function chartBody(group, before) {
  const holder = drawn(group.kind === "surface" ? "heat" : "curve", (width) =>
    (group.kind === "surface" ? surfaceOf(group, width) : curveOf(group, width, before)));
  return holder;
}

function curveOf(group, width, before) {
  const column = group.of[0];
  const { at, missing } = group.axes[0];
  const n = missing ? at.length - 1 : at.length;
  const points = (effects, output) => at.slice(0, n).map((x, i) => [x, shown(effects[i], output)]);
  const series = [{ kind: "first", points: points(group.final) }];
  if (before) series.push({ kind: "before", points: points(group.effects(model.path.best)) });
  if (model.q > 1 && model.q <= 8) {
    for (let o = 0; o < model.q; o++) if (o !== state.output) series.push({ kind: "ghost", points: points(group.final, o) });
  }
  const spread = column.spread && column.spread.points.length ? { ...column.spread, low: column.low, high: column.high } : null;
  return curveChart({
    width, height: 240, series, spread, missing: missing ? shown(group.final[n]) : null, zero: state.scale === "score",
    x: [column.low, column.high], whole: column.whole, xLabel: column.name, yLabel: yLabel(), about: describe(group), number: shownNumber,
  });
}

function surfaceOf(group, width) {
  const [a, b] = group.axes;
  const size = b.at.length;
  const values = a.at.map((_, i) => b.at.map((__, j) => (group.near[i * size + j] ? shown(group.final[i * size + j]) : null)));
  return surfaceChart({ width, height: Math.min(460, Math.max(340, Math.round(width * 0.75))), a, b, values, middle: zeroOf(), about: describe(group), number: shownNumber });
}

function levelsBody(group, before) {
  const holder = h("div", { class: "levels", tabindex: "0", role: "group", "aria-label": `levels of ${cut(group.name)}` });
  let all = false;
  const show = () => {
    const { levels } = group.axes[0];
    const column = group.of[0];
    const was = before ? group.effects(model.path.best) : null;
    const items = levels.map((name, i) => ({
      name, plain: i >= column.levels.length, value: shown(group.final[i]), note: levelNote(column, i),
      ...(was ? { before: shown(was[i]) } : {}),
    }));
    items.sort((x, y) => y.value - x.value);
    const half = LEVELS / 2;
    const some = all || items.length <= LEVELS ? items : [...items.slice(0, half), ...items.slice(-half)];
    holder.replaceChildren(barList(some, { shown: shownNumber, base: zeroOf(), about: describe(group), caption: yLabel() }));
    if (some.length < items.length) {
      holder.append(h("p", { class: "quiet", text: `the ${half} largest and the ${half} least of ${items.length} levels` }),
        moreButton(items.length, "levels", () => { all = true; show(); }));
    }
  };
  show();
  listeners.push(show);
  return holder;
}

/** How many rows have a level. */
function levelNote(column, i) {
  const share = column.shares && i < column.shares.length ? column.shares[i]
    : i >= column.levels.length && column.spread ? column.spread.missing : null;
  if (share === null) return "";
  const rows = column.spread && Number.isInteger(column.spread.rows) ? Math.round(share * column.spread.rows) : null;
  return rows === null ? percent(share) : rows.toLocaleString("en-US");
}

function effectTable(group) {
  const outputs = model.q > 1 ? data.outputs.map((name) => `effect[${name}]`) : ["effect"];
  const name = (axis, i) => (axis.levels ? axis.levels[i] : Number.isNaN(axis.at[i]) ? "missing" : axis.at[i]);
  const [a, b] = group.axes;
  const size = b ? b.at.length : 1;
  const every = Math.max(1, Math.round(group.final.length / (b ? 400 : a.levels ? 1e9 : 60)));
  const rows = [];
  group.final.forEach((effect, p) => {
    const last = p === group.final.length - 1;
    if (p % every && !last) return;
    rows.push([name(a, Math.floor(p / size)), ...(b ? [name(b, p % size)] : []), ...effect]);
  });
  return plainTable([...group.of.map((c) => c.name), ...outputs], rows, `effect of ${cut(group.name)}`);
}

function effects() {
  const grid = h("div", { class: "effects" });
  grid.append(...singles.map((group) => effectCard(group, group.id)));
  const none = h("p", { class: "none", hidden: true, text: "No effect has such a name." });
  const search = h("input", { type: "search", id: "search", placeholder: `find among ${singles.length} effects`, "aria-label": "find effects by name", oninput: () => {
    const wanted = search.value.trim().toLowerCase();
    let n = 0;
    singles.forEach((group, i) => {
      const fits = group.name.toLowerCase().includes(wanted);
      grid.children[i].hidden = !fits;
      n += fits;
    });
    none.hidden = n > 0;
  } });
  wholeForPrint.push(() => { search.value = ""; for (const card of grid.children) card.hidden = false; });
  const tools = [...(singles.length > 6 ? [search] : []), ...(hasResponse ? [scaleSwitch()] : [])];
  const rows = model.columns.some((c) => c.spread) ? " Grey bars show where the training rows are; numbers behind levels count them." : "";
  const words = () => (state.scale === "score" ? "What each column adds to the score, the others held fixed; zero is the average of the training rows."
    : "The prediction as each column changes, all other effects at their average.") + rows;
  const made = section("effects", "Effects", words(), tools, grid, none);
  listeners.push(() => { made.querySelector(".head p").textContent = words(); });
  return made;
}

function scaleSwitch() {
  const buttons = [["score", scaleNames[data.link]], ["response", "prediction"]].map(([scale, text]) =>
    h("button", { type: "button", "data-scale": scale, "aria-pressed": String(state.scale === scale), text, onclick: () => {
      state.scale = scale;
      changed();
      redraw();
    } }));
  listeners.push(() => buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.scale === state.scale))));
  return h("div", { class: "switch", role: "group", "aria-label": "scale of the effects" }, buttons);
}

function interactions() {
  if (!pairs.length) return null;
  const words = "Two columns that act together; added to their effects above, if they have any. Hatched where no training rows are near.";
  return section("interactions", "Interactions", words, null, h("div", { class: "effects" }, pairs.map((group) => effectCard(group, group.id))));
}

// --- one prediction -------------------------------------------------------------------------------

const used = [...new Set(inModel.flatMap((group) => group.columns))];

function typical(column) {
  if (column.by_level || column.low === null) {
    if (!column.levels.length) return presentValue(column);
    let best = 0;
    column.levels.forEach((_, i) => { if (column.shares && column.shares[i] > column.shares[best]) best = i; });
    return column.numeric ? column.numbers[best] : best;
  }
  if (column.spread && column.spread.points.length) {
    const { points, shares } = column.spread;
    let reached = 0;
    for (let i = 0; i < points.length; i++) {
      reached += shares[i];
      if (reached >= 0.5) return Number(points[i].toPrecision(4)) >= column.low ? neat(points[i], column) : points[i];
    }
  }
  return neat((column.low + column.high) / 2, column);
}

/** A number close by that is short. */
function neat(x, column) {
  if (column.whole) return Math.round(x);
  const step = 10 ** (Math.floor(Math.log10(column.high - column.low)) - 3);
  return Number((Math.round(x / step) * step).toPrecision(12));
}

const row = model.columns.map(typical);
const given = { offset: new Array(model.q).fill(0), exposure: 1 };

function rowFrom(cells) {
  return model.columns.map((column, c) => {
    const cell = Array.isArray(cells) ? cells[c] : cells[column.name];
    if (cell === null || cell === undefined || Number.isNaN(cell)) return NaN;
    if (column.numeric) return Number(cell);
    return column.position.get(String(cell)) ?? -1;
  });
}

function onePrediction() {
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const waterfall = h("div", { class: "waterfall-holder" });
  let order = null;
  const fields = [];

  const show = (settled) => {
    const parts = model.contributions(row);
    const fixed = model.fixed(given);
    const score = model.score(row, given);
    answer.replaceChildren(...answerOf(score));
    const sizes = inModel.map((group) => group.contribution(parts, state.output));
    if (settled || !order) order = inModel.map((_, i) => i).sort((i, j) => Math.abs(sizes[j]) - Math.abs(sizes[i]));
    waterfall.replaceChildren(waterfallOf(order.map((i) => [inModel[i], sizes[i]]), fixed[state.output], score[state.output]));
  };
  const moved = (column, settled) => {
    show(settled);
    for (const field of fields) if (field.column === column || field.partners.has(column)) field.draw();
  };

  const list = h("div", { class: "inputs" });
  const order0 = [...used].sort((a, b) => weightOf(b) - weightOf(a));
  const build = (some) => {
    fields.length = 0;
    const extra = fixedFields(() => show(true));
    some.forEach((c) => fields.push(fieldOf(c, (settled) => moved(c, settled))));
    list.replaceChildren(...extra, ...fields.map((f) => f.element));
    fields.forEach((f) => f.draw());
  };
  const search = h("input", { type: "search", placeholder: `find among ${used.length} columns`, "aria-label": "find inputs by name", oninput: () => {
    const wanted = search.value.trim().toLowerCase();
    if (list.dataset.part) buildAll();
    for (const field of fields) field.element.hidden = !model.columns[field.column].name.toLowerCase().includes(wanted);
  } });
  const buildAll = () => {
    delete list.dataset.part;
    build(order0);
    more?.remove();
  };
  const part = order0.length > FIELDS;
  const more = part ? moreButton(order0.length, "columns", buildAll) : null;
  build(order0.slice(0, FIELDS));
  if (part) list.dataset.part = "1";
  const setRow = (values) => {
    values.forEach((v, c) => { row[c] = v; });
    fields.forEach((f) => f.read());
    fields.forEach((f) => f.draw());
    show(true);
  };
  const reset = h("button", { type: "button", text: "Typical row", onclick: () => { if (picker) picker.value = ""; setRow(model.columns.map(typical)); } });
  const picker = data.rows.length ? h("select", { "aria-label": "a row of the table given", onchange: () => {
    if (picker.value !== "") setRow(rowFrom(data.rows[Number(picker.value)]));
  } }, h("option", { value: "", text: "a row of the table" }), data.rows.map((_, i) => h("option", { value: i, text: `row ${i}` }))) : null;
  listeners.push(() => { show(true); fields.forEach((f) => f.draw()); });
  show(true);
  Object.assign(api, { setRow: (cells) => setRow(rowFrom(cells)), row: () => [...row] });

  return section("prediction", "One prediction", "Change the row and see what moves. It is computed here, in this file, as the model computes it; numbers beyond the training range, missing cells and levels never seen included.",
    [part ? search : null, picker, reset].filter(Boolean),
    h("div", { class: "what-if" },
      h("div", { class: "card inputs-card" }, list, more),
      h("div", { class: "result" }, h("div", { class: "card" }, answer), h("div", { class: "card" }, waterfall))));
}

function weightOf(c) {
  return inModel.filter((group) => group.columns.includes(c)).reduce((sum, group) => sum + group.weight, 0);
}

function answerOf(score) {
  if (score.some(Number.isNaN)) return [h("b", { text: "–" }), h("span", { text: "not a number: this row is too far away from the training rows, or an input is no number" })];
  const found = model.response(score);
  const main = found[state.output];
  const probability = data.link === "logit" || data.link === "softmax";
  const words = data.link === null ? "score (the response is a Python function)" : probability ? responseName() : data.target ? `predicted ${cut(data.target, 40)}` : "prediction";
  const out = [h("b", { text: probability ? percentOf(main) : format(main, 5), "data-value": main }), h("span", { dir: "auto", text: words })];
  if (data.link !== "identity" && data.link !== null) out.push(h("span", { text: `score ${format(score[state.output], 4)}` }));
  if (model.q > 1 && model.q <= 12) {
    out.push(barList(data.outputs.map((name, o) => ({ name, value: found[o] })), { shown: percentOf, about: "probabilities of the classes" }));
  }
  return out;
}

const percentOf = (p) => (p > 0 && p < 0.001 ? "<0.1%" : p > 0.999 && p < 1 ? ">99.9%" : `${(100 * p).toFixed(1)}%`);

/** From the intercept to the score, one bar per effect. */
function waterfallOf(steps, fixed, score) {
  const start = model.intercept[state.output];
  const shownSteps = steps.slice(0, STEPS).map(([group, size]) => ({ group, size }));
  const rest = steps.slice(STEPS).reduce((sum, [, size]) => sum + size, 0);
  if (steps.length > STEPS) shownSteps.push({ name: `${steps.length - STEPS} others`, size: rest });
  if (data.offset || data.exposure) shownSteps.unshift({ name: data.exposure ? "log of the exposure" : "offset", size: fixed });
  let at = start;
  const ends = shownSteps.map(({ size }) => [at, (at += size)]);
  const [low, high] = extent([start, score, ...ends.flat()], { room: 0.03 });
  const place = (v) => Math.min(1, Math.max(0, (v - low) / (high - low)));
  const line = (name, value, from, to, kind, number, next) => {
    const track = h("div", { class: "track" }, bar(place(from), place(to), kind));
    if (next !== null) {
      const link = h("s", {});
      link.style.left = `${100 * place(next)}%`;
      track.append(link);
    }
    return h("tr", { class: kind === "total" ? "sum" : null },
      h("th", { scope: "row" }, h("div", {}, name, value === null ? null : h("span", { class: "value", dir: "auto", text: value, title: value }))),
      h("td", { class: "bar" }, track), h("td", { class: "number", text: number }));
  };
  const edge = low > 0 ? low : high < 0 ? high : 0;
  const rows = [line("average (intercept)", null, edge, start, "total", format(start, 3), start)];
  shownSteps.forEach(({ group, name, size }, i) => {
    const value = group ? `= ${group.columns.map(valueText).join(", ")}` : null;
    rows.push(line(group ? label(group.name) : name, value, ends[i][0], ends[i][1], size < 0 ? "below" : "above", signed(size), ends[i][1]));
  });
  rows.push(line(data.link === "identity" ? "prediction" : "score", null, edge, score, "total", format(score, 4), null));
  return h("table", { class: "bars waterfall", "aria-label": "what every effect adds to the score" }, columnsOf("name-column", "", "number"),
    h("thead", { class: "unseen" }, h("tr", {}, h("th", { text: "effect" }), h("th", {}), h("th", { text: "adds" }))), h("tbody", {}, rows));
}

function valueText(c) {
  const column = model.columns[c];
  const value = row[c];
  if (Number.isNaN(value)) return "missing";
  if (!column.by_level) return format(value, 6);
  if (!column.levels.length) return "present";
  const at = column.numeric ? column.numbers.indexOf(value) : value;
  return at >= 0 ? cut(column.levels[at], 40) : "never seen";
}

/** Inputs of offset and exposure. */
function fixedFields(act) {
  const out = [];
  const add = (name, value, least, set) => {
    const id = `fixed-${out.length}`;
    const input = h("input", { type: "number", id, step: "any", min: least, value, oninput: () => {
      const number = input.value.trim() === "" ? NaN : Number(input.value);
      const bad = !Number.isFinite(number) || (least !== null && number <= 0);
      input.classList.toggle("bad", bad);
      set(bad ? NaN : number);
      act();
    } });
    out.push(h("div", { class: "field" }, h("div", { class: "row" }, h("label", { for: id }, label(name)), input)));
  };
  if (data.exposure) add(`exposure (${data.exposure})`, given.exposure, 0, (v) => { given.exposure = v; });
  if (data.offset) {
    given.offset.forEach((value, o) => add(model.q > 1 ? `${data.offset} [${data.outputs[o]}]` : `offset (${data.offset})`, value, null, (v) => { given.offset[o] = v; }));
  }
  return out;
}

/** An input of one column: a number with a slider, or a choice of levels. */
function fieldOf(c, act) {
  const column = model.columns[c];
  const partners = new Set(inModel.filter((g) => g.columns.includes(c)).flatMap((g) => g.columns).filter((d) => d !== c));
  const made = column.by_level || column.low === null ? choiceField(c, column, act) : numberField(c, column, act);
  return { column: c, partners, ...made };
}

function choiceField(c, column, act) {
  const id = `input-${c}`;
  const options = column.levels.map((level, i) => h("option", { value: i, text: cut(level === "" ? "(empty)" : level, 80) }));
  if (!column.levels.length) options.push(h("option", { value: "present", text: "present" }));
  options.push(h("option", { value: "missing", text: "(missing)" }));
  const open = column.levels.length > 0 && !(column.numeric && column.levels.every((l) => l === "True" || l === "False"));
  if (open) options.push(h("option", { value: "unseen", text: "(never seen in training)" }));
  const select = h("select", { id, onchange: () => {
    if (select.value === "missing") row[c] = NaN;
    else if (select.value === "present") row[c] = presentValue(column);
    else if (select.value === "unseen") row[c] = column.numeric ? Infinity : -1;
    else row[c] = column.numeric ? column.numbers[Number(select.value)] : Number(select.value);
    act(true);
  } }, options);
  const read = () => {
    const value = row[c];
    const at = column.numeric ? column.numbers.indexOf(value) : value;
    select.value = Number.isNaN(value) ? "missing" : !column.levels.length ? "present" : at >= 0 ? String(at) : "unseen";
  };
  read();
  const element = h("div", { class: "field" }, h("div", { class: "row" }, h("label", { for: id }, label(column.name)), select));
  return { element, read, draw: () => {} };
}

function numberField(c, column, act) {
  const id = `input-${c}`;
  const { low, high } = column;
  const step = column.whole ? 1 : 10 ** (Math.floor(Math.log10(high - low)) - 2);
  const number = h("input", { type: "number", id, step: "any", "aria-describedby": `${id}-range` });
  const slider = h("input", { type: "range", min: low, max: high, step: column.whole ? 1 : "any", "aria-label": `${cut(column.name)}, slider` });
  const gone = h("input", { type: "checkbox", id: `${id}-missing` });
  const svg = s("svg", { viewBox: "0 0 200 30", preserveAspectRatio: "none", "aria-hidden": "true" });
  const dot = h("i", {});
  const read = () => {
    const missing = Number.isNaN(row[c]);
    gone.checked = missing;
    number.disabled = slider.disabled = missing;
    if (!missing) {
      number.value = String(row[c]);
      slider.value = row[c];
    }
  };
  number.addEventListener("input", () => {
    const value = number.value.trim() === "" ? Infinity : Number(number.value);
    number.classList.toggle("bad", !Number.isFinite(value));
    row[c] = value;
    slider.value = value;
    act(true);
  });
  slider.addEventListener("input", () => {
    // The ends are the column's own numbers, in between short ones do.
    const raw = Number(slider.value);
    row[c] = raw <= low ? low : raw >= high ? high : Number((Math.round(raw / step) * step).toPrecision(12));
    number.value = String(row[c]);
    number.classList.remove("bad");
    act(false);
  });
  slider.addEventListener("change", () => act(true));
  slider.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10 }[event.key];
    if (!way) return;
    event.preventDefault();
    const next = Math.min(high, Math.max(low, row[c] + way * (column.whole ? Math.max(1, Math.round((high - low) / 100)) : step)));
    row[c] = Number(next.toPrecision(12));
    read();
    act(true);
  });
  gone.addEventListener("change", () => {
    row[c] = gone.checked ? NaN : number.value.trim() === "" ? typical(column) : Number(number.value);
    read();
    act(true);
  });
  read();
  const mine = inModel.filter((group) => group.columns.includes(c));
  const draw = () => {
    const terms = mine.flatMap((group) => group.terms).filter((k) => model.terms[k].chosen).map((k) => model.terms[k]);
    const at = (x) => terms.reduce((sum, term) => sum + model.effect(term, term.columns.map((d) => (d === c ? x : row[d])))[state.output], 0);
    const xs = Array.from({ length: 61 }, (_, i) => low + (i / 60) * (high - low));
    const ys = xs.map(at);
    const y = extent(ys, { room: 0.1 });
    const sy = (v) => 30 - ((v - y[0]) / (y[1] - y[0])) * 30;
    svg.replaceChildren(s("path", { class: "curve", d: path(xs.map((_, i) => [200 * (i / 60), sy(ys[i])])) }));
    const here = row[c];
    const inside = here >= low && here <= high;
    dot.hidden = !inside;
    if (inside) {
      dot.style.left = `${(100 * (here - low)) / (high - low)}%`;
      dot.style.top = `${sy(at(here)) - 30}px`;
    }
  };
  const element = h("div", { class: "field" },
    h("div", { class: "row" }, h("label", { for: id }, label(column.name)), number,
      h("label", { class: "gone" }, gone, "missing")),
    svg, h("div", { class: "here" }, dot), slider,
    h("span", { class: "unseen", id: `${id}-range`, text: `in training from ${format(low)} to ${format(high)}` }));
  return { element, read, draw };
}

// --- edits, and the fit again ---------------------------------------------------------------------

function edits() {
  if (!data.edits.length) return null;
  const touched = groups.filter((group) => group.edited);
  return section("edits", "What was changed", "This model was edited by hand after its fit. The risks and the path above are those of the fit.", null,
    h("ol", { class: "edits" }, data.edits.map(({ words }) => h("li", { dir: "auto", text: cut(words, 600) }))),
    h("div", { class: "effects" }, touched.map((group) => effectCard(group, `edited-${group.id}`))));
}

function repeat() {
  const copy = h("button", { type: "button", text: "Copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(data.repeat);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      copy.textContent = "Selected";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  } });
  const code = h("pre", { tabindex: "0", "aria-label": "Python code" }, h("code", { text: data.repeat }));
  return section("repeat", "Fit it again", "The settings of the fit, as code; table and y are yours.", [copy], code);
}

// --- the page -------------------------------------------------------------------------------------

const api = {
  model,
  /** Score and response of a row, given as {column: value}. */
  rowFrom,
  predict(cells, fixed) {
    const score = model.score(rowFrom(cells), fixed);
    return { score, response: model.response(score) };
  },
};
window.cwboostReport = api;

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redraw();
  listeners.forEach((listener) => listener());
}

function topbar(sections) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let own = null;
  const button = h("button", { type: "button", id: "theme", onclick: () => {
    own = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    apply();
  } });
  const apply = () => {
    const theme = own ?? (dark.matches ? "dark" : "light");
    setTheme(theme);
    button.replaceChildren(theme === "dark" ? "☀" : "☾", h("span", { text: theme === "dark" ? " Light" : " Dark" }));
    button.setAttribute("aria-label", `use ${theme === "dark" ? "light" : "dark"} colours`);
  };
  dark.addEventListener("change", apply);
  addEventListener("beforeprint", () => {
    setTheme("light");
    wholeForPrint.forEach((act) => act());
    drawForPrint();
  });
  addEventListener("afterprint", apply);
  const links = sections.map((one) => h("a", { href: `#${one.id}`, text: one.querySelector("h2").textContent }));
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const link of links) {
        if (link.getAttribute("href") === `#${target.id}`) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  sections.forEach((one) => watch.observe(one));
  return { bar: h("div", { class: "topbar" }, h("div", {}, h("nav", { "aria-label": "sections" }, links), classPicker(), button)), apply };
}

function classPicker() {
  if (model.q === 1) return null;
  const select = h("select", { id: "class", onchange: () => {
    state.output = Number(select.value);
    changed();
    redraw();
  } }, data.outputs.map((name, o) => h("option", { value: o, text: cut(name === "" ? "(empty)" : name, 60) })));
  select.value = String(state.output);
  return h("label", {}, h("span", { text: "class" }), select);
}

function subtitle() {
  const what = data.target ? cut(data.target, 80) : "the target";
  const of = data.link === "logit" && data.classes.length ? `the probability that ${what} is ${cut(data.classes[1], 60)}`
    : data.link === "softmax" ? `the probabilities of ${data.outputs.length} classes of ${what}`
      : data.aim === "prediction" ? what : `${data.aim} of ${what}`;
  const edited = data.edits.length ? ` Edited after the fit: ${data.edits.length} ${data.edits.length === 1 ? "change" : "changes"}.` : "";
  return `A sum of ${inModel.length} effects that predicts ${of}.${edited}`;
}

function build() {
  if (model.q > 1) state.output = 0;
  const sections = [overview(), growth(), importance(), effects(), interactions(), onePrediction(), edits(), repeat()].filter(Boolean);
  const top = topbar(sections);
  document.getElementById("app").append(top.bar, h("main", {},
    h("header", {}, h("h1", { dir: "auto", text: cut(data.title, 300) }), h("p", { dir: "auto", text: subtitle() })),
    ...sections,
    h("footer", { text: `Made by cwboost ${data.version}. This file is complete in itself: it loads nothing and sends nothing.` })));
  top.apply();
}

build();
