// Prediction: evaluates terms, given as piecewise polynomials, at the raw values of their columns.
// Does not know about learners, bases or losses: model/pieces.py makes the pieces, and
// model/prediction.py passes them.
//
// An axis maps a value of a column to the number of a piece and, for numbers, to
// t = (x - origin[piece]) * inverse[piece]. A term with one axis adds to the score
//
//     sum over j of coef[piece, j] t^j,
//
// a term with two axes the sum over the powers of both. Rows are processed in blocks that fit in
// the cache; the result of a row does not depend on other rows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <variant>

#include "kernels.hpp"
#include "parallel.hpp"
#include "types.hpp"

namespace cwboost::predict {

using Piece = std::int32_t;

constexpr Size block_size = 256;            // rows for which all terms are evaluated together
constexpr Size task_size = 8 * block_size;  // rows of a task
constexpr Size max_breaks = Size{1} << 20;  // per axis
constexpr Size no_row = std::numeric_limits<Size>::max();

// --- numbers -> pieces --------------------------------------------------------------------------

// Maps numbers to pieces: interval i holds the numbers from breaks[i-1], included, to breaks[i],
// and has piece pieces[i]. A guide of equally wide buckets stores how many breaks lie below each
// bucket; a branch-free binary search among the few breaks within the bucket does the rest.
// Rounding cannot misplace a number, because breaks and numbers find their bucket by the same
// monotone arithmetic.
class Breaks {
 public:
  Breaks(In breaks, std::span<const Piece> pieces, Piece missing)
      : breaks_(breaks.begin(), breaks.end()),
        pieces_(pieces.begin(), pieces.end()),
        missing_(missing) {
    const Size n = breaks.size();
    if (n > max_breaks || pieces.size() != n + 1)
      throw std::invalid_argument("breaks: expected one piece more than breaks");
    for (Size i = 0; i < n; ++i)
      if (!std::isfinite(breaks[i]) || (i > 0 && !(breaks[i - 1] < breaks[i])))
        throw std::invalid_argument("breaks: breaks must be finite and increasing");
    n_pieces_ = missing;
    for (const Piece piece : pieces_) {
      if (piece < 0) throw std::invalid_argument("breaks: pieces are counted from 0");
      n_pieces_ = std::max(n_pieces_, piece);
    }
    if (missing < 0) throw std::invalid_argument("breaks: pieces are counted from 0");
    ++n_pieces_;
    make_guide();
  }

  Piece n_pieces() const { return n_pieces_; }  // the axis must have at least this many

  void find(const Real* x, Size n, Piece* piece) const {
    for (Size r = 0; r < n; ++r) piece[r] = bucket(x[r]);
    switch (steps_) {
      case 0:
        return finish(x, n, piece, [](Real, Size at) { return at; });
      case 1:
        return finish(x, n, piece, [this](Real v, Size at) { return step<1>(v, at); });
      case 2:
        return finish(x, n, piece, [this](Real v, Size at) { return step<2>(v, at); });
      default:
        return finish(x, n, piece, [this](Real v, Size at) {
          for (Size half = Size{1} << (steps_ - 1); half; half >>= 1)
            at += v >= breaks_[at + half - 1] ? half : 0;
          return at;
        });
    }
  }

 private:
  // Uses one bucket per break if the breaks are equally spaced, and otherwise four, so that few
  // breaks share a bucket.
  void make_guide() {
    const Size n = breaks_.size();
    if (n > 1) {
      low_ = breaks_.front();
      const Real range = breaks_.back() - low_;
      for (const Size buckets : {n - 1, 4 * n}) {
        top_ = static_cast<Real>(buckets);
        per_unit_ = top_ / range;
        count_buckets(buckets + 1);
        if (steps_ <= 2) break;
      }
    } else {
      count_buckets(1);
    }
    breaks_.resize(n + (Size{1} << steps_), std::numeric_limits<Real>::quiet_NaN());
  }

  void count_buckets(Size n_buckets) {
    std::vector<Piece> within(n_buckets);
    for (const Real b : breaks_) ++within[static_cast<Size>(bucket(b))];
    below_.assign(n_buckets, 0);
    for (Size g = 1; g < n_buckets; ++g) below_[g] = below_[g - 1] + within[g - 1];
    const Piece most = *std::max_element(within.begin(), within.end());
    for (steps_ = 0; (Piece{1} << steps_) <= most;) ++steps_;
  }

