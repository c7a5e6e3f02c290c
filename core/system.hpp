// The normal equations of learners, solved once per fit and part: Gram matrix, smoothing parameter
// for given degrees of freedom (df), Cholesky factor. All matrices are small, dense and stored row
// by row. fitting/smoothing.py does the same in NumPy for large systems and for those that are not
// positive definite. Does not know about columns or the loop.
//
// With A = B'WB for weights that sum to one and the penalty P, diagonalise A against A + tau P,
// tau = tr A / tr P (Demmler-Reinsch). With eigenvalues a in [0, 1] and rho = lambda / tau, the
// smoother H has the eigenvalues h = a / (a + rho (1 - a)). A last coefficient with a ridge of its
// own is apart from the others in A and in P; its h does not depend on lambda.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "kernels.hpp"
#include "parallel.hpp"
#include "types.hpp"

namespace cwboost {

// How much a learner is smoothed: by a given lambda, or by the lambda with given df.
struct SmoothingTarget {
  Real smoothing = std::numeric_limits<Real>::quiet_NaN();  // lambda; NaN: find it from df
  Real df = 0.0;
  bool net = false;      // df excludes the share of the constant
  bool trace_h = false;  // df = tr(H) instead of tr(2H - HH)
  Size null_dim = 0;     // dimension of the null space of the penalty
  Real ridge = 0.0;      // on the last coefficient alone, as a share of the sum of weights
};

// A basis over bins in compressed rows, see Basis; not checked yet.
struct BasisRows {
  std::span<const std::int64_t> begin;
  std::span<const std::int32_t> column;
  In value;
  Size n_bins() const { return begin.size() - 1; }
};

// One system: inputs, and views of the caller's arrays for the outputs.
struct System {
  BasisRows basis;
  In weights;  // (n_bins)
  In penalty;  // (d, d)
  SmoothingTarget target;
  Out gram;     // (d, d) A = B'WB
  Out factor;   // (d, d) lower Cholesky factor of A + lambda P + ridge
  Out mean;     // (d) B'W1 / sum of weights
  Out numbers;  // lambda, df, net df, 1 if solved (0: use the NumPy version)
};

// The eigenvalues, increasing, and the squared coordinates of the constant function.
struct Spectrum {
  Vec a;
  Vec constant;
  Vec lower;  // (n, n) Cholesky factor of A + tau P
  Real tau = 0.0;
  Real fixed = 0.0;           // h of the coefficient with a ridge of its own
  Real fixed_constant = 0.0;  // its share of the constant function

  Real g(Size i, Real rho) const { return a[i] > 0.0 ? 1.0 / (a[i] + rho * (1.0 - a[i])) : 0.0; }

