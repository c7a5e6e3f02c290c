// The sections on the effects of one column and of two columns.

/** Make a card with an effect; for an edited effect also as it was fitted. */
function effectCard(group, id) {
  const before = group.edited;
  const body = group.kind === "levels" ? levelsBody(group, before) : chartBody(group, before);
  const kinds =
    [
      ...new Set(
        group.terms.filter((k) => model.terms[k].chosen).map((k) => model.terms[k].learner),
      ),
    ].join(" + ") || "set to zero";
  const column = group.of[0];
  const gone =
    group.kind !== "surface" && column.spread && column.spread.missing
      ? `, ${percent(column.spread.missing)} missing`
      : "";
  const size = group.chosen ? ` · size ${format(group.weight, 3)}` : "";
  const note = h("span", { text: `${kinds}${size}${gone}` });
  const legend = before
    ? h(
        "div",
        { class: "legend-line" },
        group.kind === "curve"
          ? [
              h("span", {}, h("i"), "edited"),
              h("span", {}, h("i", { class: "before" }), "as fitted"),
            ]
          : h("span", {
              text: group.kind === "levels" ? "vertical marks: as fitted" : "edited after the fit",
            }),
      )
    : null;
  return h(
    "article",
    { class: "card", id, "data-name": group.name },
    h("div", { class: "title" }, label(group.name, "h3"), note),
    legend,
    body,
    valuesOf("values", () => effectTable(group)),
  );
}

function describe(group) {
  const { at, levels } = group.axes[0];
  const values = group.final.map((e) => shown(e));
  const least = values.indexOf(Math.min(...values));
  const most = values.indexOf(Math.max(...values));
  const name = (i) =>
    levels ? cut(levels[i], 30) : Number.isNaN(at[i]) ? "missing cells" : format(at[i]);
  if (group.kind === "surface")
    return `Heat map of the joint ${yLabel()} of ${cut(group.name)}, from ${format(values[least], 3)} to ${format(values[most], 3)}`;
  return `${yLabel()} of ${cut(group.name)}: lowest ${format(values[least], 3)} at ${name(least)}, highest ${format(values[most], 3)} at ${name(most)}`;
}

function chartBody(group, before) {
  return drawn(group.kind === "surface" ? "heat" : "curve", (width) =>
    group.kind === "surface" ? surfaceOf(group, width) : curveOf(group, width, before),
  );
}

function curveOf(group, width, before) {
  const column = group.of[0];
  const { at, missing } = group.axes[0];
  const n = missing ? at.length - 1 : at.length;
  const points = (effects, output) => at.slice(0, n).map((x, i) => [x, shown(effects[i], output)]);
  const series = [{ kind: "first", points: points(group.final) }];
  if (before) series.push({ kind: "before", points: points(group.effects(model.path.best)) });
  if (model.q > 1 && model.q <= 8) {
    for (let o = 0; o < model.q; o++)
      if (o !== state.output) series.push({ kind: "ghost", points: points(group.final, o) });
  }
  const spread =
    column.spread && column.spread.points.length
      ? { ...column.spread, low: column.low, high: column.high }
      : null;
  return curveChart({
    width,
    height: 240,
    series,
    band: group.band,
    spread,
    missing: missing ? shown(group.final[n]) : null,
    zero: state.scale === "score",
    x: [column.low, column.high],
    whole: column.whole,
    xLabel: column.name,
    yLabel: yLabel(),
    about: describe(group),
    number: shownNumber,
  });
}

function surfaceOf(group, width) {
  const [a, b] = group.axes;
  const size = b.at.length;
  const values = a.at.map((_, i) =>
    b.at.map((__, j) => (group.near[i * size + j] ? shown(group.final[i * size + j]) : null)),
  );
  return surfaceChart({
    width,
    height: Math.min(460, Math.max(340, Math.round(width * 0.75))),
    a,
    b,
    values,
    middle: zeroOf(),
    about: describe(group),
    number: shownNumber,
  });
}

