// The boosting loop: runs an optimizer on a problem, records the path and stops it: after n_iter
// iterations, by a rule (early_stopping.hpp), by a callback or when nothing is left to gain.
// Does not know what a loss is, how threads work, or where the rows are.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "early_stopping.hpp"
#include "gram_rows.hpp"
#include "optimizers.hpp"
#include "point.hpp"
#include "search.hpp"

namespace cwboost {

// How the best learner is found; every mode makes the same choices. `full` evaluates every learner
// in every iteration and is the reference for the others, `certified` evaluates the contenders
// only, `row_free` replaces passes over the rows by cross-Grams and needs the squared loss.
enum class SearchMode { automatic, full, certified, row_free };

struct BoostProblem {
  Rows* rows;
  const Optimizer* optimizer;              // copied by every run
  const Learners* learners = nullptr;      // fitted to the training part; null: a replay
  const Learners* all_learners = nullptr;  // fitted to all rows, for a phase on all rows
  std::vector<Size> n_coef = {};           // per learner
  Vec start = {};                          // per output
  Real scale = 1.0;                        // factor of every step
  Vec state = {};                          // of the loss, see Loss::n_state
  Parts parts = {};
  SearchMode search = SearchMode::automatic;
  bool other_rows = false;  // the history belongs to a fit to other rows
};

// An error: the rows differ from the rows of the recorded fit.
struct OtherRows : std::runtime_error {
  OtherRows(int m, const std::string& risk, Real was, Real is)
      : std::runtime_error("after " + std::to_string(m) + " iterations its " + risk + " was " +
                           text(was) + ", here it is " + text(is)) {}

 private:
  static std::string text(Real number) {
    std::array<char, 32> out;
    std::snprintf(out.data(), out.size(), "%.6g", number);
    return out.data();
  }
};

struct RunOptions {
  int n_iter;
  std::vector<StoppingRule> rules = {};  // the first one that is due ends the run
  // The history may be a checkpoint of an interrupted run: its first n_given iterations were given
  // to that run, which made the others itself and must end with the same bits as without the
  // interruption. None: the whole history was given.
  std::optional<int> n_given = {};
  // Called after each iteration beyond n_given; throws Stop to end the run.
  std::function<void(int, const Risks&, const Move&)> after = {};
  // Returns the metrics of the validation rows, given their risk. Called after every iteration, and
  // before the first, unless the history has them. The scores are then in slot_f.
  std::function<Vec(Real)> measure = {};
  // Called before the first iteration and after each iteration of the history.
  std::function<void(int)> recorded = {};
};

// Whether cross-Grams cost less than passes over the rows. Costs in nanoseconds, measured on one
// machine: a residual takes about 2 per row, a pass by an index 0.6, a cross-Gram 1.5 per row and a
// product with it 0.3 per entry. The estimate assumes that a third of the learners are chosen at
// some time, which need a cross-Gram with every other learner, and that an eighth are contenders.
// For remote rows round trips cost more than all of this: use cross-Grams if they fit in memory.
inline bool row_free_pays(const Rows& rows, const Learners& learners, int n_iter) {
  const auto n = static_cast<double>(rows.n_rows()), m = static_cast<double>(n_iter);
  const auto k = static_cast<double>(learners.size());
  double entries = 0.0;  // of one cross-Gram
  for (const Learner* learner : learners) entries += static_cast<double>(learner->n_coef()) / k;
  entries *= entries;
  const double part = std::min(k, 8.0 + k / 3.0), pairs = part * (k - part / 2.0);
  const double by_rows = m * n * (2.0 + 0.6 * std::min(k, 4.0 + k / 8.0));
  const double without = pairs * (1.5 * n + entries) + m * k * 0.3 * entries;
  return (rows.remote() || (rows.n_rows() >= Search::least_rows && without < by_rows)) &&
         pairs * entries < static_cast<double>(Grams::max_entries);
}

class Boost {
 public:
  explicit Boost(const BoostProblem& problem)
      : problem_(problem),
        optimizer_(problem.optimizer->clone()),
        point_(*problem.rows, problem.parts, problem.n_coef, problem.scale, problem.state) {}

  // Follows `history` and continues from its end. If this throws, `path` is valid up to there.
  void run(const Path& history, const RunOptions& options) {
    RecordedMoves recorded(history.moves);
    needs_scores_ = static_cast<bool>(options.measure);
    enter(problem_.learners, problem_.parts.training, options.n_iter);
    point_.reset(point_.f, problem_.start);
    path.risks.push_back(optimizer_->begin(point_));
    compare(history, 0);
    measure(options);
    const int given = std::min(options.n_given.value_or(history.n_iter()), history.n_iter());
    std::vector<RuleState> rules(options.rules.begin(), options.rules.end());
    const bool again = std::ranges::any_of(
        options.rules, [&](const auto& rule) { return starts_again(rule, history, given); });
    const int patient_from = again ? given : 0;
    try {
      if (options.recorded) options.recorded(0);
      for (int m = 1; m <= options.n_iter; ++m) {
        const bool live = m > history.n_iter();
        if (live ? phase_is_over() : m - 1 == history.switched_after)
          switch_over(history, options.n_iter);
        recorded.own = m > given;
        recorded.repeated_search = recorded.own && gram_rows_ ? search_.get() : nullptr;
        iterate(live ? *search_ : recorded, m, m < options.n_iter);
        if (!live) compare(history, m);
        measure(options);
        if (is_lower(watched(path.risks.back()), watched(path.risks[static_cast<Size>(best_)])))
          best_ = m;
        for (RuleState& rule : rules) rule.follow(path.risks, started_from(path, m));
        if (!live && options.recorded) options.recorded(m);
        if (m <= given) continue;
        if (options.after) options.after(m, path.risks.back(), path.moves.back());
        stop_if_due(rules, patient_from);
      }
      path.stopped = StopReason::n_iter_reached;
    } catch (const Stop& stop) {
      path.stopped = stop.reason;
    }
  }