  // Returns df (or net df) at rho, and its derivative by log(rho).
  std::pair<Real, Real> df(Real rho, bool trace_h, bool net) const {
    Real value = trace_h ? fixed : 2.0 * fixed - fixed * fixed, slope = 0.0;
    if (net) value *= 1.0 - fixed_constant;
    for (Size i = 0; i < a.size(); ++i) {
      const Real gi = g(i, rho), h = a[i] * gi;
      const Real dg = -gi * gi * rho * (1.0 - a[i]), dh = a[i] * dg;
      value += trace_h ? h : 2.0 * h - h * h;
      slope += trace_h ? dh : 2.0 * (1.0 - h) * dh;
      if (!net) continue;
      value -= constant[i] * (trace_h ? gi : 2.0 * gi - a[i] * gi * gi);
      slope -= constant[i] * (trace_h ? dg : 2.0 * dg * (1.0 - h));
    }
    return {value, slope};
  }
};

namespace dense {

// Inner loops run along rows. Those that every system needs carry no sum, so that compilers
// vectorise them.

inline void transpose(Out m, Size d) {
  for (Size i = 0; i < d; ++i)
    for (Size j = 0; j < i; ++j) std::swap(m[i * d + j], m[j * d + i]);
}

// y -= f x
CWBOOST_INLINE void subtract(Real* y, Real f, const Real* x, Size n) {
  for (Size i = 0; i < n; ++i) y[i] -= f * x[i];
}

// Replaces m by its lower Cholesky factor. Returns false if m is not safely positive definite: a
// pivot is at most a share `safe` of its diagonal entry.
CWBOOST_KERNEL inline bool cholesky(Out m, Size d, Real safe) {
  Vec least(d);
  for (Size k = 0; k < d; ++k) least[k] = safe * m[k * d + k];
  for (Size k = 0; k < d; ++k) {  // row k of the upper factor
    Real* const row = &m[k * d];
    if (!(row[k] > least[k] && std::isfinite(row[k]))) return false;
    const Real root = std::sqrt(row[k]);
    for (Size j = k; j < d; ++j) row[j] /= root;
    for (Size i = k + 1; i < d; ++i)
      if (row[i] != 0.0) subtract(&m[i * d + i], row[i], row + i, d - i);
  }
  transpose(m, d);
  for (Size i = 0; i < d; ++i) std::fill(&m[i * d] + i + 1, &m[i * d] + d, 0.0);
  return true;
}

inline void solve_lower(In l, Size d, Out x) {  // x := L^-1 x
  for (Size i = 0; i < d; ++i) {
    Real sum = x[i];
    for (Size j = 0; j < i; ++j) sum -= l[i * d + j] * x[j];
    x[i] = sum / l[i * d + i];
  }
}

// C = L^-1 A L^-T for symmetric A, in place.
CWBOOST_KERNEL inline void reduce(In l, Size d, Out c) {
  for (int side = 0; side < 2; ++side) {  // L^-1 A, then again after transposing
    for (Size i = 0; i < d; ++i) {
      for (Size j = 0; j < i; ++j)
        if (l[i * d + j] != 0.0) subtract(&c[i * d], l[i * d + j], &c[j * d], d);
      for (Size k = 0; k < d; ++k) c[i * d + k] /= l[i * d + i];
    }
    transpose(c, d);
  }
  for (Size i = 0; i < d; ++i)
    for (Size j = 0; j < i; ++j) c[i * d + j] = c[j * d + i] = 0.5 * (c[i * d + j] + c[j * d + i]);
}

// Returns an orthonormal basis (rank, d) of the range of a symmetric matrix of this rank, by a
// Cholesky decomposition with pivots. Overwrites c.
CWBOOST_KERNEL inline Vec range_of(Out c, Size d, Size rank) {
  Vec rows(rank * d);
  for (Size k = 0; k < rank; ++k) {
    Real* const row = &rows[k * d];
    Size pivot = 0;
    for (Size i = 1; i < d; ++i)
      if (c[i * d + i] > c[pivot * d + pivot]) pivot = i;
    std::copy_n(&c[pivot * d], d, row);
    const Real largest = row[pivot];
    for (Size i = 0; i < d; ++i) subtract(&c[i * d], row[i] / largest, row, d);
    for (int pass = 0; pass < 2; ++pass)  // twice: rounding errors of the first pass
      for (Size j = 0; j < k; ++j) {
        const Real* const other = &rows[j * d];
        subtract(row, std::inner_product(row, row + d, other, 0.0), other, d);
      }
    const Real norm = std::sqrt(std::inner_product(row, row + d, row, 0.0));
    for (Size i = 0; i < d; ++i) row[i] /= norm;
  }
  return rows;
}

// Reduces c to tridiagonal form (diagonal, off_diagonal) by Householder reflections, which are also
// applied to z.
CWBOOST_KERNEL inline void tridiagonalize(Out c, Size d, Out z, Out diagonal, Out off_diagonal) {
  Vec v(d), p(d);
  for (Size k = 0; k + 2 < d; ++k) {
    Real square = 0.0;
    for (Size i = k + 1; i < d; ++i) {
      v[i] = c[k * d + i];
      square += v[i] * v[i];
    }
    const Real norm = std::sqrt(square), alpha = v[k + 1] > 0.0 ? -norm : norm;
    off_diagonal[k] = alpha;
    square -= alpha * v[k + 1];  // half of the squared norm of the new v
    v[k + 1] -= alpha;
    if (square == 0.0) continue;
    const Size first = k + 1, n = d - first;
    std::fill(p.begin(), p.end(), 0.0);
    for (Size i = first; i < d; ++i)
      if (v[i] != 0.0) subtract(&p[first], -v[i] / square, &c[i * d + first], n);
    Real vp = 0.0, vz = 0.0;
    for (Size i = first; i < d; ++i) {
      vp += p[i] * v[i];
      vz += z[i] * v[i];
    }
    for (Size i = first; i < d; ++i) {
      p[i] -= 0.5 * vp / square * v[i];
      z[i] -= vz / square * v[i];
    }
    for (Size i = first; i < d; ++i) {
      Real* const row = &c[i * d];
      const Real vi = v[i], pi = p[i];
      for (Size j = first; j < d; ++j) row[j] -= vi * p[j] + pi * v[j];
    }
  }
  for (Size i = 0; i < d; ++i) diagonal[i] = c[i * d + i];
  if (d > 1) off_diagonal[d - 2] = c[(d - 1) * d + d - 2];
}

// Implicit QL on a tridiagonal matrix: the eigenvalues replace the diagonal, and the coordinates of
// z in the eigenvectors replace z. Returns false if it does not converge.
inline bool diagonalize(Out diagonal, Out off_diagonal, Out z) {
  const Size d = diagonal.size();
  for (Size l = 0; l < d; ++l)
    for (int round = 0;; ++round) {
      Size m = l;  // the block from l ends where the off-diagonal entry is negligible
      while (m + 1 < d &&
             std::abs(off_diagonal[m]) > std::numeric_limits<Real>::epsilon() *
                                             (std::abs(diagonal[m]) + std::abs(diagonal[m + 1])))
        ++m;
      if (m == l) break;
      if (round == 60) return false;
      Real g = (diagonal[l + 1] - diagonal[l]) / (2.0 * off_diagonal[l]);
      g = diagonal[m] - diagonal[l] + off_diagonal[l] / (g + std::copysign(std::hypot(g, 1.0), g));
      Real s = 1.0, c = 1.0, p = 0.0;
      Size i = m;
      while (i-- > l) {
        const Real f = s * off_diagonal[i], b = c * off_diagonal[i];
        const Real r = std::sqrt(f * f + g * g);
        off_diagonal[i + 1] = r;
        if (r == 0.0) break;  // underflow: the block splits here
        s = f / r;
        c = g / r;
        g = diagonal[i + 1] - p;
        const Real t = (diagonal[i] - g) * s + 2.0 * c * b;
        p = s * t;
        diagonal[i + 1] = g + p;
        g = c * t - b;
        const Real upper = z[i + 1];
        z[i + 1] = s * z[i] + c * upper;
        z[i] = c * z[i] - s * upper;
      }
      off_diagonal[m] = 0.0;
      if (i + 1 > l) {  // the inner loop ended early
        diagonal[i + 1] -= p;
        continue;
      }
      diagonal[l] -= p;
      off_diagonal[l] = g;
    }
  return true;
}

}  // namespace dense

constexpr Real no_data = 1e-10;      // smaller eigenvalues belong to directions without data
constexpr Real singular_rho = 1e-8;  // used instead of 0 if A is singular
constexpr Real small_rho = 1e-2;     // below it, directions without data are held at zero
constexpr Real determined = 1e-11;   // pivots of A + tau P if data or penalty determine all
constexpr Real solvable = 1e-14;     // pivots of A + lambda P

// Computes the spectrum of A and P for weights that sum to one. Returns false if this fails.
inline bool find_spectrum(In gram, In penalty, In mean, Size null_dim, Spectrum& out) {
  const Size d = mean.size();
  Real trace_a = 0.0, trace_p = 0.0;
  for (Size i = 0; i < d; ++i) {
    trace_a += gram[i * d + i];
    trace_p += penalty[i * d + i];
  }
  out.tau = trace_p > 0.0 ? trace_a / trace_p : 0.0;
  Vec c(gram.begin(), gram.end()), off_diagonal(d, 0.0), z(mean.begin(), mean.end()), a(d);
  out.lower.resize(d * d);
  for (Size i = 0; i < d * d; ++i) out.lower[i] = gram[i] + out.tau * penalty[i];
  if (!dense::cholesky(out.lower, d, determined)) return false;
  dense::reduce(out.lower, d, c);
  dense::solve_lower(out.lower, d, z);
  dense::tridiagonalize(c, d, z, a, off_diagonal);
  if (!dense::diagonalize(a, off_diagonal, z)) return false;
  std::vector<Size> order(d);
  for (Size i = 0; i < d; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](Size i, Size j) { return a[i] < a[j]; });
  out.a.resize(d);
  out.constant.resize(d);
  for (Size i = 0; i < d; ++i) {
    Real& value = out.a[i];
    value = std::clamp(a[order[i]], 0.0, 1.0);
    if (value < no_data) value = 0.0;
    if (i + null_dim >= d && value > 1.0 - 1e-6) value = 1.0;  // in the null space, up to rounding
    // B'W1 lies in the range of A, so only directions with data have a share of 1'W1
    out.constant[i] = value > 0.0 ? z[order[i]] * z[order[i]] : 0.0;
  }
  return true;
}

