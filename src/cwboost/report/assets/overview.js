// The sections on the whole model: overview and importance.
// --- overview ------------------------------------------------------------------------------------

function tile(value, words) {
  return h("div", { class: "tile" }, h("b", { text: value }), h("span", { text: words }));
}

function overview() {
  const path = model.path;
  const { bags } = data;
  const at = (risks) => path.riskAt(risks, path.best);
  const [before, after] = bags ? bags.risk : [path.risk[0], at(path.risk)];
  const tiles = [
    tile(
      `${format(before, 3)} → ${format(after, 3)}`,
      data.polish ? "training risk of the boosted fit" : "training risk, start to model",
    ),
  ];
  if (bags) tiles.push(tile(format(bags.left_out, 3), "out-of-bag risk"));
  else if (data.polish && data.polish.edf !== null)
    tiles.push(tile(format(data.polish.edf, 3), "effective degrees of freedom after polish"));
  else if (path.validation_risk)
    tiles.push(
      tile(
        `${format(path.validation_risk[0], 3)} → ${format(at(path.validation_risk), 3)}`,
        data.polish ? "validation risk of the boosted fit" : "validation risk",
      ),
    );
  tiles.push(
    tile(`${inModel.length}`, `effects: ${singles.length} of one column, ${pairs.length} of two`),
  );
  const words =
    path.best === path.last
      ? "iterations"
      : `iterations kept of ${path.last.toLocaleString("en-US")}`;
  tiles.push(
    bags
      ? tile(`${bags.n}`, `bags averaged, ${bags.iterations.join(" to ")} iterations each`)
      : tile(path.best.toLocaleString("en-US"), words),
  );
  const parts = [h("div", { class: "tiles" }, tiles)];
  if (data.judged) parts.push(...judgedTiles());
  const left = h(
    "div",
    { class: "card" },
    h(
      "dl",
      { class: "facts" },
      data.facts.flatMap(([name, value]) => [
        h("dt", { text: name }),
        h("dd", { dir: "auto", text: cut(value, 400) }),
      ]),
    ),
    formula(),
    columnsTable(),
  );
  const right = data.judged ? calibrationCard() : null;
  parts.push(right ? h("div", { class: "two" }, left, right) : left);
  return section("overview", "Overview", null, null, ...parts);
}

function judgedTiles() {
  const tiles = data.judged.metrics.map(([name, value]) =>
    tile(name === "accuracy" ? percent(value) : format(value, 4), name),
  );
  const n = data.judged.n.toLocaleString("en-US");
  return [
    h("p", {
      class: "quiet judged",
      text: `On the ${n} rows passed to this report (a fair judgement only if the model was not fitted to them):`,
    }),
    h("div", { class: "tiles" }, tiles),
  ];
}

/** Make the formula of the model. */
function formula() {
  const most = 6;
  const signs = inModel
    .slice(0, most)
    .flatMap((group) => [" ", h("span", { class: "part" }, "+ f(", label(group.name), ")")]);
  const more = inModel.length > most ? ` + ${inModel.length - most} more` : "";
  const fixed = (data.offset ? " + offset" : "") + (data.exposure ? " + log(exposure)" : "");
  const start = h("span", {});
  const show = () => {
    start.textContent = `score = ${format(model.intercept[state.output], 4)}${fixed}`;
  };
  show();
  listeners.push(show);
  const links = {
    log: "prediction = exp(score)",
    logit: `${isProbability ? "probability" : "prediction"} = 1 / (1 + exp(−score))`,
    softmax: "probabilities = softmax of the scores",
  };
  return h(
    "p",
    { class: "formula" },
    start,
    ...signs,
    more,
    links[data.link] ? [h("br"), links[data.link]] : null,
  );
}

