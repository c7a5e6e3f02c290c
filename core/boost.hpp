// The engine: which learner is best (search), what is done with it (Plain, Accelerated, Hybrid),
// and the record of it (path). Drives rows by their verbs and learners by their bin sums; knows
// nothing of losses, threads or where the rows are.
//
// To add an optimizer: one struct with begin and step here, its name in `Optimizer`, and its
// parameters in optimizers.py.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "learner.hpp"
#include "rows.hpp"
#include "types.hpp"

namespace cwboost {

// Slots. f: the model's score. Accelerated: h the momentum's, g between them, r the residual at g,
// c the corrected residual.
constexpr Slot slot_f = 0, slot_r = 1, slot_g = 2, slot_h = 3, slot_c = 4;

// Which of the rows' weight vectors a fit uses; a fold or a bag is another choice of them.
struct Parts {
  Part training = 0;
  std::optional<Part> validation = {};
  Part all = 0;  // Hybrid goes on with it
};

constexpr Real tie = 1e-9;        // gains closer than this are equal: the first listed wins
constexpr Real leap = 10.0;       // a risk that rises by so many times its size has leapt
constexpr int max_halvings = 60;  // a step this small cannot be what makes it leap

struct Update {
  int learner = -1;
  Vec theta;  // (n_coef) per output, in units of the residual: not yet times rate and scale
};

struct Move {  // all that one iteration decided
  Update choice;
  Update correction;  // Accelerated only
  int halvings = 0;   // how often the step was halved to keep the risk from leaping
};

struct Risks {
  Real training = 0.0;
  Real validation = std::numeric_limits<Real>::quiet_NaN();
};

// The chronological record: every iteration run, also those a rewind or early stopping left behind.
struct Path {
  std::vector<Move> moves;   // of iterations 1..M
  std::vector<Risks> risks;  // after iterations 0..M
  int switched_after = -1;   // Hybrid: the last accelerated iteration
  int rewound_to = -1;       // Hybrid: the iterate it went on from
  std::string stopped;       // why it ended

  int n_iter() const { return static_cast<int>(moves.size()); }
};

// The engine stops; the path up to here is sound.
struct Stopped {
  std::string reason;
};

// --- the point that optimizers move -------------------------------------------------------------

// Scores of the rows and, in step with them, the coefficients of all learners end to end.
class Point {
 public:
  Point(Rows& rows, const Parts& parts, const std::vector<Size>& n_coef, Real step_scale)
      : scale(step_scale), rows_(rows), parts_(parts), part_(parts.training) {
    for (const Size d : n_coef) begin_.push_back(begin_.back() + d * rows.n_outputs());
    f.assign(begin_.back(), 0.0);
  }

  // Learners, fitted to this part's weights, that choices are made from. None: a replay.
  void use(const std::vector<Learner>* learners, Part part) {
    learners_ = learners;
    part_ = part;
  }

  void move(Vec& coef, const Update& update, Real step) const {
    const Size k = checked(update);
    for (Size j = 0; j < update.theta.size(); ++j) coef[begin_[k] + j] += step * update.theta[j];
  }

  // slot += step * learner, for a batch
  Verb add(Slot slot, const Update& update, Real step) const {
    const Size k = checked(update);
    if (!learners_) return Add{slot, 0, {}};
    const Learner& learner = (*learners_)[k];
    Vec values = learner.bin_values(update.theta, rows_.n_outputs());
    for (Real& v : values) v *= step;
    return Add{slot, learner.set(), std::move(values)};
  }

  // f := start + all learners at the given coefficients
  void reset(Vec coef, const Vec& start) {
    f = std::move(coef);
    std::vector<Verb> batch = batch_of(Fill{slot_f, start});
    for (Size k = 0; learners_ && k < learners_->size(); ++k) {
      Update all{static_cast<int>(k), Vec(f.begin() + at(k), f.begin() + at(k + 1))};
      if (std::ranges::any_of(all.theta, [](Real t) { return t != 0.0; }))
        batch.push_back(add(slot_f, all, 1.0));
    }
    run(batch);
  }

  // The last verb of every iteration: risks at f, and the residual there if a slot is given.
  Verb risks_at_f(Slot out) const {
    std::vector<Part> parts{part_, parts_.training};
    if (parts_.validation) parts.push_back(*parts_.validation);
    return Residual{slot_f, out, parts};
  }
  Risks risks(const Reply& reply) const {
    Risks out{reply.risk.at(1)};
    if (parts_.validation) out.validation = reply.risk.at(2);
    return out;
  }
  // The risk of the rows that are fitted is infinite or has leapt: a step far too long. (Other rows
  // may run away without harm, and a risk may rise.)
  bool leapt(const Reply& reply) const {
    const Real risk = reply.risk.at(0);
    return !(risk <= last_ + leap * (std::abs(last_) + std::abs(first_)));
  }
  void accept(const Reply& reply) {
    last_ = reply.risk.at(0);
    if (std::isnan(first_)) first_ = last_;
  }

