// Charts and bars. Does not know about models.

// --- curves ---------------------------------------------------------------------------------------

const path = (points) =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Make axes with ticks and grid lines; return them with their scales. */
function axes({
  width,
  height,
  x,
  y,
  xLabel,
  yLabel,
  right = 12,
  top = 10,
  xTicks,
  bottom,
  whole,
}) {
  const yAt = ticks(y[0], y[1], Math.max(2, Math.floor(height / 48)));
  const yText = tickText(yAt);
  const left = (yLabel ? 26 : 10) + 7.3 * Math.max(...yText.map((t) => t.length));
  const low = height - (bottom ?? (xLabel ? 38 : 22));
  const sx = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (width - right - left);
  const sy = (v) => low - ((v - y[0]) / (y[1] - y[0] || 1)) * (low - top);
  const xAt = xTicks ?? ticks(x[0], x[1], Math.max(2, Math.floor((width - left) / 66)), whole);
  const xText = tickText(xAt);
  const group = s(
    "g",
    { class: "axes" },
    yAt
      .map((v, i) => [
        s("line", {
          class: v === 0 ? "zero" : "grid",
          x1: left,
          x2: width - right,
          y1: sy(v),
          y2: sy(v),
        }),
        s("text", { x: left - 6, y: sy(v) + 4, "text-anchor": "end", text: yText[i] }),
      ])
      .flat(),
    xAt.map((v, i) =>
      s("text", { x: sx(v), y: low + 16, "text-anchor": "middle", text: xText[i] }),
    ),
    xLabel
      ? s("text", {
          class: "axis-label",
          x: (left + width - right) / 2,
          y: height - 5,
          "text-anchor": "middle",
          dir: "auto",
          text: cut(xLabel, Math.floor(width / 8)),
        })
      : null,
    yLabel
      ? s("text", {
          class: "axis-label",
          transform: `translate(11 ${(top + low) / 2}) rotate(-90)`,
          "text-anchor": "middle",
          text: cut(yLabel, Math.floor(height / 6)),
        })
      : null,
  );
  return { group, sx, sy, left, right: width - right, top, bottom: low };
}

function canvasOf(width, height, about) {
  return s("svg", {
    class: "drawing",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": about,
  });
}

/** Add a line and a text that follow the pointer over a chart. */
function pointer(svg, area, describe) {
  const line = s("line", { class: "pointer", y1: area.top, y2: area.bottom, visibility: "hidden" });
  const words = s("text", { class: "readout", y: area.top + 9, visibility: "hidden" });
  svg.append(line, words);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const found = px >= area.left - 4 && px <= area.right + 4 ? describe(px) : null;
    for (const part of [line, words]) part.setAttribute("visibility", found ? "visible" : "hidden");
    if (!found) return;
    line.setAttribute("x1", found.x);
    line.setAttribute("x2", found.x);
    const end = found.x > (area.left + area.right) / 2;
    words.setAttribute("x", found.x + (end ? -7 : 7));
    words.setAttribute("text-anchor", end ? "end" : "start");
    words.textContent = found.text;
  });
  svg.addEventListener("pointerleave", () => {
    for (const part of [line, words]) part.setAttribute("visibility", "hidden");
  });
}

/**
 * Draw curves over numbers: `series` of {points, kind}, the first with a readout; `band` of points
 * [x, lower, upper]; `spread` for bars that show where the rows are; `missing` for the value of
 * missing cells, at the right.
 */
function curveChart({
  width,
  height,
  series,
  band,
  spread,
  missing,
  zero,
  xLabel,
  yLabel,
  about,
  x,
  whole,
  number = signed,
}) {
  const svg = canvasOf(width, height, about);
  const every = series.flatMap((one) => one.points.map((p) => p[1]));
  if (missing !== null) every.push(missing);
  const y = extent([...every, ...bandEnds(band, extent(every, { room: 1 }))], { zero });
  const area = axes({
    width,
    height,
    x,
    y,
    xLabel,
    yLabel,
    right: missing === null ? 12 : 62,
    whole,
  });
  const { sx, sy } = area;
  if (spread) svg.append(spreadBars(spread, area, sx));
  if (band) svg.append(...bandShade(band, area, width - 32));
  svg.append(area.group);
  for (const { points, kind } of [...series].reverse()) {
    svg.append(
      s("path", { class: `curve ${kind}`, d: path(points.map(([a, b]) => [sx(a), sy(b)])) }),
    );
  }
  if (missing !== null) {
    const at = width - 32;
    svg.append(
      s("line", { class: "divide", x1: width - 56, x2: width - 56, y1: area.top, y2: area.bottom }),
      s("circle", { class: "dot", cx: at, cy: sy(missing), r: 4.5 }),
      s("text", {
        class: "tick",
        x: at,
        y: area.bottom + 16,
        "text-anchor": "middle",
        text: "missing",
      }),
    );
  }
  const points = series[0].points;
  pointer(svg, area, (px) => {
    if (!points.length || px > area.right + 2) return null;
    let best = 0;
    points.forEach((p, i) => {
      if (Math.abs(sx(p[0]) - px) < Math.abs(sx(points[best][0]) - px)) best = i;
    });
    return {
      x: sx(points[best][0]),
      text: `${format(points[best][0])}: ${number(points[best][1])}`,
    };
  });
  return svg;
}

