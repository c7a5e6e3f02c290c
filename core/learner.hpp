// A learner: turns bin sums into coefficients and their gain, and coefficients into bin values.
// Does not know about rows, columns or losses, nor how its basis and smoothing were found.
#pragma once

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "basis.hpp"
#include "cells.hpp"
#include "types.hpp"

namespace cwboost {

// A symmetric or lower triangular band matrix: the diagonals up to the last that is not zero.
// P-splines have four.
class Band {
 public:
  Band() = default;
  Band(In full, Size d) : d_(d) {
    for (Size i = 0; i < d; ++i)
      for (Size j = 0; j < i; ++j)
        if (full[i * d + j] != 0.0) reach_ = std::max(reach_, i - j);
    values_.assign(d * (reach_ + 1), 0.0);
    for (Size i = 0; i < d; ++i)
      for (Size j = i - std::min(i, reach_); j <= i; ++j) row(i)[j] = full[i * d + j];
  }
  // row(i)[j] is the entry (i, j), i - reach <= j <= i
  const Real* row(Size i) const { return values_.data() + i * reach_ + reach_; }

  Real quadratic(In x) const {  // x'Ax for a symmetric matrix
    Real sum = 0.0;
    for (Size i = 0; i < d_; ++i) {
      Real below = 0.0;
      const Real* const a = row(i);
      for (Size j = i - std::min(i, reach_); j < i; ++j) below += a[j] * x[j];
      sum += x[i] * (2.0 * below + a[i] * x[i]);
    }
    return sum;
  }

  void multiply(In x, Out out) const {  // out = Ax for a symmetric matrix
    std::fill(out.begin(), out.end(), 0.0);
    for (Size i = 0; i < d_; ++i) {
      const Real* const a = row(i);
      for (Size j = i - std::min(i, reach_); j < i; ++j) {
        out[i] += a[j] * x[j];
        out[j] += a[j] * x[i];
      }
      out[i] += a[i] * x[i];
    }
  }

  void solve(Out x) const {  // x := (L L')^-1 x for a Cholesky factor
    for (Size i = 0; i < d_; ++i) {
      const Real* const l = row(i);
      Real z = x[i];
      for (Size j = i - std::min(i, reach_); j < i; ++j) z -= l[j] * x[j];
      x[i] = z / l[i];
    }
    for (Size i = d_; i-- > 0;) {
      const Real* const l = row(i);
      x[i] /= l[i];
      for (Size j = i - std::min(i, reach_); j < i; ++j) x[j] -= l[j] * x[i];
    }
  }

 private:
  Real* row(Size i) { return values_.data() + i * reach_ + reach_; }
  Size d_ = 0, reach_ = 0;
  Vec values_;  // (d, reach + 1), the diagonal last: entry (i, j) at i reach + reach + j
};

struct Fit {
  Vec theta;  // (n_coef) per output
  Real gain = 0.0;
};

// With basis B, bin weights W, A = B' diag(W) B and bin sums u of the residual:
//   s = B'u,  theta = M s,  gain = 2 theta's - theta'A theta,
// where M = (A + lambda P)^-1, given by its Cholesky factor or, if it is diagonal, by A + lambda P.
// A learner that is orthogonal to some functions of its own span (Centered) has M = Q (..)^-1 Q'
// with Q = I - G R' and R = A G (G'A G)^-1, where G holds the coefficients of these functions.
// The learner of a pair without main effects has a table of cells as basis and A = diag(W), and is
// solved in the inner cells of the table (cells.hpp). Its G are functions that are zero on all
// rows, and R' finds their share, which is taken away.
class Learner {
 public:
  Learner(Size set, const Basis& basis, bool diagonal, In gram, In factor, In removed = {},
          In weigher = {})
      : set_(set), basis_(basis), diagonal_(diagonal), removed_(removed), weigher_(weigher) {
    const Size d = n_coef(), entries = diagonal ? d : d * d;
    if (d == 0 || gram.size() != entries || factor.size() != entries)
      throw std::invalid_argument("gram and factor must both be (d, d) or both be (d)");
    check_removed();
    if (diagonal) {
      gram_.assign(gram.begin(), gram.end());
      factor_.assign(factor.begin(), factor.end());
    } else {
      gram_band_ = Band(gram, d);
      factor_band_ = Band(factor, d);
    }
  }
  // A pair: `factor` belongs to the inner cells of a table with n_b columns.
  Learner(Size set, const Basis& basis, In weights, In factor, Size n_b, In removed = {},
          In weigher = {})
      : set_(set),
        basis_(basis),
        diagonal_(true),
        gram_(weights.begin(), weights.end()),
        removed_(removed),
        weigher_(weigher) {
    cells_.emplace(weights, n_b);
    const Size m = cells_->n_inner();
    if (weights.size() != n_coef() || factor.size() != m * m)
      throw std::invalid_argument("the factor of a pair must fit its inner cells");
    check_removed();
    triangle_ = Triangle(factor, m);
  }

