// The section on one prediction: inputs, the result, and what every effect adds to it.

const usedColumns = [...new Set(inModel.flatMap((group) => group.columns))];

/** Return the most frequent level, or the median. */
function typical(column) {
  if (isChoice(column)) {
    if (!column.levels.length) return presentValue(column);
    let best = 0;
    column.levels.forEach((_, i) => {
      if (column.shares && column.shares[i] > column.shares[best]) best = i;
    });
    return column.numeric ? column.numbers[best] : best;
  }
  if (column.spread && column.spread.points.length) {
    const { points, shares } = column.spread;
    let reached = 0;
    for (let i = 0; i < points.length; i++) {
      reached += shares[i];
      if (reached >= 0.5)
        return Number(points[i].toPrecision(4)) >= column.low ? neat(points[i], column) : points[i];
    }
  }
  return neat((column.low + column.high) / 2, column);
}

/** Return a nearby number with few digits. */
function neat(x, column) {
  if (column.whole) return Math.round(x);
  const step = 10 ** (Math.floor(Math.log10(column.high - column.low)) - 3);
  return Number((Math.round(x / step) * step).toPrecision(12));
}

// What readers have entered: a value per column, and offset and exposure.
const row = model.columns.map(typical);
const fixedInputs = { offset: new Array(model.q).fill(0), exposure: 1 };

/** Return a row for the model from cells by column name, or in the order of the columns. */
function rowFrom(cells) {
  return model.columns.map((column, c) => {
    const cell = Array.isArray(cells) ? cells[c] : cells[column.name];
    if (cell === null || cell === undefined || Number.isNaN(cell)) return NaN;
    if (column.numeric) return Number(cell);
    return column.position.get(String(cell)) ?? -1;
  });
}

const PREDICTION = "One prediction";

/** Make the section on live predictions; only a sentence if the page cannot compute them. */
function onePrediction() {
  if (data.cannot_predict) return section("prediction", PREDICTION, data.cannot_predict, null);
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const waterfall = h("div", { class: "waterfall-holder" });
  let order = null;
  const fields = [];

  const show = (settled) => {
    const parts = model.contributions(row);
    const fixed = model.fixed(fixedInputs);
    const score = model.score(row, fixedInputs);
    answer.replaceChildren(...answerOf(score));
    const sizes = inModel.map((group) => group.contribution(parts, state.output));
    if (settled || !order)
      order = inModel.map((_, i) => i).sort((i, j) => Math.abs(sizes[j]) - Math.abs(sizes[i]));
    waterfall.replaceChildren(
      waterfallOf(
        order.map((i) => [inModel[i], sizes[i]]),
        fixed[state.output],
        score[state.output],
      ),
    );
  };
  const moved = (column, settled) => {
    show(settled);
    for (const field of fields)
      if (field.column === column || field.partners.has(column)) field.draw();
  };

  const list = h("div", { class: "inputs" });
  const byImportance = [...usedColumns].sort((a, b) => weightOf(b) - weightOf(a));
  const build = (some) => {
    fields.length = 0;
    const extra = fixedFields(() => show(true));
    some.forEach((c) => fields.push(fieldOf(c, (settled) => moved(c, settled))));
    list.replaceChildren(...extra, ...fields.map((f) => f.element));
    fields.forEach((f) => f.draw());
  };
  const search = h("input", {
    type: "search",
    placeholder: `search ${usedColumns.length} columns`,
    "aria-label": "find inputs by name",
    oninput: () => {
      const wanted = search.value.trim().toLowerCase();
      if (list.dataset.part) buildAll();
      for (const field of fields)
        field.element.hidden = !model.columns[field.column].name.toLowerCase().includes(wanted);
    },
  });
  const buildAll = () => {
    delete list.dataset.part;
    build(byImportance);
    more?.remove();
  };
  const part = byImportance.length > FIELDS;
  const more = part ? moreButton(byImportance.length, "columns", buildAll) : null;
  build(byImportance.slice(0, FIELDS));
  if (part) list.dataset.part = "1";
  const setRow = (values) => {
    values.forEach((v, c) => {
      row[c] = v;
    });
    fields.forEach((f) => f.read());
    fields.forEach((f) => f.draw());
    show(true);
  };
  const reset = h("button", {
    type: "button",
    text: "Typical row",
    onclick: () => {
      if (picker) picker.value = "";
      setRow(model.columns.map(typical));
    },
  });
  const picker = data.rows.length
    ? h(
        "select",
        {
          "aria-label": "a row of the given table",
          onchange: () => {
            if (picker.value !== "") setRow(rowFrom(data.rows[Number(picker.value)]));
          },
        },
        h("option", { value: "", text: "a row of the table" }),
        data.rows.map((_, i) => h("option", { value: i, text: `row ${i}` })),
      )
    : null;
  listeners.push(() => {
    show(true);
    fields.forEach((f) => f.draw());
  });
  show(true);
  Object.assign(api, { setRow: (cells) => setRow(rowFrom(cells)), row: () => [...row] });

  return section(
    "prediction",
    PREDICTION,
    "Change a value and see how the prediction changes. This page computes it exactly as the model does, also for numbers beyond the training range, missing cells and unseen levels.",
    [part ? search : null, picker, reset].filter(Boolean),
    h(
      "div",
      { class: "what-if" },
      h("div", { class: "card inputs-card" }, list, more),
      h(
        "div",
        { class: "result" },
        h("div", { class: "card" }, answer),
        h("div", { class: "card" }, waterfall),
      ),
    ),
  );
}

