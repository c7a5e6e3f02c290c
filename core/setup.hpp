// Set-up of a fit: passes over whole columns that summarise them, assign bins and evaluate bases.
// Does not know about tables, learners or smoothing.
//
// A missing cell is NaN. `training` marks the training rows; an empty mask means all rows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "kernels.hpp"
#include "types.hpp"

namespace cwboost {

using Mask = std::span<const bool>;
constexpr Real infinity = std::numeric_limits<Real>::infinity();
constexpr Real not_a_number = std::numeric_limits<Real>::quiet_NaN();

inline bool decides(Mask training, Size row) { return training.empty() || training[row]; }

inline void check_mask(Mask training, Size n) {
  if (!training.empty() && training.size() != n)
    throw std::invalid_argument("training must have one mark per row");
}

inline void check_weights(In weights, Size n) {
  if (weights.size() != n) throw std::invalid_argument("weights must have one number per row");
}

// --- summaries of columns -----------------------------------------------------------------------

struct Survey {
  Real low, high;    // of the training rows; low > high if they have no numbers
  Size missing;      // missing cells of the training rows
  Size all_missing;  // missing cells of all rows
  bool beyond;       // some row is outside low..high
  bool infinite;     // some row is infinite
};

struct Range {
  Real low = infinity, high = -infinity;
  Size missing = 0;
};

// Minimum, maximum and number of missing cells, in lanes so that compilers vectorise the loop.
// Comparisons with NaN are false and change nothing.
CWBOOST_WIDE inline Range range_of(const Real* x, Size n) {
  std::array<Real, lanes> low, high;
  std::array<std::uint64_t, lanes> missing{};
  low.fill(infinity);
  high.fill(-infinity);
  Size i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Size l = 0; l < lanes; ++l) {
      const Real v = x[i + l];
      low[l] = v < low[l] ? v : low[l];
      high[l] = v > high[l] ? v : high[l];
      missing[l] += v != v ? 1U : 0U;
    }
  for (Size l = 0; i < n; ++i, ++l) {
    low[l] = x[i] < low[l] ? x[i] : low[l];
    high[l] = x[i] > high[l] ? x[i] : high[l];
    missing[l] += x[i] != x[i] ? 1U : 0U;
  }
  Range out;
  for (Size l = 0; l < lanes; ++l) {
    out.low = std::min(out.low, low[l]);
    out.high = std::max(out.high, high[l]);
    out.missing += missing[l];
  }
  return out;
}

inline Survey survey(In values, Mask training) {
  check_mask(training, values.size());
  const Range all = range_of(values.data(), values.size());
  const bool some_infinite = all.low == -infinity || all.high == infinity;
  if (training.empty()) return {all.low, all.high, all.missing, all.missing, false, some_infinite};
  Range part;
  std::array<Real, 1024> some;
  for (Size begin = 0; begin < values.size(); begin += some.size()) {
    const Size n = std::min(some.size(), values.size() - begin);
    Size taken = 0;  // training rows, moved to the front
    for (Size i = begin; i < begin + n; ++i) {
      some[taken] = values[i];
      taken += training[i] ? 1U : 0U;
    }
    const Range here = range_of(some.data(), taken);
    part.low = std::min(part.low, here.low);
    part.high = std::max(part.high, here.high);
    part.missing += here.missing;
  }
  const bool beyond = all.low < part.low || all.high > part.high;
  return {part.low, part.high, part.missing, all.missing, beyond, some_infinite};
}

// The distinct numbers of the training rows, increasing; -0 counts as 0. Returns false as soon as
// there are more than `limit`.
inline bool distinct(In values, Mask training, Size limit, Vec& out) {
  check_mask(training, values.size());
  const Size size = std::bit_ceil(4 * limit + 4);
  const int shift = 64 - std::countr_zero(size);
  Vec table(size, not_a_number);  // open addressing; NaN marks a free place
  out.clear();
  Real last = not_a_number;  // runs of one value are common
  for (Size i = 0; i < values.size(); ++i) {
    const Real x = values[i] + 0.0;
    if (x != x || x == last || !decides(training, i)) continue;
    last = x;
    Size at = (std::bit_cast<std::uint64_t>(x) * 0x9E3779B97F4A7C15ULL) >> shift;
    while (table[at] == table[at] && table[at] != x) at = (at + 1) & (size - 1);
    if (table[at] == x) continue;
    if (out.size() == limit) return false;
    table[at] = x;
    out.push_back(x);
  }
  std::sort(out.begin(), out.end());
  return true;
}