  // Runs a batch and gives the last reply. Rows may be anyone's, so what they say is checked.
  Reply run(const std::vector<Verb>& batch) const {
    if (batch.empty()) return {};
    auto replies = rows_.run(batch);
    if (replies.size() != batch.size())
      throw std::invalid_argument("rows gave " + std::to_string(replies.size()) + " replies to " +
                                  std::to_string(batch.size()) + " verbs");
    return std::move(replies.back());
  }

  // Runs a batch that ends with risks_at_f, before the first step of a phase.
  Risks begin(const std::vector<Verb>& batch) {
    const Reply reply = run(batch);
    accept(reply);
    return risks(reply);
  }

  Rows& rows() const { return rows_; }
  Part part() const { return part_; }
  const std::vector<Learner>* learners() const { return learners_; }

  Vec f;
  Real scale;

 private:
  std::ptrdiff_t at(Size k) const { return static_cast<std::ptrdiff_t>(begin_[k]); }

  // Number of the update's learner; a recorded update may be of other learners than these.
  Size checked(const Update& update) const {
    const auto k = static_cast<Size>(update.learner);
    if (update.learner < 0 || k + 1 >= begin_.size() ||
        update.theta.size() != begin_[k + 1] - begin_[k])
      throw std::invalid_argument("the path is not one of these learners");
    return k;
  }

  Rows& rows_;
  const std::vector<Learner>* learners_ = nullptr;
  Parts parts_;
  Part part_;
  Real first_ = std::numeric_limits<Real>::quiet_NaN();  // risk of the fitted rows at the start
  Real last_ = 0.0;                                      // and after the last step
  std::vector<Size> begin_{0};
};

// --- who decides --------------------------------------------------------------------------------

// Runs the batch, then says what this iteration does: one update per residual slot.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual Move next(const Point& point, std::vector<Verb> batch, std::span<const Slot> slots) = 0;
  virtual bool live() const = 0;  // false: the move is a record and must not be altered
};

// The full search: every learner, the largest gain.
class Search final : public Chooser {
 public:
  bool live() const override { return true; }

  Move next(const Point& point, std::vector<Verb> batch, std::span<const Slot> slots) override {
    const auto& learners = *point.learners();
    std::vector<Set> sets;
    for (const Learner& learner : learners) sets.push_back(learner.set());
    std::ranges::sort(sets);
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    batch.push_back(BinSums{{slots.begin(), slots.end()}, sets, point.part()});
    const auto sums = point.run(batch).sums;
    if (sums.size() != slots.size() * sets.size())
      throw std::invalid_argument("rows gave sums of other sets than were asked for");
    Move move;
    Update* const updates[] = {&move.choice, &move.correction};
    for (Size s = 0; s < slots.size(); ++s)
      *updates[s] = best(learners, sets, std::span(sums).subspan(s * sets.size(), sets.size()),
                         point.rows().n_outputs());
    return move;
  }

 private:
  static Update best(const std::vector<Learner>& learners, const std::vector<Set>& sets,
                     std::span<const Vec> sums, Size n_outputs) {
    std::vector<Fit> fits;
    Real top = 0.0;
    for (const Learner& learner : learners) {
      const auto k = std::ranges::lower_bound(sets, learner.set()) - sets.begin();
      fits.push_back(learner.fit(sums[static_cast<Size>(k)], n_outputs));
      if (!std::isfinite(fits.back().gain)) throw Stopped{"diverged"};
      top = std::max(top, fits.back().gain);
    }
    if (top <= 0.0) throw Stopped{"nothing left to gain"};
    Size k = 0;
    while (fits[k].gain < (1.0 - tie) * top) ++k;
    return {static_cast<int>(k), std::move(fits[k].theta)};
  }
};

class Recorded final : public Chooser {
 public:
  explicit Recorded(const std::vector<Move>& moves) : moves_(moves) {}
  bool live() const override { return false; }
  Move next(const Point& point, std::vector<Verb> batch, std::span<const Slot>) override {
    point.run(batch);
    return moves_.at(next_++);
  }

 private:
  const std::vector<Move>& moves_;
  Size next_ = 0;
};

// --- optimizers ---------------------------------------------------------------------------------

// Takes the step `f += step * choice` in coefficients and rows and sends the rest of the batch with
// it. A step that makes the risk leap is halved until it does not, and that is recorded.
inline Risks descend(Point& point, Move& move, Real step, bool live, std::vector<Verb> batch,
                     Slot residual_slot) {
  step = std::ldexp(step, -move.halvings);
  batch.push_back(point.add(slot_f, move.choice, step));
  batch.push_back(point.risks_at_f(residual_slot));
  Reply reply = point.run(batch);
  while (live && point.leapt(reply)) {
    if (++move.halvings > max_halvings) throw Stopped{"diverged"};
    step *= 0.5;
    batch = batch_of(point.add(slot_f, move.choice, -step), point.risks_at_f(residual_slot));
    reply = point.run(batch);
  }
  point.accept(reply);
  point.move(point.f, move.choice, step);
  return point.risks(reply);
}

