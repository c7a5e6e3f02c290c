// The current model of a run, scores of the rows and coefficients in step, and the path: the record
// of all iterations. Does not know who chooses the learners (search.hpp) or steps (optimizers.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "learner.hpp"
#include "types.hpp"
#include "verbs.hpp"

namespace cwboost {

using Learners = std::vector<const Learner*>;

// The slots of a fit. f: score of the model; r: residual. Accelerated only: h: score of the
// momentum sequence; c: corrected residual.
constexpr Slot slot_f = 0, slot_r = 1, slot_h = 3, slot_c = 4;

// The order in which a fit gives its weight vectors to the rows.
constexpr Part training_part = 0, validation_part = 1, all_part = 2;

// Which of the rows' weight vectors a fit uses.
struct Parts {
  Part training = training_part;
  std::optional<Part> validation = {};
  Part all = all_part;  // for optimizers with a phase on all rows
};

constexpr Real leap = 10.0;              // a risk that rises by this multiple of its size has leapt
constexpr Real negligible_root = 1e-13;  // sqrt(gain) below this share of the norm of y is rounding

struct Update {
  int learner = -1;
  Vec theta;  // (n_coef) per output that moves, in units of the residual: before rate and scale
  // The output that moves. The searches always move all of them together. A loss whose outputs are
  // chosen one at a time (the parameters of a distribution) needs gains and bounds per output
  // there; steps, paths and replays can do it already.
  int output = all_outputs;
};

struct Move {  // the decisions of one iteration
  Update choice;
  Update correction;    // Accelerated only
  int halvings = 0;     // how often the step was halved because the risk leapt
  int evaluations = 0;  // passes over the rows by an index, to make the choice
};

struct Risks {
  Real training = 0.0;
  Real validation = std::numeric_limits<Real>::quiet_NaN();
  Vec metrics = {};  // of the validation rows, lower is better; the first one decides
};

// Why a fit ended. Model files and users see the text.
enum class StopReason {
  n_iter_reached,
  no_better_validation_risk,
  no_better_metric,
  stagnation,
  nothing_left_to_gain,  // every gain is rounding error
  diverged,
  callback,
  time_limit,
  interrupted,
};

struct StopText {
  StopReason reason;
  const char *name, *text;
};
constexpr std::array stop_texts{
    StopText{StopReason::n_iter_reached, "n_iter_reached", "n_iter reached"},
    StopText{StopReason::no_better_validation_risk, "no_better_validation_risk",
             "no better validation risk"},
    StopText{StopReason::no_better_metric, "no_better_metric", "no better validation metric"},
    StopText{StopReason::stagnation, "stagnation", "improvements too small"},
    StopText{StopReason::nothing_left_to_gain, "nothing_left_to_gain", "nothing left to gain"},
    StopText{StopReason::diverged, "diverged", "diverged"},
    StopText{StopReason::callback, "callback", "callback"},
    StopText{StopReason::time_limit, "time_limit", "time limit"},
    StopText{StopReason::interrupted, "interrupted", "interrupted"},
};

// Thrown to end a fit; the path up to here is valid.
struct Stop {
  StopReason reason;
};

// The record of all iterations in order, including those that a rewind or early stopping discarded.
struct Path {
  std::vector<Move> moves;   // of iterations 1..M
  std::vector<Risks> risks;  // after iterations 0..M
  int switched_after = -1;   // last iteration of the first phase; -1 if there was no switch
  int rewound_to = -1;       // iterate from which the next phase started
  std::optional<StopReason> stopped;

  int n_iter() const { return static_cast<int>(moves.size()); }
};

class Point {
 public:
  Point(Rows& rows, const Parts& parts, const std::vector<Size>& n_coef, Real step_scale,
        Vec loss_state)
      : scale(step_scale),
        state(std::move(loss_state)),
        rows_(&rows),
        parts_(parts),
        part_(parts.training),
        n_outputs_(rows.n_outputs()) {
    for (const Size d : n_coef) begin_.push_back(begin_.back() + d * n_outputs_);
    f.assign(begin_.back(), 0.0);
  }

  // Sets the rows, the part that is fitted and the learners fitted to its weights (null: a replay).
  // `weight` is the sum of the weights of the part for the squared loss if known, else 0.
  void use(Rows& rows, const Learners* learners, Part part, Real weight) {
    rows_ = &rows;
    learners_ = learners;
    part_ = part;
    weight_ = weight;
  }

  void move(Vec& coef, const Update& update, Real step) const {
    const Size k = checked(update);
    const Size skipped = update.output == all_outputs ? 0 : static_cast<Size>(update.output);
    Real* const to = coef.data() + begin_[k] + skipped * update.theta.size();
    for (Size j = 0; j < update.theta.size(); ++j) to[j] += step * update.theta[j];
  }

