// Early stopping: rules on the validation risk along a path. The loop (boost.hpp) applies them.
// Does not know about rows, learners or optimizers.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "point.hpp"
#include "types.hpp"

namespace cwboost {

// Risks that differ by less than this share are equal: the order of the rows changes the last
// digits of their sums, and must not change which iterate is the best.
constexpr Real risk_rounding = 1e-12;

// The iterate with the lowest validation risk, the first of equals.
inline int best_iteration(std::span<const Risks> risks) {
  Real lowest = risks[0].validation;
  for (const Risks& risk : risks) lowest = std::min(lowest, risk.validation);
  const Real limit = lowest + risk_rounding * std::abs(lowest);
  Size best = 0;
  while (best + 1 < risks.size() && !(risks[best].validation <= limit)) ++best;
  return static_cast<int>(best);
}

// Whether the validation risk of iterate m is lower than that of iterate `than` by more than a
// share of what has been gained until then.
inline bool is_better(std::span<const Risks> risks, int m, int than, Real tolerance) {
  const Real risk = risks[static_cast<Size>(m)].validation;
  const Real old = risks[static_cast<Size>(than)].validation;
  return old - risk >
         std::max(tolerance * (risks[0].validation - old), risk_rounding * std::abs(old));
}

// Whether `patience` iterations have passed since iteration `since`, the best one so far.
inline bool out_of_patience(int n_iter, int since, int patience) {
  return n_iter - since >= patience;
}

// Whether the first `ended` iterations of a history stopped early. Patience then starts again.
inline bool stopped_early(const Path& history, int ended, int patience) {
  if (ended == 0) return false;
  const auto risks = std::span(history.risks).first(static_cast<Size>(ended) + 1);
  const int switched = history.switched_after < ended ? history.switched_after : -1;
  return out_of_patience(ended, std::max(best_iteration(risks), switched), patience);
}

}  // namespace cwboost