// --- sorting ------------------------------------------------------------------------------------

// Equally wide buckets for numbers from low to high. A larger number is never in an earlier bucket.
class Buckets {
 public:
  Buckets() = default;  // one bucket
  Buckets(Real low, Real high, Size n) : low_(low), last_(static_cast<Real>(n - 1)) {
    scale_ = static_cast<Real>(n) / (high - low);
    if (!std::isfinite(scale_) || !std::isfinite(high - low)) scale_ = last_ = 0.0;  // one bucket
  }
  Size operator()(Real x) const {
    const Real at = (x - low_) * scale_;
    return static_cast<Size>(static_cast<std::uint32_t>(at < last_ ? at : last_));
  }

 private:
  Real low_ = 0.0, last_ = 0.0, scale_ = 0.0;
};

// The rows with a number, sorted by number and then by row; -0 counts as 0. Rows are distributed
// over buckets, and a bucket is sorted when one of its ranks is needed: a few ranks cost little
// more than two passes over the column.
class Order {
 public:
  Order(In values, Mask training, Size per_bucket) : values_(values) {
    check_mask(training, values.size());
    if (values.size() > std::numeric_limits<std::uint32_t>::max())
      throw std::invalid_argument("a column has too many rows to be sorted");
    const Range range = range_of(values.data(), values.size());
    const Size n_buckets = std::max<Size>(1, values.size() / per_bucket);
    const Buckets bucket(range.low, range.high, n_buckets);
    const auto each = [&](auto take) {
      for (Size i = 0; i < values.size(); ++i)
        if (values[i] == values[i] && decides(training, i)) take(i, bucket(values[i]));
    };
    begin_.assign(n_buckets + 2, 0);
    each([&](Size, Size d) { ++begin_[d + 2]; });
    for (Size d = 0; d < n_buckets; ++d) begin_[d + 2] += begin_[d + 1];
    rows_.resize(begin_.back());
    each([&](Size i, Size d) { rows_[begin_[d + 1]++] = static_cast<std::uint32_t>(i); });
    begin_.pop_back();
    sorted_.assign(n_buckets, false);
  }

  Size size() const { return rows_.size(); }

  Real operator[](Size rank) {
    const auto after = std::upper_bound(begin_.begin(), begin_.end(), rank);
    sort_bucket(static_cast<Size>(after - begin_.begin()) - 1);
    return values_[rows_[rank]] + 0.0;
  }

  const std::vector<std::uint32_t>& all() {  // all rows, sorted
    for (Size d = 0; d < sorted_.size(); ++d) sort_bucket(d);
    return rows_;
  }
  const std::vector<std::uint32_t>& rows() const { return rows_; }

 private:
  void sort_bucket(Size d) {
    if (sorted_[d]) return;
    sorted_[d] = true;
    std::uint32_t* const rows = rows_.data() + begin_[d];
    const Size n = begin_[d + 1] - begin_[d];
    if (n <= 24) {
      for (Size i = 1; i < n; ++i) {
        const std::uint32_t row = rows[i];
        const Real x = values_[row];
        Size j = i;
        for (; j > 0 && values_[rows[j - 1]] > x; --j) rows[j] = rows[j - 1];
        rows[j] = row;
      }
    } else if (n < 4096) {
      const auto before = [&](std::uint32_t i, std::uint32_t j) {
        return values_[i] != values_[j] ? values_[i] < values_[j] : i < j;
      };
      if (!std::is_sorted(rows, rows + n, before)) std::sort(rows, rows + n, before);
    } else {
      sort_by_digits(std::span(rows, n));
    }
  }

