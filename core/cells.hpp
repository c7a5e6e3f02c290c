// Two-way tables with a weight per cell (i, j): removes the additive part f(i) + g(j).
// Does not know about columns, rows or smoothing.
//
// With M the additive functions over cells and W the diagonal matrix of weights,
// Q = I - M (M'WM)^- M'W removes the additive part from a table, and Q' removes from sums by cell
// what an additive fit would explain. M'WM is solved by eliminating the first margin: with the sums
// r of W along j and c along i, the second margin has the matrix C = diag(c) - W' diag(1/r) W. It
// is singular (the constant is in both margins, and cells may be empty); any generalised inverse
// works.
#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>

#include "kernels.hpp"
#include "types.hpp"

namespace cwboost {

// A generalised inverse of a symmetric positive semidefinite matrix, in place by Gauss-Jordan. It
// is zero for directions that depend on earlier ones: those with pivots not above `least`.
inline void invert(Out m, In least) {
  const Size d = least.size();
  Vec row(d);
  std::vector<bool> done(d);
  for (Size k = 0; k < d; ++k) {
    const Real pivot = m[k * d + k];
    done[k] = pivot > least[k];
    if (!done[k]) continue;
    for (Size j = 0; j < d; ++j) row[j] = m[k * d + j];
    for (Size i = 0; i < d; ++i) {
      if (i == k) continue;
      const Real f = m[i * d + k] / pivot;
      if (f == 0.0) continue;
      for (Size j = 0; j < d; ++j) m[i * d + j] -= f * row[j];
      m[i * d + k] = -f;
    }
    for (Size j = 0; j < d; ++j) m[k * d + j] = row[j] / pivot;
    m[k * d + k] = 1.0 / pivot;
  }
  for (Size i = 0; i < d; ++i)
    for (Size j = 0; j < d; ++j)
      if (!done[i] || !done[j]) m[i * d + j] = 0.0;
}

class Cells {
 public:
  static constexpr Real dependent =
      1e-12;  // pivots below this share of the weight of a level are rounding

  Cells(In weights, Size n_b) : n_b_(n_b), w_(weights.begin(), weights.end()) {
    if (n_b == 0 || w_.empty() || w_.size() % n_b != 0)
      throw std::invalid_argument("a table needs one cell per pair of levels");
    n_a_ = w_.size() / n_b;
    per_a_.assign(n_a_, 0.0);
    Vec least(n_b_);
    inverse_.assign(n_b_ * n_b_, 0.0);
    for (Size i = 0; i < n_a_; ++i) {
      const Real* const w = &w_[i * n_b_];
      Real sum = 0.0;
      for (Size j = 0; j < n_b_; ++j) sum += w[j];
      if (sum <= 0.0) continue;
      per_a_[i] = 1.0 / sum;
      for (Size j = 0; j < n_b_; ++j) {
        if (w[j] == 0.0) continue;
        least[j] += dependent * w[j];
        inverse_[j * n_b_ + j] += w[j];
        for (Size l = 0; l < n_b_; ++l) inverse_[j * n_b_ + l] -= w[j] * per_a_[i] * w[l];
      }
    }
    invert(inverse_, least);
  }

  Size n_a() const { return n_a_; }
  Size n_b() const { return n_b_; }
  Size size() const { return w_.size(); }
  In weights() const { return w_; }
  // Every table is the sum of an additive table and one that is zero where i = 0 or j = 0. The
  // other cells are the inner cells.
  Size n_inner() const { return (n_a_ - 1) * (n_b_ - 1); }

  void center_sums(Out s) const {  // s := Q's
    Vec f(n_a_), g(n_b_);
    solve(s, f, g);
    for (Size i = 0; i < n_a_; ++i)
      for (Size j = 0; j < n_b_; ++j) s[i * n_b_ + j] -= w_[i * n_b_ + j] * (f[i] + g[j]);
  }

  void center(Out x) const {  // x := Q x
    Vec f(n_a_), g(n_b_), weighted(x.size());
    for (Size c = 0; c < x.size(); ++c) weighted[c] = w_[c] * x[c];
    solve(weighted, f, g);
    for (Size i = 0; i < n_a_; ++i)
      for (Size j = 0; j < n_b_; ++j) x[i * n_b_ + j] -= f[i] + g[j];
  }

