// Early stopping: rules on the validation risk, or on metrics of the validation rows, along a path.
// The loop (boost.hpp) and the switch of Hybrid (optimizers.hpp) apply them. Does not know about
// rows or learners.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "point.hpp"
#include "types.hpp"

namespace cwboost {

// Values that differ by less than this share are equal: the order of the rows changes the last
// digits of their sums, and must not change which iterate is the best.
constexpr Real risk_rounding = 1e-12;

constexpr int of_risk = -1;  // StoppingRule::metric: the rule is on the validation risk

inline Real value_of(const Risks& risks, int metric) {
  return metric == of_risk ? risks.validation : risks.metrics.at(static_cast<Size>(metric));
}

// The value that decides which iterate is the best: the first metric, or the validation risk if the
// run has no metrics. Lower is better.
inline Real watched(const Risks& risks) {
  return value_of(risks, risks.metrics.empty() ? of_risk : 0);
}

// The iterate with the lowest watched value, the first of equals; NaN is never the lowest.
inline int best_iteration(std::span<const Risks> risks) {
  Real lowest = std::numeric_limits<Real>::infinity();
  for (const Risks& risk : risks) lowest = std::min(lowest, watched(risk));
  const Real limit = std::isfinite(lowest) ? lowest + risk_rounding * std::abs(lowest) : lowest;
  const auto best =
      std::ranges::find_if(risks, [limit](const Risks& risk) { return watched(risk) <= limit; });
  return best == risks.end() ? 0 : static_cast<int>(best - risks.begin());
}

// Whether a value is lower than another by more than rounding errors.
inline bool is_lower(Real value, Real than) {
  return std::isinf(than) ? value < than : than - value > risk_rounding * std::abs(than);
}

// When a run ends early: after a number of iterations in a row none of which was good.
struct StoppingRule {
  enum class Kind {
    patience,    // good: lower than the lowest so far, by more than a share of what was gained
    stagnation,  // good: lower than the iterate before, by more than a share of its value
  };
  Kind kind = Kind::patience;
  int metric = of_risk;  // position of its metric
  int iterations = 1;
  Real share = 0.0;
};

// A rule along a path.
class RuleState {
 public:
  explicit RuleState(const StoppingRule& rule) : rule_(rule) {}

  // To be called after every iteration of the path, recorded or new. `before` is the iterate from
  // which the last iteration started.
  void follow(std::span<const Risks> risks, int before) {
    const int m = static_cast<int>(risks.size()) - 1;
    const bool patient = rule_.kind == StoppingRule::Kind::patience;
    const Real value = at(risks, m), old = at(risks, patient ? last_good_ : before);
    const Real size = patient ? at(risks, 0) - old : std::abs(old);
    if (is_lower(value, old) &&
        (rule_.share == 0.0 || std::isinf(old) || old - value > rule_.share * size))
      last_good_ = m;
  }

  // Whether the rule ends the run after n_iter iterations, of which those up to `since` do not
  // count.
  bool due(int n_iter, int since) const {
    return n_iter - std::max(last_good_, since) >= rule_.iterations;
  }

  StopReason reason() const {
    if (rule_.kind == StoppingRule::Kind::stagnation) return StopReason::stagnation;
    return rule_.metric == of_risk ? StopReason::no_better_validation_risk
                                   : StopReason::no_better_metric;
  }

 private:
  Real at(std::span<const Risks> risks, int m) const {
    return value_of(risks[static_cast<Size>(m)], rule_.metric);
  }

  StoppingRule rule_;
  int last_good_ = 0;
};

// The iterate from which iteration m starts: after a rewind not the one before it.
inline int started_from(const Path& path, int m) {
  return m - 1 == path.switched_after ? path.rewound_to : m - 1;
}

// Whether a rule had ended a run after the first `ended` iterations of a history. It then starts
// again. A rule with a tolerance always does: the last iterations may not have been good by it.
inline bool starts_again(const StoppingRule& rule, const Path& history, int ended) {
  if (rule.kind == StoppingRule::Kind::patience && rule.share > 0.0) return true;
  if (ended == 0) return false;
  if (rule.metric != of_risk && history.risks[0].metrics.size() <= static_cast<Size>(rule.metric))
    return true;
  RuleState state(rule);
  for (int m = 1; m <= ended; ++m)
    state.follow(std::span(history.risks).first(static_cast<Size>(m) + 1),
                 started_from(history, m));
  return state.due(ended, history.switched_after < ended ? history.switched_after : -1);
}

}  // namespace cwboost