/** Return the ends of a band, limited so that a wide band does not make the curve look flat. */
function bandEnds(band, [low, high]) {
  if (!band) return [];
  const ends = [...band.points.flatMap(([, a, b]) => [a, b]), ...(band.missing ?? [])];
  return ends.map((v) => Math.min(high, Math.max(low, v)));
}

/** Draw a band around a curve, and around the value of missing cells at the right. */
function bandShade(band, { sx, sy, top, bottom }, right) {
  const place = (v) => Math.min(bottom, Math.max(top, sy(v)));
  const there = band.points.map(([x, , upper]) => [sx(x), place(upper)]);
  const back = band.points.map(([x, lower]) => [sx(x), place(lower)]).reverse();
  const out = [s("path", { class: "band", d: `${path([...there, ...back])}Z` })];
  if (band.missing) {
    const [low, high] = band.missing.map(place);
    out.push(s("rect", { class: "band", x: right - 3, width: 6, y: high, height: low - high }));
  }
  return out;
}

/** Draw where the rows are, as bars along the bottom. */
function spreadBars({ points, shares, low, high }, area, sx) {
  const n = 36;
  const heights = new Array(n).fill(0);
  for (let i = 0; i < points.length; i++) {
    const bin = Math.floor(((points[i] - low) / (high - low || 1)) * n);
    heights[Math.min(n - 1, Math.max(0, bin))] += shares[i];
  }
  const top = Math.max(...heights) || 1;
  const tall = (area.bottom - area.top) * 0.2;
  const wide = (sx(high) - sx(low)) / n;
  return s(
    "g",
    { class: "spread" },
    heights.map((share, i) => {
      const size = Math.sqrt(share / top) * tall;
      return share
        ? s("rect", {
            x: sx(low) + i * wide + 0.5,
            width: Math.max(1, wide - 1),
            y: area.bottom - size,
            height: size,
          })
        : null;
    }),
  );
}

/** Draw risks over iterations, with marked events and a cursor that can be moved. */
function riskChart({ width, height, at, series, last, events, about }) {
  const svg = canvasOf(width, height, about);
  const y = extent(
    series.flatMap((one) => one.values),
    { room: 0.05 },
  );
  const area = axes({
    width,
    height,
    x: [0, last || 1],
    y,
    xLabel: "iteration",
    yLabel: "risk (mean loss)",
  });
  svg.append(area.group);
  for (const { name, kind, place } of events) {
    const px = area.sx(place);
    const end = px > width * 0.7;
    svg.append(
      s("line", { class: `event ${kind}`, x1: px, x2: px, y1: area.top, y2: area.bottom }),
      s("text", {
        class: "tick",
        x: px + (end ? -5 : 5),
        y: area.top + (kind === "best" ? 9 : 24),
        "text-anchor": end ? "end" : "start",
        text: name,
      }),
    );
  }
  for (const { kind, values } of [...series].reverse()) {
    const known = at.map((m, i) => [m, values[i]]).filter((p) => p[1] !== null);
    svg.append(
      s("path", {
        class: `curve ${kind}`,
        d: path(known.map(([m, v]) => [area.sx(m), area.sy(v)])),
      }),
    );
  }
  const now = s(
    "g",
    { class: "now" },
    s("line", { y1: area.top, y2: area.bottom }),
    series.map(({ kind }) => s("circle", { class: `dot ${kind}`, r: 4.5 })),
  );
  svg.append(now);
  const move = (iteration, risks) => {
    const px = area.sx(iteration);
    now.firstChild.setAttribute("x1", px);
    now.firstChild.setAttribute("x2", px);
    risks.forEach((risk, i) => {
      const dot = now.children[i + 1];
      dot.setAttribute("cx", px);
      dot.setAttribute("cy", area.sy(risk ?? y[0]));
      dot.setAttribute("visibility", risk === null ? "hidden" : "visible");
    });
  };
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * width;
    const share = (px - area.left) / (area.right - area.left);
    return Math.round(Math.min(1, Math.max(0, share)) * last);
  };
  return { svg, move, place };
}

