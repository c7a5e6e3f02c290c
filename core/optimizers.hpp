// Optimizers: what one iteration does with the chosen learners (Plain, Accelerated, Hybrid).
// Does not know how a learner is chosen (search.hpp), what a loss is, or where the rows are.
//
// To add an optimizer: a class here, a line in bind_boost.cpp, a class in optimizers.py. The loop
// (boost.hpp) asks the optimizer itself what it needs.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "early_stopping.hpp"
#include "point.hpp"
#include "search.hpp"

namespace cwboost {

constexpr int max_halvings = 60;  // then the step is too short to be the cause

// The phase that follows the current one.
struct NextPhase {
  bool rewind;    // go back to the best iterate
  bool all_rows;  // fit all rows from then on, not only the training part
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::unique_ptr<Optimizer> clone() const = 0;

  // Prepares the slots for the first iteration of a phase; returns the risks at f.
  virtual Risks begin(Point& point) = 0;
  // Iteration m = 1, 2, ..: asks `chooser` for a move, takes it and returns the risks after it.
  // `more`: another iteration will follow, so its residuals are wanted.
  virtual Risks step(Point& point, Chooser& chooser, int m, bool more, Move& move) = 0;

  // An optimizer of several phases says what the next one is, and when the current one is over
  // given the risks so far and the best iteration.
  virtual std::optional<NextPhase> next_phase() const { return {}; }
  virtual bool phase_is_over(std::span<const Risks>, int /*best*/) const { return false; }
  virtual void enter_next_phase(Point&) {}
  // Whether early stopping applies to the current phase.
  virtual bool may_stop_early() const { return true; }
};

// The verbs around a step: `before` it, `after` it up to the next residual, and instead of the
// latter `after_halving` if the step was halved.
struct StepVerbs {
  std::vector<Verb> before = {}, after = {}, after_halving = {};
};

// Takes the step f += step * choice in coefficients and rows. A step that makes the risk leap is
// halved until it does not; the path records how often.
inline Risks descend(Point& point, Move& move, Real step, const Chooser& chooser, Slot residual,
                     StepVerbs around) {
  const auto take = [&](std::vector<Verb> batch, Real length, const std::vector<Verb>& rest) {
    batch.push_back(point.add(slot_f, move.choice, length));
    batch.push_back(point.risks_at_f(residual));
    const Size position = batch.size() - 1;
    batch.insert(batch.end(), rest.begin(), rest.end());
    return std::move(point.run(batch).at(position));
  };
  const int recorded = move.halvings;
  if (chooser.retraces())
    move.halvings = 0;
  else
    step = std::ldexp(step, -recorded);
  Reply reply = take(std::move(around.before), step,
                     move.halvings == 0 ? around.after : around.after_halving);
  while (chooser.live() ? point.leapt(reply) : move.halvings < recorded) {
    if (++move.halvings > max_halvings) throw Stop{StopReason::diverged};
    step *= 0.5;
    reply = take({}, -step, around.after_halving);
  }
  point.accept(reply);
  point.move(point.f, move.choice, step);
  return point.risks(reply);
}

// CWB: f += rate b, b the best learner for the residual at f.
class Plain final : public Optimizer {
 public:
  explicit Plain(Real rate) : rate_(rate) {}
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<Plain>(*this); }

  Risks begin(Point& point) override { return point.begin(batch_of(point.risks_at_f(slot_r)), 0); }

  Risks step(Point& point, Chooser& chooser, int, bool, Move& move) override {
    move = chooser.next(point, std::array{slot_r}, {});
    const Real step = rate_ * point.scale,
               predicted = chooser.predict_move(point, move.choice, step);
    StepVerbs around;
    if (predicted != 0.0)
      around.before = batch_of(point.add(slot_r, move.choice, predicted, point.part()));
    return descend(point, move, step, chooser, slot_r, std::move(around));
  }

 private:
  Real rate_;
};