function columnsTable() {
  const heads = ["column", "kind", "range or levels", "missing"];
  const rows = model.columns.map((column) => {
    const range =
      column.low !== null && !column.by_level
        ? `${format(column.low)} to ${format(column.high)}`
        : column.levels.length
          ? `${column.levels.length} levels`
          : "present or missing";
    const gone =
      column.spread && column.spread.missing
        ? percent(column.spread.missing)
        : column.missing
          ? "some"
          : "none";
    return [
      column.name,
      column.numeric ? (column.by_level ? "numbers as levels" : "numbers") : "text",
      range,
      gone,
    ];
  });
  const make = () => plainTable(heads, rows, "columns");
  const out = valuesOf(`${rows.length} columns used`, make);
  out.classList.remove("values");
  wholeForPrint.push(() => {
    out.open = true;
    out.replaceChildren(out.firstChild, make());
  });
  return out;
}

function calibrationCard() {
  const axis = () =>
    isProbability
      ? responseName()
      : data.judged.per_exposure
        ? "per unit of exposure"
        : data.aim.replace("the ", "");
  const holder = drawn("calibration", (width) =>
    calibrationChart({
      width,
      height: Math.min(380, Math.max(280, Math.round(width * 0.7))),
      groups: data.judged.calibration[state.output],
      xLabel: `predicted ${axis()}`,
      yLabel: "observed",
      probability: isProbability,
      about: `Observed against predicted values in ${data.judged.calibration[state.output].predicted.length} groups of rows; the table below has the numbers`,
    }),
  );
  listeners.push(() => redraw(holder));
  const values = valuesOf("values", () => {
    const { predicted, observed, low, high, rows } = data.judged.calibration[state.output];
    return plainTable(
      ["predicted", "observed", "from", "to", "rows"],
      predicted.map((p, i) => [p, observed[i], low[i] ?? "", high[i] ?? "", rows[i]]),
      "calibration",
    );
  });
  return h(
    "div",
    { class: "card" },
    h(
      "div",
      { class: "title" },
      h("h3", { text: "Calibration" }),
      h("span", { text: "rows grouped by prediction; bars: 95% intervals" }),
    ),
    holder,
    values,
  );
}

/** Make a table of the numbers of a chart that is filled when it is opened. */
function valuesOf(words, make) {
  const out = h("details", { class: "values" }, h("summary", { text: words }));
  out.addEventListener("toggle", () => {
    if (out.open) out.replaceChildren(out.firstChild, make());
  });
  return out;
}

// --- importance ----------------------------------------------------------------------------------

function importance() {
  const holder = h("div", { class: "card" });
  const show = (all) => {
    const some = all || inModel.length <= MINIS ? inModel : inModel.slice(0, MINIS);
    holder.replaceChildren(
      barList(
        some.map((group) => ({ name: group.name, value: group.weight })),
        {
          shown: (size) => format(size, 3),
          about: "sizes of the effects",
          caption: "mean absolute effect",
        },
      ),
    );
    if (some.length < inModel.length)
      holder.append(moreButton(inModel.length, "effects", () => show(true)));
    holder.append(termsTable());
  };
  show(false);
  wholeForPrint.push(() => show(true));
  const words = `The size of each effect: ${data.size_words}. The terms of a column are added up; pairs of columns stand apart.`;
  return section("importance", "Importance", words, null, holder);
}

function termsTable() {
  return valuesOf(`${model.terms.length} terms: learners, degrees of freedom, choices`, () =>
    plainTable(
      [
        "term",
        "learner",
        "df",
        "net df",
        "times chosen",
        "corrected",
        "first",
        "size",
        "risk reduction",
      ],
      model.terms.map((term, k) => [
        term.name,
        term.learner,
        term.df ?? "",
        term.net_df ?? "",
        data.bags ? data.bags.chosen[term.name] : model.path.count(k, model.path.best, "chosen"),
        model.path.count(k, model.path.best, "corrected"),
        model.path.terms[k].first ?? "–",
        data.importance[term.name]?.size ?? "–",
        data.importance[term.name]?.risk ?? "–",
      ]),
      "terms",
    ),
  );
}
