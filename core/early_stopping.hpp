// Early stopping: rules on the validation risk along a path. The loop (boost.hpp) and the
// switch of Hybrid (optimizers.hpp) apply them. Does not know about rows or learners.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "point.hpp"
#include "types.hpp"

namespace cwboost {

// Risks that differ by less than this share are equal: the order of the rows changes the last
// digits of their sums, and must not change which iterate is the best.
constexpr Real risk_rounding = 1e-12;

// The iterate with the lowest validation risk, the first of equals; NaN is never the lowest.
inline int best_iteration(std::span<const Risks> risks) {
  Real lowest = std::numeric_limits<Real>::infinity();
  for (const Risks& risk : risks) lowest = std::min(lowest, risk.validation);
  const Real limit = std::isfinite(lowest) ? lowest + risk_rounding * std::abs(lowest) : lowest;
  const auto best =
      std::ranges::find_if(risks, [limit](const Risks& risk) { return risk.validation <= limit; });
  return best == risks.end() ? 0 : static_cast<int>(best - risks.begin());
}

// Whether a risk is lower than another by more than rounding errors.
inline bool is_lower(Real risk, Real than) {
  return std::isinf(than) ? risk < than : than - risk > risk_rounding * std::abs(than);
}

// Whether the validation risk of iterate m is lower than that of iterate `than` by more than a
// share of what has been gained until then.
inline bool is_better(std::span<const Risks> risks, int m, int than, Real tolerance) {
  const Real risk = risks[static_cast<Size>(m)].validation;
  const Real old = risks[static_cast<Size>(than)].validation;
  return is_lower(risk, old) &&
         (tolerance == 0.0 || old - risk > tolerance * (risks[0].validation - old));
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