// The rho with the given df (or net df). NaN if the null space of the penalty has more df.
inline Real find_rho(const Spectrum& spectrum, const SmoothingTarget& target) {
  const auto excess = [&](Real log_rho) {
    auto [value, slope] = spectrum.df(std::exp(log_rho), target.trace_h, target.net);
    return std::pair(value - target.df, slope);
  };
  const Real least = spectrum.a.front() == 0.0 ? singular_rho : 0.0;
  if (spectrum.tau == 0.0 || target.df >= spectrum.df(0.0, target.trace_h, target.net).first - 1e-9)
    return least;
  Real low = -30.0, high = 60.0;  // of log(rho)
  if (excess(high).first >= -1e-9) return std::numeric_limits<Real>::quiet_NaN();
  if (excess(low).first <= 0.0) return least;
  Real at = 0.0;
  // Newton, with bisection where a step leaves the interval
  for (int round = 0; round < 200; ++round) {
    const auto [value, slope] = excess(at);
    if (value == 0.0) break;
    (value > 0.0 ? low : high) = at;
    Real next = at - value / slope;
    if (!(next > low && next < high)) next = low + (high - low) / 2;
    const bool done = std::abs(next - at) <= 1e-14 * std::max(1.0, std::abs(at));
    at = next;
    if (done || high - low <= 1e-14) break;
  }
  return std::exp(at);
}

