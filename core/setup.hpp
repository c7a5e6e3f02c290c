// Columns -> bins -> basis rows, once per fit: what is as long as the data or as their bins and
// should cost a pass or a sort. Knows numbers, points and knots; knows nothing of tables, learners,
// smoothing or the loop.
//
// A missing cell is NaN. `training` marks the rows that decide; an empty mask means all of them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

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

// --- what a column holds ------------------------------------------------------------------------

struct Survey {
  Real low, high;    // of the training rows; low > high: they have no number
  Size missing;      // cells of the training rows
  Size all_missing;  // cells of all rows
  bool infinite;     // some cell of all rows is
};

// Least, largest and missing, in lanes so that the compiler may use vectors. Comparisons with NaN
// are false and change nothing.
class Range {
 public:
  static constexpr Size lanes = 8;
  Range() {
    low_.fill(infinity);
    high_.fill(-infinity);
  }
  void take(const Real* x) {
    for (Size l = 0; l < lanes; ++l) {
      low_[l] = x[l] < low_[l] ? x[l] : low_[l];
      high_[l] = x[l] > high_[l] ? x[l] : high_[l];
      missing_[l] += x[l] != x[l] ? 1U : 0U;
    }
  }
  Real low() const { return *std::min_element(low_.begin(), low_.end()); }
  Real high() const { return *std::max_element(high_.begin(), high_.end()); }
  Size missing() const {
    Size total = 0;
    for (const auto m : missing_) total += m;
    return total;
  }

 private:
  std::array<Real, lanes> low_, high_;
  std::array<std::uint64_t, lanes> missing_{};
};

inline Survey survey(In values, Mask training) {
  constexpr Size lanes = Range::lanes;
  check_mask(training, values.size());
  Range all, part;
  Size padded = 0, outside = 0;  // NaN that stand for no cell, for a cell of another row
  std::array<Real, lanes> block;
  for (Size i = 0; i < values.size(); i += lanes) {
    const Size n = std::min(lanes, values.size() - i);
    const Real* x = values.data() + i;
    if (n < lanes) {
      block.fill(not_a_number);
      std::copy(x, x + n, block.begin());
      padded = lanes - n;
      x = block.data();
    }
    all.take(x);
    if (training.empty()) continue;
    std::array<Real, lanes> seen;
    for (Size l = 0; l < lanes; ++l) {
      const bool in = l < n && training[i + l];
      seen[l] = in ? x[l] : not_a_number;
      outside += in ? 0U : 1U;
    }
    part.take(seen.data());
  }
  const Size all_missing = all.missing() - padded;
  const bool infinite = all.low() == -infinity || all.high() == infinity;
  if (training.empty()) return {all.low(), all.high(), all_missing, all_missing, infinite};
  return {part.low(), part.high(), part.missing() - outside, all_missing, infinite};
}