function weightOf(c) {
  return inModel
    .filter((group) => group.columns.includes(c))
    .reduce((sum, group) => sum + group.weight, 0);
}

function answerOf(score) {
  if (score.some(Number.isNaN))
    return [
      h("b", { text: "–" }),
      h("span", {
        text: "not a number: an input is not a number, or this row is too far from the training rows",
      }),
    ];
  const found = model.response(score);
  const main = found[state.output];
  const words =
    data.link === null
      ? "score (the response is a Python function)"
      : isProbability
        ? responseName()
        : data.target
          ? `predicted ${cut(data.target, 40)}`
          : "prediction";
  const out = [
    h("b", { text: isProbability ? percentOf(main) : format(main, 5), "data-value": main }),
    h("span", { dir: "auto", text: words }),
  ];
  if (data.link !== "identity" && data.link !== null)
    out.push(h("span", { text: `score ${format(score[state.output], 4)}` }));
  if (model.q > 1 && model.q <= 12) {
    out.push(
      barList(
        data.outputs.map((name, o) => ({ name, value: found[o] })),
        { shown: percentOf, about: "probabilities of the classes" },
      ),
    );
  }
  return out;
}

const percentOf = (p) =>
  p > 0 && p < 0.001 ? "<0.1%" : p > 0.999 && p < 1 ? ">99.9%" : `${(100 * p).toFixed(1)}%`;

