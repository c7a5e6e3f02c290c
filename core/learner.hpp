// The column side: one learner turns bin sums into coefficients and their gain, and coefficients
// into bin values. Knows nothing of rows, columns, losses or of how its basis was made.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "types.hpp"

namespace cwboost {

// Basis over bins in compressed rows: row b holds value[begin[b] .. begin[b+1]) at those columns.
struct Basis {
  std::span<const std::int64_t> begin;   // (n_bins + 1)
  std::span<const std::int32_t> column;  // (n_nonzero)
  In value;                              // (n_nonzero)
  Size n_bins() const { return begin.size() - 1; }
};

struct Fit {
  Vec theta;  // (n_coef) per output
  Real gain = 0.0;
};

// With basis B, bin weights W, A = B' diag(W) B and bin sums u of the residual:
//   s = B'u,  theta = M s,  gain = 2 theta's - theta'A theta,
// where M = (A + lambda P)^-1, given by its Cholesky factor or, if all is diagonal, its inverse.
// A learner made orthogonal to a few functions of its own span (Centered) has M = Q (..)^-1 Q' with
// Q = I - G R', R = A G (G'A G)^-1 and G their coefficients.
class Learner {
 public:
  Learner(Size set, Basis basis, Size n_coef, bool diagonal, In gram, In factor, In removed = {},
          In weigher = {})
      : set_(set),
        basis_(basis),
        n_coef_(n_coef),
        diagonal_(diagonal),
        gram_(gram),
        factor_(factor),
        removed_(removed),
        weigher_(weigher) {
    const Size entries = diagonal ? n_coef : n_coef * n_coef;
    if (n_coef == 0 || gram.size() != entries || factor.size() != entries)
      throw std::invalid_argument("gram and factor must both be (d, d) or both be (d)");
    if (removed.size() % n_coef != 0 || removed.size() != weigher.size())
      throw std::invalid_argument("removed and weigher must both be (k, d)");
    check_basis();
  }

  Size set() const { return set_; }
  Size n_coef() const { return n_coef_; }
  Size n_bins() const { return basis_.n_bins(); }

  Fit fit(In sums, Size n_outputs) const {
    if (sums.size() != n_bins() * n_outputs)
      throw std::invalid_argument("a learner needs one sum per bin and output");
    Fit out{Vec(n_coef_ * n_outputs), 0.0};
    Vec s(n_coef_);
    for (Size o = 0; o < n_outputs; ++o) {
      transpose_multiply(sums.subspan(o * n_bins(), n_bins()), s);
      const Out theta(out.theta.data() + o * n_coef_, n_coef_);
      solve(s, theta);
      out.gain += gain(s, theta);
    }
    return out;
  }

  Vec bin_values(In theta, Size n_outputs) const {  // (n_bins) per output
    Vec out(n_bins() * n_outputs);
    for (Size o = 0; o < n_outputs; ++o)
      for (Size b = 0; b < n_bins(); ++b) {
        Real sum = 0.0;
        for (Size e = first(b); e < first(b + 1); ++e)
          sum += basis_.value[e] * theta[o * n_coef_ + col(e)];
        out[o * n_bins() + b] = sum;
      }
    return out;
  }

 private:
  Size first(Size b) const { return static_cast<Size>(basis_.begin[b]); }
  Size col(Size e) const { return static_cast<Size>(basis_.column[e]); }

  void check_basis() const {  // a wrong index would read outside the arrays
    if (basis_.begin.empty() || basis_.begin[0] != 0 || first(n_bins()) != basis_.value.size() ||
        basis_.column.size() != basis_.value.size())
      throw std::invalid_argument("basis: row pointers do not fit the values");
    for (Size b = 0; b < n_bins(); ++b)
      if (basis_.begin[b] > basis_.begin[b + 1])
        throw std::invalid_argument("basis: row pointers must not fall");
    for (const auto c : basis_.column)
      if (c < 0 || static_cast<Size>(c) >= n_coef_)
        throw std::invalid_argument("basis: column outside the coefficients");
  }

  void transpose_multiply(In u, Out s) const {  // s = B'u
    std::fill(s.begin(), s.end(), 0.0);
    for (Size b = 0; b < n_bins(); ++b)
      for (Size e = first(b); e < first(b + 1); ++e) s[col(e)] += basis_.value[e] * u[b];
  }

  void solve(In s, Out theta) const {
    std::copy(s.begin(), s.end(), theta.begin());
    project(removed_, weigher_, theta);  // Q's = s - R G's
    if (diagonal_) {
      for (Size j = 0; j < n_coef_; ++j) theta[j] /= factor_[j];
    } else {
      for (Size i = 0; i < n_coef_; ++i) {  // L z = s
        Real z = theta[i];
        for (Size j = 0; j < i; ++j) z -= factor_[i * n_coef_ + j] * theta[j];
        theta[i] = z / factor_[i * n_coef_ + i];
      }
      for (Size i = n_coef_; i-- > 0;) {  // L' theta = z, by rows of L
        theta[i] /= factor_[i * n_coef_ + i];
        for (Size j = 0; j < i; ++j) theta[j] -= factor_[i * n_coef_ + j] * theta[i];
      }
    }
    project(weigher_, removed_, theta);  // Q theta = theta - G R'theta
  }

  // x -= sum_k onto_k <along_k, x>, the products all taken before x changes.
  void project(In along, In onto, Out x) const {
    const Size k = along.size() / n_coef_;
    Vec dot(k);
    for (Size l = 0; l < k; ++l)
      for (Size j = 0; j < n_coef_; ++j) dot[l] += along[l * n_coef_ + j] * x[j];
    for (Size l = 0; l < k; ++l)
      for (Size j = 0; j < n_coef_; ++j) x[j] -= onto[l * n_coef_ + j] * dot[l];
  }

  // This form of the gain: theta's + lambda theta'P theta loses two digits at large lambda.
  Real gain(In s, In theta) const {
    Real linear = 0.0, quadratic = 0.0;
    for (Size i = 0; i < n_coef_; ++i) linear += theta[i] * s[i];
    if (diagonal_) {
      for (Size i = 0; i < n_coef_; ++i) quadratic += gram_[i] * theta[i] * theta[i];
    } else {
      for (Size i = 0; i < n_coef_; ++i) {
        Real row = 0.0;
        for (Size j = 0; j < n_coef_; ++j) row += gram_[i * n_coef_ + j] * theta[j];
        quadratic += theta[i] * row;
      }
    }
    return 2.0 * linear - quadratic;
  }

  Size set_;
  Basis basis_;
  Size n_coef_;
  bool diagonal_;
  In gram_;     // A: (d, d), or its diagonal (d)
  In factor_;   // lower Cholesky factor of A + lambda P (d, d), or A + lambda P itself (d)
  In removed_;  // G': (k, d)
  In weigher_;  // R': (k, d)
};

}  // namespace cwboost