function levelsBody(group, before) {
  const holder = h("div", {
    class: "levels",
    tabindex: "0",
    role: "group",
    "aria-label": `levels of ${cut(group.name)}`,
  });
  let all = false;
  const show = () => {
    const { levels } = group.axes[0];
    const column = group.of[0];
    const was = before ? group.effects(model.path.best) : null;
    const { band } = group;
    const items = levels.map((name, i) => ({
      name,
      plain: i >= column.levels.length,
      value: shown(group.final[i]),
      note: levelNote(column, i),
      band: band && (i >= column.levels.length ? band.missing : band.ends.get(name)),
      ...(was ? { before: shown(was[i]) } : {}),
    }));
    items.sort((x, y) => y.value - x.value);
    const half = LEVELS / 2;
    const some =
      all || items.length <= LEVELS ? items : [...items.slice(0, half), ...items.slice(-half)];
    holder.replaceChildren(
      barList(some, {
        shown: shownNumber,
        base: zeroOf(),
        about: describe(group),
        caption: yLabel(),
      }),
    );
    if (some.length < items.length) {
      holder.append(
        h("p", {
          class: "quiet",
          text: `the ${half} highest and the ${half} lowest of ${items.length} levels`,
        }),
        moreButton(items.length, "levels", () => {
          all = true;
          show();
        }),
      );
    }
  };
  show();
  listeners.push(show);
  return holder;
}

/** Return the number of rows with a level, as text. */
function levelNote(column, i) {
  const share =
    column.shares && i < column.shares.length
      ? column.shares[i]
      : i >= column.levels.length && column.spread
        ? column.spread.missing
        : null;
  if (share === null) return "";
  const rows =
    column.spread && Number.isInteger(column.spread.rows)
      ? Math.round(share * column.spread.rows)
      : null;
  return rows === null ? percent(share) : rows.toLocaleString("en-US");
}

function effectTable(group) {
  const outputs = model.q > 1 ? data.outputs.map((name) => `effect[${name}]`) : ["effect"];
  const name = (axis, i) =>
    axis.levels ? axis.levels[i] : Number.isNaN(axis.at[i]) ? "missing" : axis.at[i];
  const [a, b] = group.axes;
  const size = b ? b.at.length : 1;
  const every = Math.max(1, Math.round(group.final.length / (b ? 400 : a.levels ? 1e9 : 60)));
  const rows = [];
  group.final.forEach((effect, p) => {
    const last = p === group.final.length - 1;
    if (p % every && !last) return;
    rows.push([name(a, Math.floor(p / size)), ...(b ? [name(b, p % size)] : []), ...effect]);
  });
  return plainTable(
    [...group.of.map((c) => c.name), ...outputs],
    rows,
    `effect of ${cut(group.name)}`,
  );
}

function effects() {
  const grid = h("div", { class: "effects" });
  grid.append(...singles.map((group) => effectCard(group, group.id)));
  const none = h("p", { class: "none", hidden: true, text: "No effect has this name." });
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: `search ${singles.length} effects`,
    "aria-label": "find effects by name",
    oninput: () => {
      const wanted = search.value.trim().toLowerCase();
      let n = 0;
      singles.forEach((group, i) => {
        const fits = group.name.toLowerCase().includes(wanted);
        grid.children[i].hidden = !fits;
        n += fits;
      });
      none.hidden = n > 0;
    },
  });
  wholeForPrint.push(() => {
    search.value = "";
    for (const card of grid.children) card.hidden = false;
  });
  const tools = [...(singles.length > 6 ? [search] : []), ...(hasResponse ? [scaleSwitch()] : [])];
  const rows = model.columns.some((c) => c.spread)
    ? " Grey bars show where the training rows are; the small numbers at levels count rows."
    : "";
  const words = () =>
    (state.scale === "score"
      ? "What each column adds to the score if all other columns are fixed. Zero is the average over the training rows."
      : "How the prediction changes with each column if all other effects are at their average.") +
    rows +
    (data.bands ? ` Shaded: ${data.bands.words}.` : "");
  const made = section("effects", "Effects", words(), tools, grid, none);
  listeners.push(() => {
    made.querySelector(".head p").textContent = words();
  });
  return made;
}

function scaleSwitch() {
  const buttons = [
    ["score", scaleNames[data.link]],
    ["response", "prediction"],
  ].map(([scale, text]) =>
    h("button", {
      type: "button",
      "data-scale": scale,
      "aria-pressed": String(state.scale === scale),
      text,
      onclick: () => {
        state.scale = scale;
        changed();
        redraw();
      },
    }),
  );
  listeners.push(() =>
    buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.scale === state.scale))),
  );
  return h(
    "div",
    { class: "switch", role: "group", "aria-label": "scale of the effects" },
    buttons,
  );
}

function interactions() {
  if (!pairs.length) return null;
  const words =
    "Effects of two columns together, in addition to the effects of each column above. Hatched areas have no training rows nearby.";
  return section(
    "interactions",
    "Interactions",
    words,
    null,
    h(
      "div",
      { class: "effects" },
      pairs.map((group) => effectCard(group, group.id)),
    ),
  );
}
