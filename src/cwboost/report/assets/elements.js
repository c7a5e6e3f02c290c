// Makes elements, formats numbers, and draws charts once they are visible. Does not know about
// models. Names from the data become text nodes and attributes, never markup.

/**
 * Make an HTML element. Attributes that begin with "on" are listeners, `text` is the content;
 * children are elements or text.
 */
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Make a label for a name from the data: any script, shortened, complete in its tooltip. */
function label(name, tag = "span", kind = "name") {
  const text = name === "" ? "(empty)" : name;
  const shown = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  const whole = text.length > 600 ? `${text.slice(0, 600)}… (${text.length} characters)` : text;
  return h(tag, { class: kind, dir: "auto", title: whole, text: shown });
}

function cut(text, most = 60) {
  const plain = text.replace(/\s+/g, " ");
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}

// --- numbers --------------------------------------------------------------------------------------

const MINUS = "\u2212";

/** Format a number with the given number of significant digits. */
function format(x, digits = 4) {
  if (x === null || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : `${MINUS}∞`;
  const size = Math.abs(x);
  if (size !== 0 && (size >= (digits <= 3 ? 1e7 : 1e9) || size < 1e-5)) {
    return x
      .toExponential(digits - 1)
      .replace(/\.?0+e/, "e")
      .replaceAll("-", MINUS)
      .replace("e+", "e");
  }
  const whole = size >= 10 ** (digits - 1);
  const options = whole ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return x.toLocaleString("en-US", options).replace("-", MINUS).replace(/^−0$/, "0");
}

/** Format a number with its sign. */
function signed(x, digits = 3) {
  const text = format(x, digits);
  return x > 0 && text !== "0" ? `+${text}` : text;
}

function percent(share) {
  if (share === null) return "–";
  const size = 100 * share;
  const digits = Math.abs(size) < 1 && size !== 0 ? 2 : 1;
  return `${size.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", MINUS)}%`;
}

/** Return round numbers that divide an interval into about n parts. */
function ticks(low, high, n, whole = false) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, n);
  const power = 10 ** Math.floor(Math.log10(rough));
  const usual = power * [1, 2, 2.5, 5, 10].find((m) => m * power >= rough * 0.999);
  const step = whole ? Math.max(1, usual === 2.5 ? 2 : Math.round(usual)) : usual;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++)
    out.push(i * step);
  return out;
}

/** Format the numbers of an axis, all with the same number of decimals. */
function tickText(values) {
  const step = values.length > 1 ? values[1] - values[0] : Math.abs(values[0]) || 1;
  const top = Math.max(...values.map(Math.abs));
  if (top >= 1e7 || (top < 1e-4 && top > 0)) return values.map((v) => format(v, 3));
  const places = Math.min(8, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  const exact = Math.abs(step * 10 ** places - Math.round(step * 10 ** places)) < 1e-6;
  const digits = exact ? places : places + 1;
  return values.map((v) =>
    (v + 0)
      .toLocaleString("en-US", {
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
        useGrouping: top >= 1e4, // smaller numbers may be years
      })
      .replace(/^-(?=[0.,]*$)/, "")
      .replace("-", MINUS),
  );
}

/** Return the interval that contains all numbers, with a margin, and zero if wanted. */
function extent(values, { zero = false, room = 0.06 } = {}) {
  let low = zero ? 0 : Infinity;
  let high = zero ? 0 : -Infinity;
  for (const v of values) {
    if (v === null || !Number.isFinite(v)) continue;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (low > high) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  return [low - room * (high - low), high + room * (high - low)];
}

// --- drawing when visible -------------------------------------------------------------------------

const waiting = new Map();

const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawNow(entry.target);
  },
  { rootMargin: "300px" },
);

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.drawn && Math.abs(target.drawn - target.clientWidth) > 4) drawNow(target);
  }
});

function drawNow(holder, width = Math.floor(holder.clientWidth)) {
  const draw = waiting.get(holder);
  if (!draw || !width) return;
  holder.drawn = width;
  holder.replaceChildren(draw(width));
}

/** Make an element that is drawn once it is visible, and redrawn when its width changes. */
function drawn(kind, draw) {
  const holder = h("div", { class: `chart ${kind}`, "data-kind": kind });
  waiting.set(holder, draw);
  seen.observe(holder);
  resized.observe(holder);
  return holder;
}

/** Redraw everything that has been drawn. */
function redraw(root = document.body) {
  for (const holder of waiting.keys()) {
    if (!holder.isConnected) waiting.delete(holder);
    else if (root.contains(holder) && holder.drawn) drawNow(holder);
  }
}

const PAPER = { curve: 310, heat: 310, calibration: 310, risk: 680 }; // widths on a printed page

/** Draw everything, visible or not, in the widths of a printed page. */
function drawForPrint() {
  for (const holder of waiting.keys())
    if (holder.isConnected) drawNow(holder, PAPER[holder.dataset.kind]);
}
