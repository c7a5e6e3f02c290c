// The section that plays the path of the fit, from the first iteration to the last.

function growth() {
  if (data.bags || data.polish) return null; // no path leads to an average, or to a fit to all rows
  const path = model.path;
  const validation = path.validation_risk;
  const series = [
    { kind: "first", values: path.risk },
    ...(validation ? [{ kind: "second", values: validation }] : []),
  ];
  const events = [
    { name: path.best === path.last ? "model" : "the model: best", kind: "best", place: path.best },
  ];
  if (path.switched_after >= 0)
    events.push({ name: "switch", kind: "", place: path.switched_after });
  let chart = null;
  const holder = drawn("risk", (width) => {
    chart = riskChart({
      width,
      height: 280,
      at: path.points,
      last: path.last,
      series,
      events,
      about: `Risk over ${path.last} iterations: training from ${format(path.risk[0])} to ${format(path.risk.at(-1))}${validation ? `, validation from ${format(validation[0])} to ${format(validation.at(-1))}` : ""}`,
    });
    const drag = (event) => {
      if (event.buttons & 1) {
        stop();
        go(chart.place(event));
      }
    };
    chart.svg.addEventListener("pointerdown", drag);
    chart.svg.addEventListener("pointermove", drag);
    show();
    return chart.svg;
  });

  const slider = h("input", {
    type: "range",
    id: "iteration",
    min: 0,
    max: path.last,
    step: 1,
    value: state.iteration,
    "aria-label": "iteration",
    oninput: () => {
      stop();
      go(Number(slider.value));
    },
  });
  const said = h("output", { for: "iteration" });
  const standing = h("div", { class: "standing" });
  const play = h("button", {
    type: "button",
    class: "main",
    id: "play",
    text: "▶ Play",
    onclick: () => (timer ? stop() : start()),
  });
  const back = h("button", {
    type: "button",
    text: "The model",
    onclick: () => {
      stop();
      go(path.best);
    },
  });
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
      ...(validation
        ? [h("span", {}, "validation risk ", h("b", { text: format(risks[1], 4) }))]
        : []),
      h(
        "span",
        {},
        h("b", { text: `${entered.length} of ${groups.length}` }),
        " effects in the model",
      ),
      ...(entered.length
        ? [
            h(
              "span",
              {},
              `last entered, at iteration ${entered[0].first}: `,
              label(entered[0].name),
            ),
          ]
        : []),
    );
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
    const each = PLAY / frames; // all key frames take equally long, so dense ones play slowly
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
  listeners.push(() => {
    minis.rebuild();
    show();
  });
  queueMicrotask(show);

  const legend = validation
    ? h(
        "div",
        { class: "legend-line" },
        h("span", {}, h("i"), "training"),
        h("span", {}, h("i", { class: "second" }), "validation"),
      )
    : null;
  const about =
    "Every iteration updates the one term that reduces the risk most. Press Play or move the slider to see how effects enter and grow while the risk falls. The final effects are grey." +
    (data.edits.length ? " Edits made after the fit are not shown here." : "");
  return section(
    "growth",
    "How it grew",
    about,
    null,
    h(
      "div",
      { class: "card" },
      legend,
      holder,
      h("div", { class: "player" }, play, slider, said, back),
      standing,
    ),
    minis.element,
  );
}

/** Make small plots of all effects at an iteration. */
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
  if (!shownAll)
    element.append(
      moreButton(groups.length, "effects", () => {
        shownAll = true;
        build();
        show(last);
      }),
    );
  wholeForPrint.push(() => {
    shownAll = true;
    build();
    show(last);
  });
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
    const n = group.terms.reduce(
      (sum, k) => sum + model.path.count(k, at, "chosen") + model.path.count(k, at, "corrected"),
      0,
    );
    count.textContent = out ? "not in yet" : `${n.toLocaleString("en-US")}×`;
    picture.show(at);
  };
  return { element: holder, show };
}

function miniSurface(group) {
  const canvas = h("canvas", {
    width: 180,
    height: 74,
    role: "img",
    "aria-label": `effect of ${cut(group.name)} at the selected iteration`,
  });
  const size = group.axes[1].at.length;
  const end = group.effects(model.path.best);
  const top = Math.max(...end.map((e) => Math.abs(e[state.output]))) || 1;
  return {
    element: canvas,
    show: (at) => {
      const found = group.effects(at);
      const values = group.axes[0].at.map((_, i) =>
        group.axes[1].at.map((__, j) =>
          group.near[i * size + j] ? found[i * size + j][state.output] : null,
        ),
      );
      paint(canvas, values, top, 0, !group.axes[0].levels && !group.axes[1].levels);
    },
  };
}

function miniCurve(group) {
  const svg = s("svg", {
    viewBox: "0 0 200 74",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `effect of ${cut(group.name)} at the selected iteration`,
  });
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
    const line = (values) =>
      path(
        values
          .slice(0, n)
          .map((v, i) => [
            200 * ((at[i] - low) / (high - low || 1)),
            Math.min(200, Math.max(-200, sy(v))),
          ]),
      );
    const now = s("path", { class: "curve" });
    svg.append(s("path", { class: "curve ghost", d: line(end) }), now);
    return {
      element: svg,
      show: (m) => now.setAttribute("d", line(group.effects(m).map((e) => e[o]))),
    };
  }
  const order = end.map((_, i) => i).sort((i, j) => end[i] - end[j]);
  const wide = 200 / order.length;
  const box = (v) => ({
    y: Math.min(sy(v), sy(0)),
    height: Math.max(0.01, Math.abs(sy(v) - sy(0))),
  });
  const bars = order.map((_, r) => s("rect", { x: r * wide + wide * 0.15, width: wide * 0.7 }));
  order.forEach((i, r) =>
    svg.append(
      s("rect", { class: "ghost", x: r * wide + wide * 0.15, width: wide * 0.7, ...box(end[i]) }),
      bars[r],
    ),
  );
  return {
    element: svg,
    show: (m) => {
      const found = group.effects(m);
      order.forEach((i, r) => {
        const v = found[i][o];
        fill(bars[r], { ...box(v), class: v < 0 ? "below" : "above" }, []);
      });
    },
  };
}
