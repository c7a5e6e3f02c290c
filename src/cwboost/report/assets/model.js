// What the page shows before it is drawn: the model, its effects by column, and their labels.
// Does not know about sections and charts.

const data = JSON.parse(document.getElementById("data").textContent);
const model = new Model(data);
const GRID = 160; // points of a curve
const SURFACE = 36; // points of a surface's numeric axis
const MINIS = 20; // small plots of the path before "show all"
const FIELDS = 20; // inputs before "show all"
const LEVELS = 200; // levels of a column before "show all"
const STEPS = 10; // rows of the waterfall; the other effects are added up
const PLAY = 12000; // milliseconds from the first iteration to the last

const state = { scale: "score", output: 0, iteration: model.path.best };
const listeners = [];
const wholeForPrint = []; // functions that show all of a list
const changed = () => listeners.forEach((listener) => listener());
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// --- effects -------------------------------------------------------------------------------------

/** The sum of the terms with the same columns: a curve, levels or a surface. */
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
    this.edited = data.edits.some(
      (e) => names.includes(e.term) || (columns.length === 1 && e.term === this.of[0].name),
    );
    this.first = Math.min(...terms.map((k) => model.path.terms[k].first ?? Infinity));
    const known = names.map((name) => data.importance[name]).find((found) => found);
    this.weight = known?.column_size ?? 0; // mean absolute effect of the sum of the terms
  }

  /** The values of the columns at all points; on a surface the second column varies first. */
  get points() {
    const [a, b] = this.axes;
    return b ? a.at.flatMap((x) => b.at.map((y) => [x, y])) : a.at.map((x) => [x]);
  }

  /** The places of all points on the axes of every term. */
  get places() {
    this.placesKept ??= this.points.map((values) =>
      this.terms.map((k) => model.places(model.terms[k], values)),
    );
    return this.placesKept;
  }

  /** Return the effect at all points, an array of outputs each; optionally at an iteration. */
  effects(iteration = null) {
    const effects = this.terms.map((k) => {
      const term = model.terms[k];
      return iteration === null ? term.effect : model.effectOf(term, model.path.beta(k, iteration));
    });
    return this.places.map((places) => {
      const out = new Array(model.q).fill(0);
      places.forEach((place, t) => {
        effects[t].at(place).forEach((e, o) => {
          out[o] += e;
        });
      });
      return out;
    });
  }

  get final() {
    this.finalKept ??= this.effects();
    return this.finalKept;
  }

  /**
   * The band on the current scale, or null: for a curve {points: [x, lower, upper], missing}, for
   * levels {ends: name to [lower, upper], missing}.
   */
  get band() {
    const packed = this.kind === "surface" || !data.bands ? null : data.bands.of[this.columns[0]];
    const levels = this.kind === "levels";
    if (!packed || (packed.levels !== null) !== levels) return null;
    // A response depends on the effects on all outputs.
    if (state.scale === "response" && model.q > 1) return null;
    const ends = [packed.lower, packed.upper].map((text) => decode(text));
    const pair = (i, from = ends) =>
      from.map((end) => shown(Array.from(end.slice(i * model.q, (i + 1) * model.q))));
    const missing = packed.missing && pair(0, packed.missing.map((text) => decode(text)));
    if (levels) return { ends: new Map(packed.levels.map((name, i) => [name, pair(i)])), missing };
    return { points: Array.from(decode(packed.at), (x, i) => [x, ...pair(i)]), missing };
  }

  /** For a surface: whether training rows are near each point. */
  get near() {
    if (!this.nearKept) {
      const { axes, mean } = model.terms[this.terms[0]];
      // The mean of a basis function tells how many rows are where it is not zero.
      const density = mean && new Effect(axes, mean.map(Math.abs), 1, null);
      const mass = this.places.map(([place]) => (density ? density.at(place)[0] : 1));
      const least = 2e-4 * Math.max(...mass);
      const everywhere = axes.some((axis) => axis.everywhere);
      this.nearKept = mass.map((m) => everywhere || m > least);
    }
    return this.nearKept;
  }

  contribution(parts, output) {
    return this.terms.reduce((sum, k) => sum + (parts[k] ? parts[k][output] : 0), 0);
  }
}

