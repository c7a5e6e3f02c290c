// Evaluates a model: bases, means, terms, links and the frames of the path, as the package does.
// Knows numbers and how they are packed; knows nothing of the page.

/** Numbers from base64 (little-endian, as all browsers are). */
function decode(text, Type = Float64Array) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}

/** How many of the increasing numbers lie below x, or with `orAt` at x too. */
function countBelow(numbers, x, orAt = false) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < x || (orAt && numbers[middle] === x)) low = middle + 1;
    else high = middle;
  }
  return low;
}

// --- bases: the row of a basis at a code, as {at: positions, value: numbers} ----------------------

/** A row that is the training rows' mean, for what a basis cannot evaluate. */
function meanRow(spec) {
  return { at: Array.from(spec.mean, (_, i) => i), value: Array.from(spec.mean) };
}

/** The degree + 1 B-splines that are not zero between knots `span` and `span` + 1, at x. */
function bsplines(knots, degree, span, x) {
  const values = [1];
  for (let d = 1; d <= degree; d++) {
    let saved = 0;
    for (let r = 0; r < d; r++) {
      const right = knots[span + r + 1];
      const left = knots[span + 1 - d + r];
      const share = right === left ? 0 : values[r] / (right - left);
      values[r] = saved + (right - x) * share;
      saved = (x - left) * share;
    }
    values.push(saved);
  }
  return values;
}

/** Their slopes. */
function bsplineSlopes(knots, degree, span, x) {
  const lower = bsplines(knots, degree - 1, span, x);
  const slopes = [];
  for (let r = 0; r <= degree; r++) {
    const i = span - degree + r;
    const rise = r > 0 ? lower[r - 1] / (knots[i + degree] - knots[i] || 1) : 0;
    const fall = r < degree ? lower[r] / (knots[i + degree + 1] - knots[i + 1] || 1) : 0;
    slopes.push(degree * (rise - fall));
  }
  return slopes;
}

const BASES = {
  spline(spec, x) {
    const { knots, degree } = spec;
    const n = knots.length - degree - 1;
    if (Number.isNaN(x)) return spec.missing ? { at: [n], value: [1] } : meanRow(spec);
    const low = knots[degree];
    const high = knots[n];
    const inside = Math.min(Math.max(x, low), high);
    const span = Math.min(Math.max(countBelow(knots, inside, true) - 1, degree), n - 1);
    const value = bsplines(knots, degree, span, inside);
    if (x !== inside && spec.linear && degree > 0) {
      const slopes = bsplineSlopes(knots, degree, span, inside);
      for (let r = 0; r <= degree; r++) value[r] += (x - inside) * slopes[r];
    }
    return { at: value.map((_, r) => span - degree + r), value };
  },
  powers(spec, x) {
    if (Number.isNaN(x)) return meanRow(spec);
    const z = (x - spec.center) / spec.scale;
    const value = [];
    for (let i = 0; i < spec.size; i++) value.push(z ** (spec.first + i));
    return { at: value.map((_, i) => i), value };
  },
  levels(spec, code) {
    if (Number.isNaN(code)) return spec.missing ? { at: [spec.levels], value: [1] } : meanRow(spec);
    return code >= 0 ? { at: [code], value: [1] } : meanRow(spec);
  },
  mark(spec, code) {
    const missing = Number.isNaN(code);
    if (spec.level === null) return { at: [0], value: [missing ? 1 : 0] };
    if (!(code >= 0 || (missing && spec.missing))) return meanRow(spec);
    return { at: [0], value: [code === spec.level ? 1 : 0] };
  },
};

// --- the model ------------------------------------------------------------------------------------

const LINKS = {
  identity: (score) => score,
  log: (score) => score.map(Math.exp),
  logit: (score) => score.map((s) => 1 / (1 + Math.exp(-s))),
  softmax: (score) => {
    const top = Math.max(...score);
    const parts = score.map((s) => Math.exp(s - top));
    const sum = parts.reduce((a, b) => a + b, 0);
    return parts.map((p) => p / sum);
  },
};

/**
 * A fitted model. A row is an array with a value per column: a number, or for text the number of
 * its level (-1: never seen in training); NaN where the cell is missing.
 */
class Model {
  constructor(data) {
    this.data = data;
    this.q = data.outputs.length;
    this.intercept = decode(data.intercept);
    this.columns = data.columns.map((column) => ({
      ...column,
      numbers: column.numbers === null ? null : decode(column.numbers),
      shares: column.shares === null ? null : decode(column.shares),
      spread:
        column.spread === null
          ? null
          : {
              ...column.spread,
              points: decode(column.spread.points),
              shares: decode(column.spread.shares),
            },
      position: new Map(column.levels.map((level, i) => [level, i])),
    }));
    this.terms = data.terms.map((term) => this.readTerm(term));
    this.path = new Path(data.path, this.terms, this.q);
  }