  // Radix sort, least significant digit first, 11 bits at a time; digits that all rows share are
  // skipped.
  void sort_by_digits(std::span<std::uint32_t> rows) const {
    constexpr Size digits = 6, bits = 11, buckets = Size{1} << bits;
    struct Cell {
      std::uint64_t key;
      std::uint32_t row;
      Size digit(Size d) const { return (key >> (d * bits)) & (buckets - 1); }
    };
    std::vector<Cell> cells, other(rows.size());
    cells.reserve(rows.size());
    std::vector<std::uint32_t> counts(digits * buckets, 0);
    for (const auto row : rows) {
      const Cell cell{key_of(values_[row]), row};
      for (Size d = 0; d < digits; ++d) ++counts[d * buckets + cell.digit(d)];
      cells.push_back(cell);
    }
    for (Size d = 0; d < digits; ++d) {
      std::uint32_t* const count = counts.data() + d * buckets;
      if (count[cells[0].digit(d)] == cells.size()) continue;
      std::uint32_t begin = 0;
      for (Size b = 0; b < buckets; ++b) begin += std::exchange(count[b], begin);
      for (const Cell& cell : cells) other[count[cell.digit(d)]++] = cell;
      cells.swap(other);
    }
    for (Size i = 0; i < rows.size(); ++i) rows[i] = cells[i].row;
  }

  static std::uint64_t key_of(Real x) {  // orders unsigned integers as the numbers
    const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
    return bits ^ (bits >> 63 ? ~std::uint64_t{0} : std::uint64_t{1} << 63);
  }

  In values_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> begin_;  // first row of each bucket, and the end
  std::vector<bool> sorted_;
};

