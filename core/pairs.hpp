// Pairs of columns: the systems of surfaces without main effects, and the ranking of pairs by how
// much they explain of a residual. Does not know how the bins of the columns were made.
//
// A surface is a two-way table over the bins of two columns, A = diag(W). Without its additive part
// its Gram matrix is Q'WQ (cells.hpp). The inner cells parametrise tables up to an additive part.
// There the system is (Q'WQ)_inner + lambda P_inner, where P_inner is the least penalty over all
// additive parts; it is the same for all tables of one shape.
#pragma once

#include "cells.hpp"
#include "system.hpp"

namespace cwboost {

constexpr Real no_interaction = 1e-10;  // a smaller share of non-additive weight is rounding

struct PairSystem {
  In weights;  // (n_a, n_b)
  Size n_b;
  In penalty;  // (m, m) for the inner cells
  SmoothingTarget target;
  Out factor;   // (m, m)
  Out numbers;  // lambda, df, net df, 1 if solved
};

// Finds lambda and factors the system of the inner cells. Returns false if this fails.
inline bool solve(const Cells& cells, In gram, In penalty, const SmoothingTarget& target,
                  Out factor, Out numbers) {
  const Size m = cells.n_inner();
  Real total = 0.0, trace = 0.0;
  for (const Real w : cells.weights()) total += w;
  for (Size i = 0; i < m; ++i) trace += gram[i * m + i];
  if (trace <=
      no_interaction * total) {  // all tables are additive: one column determines the other
    std::fill(factor.begin(), factor.end(), 0.0);
    for (Size i = 0; i < m; ++i) factor[i * m + i] = 1.0;
    std::fill(numbers.begin(), numbers.end(), 0.0);
    return true;
  }
  return find_smoothing(gram, total, penalty, Vec(m), target, factor, numbers);
}

inline void solve(std::span<const PairSystem> systems, Workers& workers) {
  for (const PairSystem& s : systems) {
    const Size n_a = s.n_b == 0 ? 0 : s.weights.size() / s.n_b;
    const Size m = n_a < 2 || s.n_b < 2 ? 0 : (n_a - 1) * (s.n_b - 1);
    if (m == 0 || s.weights.size() != n_a * s.n_b || s.penalty.size() != m * m ||
        s.factor.size() != m * m || s.numbers.size() != 4)
      throw std::invalid_argument("the matrices of a pair must fit its inner cells");
  }
  workers.run(systems.size(), [&](Size k) {
    const PairSystem& s = systems[k];
    const Cells cells(s.weights, s.n_b);
    const bool fine = solve(cells, cells.inner_gram(), s.penalty, s.target, s.factor, s.numbers);
    s.numbers[3] = fine ? 1.0 : 0.0;
  });
}

// --- ranking ---

struct Candidate {
  Size a, b;      // column numbers
  In penalty;     // (m, m) for the inner cells
  Size null_dim;  // dimension of the null space of the penalty
};

// The bins of the columns, and per row its weight and weighted residuals.
struct PairRows {
  std::vector<std::span<const std::uint8_t>> index;  // per column
  std::vector<Size> n_bins;                          // per column
  In values;                                         // (n, width): w, then w r of every output
  Size width;
};

// Sums of the values by cell: (cells, width).
inline Vec cell_sums(const PairRows& rows, Size a, Size b) {
  const Size n_b = rows.n_bins[b], width = rows.width, n = rows.index[a].size();
  Vec out(rows.n_bins[a] * n_b * width);
  const std::uint8_t* const in_a = rows.index[a].data();
  const std::uint8_t* const in_b = rows.index[b].data();
  const Real* from = rows.values.data();
  if (width == 2) {
    for (Size i = 0; i < n; ++i, from += 2) {
      Real* const to = &out[(in_a[i] * n_b + in_b[i]) * 2];
      to[0] += from[0];
      to[1] += from[1];
    }
    return out;
  }
  for (Size i = 0; i < n; ++i, from += width) {
    Real* const to = &out[(in_a[i] * n_b + in_b[i]) * width];
    for (Size o = 0; o < width; ++o) to[o] += from[o];
  }
  return out;
}

// Computes the gain of the pair for every output, then its df; NaN if its system is not solvable.
inline void find_gains(const PairRows& rows, const Candidate& pair, Real df, Out out) {
  const Size n_b = rows.n_bins[pair.b], width = rows.width;
  const Vec sums = cell_sums(rows, pair.a, pair.b);
  Vec plane(sums.size() / width);
  const auto take = [&](Size o) {
    for (Size c = 0; c < plane.size(); ++c) plane[c] = sums[c * width + o];
  };
  take(0);
  const Cells cells(plane, n_b);
  const Size m = cells.n_inner();
  const Vec gram = cells.inner_gram();
  Vec factor(m * m), x(m), theta(m);
  std::array<Real, 4> numbers{};
  const SmoothingTarget target{std::numeric_limits<Real>::quiet_NaN(), df, false, false,
                               pair.null_dim};
  if (!solve(cells, gram, pair.penalty, target, factor, numbers)) {
    std::fill(out.begin(), out.end(), std::numeric_limits<Real>::quiet_NaN());
    return;
  }
  const Triangle triangle(factor, m);
  for (Size o = 1; o < width; ++o) {
    take(o);
    cells.center_sums(plane);
    cells.take_inner(plane, x);
    theta = x;
    triangle.solve(theta);
    Real linear = 0.0, square = 0.0;
    for (Size i = 0; i < m; ++i) {
      Real sum = 0.0;
      for (Size j = 0; j < m; ++j) sum += gram[i * m + j] * theta[j];
      linear += theta[i] * x[i];
      square += theta[i] * sum;
    }
    out[o - 1] = 2.0 * linear - square;
  }
  out[width - 1] = numbers[1];
}

inline void rank(const PairRows& rows, std::span<const Candidate> pairs, Real df, Out out,
                 Workers& workers) {
  workers.run(pairs.size(), [&](Size k) {
    find_gains(rows, pairs[k], df, out.subspan(k * rows.width, rows.width));
  });
}

}  // namespace cwboost