  // The verb for slot += step * learner.
  Verb add(Slot slot, const Update& update, Real step, std::optional<Part> within = {}) const {
    const Size k = checked(update);
    if (!learners_) return Add{slot, 0, {}};
    const Learner& learner = *(*learners_)[k];
    Add verb{slot, learner.set(), {}, within, k, update.theta, update.output};
    for (Real& t : verb.theta) t *= step;
    if (rows_->by_theta()) return verb;
    const Size n_moved = update.output == all_outputs ? n_outputs_ : 1;
    verb.bin_values = learner.bin_values(update.theta, n_moved);
    for (Real& v : verb.bin_values) v *= step;
    return verb;
  }

  // Sets f to start + all learners at the given coefficients, and forgets the residual.
  void reset(Vec coef, const Vec& start) {
    f = std::move(coef);
    start_ = start.empty() ? 0.0 : start[0];
    std::vector<Verb> batch = batch_of(Fill{slot_f, start}, Mix{slot_r, 0.0, slot_r, 0.0, slot_r});
    for (Size k = 0; learners_ && k < learners_->size(); ++k) {
      Update all{static_cast<int>(k), Vec(f.begin() + at(k), f.begin() + at(k + 1))};
      if (std::ranges::any_of(all.theta, [](Real t) { return t != 0.0; }))
        batch.push_back(add(slot_f, all, 1.0));
    }
    run(batch);
    ++epoch_;
    moved_ = 0.0;
  }

  // The verb for the risks at f, and for the residual there if a slot is given.
  Verb risks_at_f(Slot out) const {
    std::vector<Part> parts{part_, parts_.training};
    if (parts_.validation) parts.push_back(*parts_.validation);
    return Residual{slot_f, out, parts, true, state};
  }
  Risks risks(const Reply& reply) const {
    Risks out{.training = reply.risk.at(1)};
    if (parts_.validation) out.validation = reply.risk.at(2);
    return out;
  }
  // Whether the risk of the fitted part is infinite or has leapt, because the step was far too
  // long. (The risk of other parts does not matter, and a small rise is normal.)
  bool leapt(const Reply& reply) const {
    const Real risk = reply.risk.at(0);
    return !(risk <= last_ + leap * (std::abs(last_) + std::abs(first_)));
  }
  void accept(const Reply& reply) {
    last_ = reply.risk.at(0);
    if (std::isnan(first_)) first_ = last_;
  }

  // Runs a batch. Rows may be written by users, so their replies are checked.
  std::vector<Reply> run(const std::vector<Verb>& batch) {
    if (batch.empty()) return {};
    auto replies = rows_->run(batch);
    if (replies.size() != batch.size())
      throw std::invalid_argument("the rows gave " + std::to_string(replies.size()) +
                                  " replies to " + std::to_string(batch.size()) + " verbs");
    for (Size i = 0; i < batch.size(); ++i)
      if (const auto* verb = std::get_if<Residual>(&batch[i]); verb && verb->out == slot_r)
        moved_ += replies[i].moved;
    return replies;
  }

  // Runs the first batch of a phase; the verb at `position` is risks_at_f.
  Risks begin(const std::vector<Verb>& batch, Size position) {
    const Reply reply = run(batch).at(position);
    accept(reply);
    return risks(reply);
  }

  // Gains up to this size are rounding errors, and choices by them are noise. For the squared loss,
  // 2 first_ + start_^2 is the mean square of y.
  Real negligible() const {
    return weight_ > 0.0
               ? negligible_root * negligible_root * weight_ * (2.0 * first_ + start_ * start_)
               : 0.0;
  }

  Rows& rows() const { return *rows_; }
  Part part() const { return part_; }
  const Learners* learners() const { return learners_; }
  // Distance that the residual moved since the last call. A new epoch begins with every reset.
  Real take_moved() { return std::exchange(moved_, 0.0); }
  Size epoch() const { return epoch_; }

  Vec f;
  Real scale;
  Vec state;  // of the loss

 private:
  std::ptrdiff_t at(Size k) const { return static_cast<std::ptrdiff_t>(begin_[k]); }

  // The number of the learner of an update. A recorded update may belong to other learners.
  Size checked(const Update& update) const {
    const auto k = static_cast<Size>(update.learner);
    const bool one = update.output != all_outputs;
    if (update.learner < 0 || k + 1 >= begin_.size() ||
        (one && (update.output < 0 || static_cast<Size>(update.output) >= n_outputs_)) ||
        update.theta.size() * (one ? n_outputs_ : 1) != begin_[k + 1] - begin_[k])
      throw std::invalid_argument("the path is not one of these learners");
    return k;
  }

  Rows* rows_;
  const Learners* learners_ = nullptr;
  Parts parts_;
  Part part_;
  Real first_ = std::numeric_limits<Real>::quiet_NaN();  // risk of the fitted part at the start
  Real last_ = 0.0;  // risk of the fitted part after the last step
  Real moved_ = 0.0;
  Real start_ = 0.0, weight_ = 0.0;
  Size epoch_ = 0;
  Size n_outputs_;
  std::vector<Size> begin_{0};
};

}  // namespace cwboost