// The distinct numbers of the training rows, increasing; more than `limit`: nothing, and soon.
// -0 is 0.
inline bool distinct(In values, Mask training, Size limit, Vec& out) {
  check_mask(training, values.size());
  const Size size = std::bit_ceil(4 * limit + 4);
  const int shift = 64 - std::countr_zero(size);
  Vec table(size, not_a_number);  // open addressing; NaN: free
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

// Numbers in the order of unsigned integers; -0 becomes 0.
inline std::uint64_t key_of(Real x) {
  const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
  return bits ^ (bits >> 63 ? ~std::uint64_t{0} : std::uint64_t{1} << 63);
}
inline Real number_of(std::uint64_t key) {
  return std::bit_cast<Real>(key ^ (key >> 63 ? std::uint64_t{1} << 63 : ~std::uint64_t{0}));
}

struct Cell {
  std::uint64_t key;
  std::uint32_t row;
};
inline std::uint64_t key_of(const Cell& cell) { return cell.key; }
inline std::uint64_t key_of(std::uint64_t key) { return key; }
inline bool before(const Cell& a, const Cell& b) {
  return a.key != b.key ? a.key < b.key : a.row < b.row;
}
inline bool before(std::uint64_t a, std::uint64_t b) { return a < b; }

// Sorts keys, or cells by key; equal keys stay in the order of their rows. Least digit first, 11
// bits at a time, digits that all keys share left out; few of them by comparison.
template <class T>
void sort_keys(std::vector<T>& items) {
  constexpr Size digits = 6, bits = 11, buckets = Size{1} << bits;
  if (items.size() < 2048) {
    std::sort(items.begin(), items.end(), [](const T& a, const T& b) { return before(a, b); });
    return;
  }
  std::vector<std::uint32_t> counts(digits * buckets, 0);
  for (const T& item : items)
    for (Size d = 0; d < digits; ++d)
      ++counts[d * buckets + ((key_of(item) >> (d * bits)) & (buckets - 1))];
  std::vector<T> other(items.size());
  for (Size d = 0; d < digits; ++d) {
    std::uint32_t* const count = counts.data() + d * buckets;
    if (count[(key_of(items[0]) >> (d * bits)) & (buckets - 1)] == items.size()) continue;
    std::uint32_t begin = 0;
    for (Size b = 0; b < buckets; ++b) begin += std::exchange(count[b], begin);
    for (const T& item : items) other[count[(key_of(item) >> (d * bits)) & (buckets - 1)]++] = item;
    items.swap(other);
  }
}

inline void check_rows(Size n) {
  if (n > std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument("a column has more rows than a sort can number");
}

// The cells of some rows in the order of their values, the missing left out.
inline std::vector<Cell> sorted_cells(In values, Mask training) {
  check_mask(training, values.size());
  check_rows(values.size());
  std::vector<Cell> cells;
  cells.reserve(values.size());
  for (Size i = 0; i < values.size(); ++i)
    if (values[i] == values[i] && decides(training, i))
      cells.push_back({key_of(values[i]), static_cast<std::uint32_t>(i)});
  sort_keys(cells);
  return cells;
}

// Midpoints of the intervals that minimise the weighted check loss, for increasing shares q of the
// training rows; without weights all rows weigh 1.
inline Vec quantiles(In values, Mask training, In weights, In shares) {
  if (!weights.empty() && weights.size() != values.size())
    throw std::invalid_argument("weights must have one number per row");
  Vec sorted, reached;
  if (weights.empty()) {
    check_mask(training, values.size());
    check_rows(values.size());
    std::vector<std::uint64_t> keys;
    keys.reserve(values.size());
    for (Size i = 0; i < values.size(); ++i)
      if (values[i] == values[i] && decides(training, i)) keys.push_back(key_of(values[i]));
    sort_keys(keys);
    for (const auto key : keys) sorted.push_back(number_of(key));
  } else {
    Real total = 0.0;
    for (const Cell& cell : sorted_cells(values, training)) {
      sorted.push_back(number_of(cell.key));
      reached.push_back(total += weights[cell.row]);
    }
  }
  if (sorted.empty()) throw std::invalid_argument("quantiles of no numbers");
  const Size top = sorted.size() - 1;
  const auto reach = [&](Size i) {
    return reached.empty() ? static_cast<Real>(i + 1) : reached[i];
  };
  const Real total = reach(top), slack = 1e-12 * total;  // reached is rounded
  const auto first = [&](auto fits) {  // the first position that fits, at most the last
    Size low = 0, high = top;
    while (low < high) {
      const Size middle = low + (high - low) / 2;
      if (fits(reach(middle)))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  };
  Vec out;
  for (const Real q : shares) {
    const Real at = q * total;
    const Real low = sorted[first([&](Real r) { return r >= at - slack; })];
    const Real high = sorted[first([&](Real r) { return r > at + slack; })];
    out.push_back(low + (high - low) / 2);
  }
  return out;
}

// The distinct numbers of the training rows and the weight of each, added up in row order.
inline std::pair<Vec, Vec> weigh_distinct(In values, Mask training, In weights) {
  if (!weights.empty() && weights.size() != values.size())
    throw std::invalid_argument("weights must have one number per row");
  Vec numbers, sums;
  std::uint64_t last = 0;
  for (const Cell& cell : sorted_cells(values, training)) {
    if (numbers.empty() || cell.key != last) {
      numbers.push_back(number_of(cell.key));
      sums.push_back(0.0);
      last = cell.key;
    }
    sums.back() += weights.empty() ? 1.0 : weights[cell.row];
  }
  return {std::move(numbers), std::move(sums)};
}

// --- bins ---------------------------------------------------------------------------------------

// Calls `use` with a number of the type that holds the bins in as few bits as possible.
template <class Use>
void with_width(Size n_bins, Use use) {
  if (n_bins <= Size{1} << 8)
    use(std::uint8_t{});
  else if (n_bins <= Size{1} << 16)
    use(std::uint16_t{});
  else
    use(std::uint32_t{});
}

// One bin per distinct value by a single sort: first those that training rows have, increasing,
// then the others, increasing, then the missing. `cells` are all cells there are.
struct ExactBins {
  std::vector<Cell> cells;
  std::vector<std::uint32_t> bin;  // of each cell
  Vec values;                      // what each bin stands for
  Size n_rows;

  ExactBins(In column, Mask training) : cells(sorted_cells(column, {})), n_rows(column.size()) {
    check_mask(training, n_rows);
    bin.resize(cells.size());
    Vec others;
    constexpr std::uint32_t other = std::uint32_t{1} << 31;  // marks bins of values of no training
    if (n_rows >= other) throw std::invalid_argument("exact bins of more than 2^31 rows");
    for (Size i = 0, end = 0; i < cells.size(); i = end) {
      bool seen = false;
      for (; end < cells.size() && cells[end].key == cells[i].key; ++end)
        seen = seen || decides(training, cells[end].row);
      Vec& group = seen ? values : others;
      const auto number = static_cast<std::uint32_t>(group.size()) | (seen ? 0 : other);
      std::fill(bin.begin() + static_cast<std::ptrdiff_t>(i),
                bin.begin() + static_cast<std::ptrdiff_t>(end), number);
      group.push_back(number_of(cells[i].key));
    }
    if (!others.empty())
      for (auto& b : bin)
        if (b & other) b = (b & ~other) + static_cast<std::uint32_t>(values.size());
    values.insert(values.end(), others.begin(), others.end());
    if (cells.size() < n_rows) values.push_back(not_a_number);
  }

  template <class T>
  void write(std::span<T> index) const {
    if (cells.size() < n_rows)
      std::fill(index.begin(), index.end(), static_cast<T>(values.size() - 1));
    for (Size i = 0; i < cells.size(); ++i) index[cells[i].row] = static_cast<T>(bin[i]);
  }
};

// The nearest of `size` equally spaced points, halves up; NaN goes to bin `missing`. Returns how
// many values lie beyond the points.
template <class T>
Size assign_equal(In values, Real first, Real last, Size size, Size missing, std::span<T> index) {
  const Real step = (last - first) / static_cast<Real>(size - 1);
  const Real top = static_cast<Real>(size - 1);
  const auto nowhere = static_cast<std::int32_t>(missing);
  std::uint32_t beyond = 0;
  Size total = 0;
  constexpr Size block = 1 << 12;
  for (Size begin = 0; begin < values.size(); begin += block, beyond = 0) {
    const Size n = std::min(block, values.size() - begin);
    const Real* const x = values.data() + begin;
    T* const out = index.data() + begin;
    for (Size i = 0; i < n; ++i) {
      const Real at = (x[i] - first) / step + 0.5;
      const Real inside = at > 0.0 ? (at < top ? at : top) : 0.0;  // 0 for NaN
      const auto bin = static_cast<std::int32_t>(inside);
      out[i] = static_cast<T>(x[i] == x[i] ? bin : nowhere);
      beyond += (x[i] < first ? 1U : 0U) + (x[i] > last ? 1U : 0U);
    }
    total += beyond;
  }
  return total;
}

// How many of increasing cuts are at most x (`closed`), or below it: the cuts of one cell of an
// equally spaced grid are searched, the cells before it are known to lie below. (The number of a
// cell never falls as x rises, rounded or not.)
class CutSearch {
 public:
  CutSearch(In cuts, Size n_values) : cuts_(cuts) {
    if (cuts.size() < 8 || n_values < 4 * cuts.size()) return;
    low_ = cuts.front();
    const Real width = cuts.back() - low_;
    cells_ = 2 * cuts.size();
    scale_ = static_cast<Real>(cells_ - 1) / width;
    if (!(width > 0.0) || !std::isfinite(width) || !std::isfinite(scale_)) {
      cells_ = 0;
      return;
    }
    begin_.assign(cells_ + 1, 0);
    for (const Real cut : cuts) ++begin_[cell(cut) + 1];
    for (Size c = 0; c < cells_; ++c) begin_[c + 1] += begin_[c];
  }

  template <bool closed>
  Size operator()(Real x) const {
    Size low = 0, high = cuts_.size();
    if (cells_ > 0) {
      const Size c = cell(x);
      low = begin_[c];
      high = begin_[c + 1];
    }
    while (high - low > 4) {
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
  Size cell(Real x) const {
    const Real at = (x - low_) * scale_;
    if (!(at > 0.0)) return 0;
    return at < static_cast<Real>(cells_ - 1) ? static_cast<Size>(at) : cells_ - 1;
  }
  In cuts_;
  Real low_ = 0.0, scale_ = 0.0;
  Size cells_ = 0;  // 0: the cuts are searched as they are
  std::vector<std::uint32_t> begin_;
};

// The nearest of increasing points, halves up; NaN goes to bin `missing`. Returns how many values
// lie beyond the points or, if only their own values will do (`exact`), are none of them.
template <class T>
Size assign_nearest(In values, In points, bool exact, Size missing, std::span<T> index) {
  Vec middles;
  for (Size i = 0; i + 1 < points.size(); ++i)
    middles.push_back(points[i] + (points[i + 1] - points[i]) / 2);
  const CutSearch search(middles, values.size());
  const Real first = points.front(), last = points.back();
  Size beyond = 0;
  for (Size i = 0; i < values.size(); ++i) {
    const Real x = values[i];
    const Size bin = x == x ? search.operator()<true>(x) : missing;
    index[i] = static_cast<T>(bin);
    if (x == x) beyond += (exact ? x != points[bin] : x < first || x > last) ? 1U : 0U;
  }
  return beyond;
}

// The number of cuts below each value; NaN goes to bin `missing`.
template <class T>
void assign_cuts(In values, In cuts, Size missing, std::span<T> index) {
  const CutSearch search(cuts, values.size());
  for (Size i = 0; i < values.size(); ++i)
    index[i] =
        static_cast<T>(values[i] == values[i] ? search.operator()<false>(values[i]) : missing);
}

// --- B-splines ----------------------------------------------------------------------------------

// Rows of a B-spline basis by de Boor's recursion: degree + 1 entries each, beyond the range those
// of its end continued by their slopes (`linear`) or as they are. NaN is one entry in a column
// behind the splines.
class Splines {
 public:
  static constexpr Size max_degree = 16;
  Splines(In knots, Size degree, bool linear) : knots_(knots), degree_(degree), linear_(linear) {
    if (degree > max_degree || knots.size() < 2 * degree + 2)
      throw std::invalid_argument("splines: too few knots for the degree");
    low_ = knots[degree];
    high_ = knots[n_splines()];
    at_ = degree;
  }
  Size n_splines() const { return knots_.size() - degree_ - 1; }

  // Writes the rows and returns how many entries they have.
  Size write(In values, std::span<std::int64_t> begin, std::span<std::int32_t> column, Out value) {
    if (begin.size() != values.size() + 1 || column.size() != value.size() ||
        value.size() < values.size() * (degree_ + 1))
      throw std::invalid_argument("splines: the rows do not fit the arrays");
    Size e = 0;
    begin[0] = 0;
    for (Size i = 0; i < values.size(); ++i) {
      if (values[i] != values[i]) {
        column[e] = static_cast<std::int32_t>(n_splines());
        value[e++] = 1.0;
      } else {
        row(values[i], value.data() + e);
        for (Size j = 0; j <= degree_; ++j)
          column[e + j] = static_cast<std::int32_t>(at_ - degree_ + j);
        e += degree_ + 1;
      }
      begin[i + 1] = static_cast<std::int64_t>(e);
    }
    return e;
  }

 private:
  void row(Real x, Real* out) {
    const Real inside = std::clamp(x, low_, high_);
    find(inside);
    basis(inside, degree_, out);
    if (inside == x || !linear_ || degree_ == 0) return;
    std::array<Real, max_degree + 2> lower{};  // of degree - 1, between two zeros
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

  void find(Real x) {  // at_: the interval of x, the last one closed; values mostly come sorted
    const Size last = n_splines() - 1;
    if (x >= knots_[at_] && (x < knots_[at_ + 1] || at_ == last)) return;
    const auto* const from = knots_.data() + degree_ + 1;
    const auto* const to = knots_.data() + n_splines();
    at_ = std::min(last, degree_ + static_cast<Size>(std::upper_bound(from, to, x) - from));
  }

  void basis(Real x, Size degree, Real* out) const {  // the degree + 1 splines that are not zero
    std::array<Real, max_degree + 1> left, right;
    out[0] = 1.0;
    for (Size j = 1; j <= degree; ++j) {
      left[j] = x - knots_[at_ + 1 - j];
      right[j] = knots_[at_ + j] - x;
      Real saved = 0.0;
      for (Size r = 0; r < j; ++r) {
        const Real part = out[r] / (right[r + 1] + left[j - r]);
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
  Size at_;
};

}  // namespace cwboost