  Piece bucket(Real x) const {
    Real u = (x - low_) * per_unit_;
    u = u > 0.0 ? u : 0.0;  // NaN too
    u = u < top_ ? u : top_;
    return static_cast<Piece>(u);
  }

  template <Size n_steps>
  Size step(Real x, Size at) const {
    if constexpr (n_steps == 2) at += x >= breaks_[at + 1] ? 2 : 0;
    return at + (x >= breaks_[at] ? 1 : 0);
  }

  template <class Find>
  void finish(const Real* x, Size n, Piece* piece, Find find) const {
    for (Size r = 0; r < n; ++r) {
      const Size at = find(x[r], static_cast<Size>(below_[static_cast<Size>(piece[r])]));
      const Piece found = pieces_[at];
      piece[r] = x[r] == x[r] ? found : missing_;
    }
  }

  Vec breaks_;  // padded with NaN, so that a search may look beyond the end
  std::vector<Piece> pieces_;
  std::vector<Piece> below_;  // breaks below each bucket
  Real low_ = 0.0, per_unit_ = 0.0, top_ = 0.0;
  Size steps_ = 0;
  Piece missing_, n_pieces_;
};

// --- columns of a table -------------------------------------------------------------------------

enum class Kind { float64, float32, int64, int32, boolean };

// A column of numbers in its place in memory.
struct Strided {
  const std::byte* data = nullptr;
  std::ptrdiff_t stride = 0;  // bytes
  Kind kind = Kind::float64;
};

struct LevelCodes {  // codes of levels, -1 for missing cells; the piece is pieces[code + 1]
  const std::int64_t* codes = nullptr;
  std::ptrdiff_t stride = 0;  // bytes
  std::vector<Piece> pieces;
};

struct LevelNumbers {  // numbers that stand for levels
  Strided numbers;
  const Breaks* breaks = nullptr;
};

using Column = std::variant<std::monostate, Strided, LevelCodes, LevelNumbers>;

template <class T>
T load(const std::byte* data, std::ptrdiff_t stride, Size row) {
  T value;  // the address need not be aligned
  std::memcpy(&value, data + stride * static_cast<std::ptrdiff_t>(row), sizeof(T));
  return value;
}

template <class T>
void read_as(const Strided& column, Size begin, Size n, Real* x) {
  const std::byte* const data = column.data + column.stride * static_cast<std::ptrdiff_t>(begin);
  for (Size r = 0; r < n; ++r) x[r] = static_cast<Real>(load<T>(data, column.stride, r));
}

constexpr Real infinite_number = std::numeric_limits<Real>::infinity();

struct Extremes {
  Real low = infinite_number, high = -infinite_number;  // as long as there are no numbers
  bool infinite() const { return low == -infinite_number || high == infinite_number; }
};

// The smallest and the largest number, in lanes so that compilers vectorise the loop. Comparisons
// with NaN are false and change nothing.
CWBOOST_WIDE inline Extremes extremes_of(const Real* x, Size n) {
  std::array<Real, lanes> low, high;
  low.fill(Extremes{}.low);
  high.fill(Extremes{}.high);
  Size i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Size l = 0; l < lanes; ++l) {
      low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
      high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
    }
  for (Size l = 0; i < n; ++i, ++l) {
    low[l] = x[i] < low[l] ? x[i] : low[l];
    high[l] = x[i] > high[l] ? x[i] : high[l];
  }
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end())};
}

// Reads n numbers and returns their extremes.
inline Extremes read(const Strided& column, Size begin, Size n, Real* x) {
  switch (column.kind) {
    case Kind::float64:
      read_as<double>(column, begin, n, x);
      break;
    case Kind::float32:
      read_as<float>(column, begin, n, x);
      break;
    case Kind::int64:
      read_as<std::int64_t>(column, begin, n, x);
      break;
    case Kind::int32:
      read_as<std::int32_t>(column, begin, n, x);
      break;
    case Kind::boolean:
      read_as<std::uint8_t>(column, begin, n, x);
      break;
  }
  return extremes_of(x, n);
}

// --- axes and terms -----------------------------------------------------------------------------

struct Axis {
  Size source;                   // column number
  std::optional<Breaks> breaks;  // none: the column has codes or levels
  Vec origin, inverse;           // (n_pieces); empty: t is 0
  Piece n_pieces;
  Piece unseen;    // rows of this piece are counted; -1: no such piece
  Real low, high;  // numbers outside are counted; infinite: none are
};