/** Make the waterfall from the intercept to the score, one bar per effect. */
function waterfallOf(steps, fixed, score) {
  const start = model.intercept[state.output];
  const shownSteps = steps.slice(0, STEPS).map(([group, size]) => ({ group, size }));
  const rest = steps.slice(STEPS).reduce((sum, [, size]) => sum + size, 0);
  if (steps.length > STEPS) shownSteps.push({ name: `${steps.length - STEPS} others`, size: rest });
  if (data.offset || data.exposure)
    shownSteps.unshift({ name: data.exposure ? "log of the exposure" : "offset", size: fixed });
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
    return h(
      "tr",
      { class: kind === "total" ? "sum" : null },
      h(
        "th",
        { scope: "row" },
        h(
          "div",
          {},
          name,
          value === null
            ? null
            : h("span", { class: "value", dir: "auto", text: value, title: value }),
        ),
      ),
      h("td", { class: "bar" }, track),
      h("td", { class: "number", text: number }),
    );
  };
  const edge = low > 0 ? low : high < 0 ? high : 0;
  const rows = [line("average (intercept)", null, edge, start, "total", format(start, 3), start)];
  shownSteps.forEach(({ group, name, size }, i) => {
    const value = group ? `= ${group.columns.map(valueText).join(", ")}` : null;
    rows.push(
      line(
        group ? label(group.name) : name,
        value,
        ends[i][0],
        ends[i][1],
        size < 0 ? "below" : "above",
        signed(size),
        ends[i][1],
      ),
    );
  });
  rows.push(
    line(
      data.link === "identity" ? "prediction" : "score",
      null,
      edge,
      score,
      "total",
      format(score, 4),
      null,
    ),
  );
  return h(
    "table",
    { class: "bars waterfall", "aria-label": "what every effect adds to the score" },
    columnsOf("name-column", "", "number"),
    h(
      "thead",
      { class: "unseen" },
      h("tr", {}, h("th", { text: "effect" }), h("th", {}), h("th", { text: "adds" })),
    ),
    h("tbody", {}, rows),
  );
}

function valueText(c) {
  const column = model.columns[c];
  const value = row[c];
  if (Number.isNaN(value)) return "missing";
  if (!isChoice(column)) return format(value, 6);
  if (!column.levels.length) return "present";
  const at = column.numeric ? column.numbers.indexOf(value) : value;
  return at >= 0 ? cut(column.levels[at], 40) : "unseen";
}

/** Make the inputs of offset and exposure. */
function fixedFields(act) {
  const out = [];
  const add = (name, value, least, set) => {
    const id = `fixed-${out.length}`;
    const input = h("input", {
      type: "number",
      id,
      step: "any",
      min: least,
      value,
      oninput: () => {
        const number = input.value.trim() === "" ? NaN : Number(input.value);
        const bad = !Number.isFinite(number) || (least !== null && number <= 0);
        input.classList.toggle("bad", bad);
        set(bad ? NaN : number);
        act();
      },
    });
    out.push(
      h(
        "div",
        { class: "field" },
        h("div", { class: "row" }, h("label", { for: id }, label(name)), input),
      ),
    );
  };
  if (data.exposure)
    add(`exposure (${data.exposure})`, fixedInputs.exposure, 0, (v) => {
      fixedInputs.exposure = v;
    });
  if (data.offset) {
    fixedInputs.offset.forEach((value, o) =>
      add(
        model.q > 1 ? `${data.offset} [${data.outputs[o]}]` : `offset (${data.offset})`,
        value,
        null,
        (v) => {
          fixedInputs.offset[o] = v;
        },
      ),
    );
  }
  return out;
}

/** Make the input of one column: a number with a slider, or a choice of levels. */
function fieldOf(c, act) {
  const column = model.columns[c];
  const partners = new Set(
    inModel
      .filter((g) => g.columns.includes(c))
      .flatMap((g) => g.columns)
      .filter((d) => d !== c),
  );
  const made = isChoice(column) ? choiceField(c, column, act) : numberField(c, column, act);
  return { column: c, partners, ...made };
}

function choiceField(c, column, act) {
  const id = `input-${c}`;
  const options = column.levels.map((level, i) =>
    h("option", { value: i, text: cut(level === "" ? "(empty)" : level, 80) }),
  );
  if (!column.levels.length) options.push(h("option", { value: "present", text: "present" }));
  options.push(h("option", { value: "missing", text: "(missing)" }));
  const open =
    column.levels.length > 0 &&
    !(column.numeric && column.levels.every((l) => l === "True" || l === "False"));
  if (open) options.push(h("option", { value: "unseen", text: "(not in training)" }));
  const select = h(
    "select",
    {
      id,
      onchange: () => {
        if (select.value === "missing") row[c] = NaN;
        else if (select.value === "present") row[c] = presentValue(column);
        else if (select.value === "unseen") row[c] = column.numeric ? Infinity : -1;
        else row[c] = column.numeric ? column.numbers[Number(select.value)] : Number(select.value);
        act(true);
      },
    },
    options,
  );
  const read = () => {
    const value = row[c];
    const at = column.numeric ? column.numbers.indexOf(value) : value;
    select.value = Number.isNaN(value)
      ? "missing"
      : !column.levels.length
        ? "present"
        : at >= 0
          ? String(at)
          : "unseen";
  };
  read();
  const element = h(
    "div",
    { class: "field" },
    h("div", { class: "row" }, h("label", { for: id }, label(column.name)), select),
  );
  return { element, read, draw: () => {} };
}