  // Q'WQ restricted to the inner cells: (n_inner, n_inner).
  Vec inner_gram() const {
    const Size m = n_inner();
    Vec mixed(n_a_ * n_b_), both(n_a_ * n_a_);  // blocks (a, b), negated, and (a, a) of (M'WM)^-
    for (Size i = 0; i < n_a_; ++i)
      for (Size l = 0; l < n_b_; ++l) {
        const Real f = per_a_[i] * w_[i * n_b_ + l];
        if (f == 0.0) continue;
        for (Size j = 0; j < n_b_; ++j) mixed[i * n_b_ + j] += f * inverse_[l * n_b_ + j];
      }
    for (Size i = 0; i < n_a_; ++i)
      for (Size l = 0; l < n_a_; ++l) {
        Real sum = 0.0;
        for (Size j = 0; j < n_b_; ++j) sum += mixed[i * n_b_ + j] * w_[l * n_b_ + j];
        both[i * n_a_ + l] = sum * per_a_[l] + (i == l ? per_a_[i] : 0.0);
      }
    Vec out(m * m);
    Real* to = out.data();
    for (Size i = 1; i < n_a_; ++i)
      for (Size j = 1; j < n_b_; ++j) {
        const Real wz = w_[i * n_b_ + j];
        for (Size k = 1; k < n_a_; ++k) {
          const Real here = both[i * n_a_ + k] - mixed[k * n_b_ + j];
          const Real* const of_j = &inverse_[j * n_b_];
          for (Size l = 1; l < n_b_; ++l)
            *to++ = -wz * w_[k * n_b_ + l] * (here - mixed[i * n_b_ + l] + of_j[l]);
        }
      }
    Size z = 0;
    for (Size i = 1; i < n_a_; ++i)
      for (Size j = 1; j < n_b_; ++j, ++z) out[z * m + z] += w_[i * n_b_ + j];
    return out;
  }

  void take_inner(In x, Out inner) const {
    auto to = inner.begin();
    for (Size i = 1; i < n_a_; ++i) to = std::copy_n(x.begin() + i * n_b_ + 1, n_b_ - 1, to);
  }
  void put_inner(In inner, Out x) const {  // zeros elsewhere
    std::fill(x.begin(), x.end(), 0.0);
    auto from = inner.begin();
    for (Size i = 1; i < n_a_; ++i, from += n_b_ - 1)
      std::copy_n(from, n_b_ - 1, x.begin() + i * n_b_ + 1);
  }

 private:
  void solve(In s, Out f, Out g) const {  // (f, g) = (M'WM)^- M's
    Vec rest(n_b_);
    for (Size i = 0; i < n_a_; ++i) {
      Real sum = 0.0;
      for (Size j = 0; j < n_b_; ++j) sum += s[i * n_b_ + j];
      f[i] = sum * per_a_[i];
      for (Size j = 0; j < n_b_; ++j) rest[j] += s[i * n_b_ + j] - f[i] * w_[i * n_b_ + j];
    }
    for (Size j = 0; j < n_b_; ++j) {
      Real sum = 0.0;
      for (Size l = 0; l < n_b_; ++l) sum += inverse_[j * n_b_ + l] * rest[l];
      g[j] = sum;
    }
    for (Size i = 0; i < n_a_; ++i) {
      Real sum = 0.0;
      for (Size j = 0; j < n_b_; ++j) sum += w_[i * n_b_ + j] * g[j];
      f[i] -= sum * per_a_[i];
    }
  }

  Size n_a_ = 0, n_b_;
  Vec w_;        // (n_a, n_b)
  Vec per_a_;    // (n_a) 1 / r; zero for empty levels
  Vec inverse_;  // (n_b, n_b) generalised inverse of C
};

// x := (L L')^-1 x with a Cholesky factor L, stored column by column from the diagonal down.
CWBOOST_KERNEL inline void solve_columns(const Real* l, Size d, Real* x) {
  for (Size j = 0; j < d; l += d - j, ++j) {
    const Real z = x[j] /= l[0];
    for (Size i = 1; i < d - j; ++i) x[j + i] -= l[i] * z;
  }
  for (Size j = d; j-- > 0;) {
    const Size n = d - j;
    l -= n;
    std::array<Real, lanes> sums{};
    Size i = 1;
    for (; i + lanes <= n; i += lanes)
      for (Size c = 0; c < lanes; ++c) sums[c] += l[i + c] * x[j + i + c];
    Real sum = 0.0;
    for (; i < n; ++i) sum += l[i] * x[j + i];
    for (const Real part : sums) sum += part;
    x[j] = (x[j] - sum) / l[0];
  }
}

// A dense Cholesky factor.
class Triangle {
 public:
  Triangle() = default;
  Triangle(In lower, Size d) : d_(d) {
    columns_.reserve(d * (d + 1) / 2);
    for (Size j = 0; j < d; ++j)
      for (Size i = j; i < d; ++i) columns_.push_back(lower[i * d + j]);
  }
  void solve(Out x) const { solve_columns(columns_.data(), d_, x.data()); }

 private:
  Size d_ = 0;
  Vec columns_;
};

}  // namespace cwboost