struct Term {
  std::vector<Size> axes;    // one or two
  std::vector<Size> powers;  // per axis: degree + 1
  Vec coef;                  // (pieces a, [pieces b,] powers a, [powers b,] outputs)
};

// Where effects are written, with strides for rows and terms (0: the terms are added up).
struct Target {
  Real* out = nullptr;
  std::ptrdiff_t row = 0, term = 0;
};

struct Findings {
  Size infinite = no_row;      // first column with an infinite number
  Size not_a_number = no_row;  // first row whose effects add up to NaN
  std::vector<Size> outside;   // per axis: rows with an unseen level, or outside low..high
};

class Lookup {
 public:
  Lookup(std::vector<Axis> axes, std::vector<Term> terms, Size n_outputs)
      : axes_(std::move(axes)), terms_(std::move(terms)), n_outputs_(n_outputs) {
    if (n_outputs == 0) throw std::invalid_argument("lookup: expected at least one output");
    for (const Axis& axis : axes_) check(axis);
    for (const Term& term : terms_) check(term);
    for (const Axis& axis : axes_) n_sources_ = std::max(n_sources_, axis.source + 1);
  }

  Size n_outputs() const { return n_outputs_; }
  Size n_terms() const { return terms_.size(); }
  Size n_sources() const { return n_sources_; }

  // Evaluates the terms [first, last) at rows [0, n). Only the columns of their axes are read.
  Findings run(const std::vector<Column>& columns, Size n, Size first, Size last,
               const Target& target, Size n_threads, const std::function<void()>& poll) const {
    if (columns.size() < n_sources_) throw std::invalid_argument("lookup: a column is missing");
    if (first > last || last > terms_.size())
      throw std::invalid_argument("lookup: there are no such terms");
    for (Size k = first; k < last; ++k)
      for (const Size a : terms_[k].axes) check(axes_[a], columns[axes_[a].source]);
    const std::vector<Size> slots = slots_for(first, last);
    const Size n_tasks = (n + task_size - 1) / task_size;
    std::vector<Findings> found(n_tasks);
    Workers workers(std::min(n_threads, n_tasks));
    workers.run(
        n_tasks,
        [&](Size task) {
          Scratch scratch(slots);
          found[task].outside.assign(axes_.size(), 0);
          const Size end = std::min(n, (task + 1) * task_size);
          for (Size begin = task * task_size; begin < end; begin += block_size) {
            const Block rows{begin, std::min(block_size, end - begin)};
            run_block(columns, rows, first, last, target, scratch, found[task]);
          }
        },
        poll);
    return total(found);
  }

 private:
  struct Block {  // rows
    Size begin, n;
  };

  struct Place {  // the pieces and positions of a block of rows on one axis
    std::array<Piece, block_size> piece;
    std::array<Real, block_size> t;
    bool set;
  };

  struct Scratch {
    explicit Scratch(const std::vector<Size>& slots)
        : slot(slots),
          places(1 + std::max(Size{1}, *std::max_element(slots.begin(), slots.end()))) {}
    const std::vector<Size>& slot;  // per axis: index in `places`
    std::vector<Place> places;
    std::array<Real, block_size> x;
    const Column* in_x = nullptr;  // the column that x was read from
    Extremes extremes;             // of x
  };

  static void check(const Axis& axis) {
    const auto n = static_cast<Size>(axis.n_pieces);
    if (axis.n_pieces < 1 || axis.unseen >= axis.n_pieces ||
        axis.origin.size() != axis.inverse.size() ||
        (!axis.origin.empty() && axis.origin.size() != n) ||
        (!axis.origin.empty() && !axis.breaks) ||
        (axis.breaks && axis.breaks->n_pieces() > axis.n_pieces))
      throw std::invalid_argument("lookup: an axis does not fit its pieces");
  }

  void check(const Term& term) const {
    if (term.axes.empty() || term.axes.size() > 2 || term.powers.size() != term.axes.size())
      throw std::invalid_argument("lookup: a term has one or two axes");
    Size size = n_outputs_;
    for (Size i = 0; i < term.axes.size(); ++i) {
      if (term.axes[i] >= axes_.size()) throw std::invalid_argument("lookup: no such axis");
      const Axis& axis = axes_[term.axes[i]];
      if (term.powers[i] < 1 || (term.powers[i] > 1 && axis.origin.empty()))
        throw std::invalid_argument("lookup: a term has powers on an axis without numbers");
      size *= static_cast<Size>(axis.n_pieces) * term.powers[i];
    }
    if (size != term.coef.size()) throw std::invalid_argument("lookup: coefficients do not fit");
  }

