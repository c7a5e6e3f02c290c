// Evaluates the model: finds the piece that a value falls in, and evaluates a polynomial there.
// A term is a piecewise polynomial in one or two columns, whatever its learner. Does not know about
// the page.

/** Read numbers from base64 (little-endian, as all browsers are). */
function decode(text, Type = Float64Array) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
}

/** Count the increasing numbers below x, or with `orAt` at or below x. */
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

// --- terms ----------------------------------------------------------------------------------------

/**
 * One column of a term, cut into pieces: intervals or levels, then missing cells, then (for levels)
 * all other levels. On a piece every basis function is a polynomial in t = (x - origin) / width.
 */
class Axis {
  constructor(packed, column, polynomials) {
    Object.assign(this, packed);
    this.column = column;
    for (const key of ["breaks", "origin", "width"])
      this[key] = packed[key] === null ? null : decode(packed[key]);
    let at = 0;
    this.pieces = packed.count.map((n) => {
      const functions = packed.coef.slice(at, at + n).map((coef, i) => ({
        coef,
        polynomial: polynomials[packed.polynomial[at + i]],
      }));
      at += n;
      return functions;
    });
    const sizes = this.pieces.flat().map(({ polynomial }) => polynomial.length);
    this.powers = sizes.reduce((a, b) => Math.max(a, b), 1);
  }

  /** Return the piece of a value, and t. */
  place(value) {
    if (Number.isNaN(value)) return { piece: this.known, t: 0 };
    if (!this.breaks) return { piece: this.pieceOfLevel(value), t: 0 };
    const piece = countBelow(this.breaks, value, !this.closed_above);
    return { piece, t: this.origin ? (value - this.origin[piece]) / this.width[piece] : 0 };
  }

  pieceOfLevel(value) {
    const level = this.column.numeric ? this.column.numbers.indexOf(value) : value;
    if (level < 0) return this.pieces.length - 1;
    return this.levels ? this.levels[level] : level;
  }

  /** Whether the effect may jump at the breaks. */
  get stepped() {
    return this.breaks !== null && this.origin === null;
  }

  /** Return a break, and the number on its other side. */
  sidesOf(at) {
    const step = Math.max(Math.abs(at) * 2 ** -52, Number.MIN_VALUE);
    return this.closed_above ? [at, at + step] : [at - step, at];
  }

  /** Whether every basis function is there on all pieces, so that they do not say where rows are. */
  get everywhere() {
    return this.pieces.slice(0, this.known).every((functions) => functions.length === this.size);
  }
}

/** The second axis of a term of one column: one piece, on which the one function is 1. */
const NO_AXIS = { size: 1, powers: 1, pieces: [[{ coef: 0, polynomial: [1] }]] };
const NO_PLACE = { piece: 0, t: 0 };

/** A term with some coefficients: a polynomial per output on every piece, or pair of pieces. */
class Effect {
  constructor(axes, beta, q, mean) {
    [this.a, this.b = NO_AXIS] = axes;
    Object.assign(this, { beta, q, made: new Map() });
    this.middle = new Array(q).fill(0); // what is subtracted to centre the effect
    if (mean)
      mean.forEach((m, i) => {
        for (let o = 0; o < q; o++) this.middle[o] += m * beta[i * q + o];
      });
  }

  /** Return the coefficients (powers of a, powers of b, outputs) of the polynomials on a piece. */
  polynomials(i, j) {
    const key = i * this.b.pieces.length + j;
    if (!this.made.has(key)) this.made.set(key, this.multiply(this.a.pieces[i], this.b.pieces[j]));
    return this.made.get(key);
  }

  multiply(first, second) {
    const { q, beta } = this;
    const out = new Float64Array(this.a.powers * this.b.powers * q);
    for (const f of first) {
      for (const g of second) {
        const from = (f.coef * this.b.size + g.coef) * q;
        for (let r = 0; r < f.polynomial.length; r++) {
          for (let s = 0; s < g.polynomial.length; s++) {
            const factor = f.polynomial[r] * g.polynomial[s];
            const to = (r * this.b.powers + s) * q;
            for (let o = 0; o < q; o++) out[to + o] += factor * beta[from + o];
          }
        }
      }
    }
    for (let o = 0; o < q; o++) out[o] -= this.middle[o];
    return out;
  }