// Computes A = B'WB and the mean row B'W1 / sum of weights; returns the sum of weights.
inline Real find_gram(const BasisRows& basis, In weights, Out gram, Out mean) {
  const Size d = mean.size();
  std::fill(gram.begin(), gram.end(), 0.0);
  std::fill(mean.begin(), mean.end(), 0.0);
  Real total = 0.0;
  for (Size b = 0; b < basis.n_bins(); ++b) {
    const Real w = weights[b];
    total += w;
    const auto begin = static_cast<Size>(basis.begin[b]),
               end = static_cast<Size>(basis.begin[b + 1]);
    for (Size e = begin; e < end; ++e) {
      const Real wv = w * basis.value[e];
      const Size i = static_cast<Size>(basis.column[e]);
      mean[i] += wv;
      for (Size f = begin; f <= e; ++f) {
        const Size j = static_cast<Size>(basis.column[f]);
        gram[std::max(i, j) * d + std::min(i, j)] += wv * basis.value[f];
      }
    }
  }
  for (Size i = 0; i < d; ++i) {
    mean[i] /= total;
    for (Size j = 0; j < i; ++j) gram[j * d + i] = gram[i * d + j];
  }
  return total;
}

// Adds A + tau P in the directions without data, times `weight`, to the leading (n, n) block of a
// matrix (d, d). Right sides B'u have no component in these directions, so that no solution
// changes. But with a small lambda, rounding errors would get large coefficients there.
inline void hold_without_data(const Spectrum& spectrum, In gram, Real weight, Out out, Size d) {
  const Size n = spectrum.a.size();
  const auto rank =
      static_cast<Size>(std::ranges::count_if(spectrum.a, [](Real value) { return value > 0.0; }));
  Vec c(gram.begin(), gram.end());
  dense::reduce(spectrum.lower, n, c);  // its range: the directions with data
  const Vec range = dense::range_of(c, n, rank);
  Vec rest = spectrum.lower;  // L (I - Q'Q), with Q = range
  for (Size i = 0; i < n; ++i)
    for (Size k = 0; k < rank; ++k) {
      const Real* const q = &range[k * n];
      dense::subtract(&rest[i * n], std::inner_product(q, q + n, &rest[i * n], 0.0), q, n);
    }
  for (Size i = 0; i < n; ++i)
    for (Size j = 0; j < n; ++j)
      out[i * d + j] +=
          weight * std::inner_product(&rest[i * n], &rest[i * n] + n, &rest[j * n], 0.0);
}