/** Draw observed against predicted values, with the interval of each group. */
function calibrationChart({ width, height, groups, xLabel, yLabel, about, probability }) {
  const svg = canvasOf(width, height, about);
  const { predicted, observed, low, high, rows } = groups;
  const found = extent([...predicted, ...observed, ...low, ...high], { room: 0.05 });
  const both = probability ? [0, Math.min(1, found[1])] : found;
  const xTicks = ticks(both[0], both[1], Math.max(2, Math.floor(height / 48)));
  const area = axes({ width, height, x: both, y: both, xLabel, yLabel, xTicks });
  const { sx, sy } = area;
  svg.append(
    area.group,
    s("line", {
      class: "ideal",
      x1: sx(both[0]),
      y1: sy(both[0]),
      x2: sx(both[1]),
      y2: sy(both[1]),
    }),
  );
  predicted.forEach((p, i) => {
    if (low[i] !== null)
      svg.append(
        s("line", { class: "interval", x1: sx(p), x2: sx(p), y1: sy(low[i]), y2: sy(high[i]) }),
      );
    svg.append(s("circle", { class: "dot", cx: sx(p), cy: sy(observed[i]), r: 4 }));
  });
  pointer(svg, area, (px) => {
    let best = 0;
    predicted.forEach((p, i) => {
      if (Math.abs(sx(p) - px) < Math.abs(sx(predicted[best]) - px)) best = i;
    });
    return {
      x: sx(predicted[best]),
      text: `${format(predicted[best], 3)} predicted, ${format(observed[best], 3)} observed (${format(rows[best], 9)} rows)`,
    };
  });
  return svg;
}

// --- surfaces -------------------------------------------------------------------------------------

const mixed = (a, b, share) => a.map((v, i) => Math.round(v + share * (b[i] - v)));

/** Return the colour of an effect: one hue above the middle, another below, paler near it. */
function shade(value, top, colours) {
  const share = Math.min(1, Math.abs(value) / (top || 1));
  return mixed(colours.middle, value < 0 ? colours.below : colours.above, share ** 0.8);
}

function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) =>
    style
      .getPropertyValue(name)
      .trim()
      .match(/[0-9a-f]{2}/gi)
      .map((v) => parseInt(v, 16));
  return { above: read("--above"), below: read("--below"), middle: read("--middle") };
}

/** Paint values[i][j] (null if no rows are near) on a canvas: i to the right, j upwards. */
function paint(canvas, values, top, middle, smooth) {
  const colours = themeColours();
  const n = values.length;
  const m = values[0].length;
  const small = document.createElement("canvas");
  small.width = n;
  small.height = m;
  const context = small.getContext("2d");
  const image = context.createImageData(n, m);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      const value = values[i][j];
      if (value === null) continue;
      image.data.set([...shade(value - middle, top, colours), 255], 4 * ((m - 1 - j) * n + i));
    }
  }
  context.putImageData(image, 0, 0);
  const out = canvas.getContext("2d");
  out.clearRect(0, 0, canvas.width, canvas.height);
  out.imageSmoothingEnabled = smooth;
  out.imageSmoothingQuality = "high";
  out.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** Draw contour lines over a painted surface (marching squares). */
function isolines(canvas, values, levels, colour) {
  const out = canvas.getContext("2d");
  const [n, m] = [values.length, values[0].length];
  const px = (i) => ((i + 0.5) / n) * canvas.width;
  const py = (j) => (1 - (j + 0.5) / m) * canvas.height;
  out.strokeStyle = colour;
  out.lineWidth = window.devicePixelRatio || 1;
  out.beginPath();
  for (let i = 0; i + 1 < n; i++) {
    for (let j = 0; j + 1 < m; j++) {
      const corners = [
        [i, j],
        [i + 1, j],
        [i + 1, j + 1],
        [i, j + 1],
      ].map(([a, b]) => [a, b, values[a][b]]);
      if (corners.some((corner) => corner[2] === null)) continue;
      for (const level of levels) {
        const ends = [];
        corners.forEach(([a, b, v], k) => {
          const [c, d, w] = corners[(k + 1) % 4];
          if (v < level === w < level) return;
          const share = (level - v) / (w - v);
          ends.push([px(a + share * (c - a)), py(b + share * (d - b))]);
        });
        for (let e = 0; e + 1 < ends.length; e += 2) {
          out.moveTo(...ends[e]);
          out.lineTo(...ends[e + 1]);
        }
      }
    }
  }
  out.stroke();
}

