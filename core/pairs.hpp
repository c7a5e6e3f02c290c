// Pairs of columns: systems of surfaces without main effects, and which pairs a residual asks for.
// Knows tables of two margins of levels; knows nothing of columns or of how their levels were made.
//
// A surface is a table over the cells of two margins, A = diag(W). Without its additive part its
// Gram is Q'WQ (cells.hpp). In the inner cells, which parametrise tables but for what is additive,
// the system is (Q'WQ)_inner + lambda P_inner, where P_inner is the penalty once the additive part
// has been chosen so as to make it least: it is the same for all tables of one shape.
#pragma once

#include "cells.hpp"
#include "system.hpp"

namespace cwboost {

constexpr Real no_interaction = 1e-10;  // share of the weight of cells that is not additive

struct PairSystem {
  In weights;  // (n_a, n_b)
  Size n_b;
  In penalty;  // (m, m) of the inner cells
  Aim aim;
  Out factor;   // (m, m)
  Out numbers;  // lambda, df, net df, 1 if all went well
};

// lambda, and the factor of the system for the inner cells.
inline bool solve(const Cells& cells, In gram, In penalty, const Aim& aim, Out factor,
                  Out numbers) {
  const Size m = cells.n_inner();
  Real total = 0.0, trace = 0.0;
  for (const Real w : cells.weights()) total += w;
  for (Size i = 0; i < m; ++i) trace += gram[i * m + i];
  if (trace <= no_interaction * total) {  // every cell is additive: such columns say the same
    std::fill(factor.begin(), factor.end(), 0.0);
    for (Size i = 0; i < m; ++i) factor[i * m + i] = 1.0;
    std::fill(numbers.begin(), numbers.end(), 0.0);
    return true;
  }
  return settle(gram, total, penalty, Vec(m), aim, factor, numbers);
}

inline void solve(std::span<const PairSystem> systems, Workers& workers) {
  for (const PairSystem& s : systems) {
    const Size n_a = s.n_b == 0 ? 0 : s.weights.size() / s.n_b;
    const Size m = n_a < 2 || s.n_b < 2 ? 0 : (n_a - 1) * (s.n_b - 1);
    if (m == 0 || s.weights.size() != n_a * s.n_b || s.penalty.size() != m * m ||
        s.factor.size() != m * m || s.numbers.size() != 4)
      throw std::invalid_argument("a pair's matrices must be those of its inner cells");
  }
  workers.run(systems.size(), [&](Size k) {
    const PairSystem& s = systems[k];
    const Cells cells(s.weights, s.n_b);
    const bool fine = solve(cells, cells.inner_gram(), s.penalty, s.aim, s.factor, s.numbers);
    s.numbers[3] = fine ? 1.0 : 0.0;
  });
}

// --- ranking
// --------------------------------------------------------------------------------------

struct Candidate {
  Size a, b;      // numbers of columns
  In penalty;     // (m, m) of the inner cells
  Size null_dim;  // dimensions that it leaves free
};

// Bins of columns, and per row a weight and weighted residuals.
struct PairRows {
  std::vector<std::span<const std::uint8_t>> index;  // per column
  std::vector<Size> n_bins;                          // per column
  In values;                                         // (n, width): w, w r of every output
  Size width;
};

// Sums by cell: (cells, width).
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

// The gain of the pair's learner for every output, then its df; NaN if it has no system.
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
  const Aim aim{std::numeric_limits<Real>::quiet_NaN(), df, false, false, pair.null_dim};
  if (!solve(cells, gram, pair.penalty, aim, factor, numbers)) {
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