// The first of n positions where fits(reached(position)) holds, or the last position.
template <class Reached, class Fits>
Size first_position(Size n, Reached reached, Fits fits) {
  Size low = 0, high = n - 1;
  while (low < high) {
    const Size middle = low + (high - low) / 2;
    if (fits(reached(middle)))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Quantiles for the given shares: midpoints of the intervals that minimise the weighted check loss.
// `numbers` are sorted; reached(i) is the total weight up to rank i.
template <class Numbers, class Reached>
Vec quantiles_of(Numbers& numbers, Reached reached, In shares) {
  const Size n = numbers.size();
  if (n == 0) throw std::invalid_argument("quantiles: the column has no numbers");
  const Real total = reached(n - 1), slack = 1e-12 * total;  // for rounding errors
  Vec out;
  for (const Real q : shares) {
    const Real at = q * total;
    const Real low = numbers[first_position(n, reached, [&](Real r) { return r >= at - slack; })];
    const Real high = numbers[first_position(n, reached, [&](Real r) { return r > at + slack; })];
    out.push_back(low + (high - low) / 2);
  }
  return out;
}

// Quantiles of the numbers of the training rows; without weights every row weighs 1.
inline Vec quantiles(In values, Mask training, In weights, In shares) {
  if (weights.empty()) {
    Order order(values, training, 4);
    return quantiles_of(order, [](Size i) { return static_cast<Real>(i + 1); }, shares);
  }
  check_weights(weights, values.size());
  Order order(values, training, 2);
  Vec reached;
  reached.reserve(order.size());
  Real total = 0.0;
  for (const auto row : order.all()) reached.push_back(total += weights[row]);
  return quantiles_of(order, [&](Size i) { return reached[i]; }, shares);
}

// The distinct numbers of the training rows and their weights, added up in row order.
inline std::pair<Vec, Vec> weigh_distinct(In values, Mask training, In weights) {
  if (!weights.empty()) check_weights(weights, values.size());
  Vec numbers, sums;
  Order order(values, training, 2);
  for (const auto row : order.all()) {
    const Real x = values[row];
    if (numbers.empty() || x != numbers.back()) {
      numbers.push_back(x + 0.0);
      sums.push_back(0.0);
    }
    sums.back() += weights.empty() ? 1.0 : weights[row];
  }
  return {std::move(numbers), std::move(sums)};
}

// --- bins ---------------------------------------------------------------------------------------

// One bin per distinct value, by a single sort: first the values of training rows, increasing, then
// the other values, increasing, then missing cells.
class ExactBins {
 public:
  ExactBins(In column, Mask training)
      : column_(column), training_(training), order_(column, {}, 2) {
    check_mask(training, column.size());
    order_.all();
    groups([&](Size, Size, Real, bool seen) { ++(seen ? n_seen_ : n_others_); });
  }

  Size n_bins() const { return n_seen_ + n_others_ + (missing() ? 1 : 0); }

  // Writes the bin of every row, and the value of every bin.
  template <class T>
  void write(std::span<T> index, Out bin_values) const {
    Size seen_bin = 0, other_bin = n_seen_;
    if (missing()) {
      std::fill(index.begin(), index.end(), static_cast<T>(n_bins() - 1));
      bin_values[n_bins() - 1] = not_a_number;
    }
    groups([&](Size begin, Size end, Real x, bool seen) {
      const Size bin = seen ? seen_bin++ : other_bin++;
      bin_values[bin] = x + 0.0;
      for (Size i = begin; i < end; ++i) index[order_.rows()[i]] = static_cast<T>(bin);
    });
  }

 private:
  bool missing() const { return order_.size() < column_.size(); }

  // Calls use(begin, end, x, seen) for every distinct value x; `seen`: some training row has it.
  template <class Use>
  void groups(Use use) const {
    const auto& rows = order_.rows();
    for (Size begin = 0, end = 0; begin < rows.size(); begin = end) {
      const Real x = column_[rows[begin]];
      bool seen = decides(training_, rows[begin]);
      for (end = begin + 1; end < rows.size() && column_[rows[end]] == x; ++end)
        seen = seen || decides(training_, rows[end]);
      use(begin, end, x, seen);
    }
  }

  In column_;
  Mask training_;
  Order order_;
  Size n_seen_ = 0, n_others_ = 0;
};

// The nearest of top + 1 equally spaced points, halves up; NaN goes to bin `missing`.
CWBOOST_WIDE inline void nearest_equal(const Real* x, Size n, Real first, Real step, Real top,
                                       Real missing, std::int32_t* out) {
  for (Size i = 0; i < n; ++i) {
    Real at = (x[i] - first) / step + 0.5;
    at = at < top ? at : top;  // in this order a comparison is one vector instruction
    at = at > 0.0 ? at : 0.0;
    at = x[i] == x[i] ? at : missing;
    out[i] = static_cast<std::int32_t>(at);
  }
}

template <class T>
void assign_equal(In values, Real first, Real last, Size size, Size missing, std::span<T> index) {
  const Real top = static_cast<Real>(size - 1), step = (last - first) / top;
  std::array<std::int32_t, 1024> bins;
  for (Size begin = 0; begin < values.size(); begin += bins.size()) {
    const Size n = std::min(bins.size(), values.size() - begin);
    nearest_equal(values.data() + begin, n, first, step, top, static_cast<Real>(missing),
                  bins.data());
    for (Size i = 0; i < n; ++i) index[begin + i] = static_cast<T>(bins[i]);
  }
}

// Counts the cuts (increasing) that are at most x (`closed`) or below x. Only the cuts in the
// bucket of x are searched; all cuts of earlier buckets lie below x.
class CutSearch {
 public:
  CutSearch(In cuts, Size n_values) : cuts_(cuts) {
    const Size n_buckets = 8 * cuts.size();  // most are empty
    if (cuts.size() < 8 || n_values < n_buckets) return;
    bucket_ = Buckets(cuts.front(), cuts.back(), n_buckets);
    begin_.assign(n_buckets + 1, 0);
    for (const Real cut : cuts) ++begin_[bucket_(cut) + 1];
    for (Size d = 0; d < n_buckets; ++d) begin_[d + 1] += begin_[d];
  }

  template <bool closed>
  Size operator()(Real x) const {
    Size low = 0, high = cuts_.size();
    if (!begin_.empty()) {
      if (!(x >= cuts_.front())) return 0;
      const Size d = bucket_(x);
      low = begin_[d];
      high = begin_[d + 1];
    }
    while (high - low > 2) {
      const Size middle = low + (high - low) / 2;
      if (closed ? cuts_[middle] <= x : cuts_[middle] < x)
        low = middle + 1;
      else
        high = middle;
    }
    while (low < high && (closed ? cuts_[low] <= x : cuts_[low] < x)) ++low;
    return low;
  }

 private:
  In cuts_;
  Buckets bucket_;
  std::vector<std::uint32_t> begin_;  // first cut of each bucket; empty: plain binary search
};

// The nearest of increasing points, halves up; NaN goes to bin `missing`. Returns the number of
// values that are not equal to a point.
template <class T>
Size assign_nearest(In values, In points, Size missing, std::span<T> index) {
  Vec middles;
  for (Size i = 0; i + 1 < points.size(); ++i)
    middles.push_back(points[i] + (points[i + 1] - points[i]) / 2);
  const CutSearch search(middles, values.size());
  Size others = 0;
  for (Size i = 0; i < values.size(); ++i) {
    const Real x = values[i];
    const Size bin = x == x ? search.operator()<true>(x) : missing;
    index[i] = static_cast<T>(bin);
    others += x == x && x != points[bin] ? 1U : 0U;
  }
  return others;
}

// The number of cuts below each value; NaN goes to bin `missing`.
template <class T>
void assign_cuts(In values, In cuts, Size missing, std::span<T> index) {
  const CutSearch search(cuts, values.size());
  for (Size i = 0; i < values.size(); ++i)
    index[i] =
        static_cast<T>(values[i] == values[i] ? search.operator()<false>(values[i]) : missing);
}

// --- pieces -------------------------------------------------------------------------------------

// The piece of every value and its position t there, from -1 to 1. Piece p goes from edge p to edge
// p + 1; missing cells have a piece of their own, at t = 0.
inline void place(In values, In edges, std::span<std::uint16_t> piece, Out t) {
  const Size n_pieces = edges.size() - 1;
  const CutSearch search(edges.subspan(1, n_pieces - 1), values.size());
  Vec middle(n_pieces + 1, 0.0), half(n_pieces + 1, 1.0);
  for (Size p = 0; p < n_pieces; ++p) {
    half[p] = (edges[p + 1] - edges[p]) / 2;
    middle[p] = edges[p] + half[p];
  }
  for (Size i = 0; i < values.size(); ++i) {
    const Real x = values[i];
    const bool known = x == x;
    const Size p = known ? search.operator()<true>(x) : n_pieces;
    piece[i] = static_cast<std::uint16_t>(p);
    t[i] = known ? (x - middle[p]) / half[p] : 0.0;
  }
}

constexpr Size n_nodes = 8;

// sums[8 p + q] = sum of w T_q(t) over the rows of piece p, with T_q the Chebyshev polynomials;
// without weights w is 1. Four rows at a time, so that compilers vectorise the polynomials.
CWBOOST_WIDE inline void weigh_pieces(std::span<const std::uint16_t> piece, In t, In weights,
                                      Out sums) {
  constexpr Size at_a_time = 4;
  Real m[n_nodes][at_a_time];
  std::fill(sums.begin(), sums.end(), 0.0);
  for (Size i = 0; i < t.size(); i += at_a_time) {
    const Size n = std::min(at_a_time, t.size() - i);
    for (Size c = 0; c < n; ++c) {
      m[0][c] = weights.empty() ? 1.0 : weights[i + c];
      m[1][c] = m[0][c] * t[i + c];
    }
    for (Size q = 2; q < n_nodes; ++q)
      for (Size c = 0; c < n; ++c) m[q][c] = 2.0 * t[i + c] * m[q - 1][c] - m[q - 2][c];
    for (Size c = 0; c < n; ++c) {
      Real* const to = sums.data() + piece[i + c] * n_nodes;
      for (Size q = 0; q < n_nodes; ++q) to[q] += m[q][c];
    }
  }
}

// --- weights of bins ----------------------------------------------------------------------------

// The weight of every bin, added up in row order; without weights its number of rows.
template <class T>
void weigh_bins(std::span<const T> index, In weights, Out out) {
  std::fill(out.begin(), out.end(), 0.0);
  T most = 0;
  for (const T bin : index) most = std::max(most, bin);
  if (!index.empty() && most >= out.size())
    throw std::invalid_argument("an index has a bin out of range");
  if (!weights.empty()) {
    check_weights(weights, index.size());
    for (Size i = 0; i < index.size(); ++i) out[index[i]] += weights[i];
    return;
  }
  // Rows go to four tables in turn, so that a repeated bin does not wait for its previous count.
  const Size copies = 4 * out.size() <= index.size() ? 4 : 1, n = out.size();
  std::vector<std::uint32_t> counts(copies * n, 0);
  Size i = 0;
  for (; copies == 4 && i + 4 <= index.size(); i += 4)
    for (Size l = 0; l < 4; ++l) ++counts[l * n + index[i + l]];
  for (; i < index.size(); ++i) ++counts[index[i]];
  for (Size l = 0; l < copies; ++l)
    for (Size b = 0; b < n; ++b) out[b] += static_cast<Real>(counts[l * n + b]);
}

// --- bases --------------------------------------------------------------------------------------

// Rows of the powers `first` (0 or 1), first + 1, ... of (x - center) / scale.
inline void power_rows(In values, Real center, Real scale, Size first, Size n_coef, Out value) {
  for (Size i = 0; i < values.size(); ++i) {
    const Real z = (values[i] - center) / scale;
    Real power = first == 0 ? 1.0 : z;
    for (Size j = 0; j < n_coef; ++j, power *= z) value[i * n_coef + j] = power;
  }
}

// Rows of a B-spline basis by de Boor's recursion, degree + 1 entries each. Beyond the range the
// functions continue linearly (`linear`) or stay constant. NaN has one entry, in a column behind
// the splines. `begin` receives the start of each row; it may be empty if there is no NaN.
class Splines {
 public:
  static constexpr Size max_degree = 16;
  Splines(In knots, Size degree, bool linear) : knots_(knots), degree_(degree), linear_(linear) {
    if (degree > max_degree || knots.size() < 2 * degree + 2)
      throw std::invalid_argument("splines: too few knots for the degree");
    low_ = knots[degree];
    high_ = knots[n_splines()];
    enter(degree);
  }
  Size n_splines() const { return knots_.size() - degree_ - 1; }

  // Writes the rows and returns the number of entries.
  Size write(In values, std::span<std::int64_t> begin, std::span<std::int32_t> column, Out value) {
    if ((!begin.empty() && begin.size() != values.size() + 1) || column.size() != value.size() ||
        value.size() < values.size() * (degree_ + 1))
      throw std::invalid_argument("splines: the rows do not fit the arrays");
    Size e = 0;
    if (!begin.empty()) begin[0] = 0;
    for (Size i = 0; i < values.size(); ++i) {
      if (values[i] != values[i]) {
        if (begin.empty()) throw std::invalid_argument("splines: a value is missing");
        column[e] = static_cast<std::int32_t>(n_splines());
        value[e++] = 1.0;
      } else {
        row(values[i], value.data() + e);
        for (Size j = 0; j <= degree_; ++j)
          column[e + j] = static_cast<std::int32_t>(at_ - degree_ + j);
        e += degree_ + 1;
      }
      if (!begin.empty()) begin[i + 1] = static_cast<std::int64_t>(e);
    }
    return e;
  }

 private:
  void row(Real x, Real* out) {
    const Real inside = std::clamp(x, low_, high_);
    find(inside);
    basis(inside, degree_, out);
    if (inside == x || !linear_ || degree_ == 0) return;
    std::array<Real, max_degree + 2> lower{};  // of degree - 1, padded with a zero on each side
    basis(inside, degree_ - 1, lower.data() + 1);
    const Size k = degree_;
    for (Size j = 0; j <= k; ++j) {
      const Size s = at_ - k + j;  // number of the spline
      Real slope = 0.0;
      if (j > 0) slope += lower[j] / (knots_[s + k] - knots_[s]);
      if (j < k) slope -= lower[j + 1] / (knots_[s + k + 1] - knots_[s + 1]);
      out[j] += static_cast<Real>(k) * slope * (x - inside);
    }
  }

  // Sets at_ to the interval of x, the last one closed. Values are mostly sorted.
  void find(Real x) {
    const Size last = n_splines() - 1;
    if (x >= knots_[at_] && (x < knots_[at_ + 1] || at_ == last)) return;
    const auto* const from = knots_.data() + degree_ + 1;
    const auto* const to = knots_.data() + n_splines();
    enter(std::min(last, degree_ + static_cast<Size>(std::upper_bound(from, to, x) - from)));
  }

  void enter(Size interval) {
    at_ = interval;
    Size k = 0;
    for (Size j = 1; j <= degree_; ++j)
      for (Size r = 0; r < j; ++r, ++k)
        inverse_[k] = 1.0 / (knots_[at_ + r + 1] - knots_[at_ + r + 1 - j]);
  }

  void basis(Real x, Size degree, Real* out) const {  // the degree + 1 nonzero splines
    std::array<Real, max_degree + 1> left, right;
    out[0] = 1.0;
    Size k = 0;
    for (Size j = 1; j <= degree; ++j) {
      left[j] = x - knots_[at_ + 1 - j];
      right[j] = knots_[at_ + j] - x;
      Real saved = 0.0;
      for (Size r = 0; r < j; ++r, ++k) {
        const Real part = out[r] * inverse_[k];
        out[r] = saved + right[r + 1] * part;
        saved = left[j - r] * part;
      }
      out[j] = saved;
    }
  }

  In knots_;
  Size degree_;
  bool linear_;
  Real low_, high_;
  Size at_ = 0;
  std::array<Real, max_degree*(max_degree + 1) / 2> inverse_;  // inverse widths for this interval
};

}  // namespace cwboost