/** Return the ticks of an axis of a surface: round numbers, or the levels that fit. */
function surfaceTicks(axis, room, each) {
  if (axis.levels) {
    const step = Math.max(1, Math.ceil((axis.levels.length * each) / room));
    return axis.levels
      .map((level, i) => [(i + 0.5) / axis.levels.length, level])
      .filter((_, i) => i % step === 0)
      .map(([at, level]) => [at, cut(level, 14)]);
  }
  const [low, high] = [axis.at[0], axis.at[axis.at.length - 1]];
  const at = ticks(low, high, Math.max(2, Math.floor(room / each)));
  const text = tickText(at);
  return at.map((v, i) => [(v - low) / (high - low || 1), text[i]]);
}

/** Draw a heat map of values[i][j] over axes {name, at, levels}, with a legend below. */
function surfaceChart({ width, height, a, b, values, middle, about, number = signed }) {
  const known = values.flat().filter((v) => v !== null);
  const top = Math.max(...known.map((v) => Math.abs(v - middle)), 0) || 1;
  const bTicks = surfaceTicks(b, height - 90, b.levels ? 18 : 44);
  const left = 30 + 7.2 * Math.max(...bTicks.map((t) => t[1].length), 1);
  const box = { left, top: 8, width: width - left - 12, height: height - 8 - 84 };
  const svg = canvasOf(width, height, about);
  const aTicks = surfaceTicks(a, box.width, a.levels ? 92 : 78);
  svg.append(
    s(
      "g",
      { class: "axes" },
      aTicks.map(([at, text]) =>
        s("text", {
          x: left + at * box.width,
          y: box.top + box.height + 16,
          "text-anchor": "middle",
          dir: "auto",
          text,
        }),
      ),
      bTicks.map(([at, text]) =>
        s("text", {
          x: left - 6,
          y: box.top + (1 - at) * box.height + 4,
          "text-anchor": "end",
          dir: "auto",
          text,
        }),
      ),
      s("text", {
        class: "axis-label",
        x: left + box.width / 2,
        y: box.top + box.height + 34,
        "text-anchor": "middle",
        dir: "auto",
        text: cut(a.name, 50),
      }),
      s("text", {
        class: "axis-label",
        transform: `translate(11 ${box.top + box.height / 2}) rotate(-90)`,
        "text-anchor": "middle",
        dir: "auto",
        text: cut(b.name, 40),
      }),
    ),
  );
  legendBar(svg, {
    left,
    width: Math.min(260, box.width),
    y: height - 32,
    top,
    middle,
    known,
    number,
  });
  const density = window.devicePixelRatio || 1;
  const canvas = h("canvas", {
    class: "heat-map",
    width: Math.round(box.width * density),
    height: Math.round(box.height * density),
    "aria-hidden": "true",
  });
  canvas.style.left = `${box.left}px`;
  canvas.style.top = `${box.top}px`;
  canvas.style.width = `${box.width}px`;
  canvas.style.height = `${box.height}px`;
  const smooth = !a.levels && !b.levels;
  paint(canvas, values, top, middle, smooth);
  if (smooth) {
    const style = getComputedStyle(document.documentElement);
    isolines(
      canvas,
      values,
      ticks(Math.min(...known), Math.max(...known), 8),
      style.getPropertyValue("--contour"),
    );
  }
  const said = h("p", { class: "cell-readout", "aria-hidden": "true" });
  canvas.addEventListener("pointermove", (event) => {
    const i = Math.min(
      values.length - 1,
      Math.floor((event.offsetX / canvas.clientWidth) * values.length),
    );
    const j = Math.min(
      values[0].length - 1,
      Math.floor((1 - event.offsetY / canvas.clientHeight) * values[0].length),
    );
    if (i < 0 || j < 0) return;
    const at = [
      [a, i],
      [b, j],
    ].map(([axis, k]) => (axis.levels ? cut(axis.levels[k], 20) : format(axis.at[k], 4)));
    said.textContent = `${at.join(", ")}: ${values[i][j] === null ? "no rows near" : number(values[i][j])}`;
  });
  canvas.addEventListener("pointerleave", () => {
    said.textContent = "";
  });
  return h("div", { class: "surface" }, svg, canvas, said);
}