function numberField(c, column, act) {
  const id = `input-${c}`;
  const { low, high } = column;
  const step = column.whole ? 1 : 10 ** (Math.floor(Math.log10(high - low)) - 2);
  const number = h("input", { type: "number", id, step: "any", "aria-describedby": `${id}-range` });
  const slider = h("input", {
    type: "range",
    min: low,
    max: high,
    step: column.whole ? 1 : "any",
    "aria-label": `${cut(column.name)}, slider`,
  });
  const gone = h("input", { type: "checkbox", id: `${id}-missing` });
  const svg = s("svg", {
    viewBox: "0 0 200 30",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
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
    // The ends are exact; numbers in between are rounded.
    const raw = Number(slider.value);
    row[c] =
      raw <= low
        ? low
        : raw >= high
          ? high
          : Number((Math.round(raw / step) * step).toPrecision(12));
    number.value = String(row[c]);
    number.classList.remove("bad");
    act(false);
  });
  slider.addEventListener("change", () => act(true));
  slider.addEventListener("keydown", (event) => {
    const way = {
      ArrowLeft: -1,
      ArrowDown: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      PageUp: 10,
      PageDown: -10,
    }[event.key];
    if (!way) return;
    event.preventDefault();
    const next = Math.min(
      high,
      Math.max(
        low,
        row[c] + way * (column.whole ? Math.max(1, Math.round((high - low) / 100)) : step),
      ),
    );
    row[c] = Number(next.toPrecision(12));
    read();
    act(true);
  });
  gone.addEventListener("change", () => {
    row[c] = gone.checked
      ? NaN
      : number.value.trim() === ""
        ? typical(column)
        : Number(number.value);
    read();
    act(true);
  });
  read();
  const mine = inModel.filter((group) => group.columns.includes(c));
  const draw = () => {
    const terms = mine
      .flatMap((group) => group.terms)
      .filter((k) => model.terms[k].chosen)
      .map((k) => model.terms[k]);
    const at = (x) =>
      terms.reduce(
        (sum, term) =>
          sum +
          model.effect(
            term,
            term.columns.map((d) => (d === c ? x : row[d])),
          )[state.output],
        0,
      );
    const xs = Array.from({ length: 61 }, (_, i) => low + (i / 60) * (high - low));
    const ys = xs.map(at);
    const y = extent(ys, { room: 0.1 });
    const sy = (v) => 30 - ((v - y[0]) / (y[1] - y[0])) * 30;
    svg.replaceChildren(
      s("path", { class: "curve", d: path(xs.map((_, i) => [200 * (i / 60), sy(ys[i])])) }),
    );
    const here = row[c];
    const inside = here >= low && here <= high;
    dot.hidden = !inside;
    if (inside) {
      dot.style.left = `${(100 * (here - low)) / (high - low)}%`;
      dot.style.top = `${sy(at(here)) - 30}px`;
    }
  };
  const element = h(
    "div",
    { class: "field" },
    h(
      "div",
      { class: "row" },
      h("label", { for: id }, label(column.name)),
      number,
      h("label", { class: "gone" }, gone, "missing"),
    ),
    svg,
    h("div", { class: "here" }, dot),
    slider,
    h("span", {
      class: "unseen",
      id: `${id}-range`,
      text: `training range ${format(low)} to ${format(high)}`,
    }),
  );
  return { element, read, draw };
}