// CWB: f += rate b, b the best learner of the residual at f.
struct Plain {
  Real rate;

  Risks begin(Point& point) { return point.begin(batch_of(point.risks_at_f(slot_r))); }

  Risks step(Point& point, Chooser& chooser, int, Move& move) {
    move = chooser.next(point, {}, std::array{slot_r});
    return descend(point, move, rate * point.scale, chooser.live(), {}, slot_r);
  }
};

// ACWB, m = 1, 2, ..:  v = 2 / (m + 1);  g = (1 - v) f + v h;  r = residual at g;
//   f = g + rate b(r);  c = r + m / (m + 1) (c - b(c)) of the previous c;  h += momentum rate / v
//   b(c).
struct Accelerated {
  Real rate;
  Real momentum;
  Vec h = {};            // coefficients of the momentum's score
  Update previous = {};  // the last correction

  Risks begin(Point& point) {
    h = point.f;
    const auto batch = batch_of(Mix{slot_h, 1.0, slot_f, 0.0, slot_f}, point.risks_at_f(no_slot));
    return point.begin(batch);
  }

  Risks step(Point& point, Chooser& chooser, int m, Move& move) {
    const Real v = 2.0 / (m + 1.0);
    auto batch =
        batch_of(Mix{slot_g, 1.0 - v, slot_f, v, slot_h}, Residual{slot_g, slot_r, {point.part()}});
    if (m == 1) {
      batch.push_back(Mix{slot_c, 1.0, slot_r, 0.0, slot_r});
    } else {
      batch.push_back(point.add(slot_c, previous, -1.0));
      batch.push_back(Mix{slot_c, 1.0, slot_r, m / (m + 1.0), slot_c});
    }
    move = chooser.next(point, batch, std::array{slot_r, slot_c});
    for (Size j = 0; j < h.size(); ++j) point.f[j] = (1.0 - v) * point.f[j] + v * h[j];
    const Real momentum_step = momentum * rate / v * point.scale;
    batch = batch_of(Mix{slot_f, 1.0, slot_g, 0.0, slot_g},
                     point.add(slot_h, move.correction, momentum_step));
    const Risks risks =
        descend(point, move, rate * point.scale, chooser.live(), std::move(batch), no_slot);
    point.move(h, move.correction, momentum_step);
    previous = move.correction;
    return risks;
  }
};

// HCWB: Accelerated until the validation risk turns, then Plain, on all rows or on the same.
struct Hybrid {
  Accelerated first;
  Plain second;
  int switch_after;
  bool rewind;
  bool then_all;
  bool switched = false;

  Risks begin(Point& point) { return first.begin(point); }
  Risks step(Point& point, Chooser& chooser, int m, Move& move) {
    return switched ? second.step(point, chooser, m, move) : first.step(point, chooser, m, move);
  }
};

using Optimizer = std::variant<Plain, Accelerated, Hybrid>;

// --- rules on the validation risk, functions of the path alone ----------------------------------

// The iterate with the least validation risk, the first of equals.
inline int best_iteration(const std::vector<Risks>& risks) {
  Size best = 0;
  for (Size m = 1; m < risks.size(); ++m)
    if (risks[m].validation < risks[best].validation) best = m;
  return static_cast<int>(best);
}

// Hybrid: the risk rose `switch_after` times in a row, or had no new best for ten times that.
inline bool turned(const std::vector<Risks>& risks, int best, int switch_after) {
  int rises = 0;
  for (Size m = risks.size() - 1; m > 0 && risks[m].validation > risks[m - 1].validation; --m)
    ++rises;
  const int last = static_cast<int>(risks.size()) - 1;
  return rises >= switch_after || last - best >= 10 * switch_after;
}

// --- the loop -----------------------------------------------------------------------------------

struct Problem {
  Rows* rows;
  const std::vector<Learner>* training = nullptr;  // fitted to the training part; none: a replay
  const std::vector<Learner>* all = nullptr;       // fitted to all rows, for Hybrid
  std::vector<Size> n_coef;                        // per learner
  Vec start;                                       // per output
  Real scale;
  Parts parts;
};

struct Until {
  int n_iter;
  int patience;  // iterations without a new best validation risk; 0: never stop early
  // After each live iteration; throws Stopped to end the fit.
  std::function<void(int, const Risks&, const Move&)> after = {};
};