// Finds lambda, df and net df for a Gram matrix whose weights have the sum `total`, and factors
// A + lambda P. Returns false if this fails.
inline bool find_smoothing(In gram, Real total, In penalty, In mean, const SmoothingTarget& target,
                           Out factor, Out numbers) {
  const Size d = mean.size(), n = target.ridge > 0.0 ? d - 1 : d;
  Vec unit, own_penalty;  // without the coefficient that has a ridge
  for (Size i = 0; i < n; ++i)
    for (Size j = 0; j < n; ++j) {
      unit.push_back(gram[i * d + j] / total);
      own_penalty.push_back(penalty[i * d + j]);
    }
  Spectrum spectrum;
  if (!find_spectrum(unit, own_penalty, mean.first(n), target.null_dim, spectrum)) return false;
  if (n < d) {
    spectrum.fixed_constant = gram[d * d - 1] / total;
    spectrum.fixed = spectrum.fixed_constant / (spectrum.fixed_constant + target.ridge);
  }
  const bool given = target.smoothing == target.smoothing;
  const Real lambda =
      given ? target.smoothing : total * (find_rho(spectrum, target) * spectrum.tau);
  const Real rho = spectrum.tau > 0.0 ? lambda / total / spectrum.tau : 0.0;
  if (rho != rho) return false;
  numbers[0] = lambda;
  numbers[1] = spectrum.df(rho, target.trace_h, false).first;
  numbers[2] = spectrum.df(rho, target.trace_h, true).first;
  for (Size i = 0; i < d * d; ++i) factor[i] = gram[i] + lambda * penalty[i];
  factor[d * d - 1] += target.ridge * total;
  if (spectrum.a.front() == 0.0 && rho < small_rho)
    hold_without_data(spectrum, unit, total, factor, d);
  return dense::cholesky(factor, d, solvable);
}

inline bool solve(const System& system) {
  const Real total = find_gram(system.basis, system.weights, system.gram, system.mean);
  return find_smoothing(system.gram, total, system.penalty, system.mean, system.target,
                        system.factor, system.numbers);
}

inline void check(const BasisRows& basis, Size n_coef) {
  const auto& begin = basis.begin;
  bool fine = !begin.empty() && begin.front() == 0 && basis.column.size() == basis.value.size() &&
              begin.back() == static_cast<std::int64_t>(basis.value.size());
  for (Size b = 0; fine && b + 1 < begin.size(); ++b) fine = begin[b] <= begin[b + 1];
  for (const auto c : basis.column) fine = fine && c >= 0 && static_cast<Size>(c) < n_coef;
  if (!fine) throw std::invalid_argument("the basis rows of a system do not fit its coefficients");
}

inline void check(const System& system) {  // a wrong index would write outside the arrays
  const Size d = system.mean.size();
  if (d == 0 || system.gram.size() != d * d || system.factor.size() != d * d ||
      system.penalty.size() != d * d || system.numbers.size() != 4)
    throw std::invalid_argument("the matrices of a system must be (d, d) and its mean row (d)");
  check(system.basis, d);
  if (system.weights.size() != system.basis.n_bins())
    throw std::invalid_argument("a system needs one weight per bin");
}

// Solves several systems; numbers[3] is 0 for those that failed.
inline void solve(std::span<const System> systems, Workers& workers) {
  for (const System& system : systems) check(system);
  workers.run(systems.size(),
              [&](Size k) { systems[k].numbers[3] = solve(systems[k]) ? 1.0 : 0.0; });
}

}  // namespace cwboost
