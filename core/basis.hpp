// A basis over bins, a sparse matrix (n_bins, n_coef), and products with it.
// Does not know which functions its columns are (the Python package terms makes them).
#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "types.hpp"

namespace cwboost {

// A basis in compressed rows: row b holds value[begin[b] .. begin[b+1]) at the columns column[same
// range]. Most bases are narrow: every row has at most four adjacent entries. Such rows are also
// stored in a fixed width, padded with zeros: (n_bins, width) values from column start[b] on. If
// the values came in this form they are not copied.
class Basis {
 public:
  static constexpr Size max_width = 4;

  Basis(std::span<const std::int64_t> begin, std::span<const std::int32_t> column, In value,
        Size n_coef)
      : begin_(begin), column_(column), value_(value), n_coef_(n_coef) {
    check();
    find_width();
  }

  Size n_bins() const { return begin_.size() - 1; }
  Size n_coef() const { return n_coef_; }
  Size first(Size b) const { return static_cast<Size>(begin_[b]); }
  Size column(Size e) const { return static_cast<Size>(column_[e]); }
  Real value(Size e) const { return value_[e]; }
  In values() const { return value_; }
  std::span<const std::int32_t> columns() const { return column_; }

  Size width() const { return width_; }  // 1, 2 or 4; 0 if not narrow
  const Real* narrow() const { return padded_.empty() ? value_.data() : padded_.data(); }
  const std::uint32_t* starts() const { return start_.data(); }

  void multiply(In theta, Out out) const {  // out = B theta
    for (Size b = 0; b < n_bins(); ++b) {
      Real sum = 0.0;
      for (Size e = first(b); e < first(b + 1); ++e) sum += value_[e] * theta[column(e)];
      out[b] = sum;
    }
  }

  void transpose_multiply(In u, Out s) const {  // s = B'u
    std::fill(s.begin(), s.end(), 0.0);
    switch (width_) {
      case 1:
        return by_runs<1>(u, s);
      case 2:
        return by_runs<2>(u, s);
      case 4:
        return by_runs<4>(u, s);
      default:
        for (Size b = 0; b < n_bins(); ++b)
          for (Size e = first(b); e < first(b + 1); ++e) s[column(e)] += value_[e] * u[b];
    }
  }

 private:
  void check() const {  // a wrong index would read outside the arrays
    if (begin_.empty() || begin_[0] != 0 || first(n_bins()) != value_.size() ||
        column_.size() != value_.size())
      throw std::invalid_argument("basis: row pointers do not fit the values");
    for (Size b = 0; b < n_bins(); ++b)
      if (begin_[b] > begin_[b + 1])
        throw std::invalid_argument("basis: row pointers must not fall");
    for (const auto c : column_)
      if (c < 0 || static_cast<Size>(c) >= n_coef_)
        throw std::invalid_argument("basis: column outside the coefficients");
  }

  void find_width() {
    Size widest = 1;
    bool ready = true;  // the values have the fixed width already
    for (Size b = 0; b < n_bins(); ++b) {
      const auto [least, largest] = columns(b);
      widest = std::max(widest, largest - least + 1);
      if (widest > max_width) return;
    }
    if (widest == 3) widest = 4;
    if (widest > n_coef_) return;
    width_ = widest;
    start_.resize(n_bins());
    for (Size b = 0; b < n_bins(); ++b) {
      const Size at = std::min(columns(b).first, n_coef_ - width_);
      start_[b] = static_cast<std::uint32_t>(at);
      ready = ready && first(b + 1) - first(b) == width_;
      for (Size e = first(b); ready && e < first(b + 1); ++e)
        ready = column(e) == at + (e - first(b));
      if (b == 0 || start_[b] != start_[b - 1]) runs_.push_back(b);
    }
    runs_.push_back(n_bins());
    if (ready) return;
    padded_.assign(n_bins() * width_, 0.0);
    for (Size b = 0; b < n_bins(); ++b)
      for (Size e = first(b); e < first(b + 1); ++e)
        padded_[b * width_ + column(e) - start_[b]] += value_[e];
  }

  std::pair<Size, Size> columns(Size b) const {  // the first and the last column of a row
    Size least = n_coef_ - 1, largest = 0;
    for (Size e = first(b); e < first(b + 1); ++e) {
      least = std::min(least, column(e));
      largest = std::max(largest, column(e));
    }
    return {least, std::max(least, largest)};
  }

  // Sums runs of bins with the same start in four independent chains, so that no addition waits for
  // the previous one.
  template <Size W>
  void by_runs(In u, Out s) const {
    const Real* const rows = narrow();
    for (Size k = 0; k + 1 < runs_.size(); ++k) {
      const Size end = runs_[k + 1];
      std::array<std::array<Real, W>, 4> chain{};
      Size b = runs_[k];
      for (; b + 4 <= end; b += 4)
        for (Size c = 0; c < 4; ++c)
          for (Size p = 0; p < W; ++p) chain[c][p] += rows[(b + c) * W + p] * u[b + c];
      for (Size c = 0; b < end; ++b, ++c)
        for (Size p = 0; p < W; ++p) chain[c][p] += rows[b * W + p] * u[b];
      Real* const to = s.data() + start_[runs_[k]];
      for (Size p = 0; p < W; ++p)
        to[p] += (chain[0][p] + chain[1][p]) + (chain[2][p] + chain[3][p]);
    }
  }

  std::span<const std::int64_t> begin_;   // (n_bins + 1)
  std::span<const std::int32_t> column_;  // (n_nonzero)
  In value_;                              // (n_nonzero)
  Size n_coef_;
  Size width_ = 0;
  Vec padded_;                        // (n_bins, width); empty if value_ has this form
  std::vector<std::uint32_t> start_;  // (n_bins)
  std::vector<Size> runs_;            // first bin of each run with the same start, then n_bins
};

}  // namespace cwboost
