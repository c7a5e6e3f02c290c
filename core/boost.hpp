// The engine: what is done with a choice (Plain, Accelerated, Hybrid), and the loop. Drives rows by
// their verbs and learners by their choices; knows nothing of losses, threads or where the rows
// are.
//
// To add an optimizer: one struct with begin and step here, its name in `Optimizer`, and its
// parameters in optimizers.py.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gram_rows.hpp"
#include "point.hpp"
#include "search.hpp"

namespace cwboost {

constexpr int max_halvings = 60;  // a step this small cannot be what makes the risk leap

// --- optimizers ---------------------------------------------------------------------------------

// Verbs around a step: `before` it, `after` it up to the next residual, and those that undo and
// redo what came after if the step must be halved.
struct Around {
  std::vector<Verb> before = {}, after = {}, undo = {}, redo = {};
};

// Takes the step `f += step * choice` in coefficients and rows. A step that makes the risk leap is
// halved until it does not, and that is recorded.
inline Risks descend(Point& point, Move& move, Real step, const Chooser& chooser, Slot residual,
                     Around around) {
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
  Reply reply = take(std::move(around.before), step, around.after);
  while (chooser.live() ? point.leapt(reply) : move.halvings < recorded) {
    if (++move.halvings > max_halvings) throw Stopped{"diverged"};
    step *= 0.5;
    reply = take(around.undo, -step, around.redo);
  }
  point.accept(reply);
  point.move(point.f, move.choice, step);
  return point.risks(reply);
}

// CWB: f += rate b, b the best learner of the residual at f.
struct Plain {
  Real rate;

  Risks begin(Point& point) { return point.begin(batch_of(point.risks_at_f(slot_r)), 0); }