class Boost {
 public:
  Boost(const Problem& problem, Optimizer optimizer)
      : problem_(problem),
        optimizer_(std::move(optimizer)),
        point_(*problem.rows, problem.parts, problem.n_coef, problem.scale) {}

  // Follows `history` and goes on from its end; the path so far is sound whenever this throws.
  void run(const Path& history, const Until& until) {
    Recorded recorded(history.moves);
    Search search;
    point_.use(problem_.training, problem_.parts.training);
    point_.reset(point_.f, problem_.start);
    path.risks.push_back(std::visit([&](auto& o) { return o.begin(point_); }, optimizer_));
    compare(history, 0);
    // A history that ended for want of patience is given it anew.
    const int ended = history.n_iter();
    const bool impatient =
        ended - std::max(best_iteration(history.risks), history.switched_after) >= until.patience;
    const int patient_from = ended > 0 && impatient ? ended : 0;
    try {
      for (int m = 1; m <= until.n_iter; ++m) {
        const bool live = m > history.n_iter();
        if (live ? must_switch() : m - 1 == history.switched_after) switch_over(history);
        iterate(live ? static_cast<Chooser&>(search) : recorded, m);
        if (!live) compare(history, m);
        if (path.risks.back().validation < path.risks[static_cast<Size>(best_)].validation)
          best_ = m;
        if (!live) continue;
        if (until.after) until.after(m, path.risks.back(), path.moves.back());
        if (must_stop(until.patience, patient_from)) throw Stopped{"no better validation risk"};
      }
      path.stopped = "n_iter reached";
    } catch (const Stopped& stop) {
      path.stopped = stop.reason;
    }
  }

  Path path;
  const Vec& coef() const { return point_.f; }

 private:
  void iterate(Chooser& chooser, int m) {
    Move move;
    const Risks risks =
        std::visit([&](auto& o) { return o.step(point_, chooser, m, move); }, optimizer_);
    path.moves.push_back(std::move(move));
    path.risks.push_back(risks);
  }

  // Extending needs the rows of the fit: their risks are its fingerprint.
  void compare(const Path& history, int m) {
    auto& risks = path.risks[static_cast<Size>(m)];
    if (static_cast<Size>(m) >= history.risks.size()) return;
    const Risks& old = history.risks[static_cast<Size>(m)];
    if (problem_.training) {
      const Real noise = 1e-12 * std::abs(history.risks[0].training);
      const auto differ = [noise](Real a, Real b) {
        return std::abs(a - b) > noise + 1e-6 * std::max(std::abs(a), std::abs(b));
      };
      if (differ(old.training, risks.training) || differ(old.validation, risks.validation))
        throw std::invalid_argument(
            "these are not the rows of the fit: after " + std::to_string(m) +
            " iterations its risk was " + std::to_string(old.training) + ", here it is " +
            std::to_string(risks.training) + "; pass the same table, y, weights, offset and " +
            "validation rows");
    }
    risks = old;
  }

  bool must_switch() const {
    const auto* hybrid = std::get_if<Hybrid>(&optimizer_);
    return hybrid && !hybrid->switched && turned(path.risks, best_, hybrid->switch_after);
  }

  void switch_over(const Path& history) {
    auto& hybrid = std::get<Hybrid>(optimizer_);
    const int m = path.n_iter();
    const bool recorded = m == history.switched_after;
    path.switched_after = m;
    path.rewound_to = recorded ? history.rewound_to : hybrid.rewind ? best_ : m;
    Vec coef = point_.f;
    if (path.rewound_to < m) coef = replay(path.rewound_to);
    hybrid.switched = true;
    if (hybrid.then_all && problem_.training) point_.use(problem_.all, problem_.parts.all);
    if (path.rewound_to < m) point_.reset(std::move(coef), problem_.start);
    hybrid.second.begin(point_);
  }

  // Coefficients of iterate m, m within the accelerated phase, from the path alone.
  Vec replay(int m) const {
    NoRows nowhere(problem_.rows->n_outputs());
    Problem bare = problem_;
    bare.rows = &nowhere;
    bare.training = bare.all = nullptr;
    const Accelerated& first = std::get<Hybrid>(optimizer_).first;
    Boost again(bare, Accelerated{first.rate, first.momentum});
    again.run(path, {m, 0});
    return again.coef();
  }

  bool must_stop(int patience, int patient_from) const {
    if (!problem_.parts.validation || patience <= 0) return false;
    int since = best_;
    if (const auto* hybrid = std::get_if<Hybrid>(&optimizer_)) {
      if (!hybrid->switched || hybrid->then_all) return false;
      since = std::max(since, path.switched_after);
    }
    return path.n_iter() - std::max(since, patient_from) >= patience;
  }

  int best_ = 0;  // iterate with the least validation risk so far, the first of equals
  Problem problem_;
  Optimizer optimizer_;
  Point point_;
};

}  // namespace cwboost