  static void check(const Axis& axis, const Column& column) {
    const auto* const labelled = std::get_if<LevelCodes>(&column);
    const auto* const searched = std::get_if<LevelNumbers>(&column);
    if (axis.breaks ? !std::holds_alternative<Strided>(column) : !labelled && !searched)
      throw std::invalid_argument("lookup: a column is of the wrong kind");
    if (searched && searched->breaks->n_pieces() > axis.n_pieces)
      throw std::invalid_argument("lookup: levels do not fit their axis");
    if (labelled)
      for (const Piece piece : labelled->pieces)
        if (piece < 0 || piece >= axis.n_pieces)
          throw std::invalid_argument("lookup: levels do not fit their axis");
  }

  // An axis that several terms use has its own place; the others share places 0 and 1.
  std::vector<Size> slots_for(Size first, Size last) const {
    std::vector<Size> uses(axes_.size() + 1), slots(axes_.size() + 1);
    for (Size k = first; k < last; ++k)
      for (Size i = 0; i < terms_[k].axes.size(); ++i) {
        ++uses[terms_[k].axes[i]];
        slots[terms_[k].axes[i]] = i;
      }
    Size next = n_shared;
    for (Size a = 0; a < axes_.size(); ++a)
      if (uses[a] > 1) slots[a] = next++;
    return slots;
  }

  void run_block(const std::vector<Column>& columns, Block rows, Size first, Size last,
                 const Target& target, Scratch& scratch, Findings& found) const {
    scratch.in_x = nullptr;
    for (Place& place : scratch.places) place.set = false;
    Real* const block = target.out + target.row * static_cast<std::ptrdiff_t>(rows.begin);
    for (Size k = first; k < last; ++k) {
      for (const Size a : terms_[k].axes) {
        const Size slot = scratch.slot[a];
        if (slot < n_shared || !scratch.places[slot].set)
          locate(a, columns[axes_[a].source], rows, scratch, found);
      }
      evaluate(terms_[k], scratch, rows.n,
               block + target.term * static_cast<std::ptrdiff_t>(k - first), target);
    }
    if (found.not_a_number != no_row || target.term != 0) return;
    for (Size r = 0; r < rows.n && found.not_a_number == no_row; ++r)
      for (Size o = 0; o < n_outputs_; ++o)
        if (std::isnan(block[target.row * static_cast<std::ptrdiff_t>(r) +
                             static_cast<std::ptrdiff_t>(o)]))
          found.not_a_number = rows.begin + r;
  }

  void locate(Size a, const Column& column, Block rows, Scratch& scratch, Findings& found) const {
    const Axis& axis = axes_[a];
    Place& place = scratch.places[scratch.slot[a]];
    if (const auto* const labelled = std::get_if<LevelCodes>(&column)) {
      place_labels(*labelled, rows, place.piece.data());
    } else {
      const auto* const searched = std::get_if<LevelNumbers>(&column);
      const Strided& numbers = searched ? searched->numbers : std::get<Strided>(column);
      Real* const x = scratch.x.data();
      if (scratch.in_x != &column) {
        scratch.extremes = read(numbers, rows.begin, rows.n, x);
        if (scratch.extremes.infinite()) found.infinite = std::min(found.infinite, axis.source);
        scratch.in_x = &column;
      }
      (searched ? *searched->breaks : *axis.breaks).find(x, rows.n, place.piece.data());
      if (!axis.origin.empty()) set_t(axis, x, rows.n, place);
      if (scratch.extremes.low < axis.low || scratch.extremes.high > axis.high)
        found.outside[a] += count_outside(axis, x, rows.n);
    }
    place.set = true;
    if (axis.unseen >= 0)
      found.outside[a] += static_cast<Size>(
          std::count(place.piece.data(), place.piece.data() + rows.n, axis.unseen));
  }

  static Size count_outside(const Axis& axis, const Real* x, Size n) {
    Size outside = 0;  // comparisons with NaN are false
    for (Size r = 0; r < n; ++r) outside += (x[r] < axis.low) | (x[r] > axis.high) ? 1U : 0U;
    return outside;
  }

  static void place_labels(const LevelCodes& column, Block rows, Piece* piece) {
    const auto* const data = reinterpret_cast<const std::byte*>(column.codes);
    for (Size r = 0; r < rows.n; ++r) {
      const auto code =
          static_cast<Size>(load<std::int64_t>(data, column.stride, rows.begin + r) + 1);
      if (code >= column.pieces.size()) throw std::invalid_argument("lookup: no such level");
      piece[r] = column.pieces[code];
    }
  }