  Size set() const { return set_; }
  Size n_coef() const { return basis_.n_coef(); }
  Size n_bins() const { return basis_.n_bins(); }
  const Basis& basis() const { return basis_; }

  void contract(In sums, Out s) const {  // s = B'u, per output
    const Size n = n_bins(), d = n_coef();
    for (Size o = 0; o * d < s.size(); ++o)
      basis_.transpose_multiply(sums.subspan(o * n, n), s.subspan(o * d, d));
  }

  Real solve(In s, Out theta) const {  // theta = M s per output; returns the gain
    Real total = 0.0;
    for (Size o = 0; o < s.size(); o += n_coef()) {
      const In from = s.subspan(o, n_coef());
      const Out to = theta.subspan(o, n_coef());
      std::copy(from.begin(), from.end(), to.begin());
      cells_ ? solve_cells(to) : solve_one(to);
      // This form of the gain: theta's + lambda theta'P theta loses two digits at large lambda.
      Real linear = 0.0;
      for (Size j = 0; j < n_coef(); ++j) linear += to[j] * from[j];
      total += 2.0 * linear - quadratic(to);
    }
    return total;
  }

  Real quadratic(In theta) const {  // theta'A theta: the weighted square norm of B theta
    if (!diagonal_) return gram_band_.quadratic(theta);
    Real sum = 0.0;
    for (Size j = 0; j < n_coef(); ++j) sum += gram_[j] * theta[j] * theta[j];
    return sum;
  }

  void multiply_gram(In theta, Out out) const {  // A theta
    if (!diagonal_) return gram_band_.multiply(theta, out);
    for (Size j = 0; j < n_coef(); ++j) out[j] = gram_[j] * theta[j];
  }

  Fit fit(In sums, Size n_outputs) const {
    if (sums.size() != n_bins() * n_outputs)
      throw std::invalid_argument("a learner needs one sum per bin and output");
    Fit out{Vec(n_coef() * n_outputs), 0.0};
    Vec s(n_coef() * n_outputs);
    contract(sums, s);
    out.gain = solve(s, out.theta);
    return out;
  }

  Vec bin_values(In theta, Size n_outputs) const {  // (n_bins) per output
    Vec out(n_bins() * n_outputs);
    for (Size o = 0; o < n_outputs; ++o)
      basis_.multiply(theta.subspan(o * n_coef(), n_coef()),
                      Out(out).subspan(o * n_bins(), n_bins()));
    return out;
  }

 private:
  void check_removed() const {
    if (removed_.size() % n_coef() != 0 || removed_.size() != weigher_.size())
      throw std::invalid_argument("removed and weigher must both be (k, d)");
  }

  void solve_one(Out x) const {
    project(removed_, weigher_, x);  // Q's = s - R G's
    if (diagonal_)
      for (Size j = 0; j < n_coef(); ++j) x[j] /= factor_[j];
    else
      factor_band_.solve(x);
    project(weigher_, removed_, x);  // Q theta = theta - G R'theta
  }

  void solve_cells(Out x) const {
    Vec inner(cells_->n_inner());
    cells_->center_sums(x);
    cells_->take_inner(x, inner);
    triangle_.solve(inner);
    cells_->put_inner(inner, x);
    cells_->center(x);
    project(weigher_, removed_, x);
  }

  // x -= sum_k onto_k <along_k, x>, with all products computed before x changes.
  void project(In along, In onto, Out x) const {
    if (along.empty()) return;
    const Size d = n_coef(), k = along.size() / d;
    Vec dot(k);
    for (Size l = 0; l < k; ++l)
      for (Size j = 0; j < d; ++j) dot[l] += along[l * d + j] * x[j];
    for (Size l = 0; l < k; ++l)
      for (Size j = 0; j < d; ++j) x[j] -= onto[l * d + j] * dot[l];
  }

  Size set_;
  Basis basis_;
  bool diagonal_;
  Vec gram_, factor_;             // if diagonal: A and A + lambda P, (d)
  Band gram_band_, factor_band_;  // else: A, and the Cholesky factor of A + lambda P
  In removed_;                    // G': (k, d)
  In weigher_;                    // R': (k, d)
  std::optional<Cells> cells_;    // pairs only
  Triangle triangle_;             // factor for the inner cells of a pair
};

}  // namespace cwboost