  /** Return the effect at a place per column: a number per output, by Horner's rule. */
  at([first, second = NO_PLACE]) {
    const { q } = this;
    const found = this.polynomials(first.piece, second.piece);
    const out = new Array(q);
    for (let o = 0; o < q; o++) {
      let sum = 0;
      for (let r = this.a.powers - 1; r >= 0; r--) {
        let inner = 0;
        for (let s = this.b.powers - 1; s >= 0; s--)
          inner = inner * second.t + found[(r * this.b.powers + s) * q + o];
        sum = sum * first.t + inner;
      }
      out[o] = sum;
    }
    return out;
  }
}

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
 * its level (-1 for a level that training did not have); NaN where the cell is missing.
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
    this.polynomials = readPolynomials(data.polynomials);
    this.terms = data.terms.map((term) => this.readTerm(term));
    this.path = new Path(data.path, this.terms, this.q);
  }

  readTerm(term) {
    const axes = term.axes.map(
      (axis, i) => new Axis(axis, this.columns[term.columns[i]], this.polynomials),
    );
    const mean = term.mean === null ? null : decode(term.mean);
    const size = axes.reduce((n, axis) => n * axis.size, 1);
    const made = { ...term, axes, mean, size };
    made.effect = this.effectOf(made, decode(term.beta));
    return made;
  }

  /** Return a term with the coefficients of an iteration. */
  effectOf(term, beta) {
    return new Effect(term.axes, beta, this.q, term.mean);
  }

  /** Return where values of the columns of a term lie. */
  places(term, values) {
    return term.axes.map((axis, i) => axis.place(values[i]));
  }

  /** Return the centred effect of a term, a number per output. */
  effect(term, values) {
    return term.effect.at(this.places(term, values));
  }

  /** Return what every term adds to the score of a row. */
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

  /** Return the fixed part of the score: (q) offsets plus the logarithm of the exposure. */
  fixed({ offset = [], exposure = 1 } = {}) {
    return Array.from({ length: this.q }, (_, o) => (offset[o] ?? 0) + Math.log(exposure));
  }

  score(row, fixedInputs) {
    const out = this.fixed(fixedInputs).map((fixed, o) => fixed + this.intercept[o]);
    for (const effect of this.contributions(row)) {
      if (effect)
        effect.forEach((e, o) => {
          out[o] += e;
        });
    }
    return out;
  }

  /** Return scores in the units of the target; unchanged if only Python knows the link. */
  response(score) {
    return LINKS[this.data.link ?? "identity"](score);
  }
}

function readPolynomials({ sizes, numbers }) {
  const all = decode(numbers);
  let at = 0;
  return sizes.map((size) => all.subarray(at, (at += size)));
}

// --- the path -------------------------------------------------------------------------------------

/** The path of the fit: risks, and the coefficients of every term at key frames. */
class Path {
  constructor(data, terms, q) {
    Object.assign(this, data);
    this.terms = data.terms.map((packed, k) => ({
      ...packed,
      frames: decode(packed.frames, Int16Array),
      size: terms[k].size * q,
    }));
    this.start = decode(data.start);
  }

  /** Return the key frame at or before an iteration, and the share of the way to the next. */
  place(iteration) {
    const frame = Math.max(0, countBelow(this.at, iteration, true) - 1);
    const next = Math.min(frame + 1, this.at.length - 1);
    const gap = this.at[next] - this.at[frame];
    // The rewind at the switch is a jump: nothing lies between these two frames.
    const leap = this.at[frame] === this.switched_after && this.rewound_to !== this.switched_after;
    return { frame, next, share: gap && !leap ? (iteration - this.at[frame]) / gap : 0 };
  }

  /** Return the coefficients of a term at an iteration, interpolated between key frames. */
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

  /** Return a risk at an iteration; null where it is not known. */
  riskAt(risks, iteration) {
    const i = Math.max(0, countBelow(this.points, iteration, true) - 1);
    const j = Math.min(i + 1, this.points.length - 1);
    const gap = this.points[j] - this.points[i];
    if (!gap || risks[i] === null || risks[j] === null) return risks[i];
    return risks[i] + ((iteration - this.points[i]) / gap) * (risks[j] - risks[i]);
  }

  /** Return how often a term was "chosen" or "corrected" up to an iteration. */
  count(k, iteration, what) {
    return this.terms[k][what][this.place(iteration).frame];
  }
}