  Risks step(Point& point, Chooser& chooser, int, bool, Move& move) {
    move = chooser.next(point, std::array{slot_r}, {});
    const Real step = rate * point.scale, foreseen = chooser.foresee(point, move.choice, step);
    Around around;
    if (foreseen != 0.0)
      around.before = batch_of(point.add(slot_r, move.choice, foreseen, point.part()));
    return descend(point, move, step, chooser, slot_r, std::move(around));
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

  static Real weight(int m) { return 2.0 / (m + 1.0); }

  Risks begin(Point& point) {
    h = point.f;
    auto batch = batch_of(Mix{slot_h, 1.0, slot_f, 0.0, slot_f}, point.risks_at_f(no_slot));
    for (Verb& verb : residual(point, 1)) batch.push_back(std::move(verb));
    batch.push_back(Mix{slot_c, 1.0, slot_r, 0.0, slot_r});
    return point.begin(batch, 1);
  }

  // One batch ends iteration m and prepares r and c of the next, so that the rows go by once.
  Risks step(Point& point, Chooser& chooser, int m, bool more, Move& move) {
    const Carry carry{m == 1 ? 0.0 : m / (m + 1.0), &previous};
    move = chooser.next(point, std::array{slot_r, slot_c}, carry);
    const Real v = weight(m), momentum_step = momentum * rate / v * point.scale;
    for (Size j = 0; j < h.size(); ++j) point.f[j] = (1.0 - v) * point.f[j] + v * h[j];
    Around around;
    around.before = batch_of(Mix{slot_f, 1.0 - v, slot_f, v, slot_h},
                             point.add(slot_h, move.correction, momentum_step));
    if (more) {
      const Real share = (m + 1) / (m + 2.0);
      around.after = around.redo = residual(point, m + 1);
      around.after.push_back(point.add(slot_c, move.correction, -1.0, point.part()));
      around.after.push_back(Mix{slot_c, 1.0, slot_r, share, slot_c});
      around.undo = batch_of(Mix{slot_c, 1.0, slot_c, -1.0, slot_r});
      around.redo.push_back(Mix{slot_c, 1.0, slot_c, 1.0, slot_r});
    }
    const Risks risks = descend(point, move, rate * point.scale, chooser, no_slot, around);
    point.move(h, move.correction, momentum_step);
    previous = move.correction;
    return risks;
  }

 private:
  static std::vector<Verb> residual(const Point& point, int m) {  // r at g, of iteration m
    const Real v = weight(m);
    return batch_of(Mix{passing_slot, 1.0 - v, slot_f, v, slot_h},
                    Residual{passing_slot, slot_r, {point.part()}, false});
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
  Risks step(Point& point, Chooser& chooser, int m, bool more, Move& move) {
    return switched ? second.step(point, chooser, m, more, move)
                    : first.step(point, chooser, m, more, move);
  }
};

using Optimizer = std::variant<Plain, Accelerated, Hybrid>;

// --- rules on the validation risk, functions of the path alone ----------------------------------

// The iterate with the least validation risk, the first of equals.
inline int best_iteration(std::span<const Risks> risks) {
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

// How choices are made: `full` evaluates every learner in every iteration and is the oracle of the
// others, `certified` only the contenders, `row_free` needs squared loss; all choose the same.
enum class How { automatic, full, certified, row_free };

struct Problem {
  Rows* rows;
  const Learners* training = nullptr;  // fitted to the training part; none: a replay
  const Learners* all = nullptr;       // fitted to all rows, for Hybrid
  std::vector<Size> n_coef;            // per learner
  Vec start;                           // per output
  Real scale;
  Parts parts;
  How how = How::automatic;
  bool other_rows = false;  // a history is followed on rows that it is not from
};

// Whether cross-Grams cost less than rows, in nanoseconds as measured on one machine and guessed
// for another: a residual takes about 2 per row, a pass by an index 0.6, a cross-Gram 1.5 per row
// and a product with it 0.3 per entry. About a third of the learners take part; those have a
// cross-Gram with every other. An eighth are contenders. Rows that are far away are not asked in
// every iteration if the cross-Grams have room.
inline bool row_free_pays(const Rows& rows, const Learners& learners, int n_iter) {
  const auto n = static_cast<double>(rows.n_rows()), m = static_cast<double>(n_iter);
  const auto k = static_cast<double>(learners.size());
  double entries = 0.0;  // of one cross-Gram
  for (const Learner* learner : learners) entries += static_cast<double>(learner->n_coef()) / k;
  entries *= entries;
  const double part = std::min(k, 8.0 + k / 3.0), pairs = part * (k - part / 2.0);
  const double by_rows = m * n * (2.0 + 0.6 * std::min(k, 4.0 + k / 8.0));
  const double without = pairs * (1.5 * n + entries) + m * k * 0.3 * entries;
  return (rows.far() || (rows.n_rows() >= Search::least_rows && without < by_rows)) &&
         pairs * entries < static_cast<double>(Grams::max_entries);
}

struct Until {
  int n_iter;
  int patience;  // iterations without a new best validation risk; 0: never stop early
  // After each iteration that is live or the loop's own (`given`); throws Stopped to end the fit.
  std::function<void(int, const Risks&, const Move&)> after = {};
  std::function<void(int)> recorded = {};  // after each that the history has, and before the first
  // The loop was cut off: of the history it was given the first so many iterations, and the others
  // are its own, which are to end in the bits that they ended in. None: all were given.
  std::optional<int> given = {};
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
    enter(problem_.training, problem_.parts.training, until.n_iter);
    point_.reset(point_.f, problem_.start);
    path.risks.push_back(std::visit([&](auto& o) { return o.begin(point_); }, optimizer_));
    compare(history, 0);
    const int given = std::min(until.given.value_or(history.n_iter()), history.n_iter());
    const int patient_from = impatient(history, given, until.patience) ? given : 0;
    try {
      if (until.recorded) until.recorded(0);
      for (int m = 1; m <= until.n_iter; ++m) {
        const bool live = m > history.n_iter();
        if (live ? must_switch() : m - 1 == history.switched_after)
          switch_over(history, until.n_iter);
        recorded.own = m > given;
        recorded.beside = recorded.own && gram_rows_ ? search_.get() : nullptr;
        iterate(live ? *search_ : recorded, m, m < until.n_iter);
        if (!live) compare(history, m);
        if (path.risks.back().validation < path.risks[static_cast<Size>(best_)].validation)
          best_ = m;
        if (!live && until.recorded) until.recorded(m);
        if (m <= given) continue;
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
  // A phase begins: rows and learners of one part, and who chooses among them.
  void enter(const Learners* learners, Part part, int n_iter) {
    Rows& rows = *problem_.rows;
    const How how = problem_.how;
    const bool can = learners && !learners->empty() && rows.linear() && rows.knows_cross();
    const Real weight = can ? rows.weight(part) : 0.0;
    if (how == How::row_free && learners && !can)
      throw std::invalid_argument("only the squared loss can do without rows");
    if (can && (how == How::row_free ||
                (how == How::automatic && row_free_pays(rows, *learners, n_iter)))) {
      std::vector<Part> parts{part, problem_.parts.training};
      if (problem_.parts.validation) parts.push_back(*problem_.parts.validation);
      auto gram_rows = std::make_unique<GramRows>(rows, *learners, parts);
      search_ = std::make_unique<GramSearch>(*gram_rows);
      gram_rows_ = std::move(gram_rows);
      return point_.use(*gram_rows_, learners, part, weight);
    }
    search_ = std::make_unique<Search>(how == How::full, n_iter);
    point_.use(rows, learners, part, weight);
    gram_rows_.reset();
  }

  void iterate(Chooser& chooser, int m, bool more) {
    Move move;
    const Risks risks =
        std::visit([&](auto& o) { return o.step(point_, chooser, m, more, move); }, optimizer_);
    path.moves.push_back(std::move(move));
    path.risks.push_back(risks);
  }

  // Extending needs the rows of the fit: their risks are its fingerprint.
  void compare(const Path& history, int m) {
    auto& risks = path.risks[static_cast<Size>(m)];
    if (static_cast<Size>(m) >= history.risks.size() || problem_.other_rows) return;
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

  // A history that ended, after so many iterations, for want of patience is given it anew.
  static bool impatient(const Path& history, int ended, int patience) {
    if (ended == 0) return false;
    const auto risks = std::span(history.risks).first(static_cast<Size>(ended) + 1);
    const int switched = history.switched_after < ended ? history.switched_after : -1;
    return ended - std::max(best_iteration(risks), switched) >= patience;
  }

  bool must_switch() const {
    const auto* hybrid = std::get_if<Hybrid>(&optimizer_);
    return hybrid && !hybrid->switched && turned(path.risks, best_, hybrid->switch_after);
  }

  void switch_over(const Path& history, int n_iter) {
    auto& hybrid = std::get<Hybrid>(optimizer_);
    const int m = path.n_iter();
    const bool recorded = m == history.switched_after;
    path.switched_after = m;
    path.rewound_to = recorded ? history.rewound_to : hybrid.rewind ? best_ : m;
    Vec coef = point_.f;
    if (path.rewound_to < m) coef = replay(path.rewound_to);
    hybrid.switched = true;
    if (hybrid.then_all && problem_.training) enter(problem_.all, problem_.parts.all, n_iter - m);
    point_.reset(std::move(coef), problem_.start);
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
  std::unique_ptr<GramRows> gram_rows_;
  std::unique_ptr<Chooser> search_;
};

}  // namespace cwboost