function legendBar(svg, { left, width, y, top, middle, known, number }) {
  const colours = themeColours();
  const low = Math.min(...known, middle);
  const high = Math.max(...known, middle);
  const n = 40;
  svg.append(
    s(
      "g",
      { class: "legend" },
      Array.from({ length: n }, (_, i) => {
        const value = low + ((i + 0.5) / n) * (high - low);
        return s("rect", {
          x: left + (i / n) * width,
          y,
          width: width / n + 0.5,
          height: 9,
          fill: `rgb(${shade(value - middle, top, colours).join(",")})`,
        });
      }),
      s("text", { class: "tick", x: left, y: y + 23, text: number(low) }),
      s("text", {
        class: "tick",
        x: left + width,
        y: y + 23,
        "text-anchor": "end",
        text: number(high),
      }),
    ),
  );
}

// --- bars -----------------------------------------------------------------------------------------

/** Make a bar from one share of the width to another. */
function bar(from, to, kind) {
  const filled = h("i", { class: from === to ? "empty" : kind });
  filled.style.left = `${100 * Math.min(from, to)}%`;
  filled.style.width = `${100 * Math.abs(to - from)}%`;
  return filled;
}

/** Make rows with a name, a bar from zero and a number: `items` of {name, value, note, before}. */
function barList(
  items,
  { shown = signed, base = 0, about, caption = "value", noteCaption = "rows" },
) {
  const all = items.flatMap((i) => [i.value, i.before ?? i.value, ...(i.band ?? [])]);
  const [low, high] = extent([base, ...all], { room: 0 });
  const at = (v) => (high > low ? (v - low) / (high - low) : 0);
  const noted = items.some((item) => item.note);
  const heads = ["name", "", caption, ...(noted ? [noteCaption] : [])];
  return h(
    "table",
    { class: "bars", "aria-label": about },
    columnsOf("name-column", "", "number", ...(noted ? ["note"] : [])),
    h(
      "thead",
      { class: "unseen" },
      h(
        "tr",
        {},
        heads.map((text) => h("th", { text })),
      ),
    ),
    h(
      "tbody",
      {},
      items.map(({ name, value, note, plain, before, band }) => {
        const track = h(
          "div",
          { class: "track" },
          bar(at(base), at(value), value < base ? "below" : "above"),
        );
        const zero = h("b", {});
        zero.style.left = `${100 * at(base)}%`;
        track.append(zero);
        if (band) {
          const strip = h("em", { title: band.map(shown).join(" to ") });
          strip.style.left = `${100 * at(band[0])}%`;
          strip.style.width = `${100 * (at(band[1]) - at(band[0]))}%`;
          track.append(strip);
        }
        if (before !== undefined) {
          const was = h("u", { title: `before: ${shown(before)}` });
          was.style.left = `${100 * at(before)}%`;
          track.append(was);
        }
        return h(
          "tr",
          {},
          h("th", { scope: "row" }, label(name, "span", plain ? "plain" : "name")),
          h("td", { class: "bar" }, track),
          h("td", { class: "number", text: shown(value) }),
          noted ? h("td", { class: "note", text: note ?? "" }) : null,
        );
      }),
    ),
  );
}

/** Set the widths of the columns of a table, by class. */
function columnsOf(...kinds) {
  return h(
    "colgroup",
    {},
    kinds.map((kind) => h("col", { class: kind })),
  );
}

/** Make a plain table from headers and rows of text or numbers. */
function plainTable(heads, rows, about) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "plain", "aria-label": about },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((text) => h("th", { scope: "col", dir: "auto", text: cut(text, 80) })),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((cells) =>
          h(
            "tr",
            {},
            cells.map((cell) =>
              typeof cell === "number"
                ? h("td", { class: "number", text: format(cell) })
                : cell instanceof Node
                  ? h("td", {}, cell)
                  : h("td", {}, label(String(cell), "span", "plain")),
            ),
          ),
        ),
      ),
    ),
  );
}