  readTerm(term) {
    const axes = term.axes.map(({ encoder, basis }, i) => {
      const column = this.columns[term.columns[i]];
      const out = { basis: { ...basis, mean: decode(basis.mean) } };
      if (basis.knots) out.basis.knots = decode(basis.knots);
      if (encoder.cuts !== undefined) out.cuts = decode(encoder.cuts);
      if (encoder.levels) {
        const codes = new Map(encoder.levels.map((level, code) => [level, code]));
        out.codes = encoder.levels.length ? column.levels.map((l) => codes.get(l) ?? -1) : [];
      }
      return out;
    });
    return { ...term, axes, mean: decode(term.mean), beta: decode(term.beta) };
  }

  /** What the basis of a term's axis is evaluated at. */
  encode(axis, column, value) {
    if (axis.cuts) return Number.isNaN(value) ? NaN : countBelow(axis.cuts, value);
    if (!axis.codes || Number.isNaN(value)) return value;
    if (!axis.codes.length) return -1;
    const level = column.numeric ? column.numbers.indexOf(value) : value;
    return level >= 0 ? axis.codes[level] : -1;
  }

  /** The row of a term's basis; of two columns the products of both. */
  basisRow(term, values) {
    const rows = term.axes.map((axis, i) => {
      const column = this.columns[term.columns[i]];
      return BASES[axis.basis.kind](axis.basis, this.encode(axis, column, values[i]));
    });
    if (rows.length === 1) return rows[0];
    const [a, b] = rows;
    const size = term.axes[1].basis.size;
    const out = { at: [], value: [] };
    a.at.forEach((i, r) =>
      b.at.forEach((j, s) => {
        out.at.push(i * size + j);
        out.value.push(a.value[r] * b.value[s]);
      }),
    );
    return out;
  }

  /** The centred effect: (row - mean) beta, one number per output. */
  dot(term, row, beta = term.beta) {
    const out = new Array(this.q).fill(0);
    for (let o = 0; o < this.q; o++) {
      let sum = 0;
      for (let r = 0; r < row.at.length; r++) sum += row.value[r] * beta[row.at[r] * this.q + o];
      out[o] = sum - this.meanOf(term, o, beta);
    }
    return out;
  }

  meanOf(term, output, beta = term.beta) {
    if (beta === term.beta && term.means) return term.means[output];
    const means = [];
    for (let o = 0; o < this.q; o++) {
      let sum = 0;
      for (let i = 0; i < term.mean.length; i++) sum += term.mean[i] * beta[i * this.q + o];
      means.push(sum);
    }
    if (beta === term.beta) term.means = means;
    return means[output];
  }

  effect(term, values) {
    return this.dot(term, this.basisRow(term, values));
  }

  /** What every term adds to the score of a row. */
  contributions(row) {
    return this.terms.map((term) =>
      term.chosen
        ? this.effect(
            term,
            term.columns.map((c) => row[c]),
          )
        : null,
    );
  }

  /** The fixed part of the score: (q) offsets plus the logarithm of the exposure. */
  fixed({ offset = [], exposure = 1 } = {}) {
    return Array.from({ length: this.q }, (_, o) => (offset[o] ?? 0) + Math.log(exposure));
  }

  score(row, given) {
    const out = this.fixed(given).map((fixed, o) => fixed + this.intercept[o]);
    for (const effect of this.contributions(row)) {
      if (effect)
        effect.forEach((e, o) => {
          out[o] += e;
        });
    }
    return out;
  }

  /** Scores in the units of the target; as they are if only Python knows how. */
  response(score) {
    return LINKS[this.data.link ?? "identity"](score);
  }
}

// --- the path -------------------------------------------------------------------------------------

class Path {
  constructor(data, terms, q) {
    Object.assign(this, data);
    this.terms = data.terms.map((packed, k) => ({
      ...packed,
      frames: decode(packed.frames, Int16Array),
      size: terms[k].mean.length * q,
    }));
    this.start = decode(data.start);
  }

  /** The frame at or before an iteration, and how far it is to the next (0 to 1). */
  place(iteration) {
    const frame = Math.max(0, countBelow(this.at, iteration, true) - 1);
    const next = Math.min(frame + 1, this.at.length - 1);
    const gap = this.at[next] - this.at[frame];
    // Going back at the switch is a leap, nothing lies in between.
    const leap = this.at[frame] === this.switched_after && this.rewound_to !== this.switched_after;
    return { frame, next, share: gap && !leap ? (iteration - this.at[frame]) / gap : 0 };
  }

  /** Coefficients of a term at an iteration, between frames on a straight line. */
  beta(k, iteration) {
    const { frame, next, share } = this.place(iteration);
    const { frames, size, unit } = this.terms[k];
    const out = new Float64Array(size);
    for (let i = 0; i < size; i++) {
      const a = frames[frame * size + i];
      out[i] = unit * (a + share * (frames[next * size + i] - a));
    }
    return out;
  }

  /** A risk at an iteration; null where it is not known. */
  riskAt(risks, iteration) {
    const i = Math.max(0, countBelow(this.points, iteration, true) - 1);
    const j = Math.min(i + 1, this.points.length - 1);
    const gap = this.points[j] - this.points[i];
    if (!gap || risks[i] === null || risks[j] === null) return risks[i];
    return risks[i] + ((iteration - this.points[i]) / gap) * (risks[j] - risks[i]);
  }

  /** How often a term had been "chosen" or "corrected". */
  count(k, iteration, what) {
    return this.terms[k][what][this.place(iteration).frame];
  }
}