// ACWB, m = 1, 2, ..:  v = 2 / (m + 1);  g = (1 - v) f + v h;  r = residual at g;
//   f = g + rate b(r);  c = r + m / (m + 1) (c - b(c)) of the previous c;  h += momentum rate / v
//   b(c).  After a step that was halved c starts again at r: its previous value is lost in the
//   residual of the step that leapt, which may be infinite.
class Accelerated final : public Optimizer {
 public:
  Accelerated(Real rate, Real momentum) : rate_(rate), momentum_(momentum) {}
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<Accelerated>(*this); }

  Risks begin(Point& point) override {
    h_ = point.f;
    halved_ = false;
    auto batch = batch_of(Mix{slot_h, 1.0, slot_f, 0.0, slot_f}, point.risks_at_f(no_slot));
    for (Verb& verb : residual(point, 1)) batch.push_back(std::move(verb));
    batch.push_back(Mix{slot_c, 1.0, slot_r, 0.0, slot_r});
    return point.begin(batch, 1);
  }

  // One batch ends iteration m and prepares r and c of the next, so that one pass over the rows is
  // enough.
  Risks step(Point& point, Chooser& chooser, int m, bool more, Move& move) override {
    const Carry carry{m == 1 || halved_ ? 0.0 : m / (m + 1.0), &previous_};
    move = chooser.next(point, std::array{slot_r, slot_c}, carry);
    const Real v = weight(m), momentum_step = momentum_ * rate_ / v * point.scale;
    for (Size j = 0; j < h_.size(); ++j) point.f[j] = (1.0 - v) * point.f[j] + v * h_[j];
    StepVerbs around;
    around.before = batch_of(Mix{slot_f, 1.0 - v, slot_f, v, slot_h},
                             point.add(slot_h, move.correction, momentum_step));
    if (more) {
      const Real share = (m + 1) / (m + 2.0);
      around.after = around.after_halving = residual(point, m + 1);
      around.after.push_back(point.add(slot_c, move.correction, -1.0, point.part()));
      around.after.push_back(Mix{slot_c, 1.0, slot_r, share, slot_c});
      around.after_halving.push_back(Mix{slot_c, 1.0, slot_r, 0.0, slot_r});
    }
    const Risks risks = descend(point, move, rate_ * point.scale, chooser, no_slot, around);
    point.move(h_, move.correction, momentum_step);
    previous_ = move.correction;
    halved_ = move.halvings > 0;
    return risks;
  }

 private:
  static Real weight(int m) { return 2.0 / (m + 1.0); }

  static std::vector<Verb> residual(const Point& point, int m) {  // r at g, of iteration m
    const Real v = weight(m);
    return batch_of(Mix{passing_slot, 1.0 - v, slot_f, v, slot_h},
                    Residual{passing_slot, slot_r, {point.part()}, false, point.state});
  }

  Real rate_, momentum_;
  Vec h_;                // coefficients of the momentum's score
  Update previous_;      // the last correction
  bool halved_ = false;  // the last step was halved
};

// HCWB: Accelerated until the watched value (early_stopping.hpp) turns upwards, then Plain, on all
// rows or on the training part.
class Hybrid final : public Optimizer {
 public:
  Hybrid(Real rate, Real momentum, int switch_after, bool rewind, bool then_all,
         int switch_patience)
      : first_(rate, momentum),
        second_(rate),
        switch_after_(switch_after),
        switch_patience_(switch_patience),
        next_{rewind, then_all} {}
  std::unique_ptr<Optimizer> clone() const override { return std::make_unique<Hybrid>(*this); }

  Risks begin(Point& point) override { return first_.begin(point); }
  Risks step(Point& point, Chooser& chooser, int m, bool more, Move& move) override {
    return switched_ ? second_.step(point, chooser, m, more, move)
                     : first_.step(point, chooser, m, more, move);
  }

  std::optional<NextPhase> next_phase() const override {
    return switched_ ? std::nullopt : std::optional(next_);
  }
  // The value rose `switch_after` times in a row, or had no new best for `switch_patience` times.
  bool phase_is_over(std::span<const Risks> risks, int best) const override {
    int rises = 0;
    for (Size m = risks.size() - 1; m > 0 && is_lower(watched(risks[m - 1]), watched(risks[m]));
         --m)
      ++rises;
    const int last = static_cast<int>(risks.size()) - 1;
    return rises >= switch_after_ || (switch_patience_ > 0 && last - best >= switch_patience_);
  }
  void enter_next_phase(Point& point) override {
    switched_ = true;
    second_.begin(point);
  }
  bool may_stop_early() const override { return switched_ && !next_.all_rows; }

 private:
  Accelerated first_;
  Plain second_;
  int switch_after_;
  int switch_patience_;  // 0: none
  NextPhase next_;
  bool switched_ = false;
};

}  // namespace cwboost