/** Return where an effect is shown: numbers from the lowest to the highest, or levels. */
function axisOf(column, terms, pair) {
  if (isChoice(column)) {
    const known = column.levels.map((_, i) => (column.numeric ? column.numbers[i] : i));
    const names = [...column.levels];
    if (!known.length) {
      known.push(presentValue(column));
      names.push(
        column.numeric && column.low !== null && column.low === column.high
          ? format(column.low)
          : "present",
      );
    }
    const missing = column.missing || !column.levels.length;
    return {
      name: column.name,
      at: missing ? [...known, NaN] : known,
      levels: missing ? [...names, "missing"] : names,
      missing,
    };
  }
  const { low, high } = column;
  const mine = terms.map((k) => model.terms[k]);
  const steps = mine
    .flatMap((t) => t.axes.filter((_, i) => model.columns[t.columns[i]] === column))
    .filter((axis) => axis.stepped);
  const sides = steps.flatMap((axis) => Array.from(axis.breaks, axis.sidesOf, axis).flat());
  const stepped = !pair && mine.every((t) => t.axes.every((axis) => axis.stepped));
  const n = pair ? SURFACE : GRID;
  const at = stepped
    ? [low, high]
    : Array.from({ length: n }, (_, i) => low + (i / (n - 1)) * (high - low));
  at[at.length - 1] = high;
  if (!pair) at.push(...sides, ...(column.numbers ?? []));
  const sorted = [...new Set(at)].filter((x) => x >= low && x <= high).sort((x, y) => x - y);
  return {
    name: column.name,
    at: column.missing && !pair ? [...sorted, NaN] : sorted,
    levels: null,
    missing: column.missing && !pair,
  };
}

/** Return whether a column is entered as a choice: of levels, or of one value and missing. */
function isChoice(column) {
  return column.by_level || column.low === null || column.low === column.high;
}

/** Return a value that means "not missing" where only that matters. */
function presentValue(column) {
  return column.numeric ? (column.low ?? 0) : -1;
}

function makeGroups() {
  const found = new Map();
  model.terms.forEach((term, k) => {
    const key = term.columns.join(",");
    if (!found.has(key)) found.set(key, { columns: term.columns, terms: [] });
    found.get(key).terms.push(k);
  });
  const groups = [...found.values()].map(({ columns, terms }) => new Group(columns, terms));
  groups.sort((a, b) => b.chosen - a.chosen || b.weight - a.weight);
  groups.forEach((group, i) => {
    group.id = `effect-${i}`;
  });
  return groups;
}

const groups = makeGroups();
const inModel = groups.filter((group) => group.chosen);
const singles = inModel.filter((group) => group.kind !== "surface");
const pairs = inModel.filter((group) => group.kind === "surface");

// --- labels --------------------------------------------------------------------------------------

const scaleNames = {
  identity: "effect",
  log: "effect on the log",
  logit: "effect on the log odds",
  softmax: "effect on the score",
};
const hasResponse = ["log", "logit", "softmax"].includes(data.link);
const isProbability = data.classes.length > 0 && data.link !== null;

function outputName() {
  if (model.q > 1) return data.outputs[state.output];
  return data.classes.length ? data.classes[1] : "";
}

function responseName() {
  if (isProbability) return `probability of ${cut(outputName(), 40)}`;
  if (data.link === "log" && data.exposure) return "prediction per unit of exposure";
  return "prediction";
}

function yLabel() {
  return state.scale === "score"
    ? scaleNames[data.link ?? "identity"]
    : `${responseName()}, all else average`;
}

/** Return an effect on the current scale. */
function shown(effect, output = state.output) {
  if (state.scale === "score") return effect[output];
  return model.response(effect.map((e, o) => e + model.intercept[o]))[output];
}

const shownNumber = (value) => (state.scale === "score" ? signed(value) : format(value, 3));
const zeroOf = () => shown(new Array(model.q).fill(0));

function section(id, title, words, tools, ...children) {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title`, tabindex: "-1" },
    h(
      "div",
      { class: "head" },
      h(
        "div",
        {},
        h("h2", { id: `${id}-title`, text: title }),
        words ? h("p", { text: words }) : null,
      ),
      tools ? h("div", { class: "tools" }, tools) : null,
    ),
    ...children,
  );
}

/** Make a button that shows the whole list. */
function moreButton(n, what, act) {
  const button = h("button", {
    type: "button",
    class: "link",
    text: `show all ${n} ${what}`,
    onclick: () => {
      button.closest(".more").remove();
      act();
    },
  });
  return h("div", { class: "more" }, button);
}