  static void set_t(const Axis& axis, const Real* x, Size n, Place& place) {
    for (Size r = 0; r < n; ++r) {
      const auto p = static_cast<Size>(place.piece[r]);
      const Real t = (x[r] - axis.origin[p]) * axis.inverse[p];
      place.t[r] = x[r] == x[r] ? t : 0.0;
    }
  }

  void evaluate(const Term& term, const Scratch& scratch, Size n, Real* out,
                const Target& target) const {
    const bool add = target.term == 0;
    const Place& place = scratch.places[scratch.slot[term.axes[0]]];
    if (term.axes.size() == 2) {
      const Place& other = scratch.places[scratch.slot[term.axes[1]]];
      return add ? surface<true>(term, place, other, n, out, target.row)
                 : surface<false>(term, place, other, n, out, target.row);
    }
    return add ? curve<true>(term, place, n, out, target.row)
               : curve<false>(term, place, n, out, target.row);
  }

  template <bool add>
  void curve(const Term& term, const Place& place, Size n, Real* out, std::ptrdiff_t row) const {
    if (n_outputs_ > 1) return curve_of<add, 0>(term, place, n, out, row);
    switch (term.powers[0]) {
      case 1:
        return curve_of<add, 1>(term, place, n, out, row);
      case 2:
        return curve_of<add, 2>(term, place, n, out, row);
      case 4:
        return curve_of<add, 4>(term, place, n, out, row);
      default:
        return curve_of<add, 0>(term, place, n, out, row);
    }
  }

  // fixed: number of powers known at compile time, for one output; 0: any number, any outputs.
  template <bool add, Size fixed>
  void curve_of(const Term& term, const Place& place, Size n, Real* out, std::ptrdiff_t row) const {
    const Size q = fixed ? 1 : n_outputs_, powers = fixed ? fixed : term.powers[0];
    for (Size r = 0; r < n; ++r) {
      const Real* const c = term.coef.data() + static_cast<Size>(place.piece[r]) * powers * q;
      Real* const to = out + row * static_cast<std::ptrdiff_t>(r);
      for (Size o = 0; o < q; ++o) {
        Real sum = c[(powers - 1) * q + o];
        for (Size j = powers - 1; j-- > 0;) sum = sum * place.t[r] + c[j * q + o];
        to[o] = add ? to[o] + sum : sum;
      }
    }
  }

  template <bool add>
  void surface(const Term& term, const Place& a, const Place& b, Size n, Real* out,
               std::ptrdiff_t row) const {
    const Size q = n_outputs_, of_a = term.powers[0], of_b = term.powers[1];
    const auto pieces_b = static_cast<Size>(axes_[term.axes[1]].n_pieces);
    for (Size r = 0; r < n; ++r) {
      const Size pair = static_cast<Size>(a.piece[r]) * pieces_b + static_cast<Size>(b.piece[r]);
      const Real* const c = term.coef.data() + pair * of_a * of_b * q;
      const Real s = of_a > 1 ? a.t[r] : 0.0, t = of_b > 1 ? b.t[r] : 0.0;
      Real* const to = out + row * static_cast<std::ptrdiff_t>(r);
      for (Size o = 0; o < q; ++o) {
        Real sum = 0.0;
        for (Size i = of_a; i-- > 0;) {
          const Real* const ci = c + i * of_b * q + o;
          Real inner = ci[(of_b - 1) * q];
          for (Size j = of_b - 1; j-- > 0;) inner = inner * t + ci[j * q];
          sum = i + 1 == of_a ? inner : sum * s + inner;
        }
        to[o] = add ? to[o] + sum : sum;
      }
    }
  }

  Findings total(const std::vector<Findings>& found) const {
    Findings all;
    all.outside.assign(axes_.size(), 0);
    for (const Findings& task : found) {
      all.infinite = std::min(all.infinite, task.infinite);
      all.not_a_number = std::min(all.not_a_number, task.not_a_number);
      for (Size a = 0; a < axes_.size(); ++a) all.outside[a] += task.outside[a];
    }
    return all;
  }

  static constexpr Size n_shared = 2;
  std::vector<Axis> axes_;
  std::vector<Term> terms_;
  Size n_outputs_, n_sources_ = 0;
};

}  // namespace cwboost::predict