  Path path;
  const Vec& coef() const { return point_.f; }

 private:
  // Begins a phase on one part of the rows: decides which rows answer and who searches.
  void enter(const Learners* learners, Part part, int n_iter) {
    Rows& rows = *problem_.rows;
    const SearchMode mode = problem_.search;
    const bool can =
        learners && !learners->empty() && rows.linear() && rows.knows_cross() && !needs_scores_;
    const Real weight = can ? rows.weight(part) : 0.0;
    if (mode == SearchMode::row_free && learners && !can)
      throw std::invalid_argument(
          "only the squared loss can do without rows, and only without metrics");
    if (can && (mode == SearchMode::row_free ||
                (mode == SearchMode::automatic && row_free_pays(rows, *learners, n_iter)))) {
      std::vector<Part> parts{part, problem_.parts.training};
      if (problem_.parts.validation) parts.push_back(*problem_.parts.validation);
      auto gram_rows = std::make_unique<GramRows>(rows, *learners, parts);
      search_ = std::make_unique<GramSearch>(*gram_rows);
      gram_rows_ = std::move(gram_rows);
      return point_.use(*gram_rows_, learners, part, weight);
    }
    search_ = std::make_unique<Search>(mode == SearchMode::full, n_iter);
    point_.use(rows, learners, part, weight);
    gram_rows_.reset();
  }

  void iterate(Chooser& chooser, int m, bool more) {
    Move move;
    const Risks risks = optimizer_->step(point_, chooser, m, more, move);
    path.moves.push_back(std::move(move));
    path.risks.push_back(risks);
  }

  // Extending a fit needs its own rows, which are recognised by their risks.
  void compare(const Path& history, int m) {
    auto& risks = path.risks[static_cast<Size>(m)];
    if (static_cast<Size>(m) >= history.risks.size() || problem_.other_rows) return;
    const Risks& old = history.risks[static_cast<Size>(m)];
    if (problem_.learners) {
      const Real noise = 1e-12 * std::abs(history.risks[0].training);
      const auto differ = [noise](Real a, Real b) {
        return std::abs(a - b) > noise + 1e-6 * std::max(std::abs(a), std::abs(b));
      };
      if (differ(old.training, risks.training))
        throw OtherRows(m, "risk", old.training, risks.training);
      if (differ(old.validation, risks.validation))
        throw OtherRows(m, "validation risk", old.validation, risks.validation);
    }
    risks = old;
  }

  bool phase_is_over() const {
    return optimizer_->next_phase() && optimizer_->phase_is_over(path.risks, best_);
  }

  void switch_over(const Path& history, int n_iter) {
    const auto next = optimizer_->next_phase();
    if (!next) throw std::invalid_argument("the path has a phase that its optimizer does not have");
    const int m = path.n_iter();
    const bool recorded = m == history.switched_after;
    path.switched_after = m;
    path.rewound_to = recorded ? history.rewound_to : next->rewind ? best_iteration(path.risks) : m;
    Vec coef = point_.f;
    if (path.rewound_to < m) coef = replay(path.rewound_to);
    if (next->all_rows && problem_.learners)
      enter(problem_.all_learners, problem_.parts.all, n_iter - m);
    point_.reset(std::move(coef), problem_.start);
    optimizer_->enter_next_phase(point_);
  }

  // Coefficients of iterate m of the first phase, from the path alone.
  Vec replay(int m) const {
    NoRows no_rows(problem_.rows->n_outputs());
    BoostProblem bare = problem_;
    bare.rows = &no_rows;
    bare.learners = bare.all_learners = nullptr;
    Boost again(bare);
    again.run(path, {m});
    return again.coef();
  }

  void measure(const RunOptions& options) {
    Risks& risks = path.risks.back();
    if (options.measure && risks.metrics.empty()) risks.metrics = options.measure(risks.validation);
  }

  void stop_if_due(const std::vector<RuleState>& rules, int patient_from) const {
    if (!problem_.parts.validation || !optimizer_->may_stop_early()) return;
    const int since = std::max(path.switched_after, patient_from);
    for (const RuleState& rule : rules)
      if (rule.due(path.n_iter(), since)) throw Stop{rule.reason()};
  }

  int best_ = 0;               // last iterate with a lower watched value than the best before it
  bool needs_scores_ = false;  // of the rows, for metrics
  BoostProblem problem_;
  std::unique_ptr<Optimizer> optimizer_;
  Point point_;
  std::unique_ptr<GramRows> gram_rows_;
  std::unique_ptr<Chooser> search_;
};

}  // namespace cwboost
