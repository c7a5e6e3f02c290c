// Which learner is best: the choice of the largest gain, made by evaluating only the contenders.
// Knows gains, bounds and how rows are asked; knows nothing of what is done with the choice.
//
// sqrt(gain_k) is a seminorm of the residual of norm at most one (the eigenvalues of 2H - HH lie in
// [0, 1]), so it cannot change by more than the residual moved. Every learner has its last exact
// value and the distance moved since: an upper bound. They are evaluated in the order of the bounds
// until the best exact value reaches the next bound; what is left cannot be the choice.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gram_rows.hpp"
#include "grams.hpp"
#include "point.hpp"

namespace cwboost {

constexpr Real tie = 1e-9;        // gains closer than this are equal: the first listed wins
constexpr Real rounding = 1e-12;  // of a root of a gain, as a share of the residual's norm
constexpr Real infinite = std::numeric_limits<Real>::infinity();

// How c comes from r: c = r + share (c - removed), removed the last correction; share 0: c = r.
struct Carry {
  Real share = 0.0;
  const Update* removed = nullptr;
};

// Says what an iteration does: one update per residual slot, r first, then c if there is one.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual Move next(Point& point, std::span<const Slot> slots, const Carry& carry) = 0;
  virtual bool live() const = 0;  // false: the move is a record and must not be altered
  // The record is gone through just as it was made, so that the rows have the same bits after it.
  virtual bool retraces() const { return false; }
  // r is about to become the residual at f + step * choice: what multiple of the choice it will
  // have moved by, about. The rows add it to r, so that `moved` is only what was not foreseen.
  virtual Real foresee(const Point&, const Update&, Real) { return 0.0; }
};

class RecordedMoves final : public Chooser {
 public:
  explicit RecordedMoves(const std::vector<Move>& moves) : moves_(moves) {}
  bool live() const override { return false; }
  bool retraces() const override { return own; }
  Move next(Point& point, std::span<const Slot> slots, const Carry& carry) override {
    if (beside) beside->next(point, slots, carry);
    return moves_.at(next_++);
  }

  bool own = false;  // of this very loop, before it was cut off
  // Searches as it did then. What it finds is known, but a search without rows leaves behind sums
  // that were refreshed when it asked, and whose last bits depend on when that was.
  Chooser* beside = nullptr;

 private:
  const std::vector<Move>& moves_;
  Size next_ = 0;
};

// What is known of all learners' sums of one residual.
struct Knowledge {
  std::vector<Vec> s;  // B'u, (n_coef) per output: exact, or as propagated
  Vec root, gain;      // of s
  Vec error;           // how far, in norm, the residual may be from one whose sums are s
  std::vector<char> exact;

  void forget(const Learners& learners, Size n_outputs) {
    s.resize(learners.size());
    for (Size j = 0; j < learners.size(); ++j) s[j].assign(learners[j]->n_coef() * n_outputs, 0.0);
    root.assign(learners.size(), 0.0);
    gain = root;
    error.assign(learners.size(), infinite);
    exact.assign(learners.size(), 0);
  }

  Real bound(Size j) const { return root[j] + error[j]; }

  // Gain and root of s[j]; `theta` is scratch.
  void solve(const Learners& learners, Size j, Vec& theta) {
    theta.resize(s[j].size());
    gain[j] = learners[j]->solve(s[j], theta);
    root[j] = std::isfinite(gain[j]) ? std::sqrt(std::max(gain[j], 0.0)) : infinite;
  }

  // The same for sums that were propagated: if they left the range, nothing is known.
  void estimate(const Learners& learners, Size j, Vec& theta) {
    solve(learners, j, theta);
    if (!std::isfinite(root[j])) error[j] = infinite;
  }

  void make_exact(const Learners& learners, Size j, const Vec& u, Vec& theta) {
    learners[j]->contract(u, s[j]);
    solve(learners, j, theta);
    error[j] = 0.0;
    exact[j] = 1;
  }

  // Makes contenders exact, some at a time and the largest bound first, until no other can be the
  // choice. A contender's bound is not below what another learner has for sure.
  template <class Make>
  void settle(Size at_a_time, Real slack, Make make) {
    Real sure = 0.0, best = -infinite;
    for (Size j = 0; j < root.size(); ++j) {
      sure = std::max(sure, root[j] - error[j]);
      if (exact[j]) best = std::max(best, root[j]);
    }
    const auto below = [slack](Real bound, Real value) {
      return bound < value - std::max(tie * value, slack);
    };
    std::vector<std::pair<Real, Size>> heap;  // the largest bound on top
    for (Size j = 0; j < root.size(); ++j)
      if (!exact[j] && !below(bound(j), sure)) heap.emplace_back(bound(j), j);
    std::ranges::make_heap(heap);
    std::vector<Size> wave;
    while (!heap.empty()) {
      wave.clear();
      while (!heap.empty() && wave.size() < at_a_time && !below(heap[0].first, best)) {
        std::ranges::pop_heap(heap);
        if (!exact[heap.back().second]) wave.push_back(heap.back().second);
        heap.pop_back();
      }
      if (wave.empty()) break;
      make(wave);
      for (const Size j : wave) best = std::max(best, root[j]);
    }
  }

  // The first of those exact whose gain is the largest, ties counted as equal.
  Update choice(const Learners& learners, Real negligible) const {
    Real top = 0.0;
    for (Size j = 0; j < gain.size(); ++j) {
      if (!exact[j]) continue;
      if (!std::isfinite(gain[j])) throw Stop{StopReason::diverged};
      top = std::max(top, gain[j]);
    }
    if (top <= negligible) throw Stop{StopReason::nothing_left_to_gain};
    Size k = 0;
    while (!exact[k] || gain[k] < (1.0 - tie) * top) ++k;
    Update out{static_cast<int>(k), Vec(s[k].size())};
    learners[k]->solve(s[k], out.theta);
    return out;
  }
};

// Rows are asked for the bin sums of the contenders; with `full`, for those of all learners.
class Search final : public Chooser {
 public:
  static constexpr Size least_rows = 2000;    // fewer: a pass costs less than a cross-Gram
  static constexpr double worthwhile = 15.0;  // uses that pay for a cross-Gram
  static constexpr Size rows_per_entry = 16;  // of a cross-Gram that saves more than it costs

  Search(bool full, int n_iter) : full_(full), left_(n_iter) {}
  bool live() const override { return true; }

  // To first order r moves by -slope times the step, slope the mean second derivative of the loss.
  // Worth the cross-Grams only for a learner that will be chosen many times more.
  Real foresee(const Point& point, const Update& choice, Real step) override {
    const auto k = static_cast<Size>(choice.learner);
    last_step_ = step;
    const double uses = static_cast<double>(chosen_[k]) / n_moves_ * left_;
    started_[k] = started_[k] || uses >= worthwhile;
    if (!(slope_ > 0.0) || !started_[k] || !can_cross(point)) return 0.0;
    foreseen_factor_ = -slope_ * step;
    return foreseen_factor_;
  }

  Move next(Point& point, std::span<const Slot> slots, const Carry& carry) override {
    const Learners& learners = *point.learners();
    if (epoch_ != point.epoch() || full_) forget(point);
    follow(point, slots, carry);
    Move move;
    evaluations_ = 0;
    for (Size s = 0; s < slots.size(); ++s) {
      const auto make = [&](const auto& which) { evaluate(point, slots, which, s); };
      if (s == 1) sharpen(point, carry, make);
      known_[s].settle(at_a_time(point), rounding * norm_[s], make);
    }
    measure_slope();
    move.choice = known_[0].choice(learners, point.negligible());
    remember(move.choice);
    if (slots.size() > 1) move.correction = known_[1].choice(learners, 0.0);
    move.evaluations = static_cast<int>(evaluations_);
    return move;
  }

 private:
  void forget(Point& point) {
    const Learners& learners = *point.learners();
    for (auto& known : known_) known.forget(learners, point.rows().n_outputs());
    if (epoch_ == point.epoch()) return;
    epoch_ = point.epoch();
    norm_ = {0.0, 0.0};
    slope_ = 0.0;
    last_.learner = -1;
    foreseen_factor_ = 0.0;
    chosen_.assign(learners.size(), 0);
    started_.assign(learners.size(), 0);
    missed_.clear();
    grams_.emplace(point.rows(), learners, point.part(), true);
    Size n_sets = 0;
    for (const Learner* learner : learners) n_sets = std::max(n_sets, learner->set() + 1);
    on_set_.assign(n_sets, {});
    for (Size j = 0; j < learners.size(); ++j) on_set_[learners[j]->set()].push_back(j);
  }

  // Few sets at a time need fewer passes, many share what they read: of short rows, and of rows
  // that are far away, all at once.
  Size at_a_time(const Point& point) const {
    const Size n = point.rows().n_rows();
    if (full_ || n == 0 || point.rows().far()) return point.learners()->size();
    return std::max<Size>(1, (Size{1} << 14) / n);
  }

  // Bounds after the residuals moved. c is linear in what is known: its sums are propagated with
  //   s(c) = s(r) + share (s(c) - G theta),  error(c) = error(r) + share error(c),
  // and where the cross-Gram G with the learner removed is missing, that one's norm is added.
  void follow(Point& point, std::span<const Slot> slots, const Carry& carry) {
    const Learners& learners = *point.learners();
    Real moved = point.take_moved() * (1.0 + 1e-10);
    if (!std::isfinite(moved)) moved = infinite;
    norm_[0] += moved;
    for (Size j = 0; j < learners.size(); ++j) {
      known_[0].error[j] += moved;
      known_[0].exact[j] = 0;
    }
    if (foreseen_factor_ != 0.0) follow_foreseen(learners);
    if (slots.size() < 2) return;
    removed_norm_ = 0.0;
    removed_ = carry.share > 0.0 ? carry.removed->learner : -1;
    if (removed_ >= 0) {
      const auto k = static_cast<Size>(removed_);
      removed_norm_ = std::sqrt(std::max(0.0, grams_->square_norm(k, carry.removed->theta)));
      if (!std::isfinite(removed_norm_)) removed_norm_ = infinite;
    }
    norm_[1] = norm_[0] + carry.share * (norm_[1] + removed_norm_);
    if (full_) return;
    Knowledge &r = known_[0], &c = known_[1];
    for (Size j = 0; j < learners.size(); ++j) {
      c.exact[j] = 0;
      if (carry.share == 0.0) {
        c.error[j] = r.error[j];
        c.s[j] = r.s[j];
        c.root[j] = r.root[j];
        continue;
      }
      c.error[j] = r.error[j] + carry.share * c.error[j];
      if (!std::isfinite(c.error[j])) continue;
      const auto k = static_cast<Size>(removed_);
      if (grams_->has(j, k))
        grams_->add_product(j, k, carry.removed->theta, -1.0, c.s[j]);
      else
        c.error[j] += carry.share * removed_norm_;
      for (Size i = 0; i < c.s[j].size(); ++i) c.s[j][i] = r.s[j][i] + carry.share * c.s[j][i];
      c.estimate(learners, j, theta_);
    }
  }

  void follow_foreseen(const Learners& learners) {
    Knowledge& r = known_[0];
    const auto k = static_cast<Size>(last_.learner);
    const Real size =
        std::abs(foreseen_factor_) * std::sqrt(std::max(0.0, grams_->square_norm(k, last_.theta)));
    norm_[0] += size;
    for (Size j = 0; j < learners.size(); ++j) {
      if (!std::isfinite(r.error[j])) continue;
      if (!grams_->has(j, k)) {
        r.error[j] += size;
        continue;
      }
      grams_->add_product(j, k, last_.theta, foreseen_factor_, r.s[j]);
      r.estimate(learners, j, theta_);
    }
  }

  // The last choice was taken at s, a step along it changed s: that is the slope.
  void measure_slope() {
    if (last_.learner < 0 || last_step_ == 0.0 || full_) return;
    const auto k = static_cast<Size>(last_.learner);
    if (!known_[0].exact[k]) return;
    Real fell = 0.0;
    for (Size i = 0; i < last_.theta.size(); ++i)
      fell += last_.theta[i] * (last_s_[i] - known_[0].s[k][i]);
    const Real slope = fell / (last_step_ * grams_->square_norm(k, last_.theta));
    if (std::isfinite(slope) && slope > 0.0)
      slope_ = slope_ > 0.0 ? 0.8 * slope_ + 0.2 * slope : slope;
  }

  void remember(const Update& choice) {
    last_ = choice;
    last_s_ = known_[0].s[static_cast<Size>(choice.learner)];
    ++chosen_[static_cast<Size>(choice.learner)];
    ++n_moves_;
    --left_;
    foreseen_factor_ = 0.0;
  }

  bool can_cross(const Point& point) const {
    return !full_ && point.rows().n_rows() >= least_rows && point.rows().knows_cross() &&
           !grams_->too_many();
  }

  // Whether a product with the cross-Gram is small beside the pass that it may save.
  static bool pays(const Point& point, Size j, Size k) {
    const Learners& learners = *point.learners();
    return learners[j]->n_coef() * learners[k]->n_coef() * rows_per_entry <= point.rows().n_rows();
  }

  // A learner that was evaluated for want of a cross-Gram with the foreseen one, a second time.
  void want_grams(const Point& point, const std::vector<Size>& which) {
    if (foreseen_factor_ == 0.0) return;
    const auto k = static_cast<Size>(last_.learner);
    std::vector<Grams::Pair> pairs;
    for (const Size j : which)
      if (!grams_->has(j, k) && pays(point, j, k) && ++missed_[j * known_[0].root.size() + k] >= 2)
        pairs.emplace_back(j, k);
    evaluations_ += grams_->make(pairs);
  }

  // Exact sums of some learners, and of all that share a set with them: of r for the search on r,
  // of c and, if it is not known, r for the search on c.
  void evaluate(Point& point, std::span<const Slot> slots, const std::vector<Size>& which, Size s) {
    const Learners& learners = *point.learners();
    std::vector<Set> sets;
    bool all_known = true, none_lost = true;  // of r
    for (const Size j : which) {
      sets.push_back(learners[j]->set());
      all_known = all_known && known_[0].exact[j];
      none_lost = none_lost && std::isfinite(known_[0].error[j]);
    }
    std::ranges::sort(sets);
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    const Size first = s == 1 && all_known ? 1 : 0;
    const Size last = s == 0 && none_lost && !full_ ? 1 : slots.size();
    const auto asked = slots.subspan(first, last - first);
    const auto sums =
        point.run(batch_of(BinSums{{asked.begin(), asked.end()}, sets, point.part()})).at(0).sums;
    if (sums.size() != asked.size() * sets.size())
      throw std::invalid_argument("rows gave sums of other sets than were asked for");
    evaluations_ += sets.size();
    for (Size i = 0; i < sets.size(); ++i)
      for (const Size j : on_set_[sets[i]])
        for (Size t = first; t < last; ++t) {
          const Vec& u = sums[(t - first) * sets.size() + i];
          if (u.size() != learners[j]->n_bins() * point.rows().n_outputs())
            throw std::invalid_argument("a learner needs one sum per bin and output");
          if (last < slots.size())
            carry_over(learners, j, u);
          else
            known_[t].make_exact(learners, j, u, theta_);
        }
    want_grams(point, which);
  }

  // r alone is evaluated: what was wrong with its sums was as wrong in those of c.
  void carry_over(const Learners& learners, Size j, const Vec& u) {
    Knowledge &r = known_[0], &c = known_[1];
    const Real error = r.error[j];
    const Vec before = r.s[j];
    r.make_exact(learners, j, u, theta_);
    if (c.exact[j] || !std::isfinite(c.error[j])) return;
    for (Size i = 0; i < before.size(); ++i) c.s[j][i] += r.s[j][i] - before[i];
    c.error[j] = std::max(0.0, c.error[j] - error);
    c.estimate(learners, j, theta_);
  }

  // Makes the cross-Grams with the learner removed that contenders for the correction lack: a pass
  // each, which saves one whenever that learner is removed again. The likely choice is evaluated
  // first, so that few are contenders.
  template <class Make>
  void sharpen(Point& point, const Carry& carry, Make make) {
    if (removed_ < 0 || !can_cross(point)) return;
    Knowledge& c = known_[1];
    const auto k = static_cast<Size>(removed_);
    const Size likely = static_cast<Size>(std::ranges::max_element(c.root) - c.root.begin());
    if (!c.exact[likely]) make(std::vector{likely});
    const Real best = c.root[likely];
    std::vector<Grams::Pair> pairs;
    for (Size j = 0; j < c.root.size(); ++j)
      if (!c.exact[j] && std::isfinite(c.error[j]) && !(c.bound(j) < best) && !grams_->has(j, k))
        pairs.emplace_back(j, k);
    evaluations_ += grams_->make(pairs);
    for (const auto& [j, _] : pairs) {
      grams_->add_product(j, k, carry.removed->theta, -carry.share, c.s[j]);
      c.error[j] = std::max(0.0, c.error[j] - carry.share * removed_norm_);
      c.estimate(*point.learners(), j, theta_);
    }
  }

  bool full_;
  std::array<Knowledge, 2> known_;  // of r and of c
  std::array<Real, 2> norm_{};      // at most so large are they
  std::optional<Grams> grams_;
  std::vector<std::vector<Size>> on_set_;  // learners by their set
  Size epoch_ = static_cast<Size>(-1);
  int removed_ = -1;         // the learner of the last correction,
  Real removed_norm_ = 0.0;  // and its norm
  int left_;                 // iterations to come
  int n_moves_ = 0;
  std::vector<int> chosen_;    // how often, per learner
  std::vector<char> started_;  // those whose steps are foreseen
  Real slope_ = 0.0;           // mean second derivative of the loss; 0: not known yet
  Update last_;                // the last choice
  Vec last_s_;                 // its sums when it was chosen
  Real last_step_ = 0.0;
  Real foreseen_factor_ = 0.0;  // what r was moved along it beforehand
  std::unordered_map<Size, int> missed_;
  Size evaluations_ = 0;
  Vec theta_;  // scratch
};

// Without rows: the ledger has the sums, exact or with a bound on their error.
class GramSearch final : public Chooser {
 public:
  explicit GramSearch(GramRows& rows) : rows_(rows) {}
  bool live() const override { return true; }

  Move next(Point& point, std::span<const Slot> slots, const Carry&) override {
    const Learners& learners = *point.learners();
    Move move;
    const Size before = rows_.n_passes();
    for (Size s = 0; s < slots.size(); ++s) {
      const auto take = [&](Size j) {
        const In sums = rows_.sums(slots[s], j);
        known_.s[j].assign(sums.begin(), sums.end());
        known_.error[j] = rows_.error(slots[s], j);
        known_.exact[j] = known_.error[j] == 0.0;
        known_.solve(learners, j, theta_);
      };
      if (known_.s.size() != learners.size()) known_.forget(learners, rows_.n_outputs());
      for (Size j = 0; j < learners.size(); ++j) take(j);
      known_.settle(2, rounding * rows_.norm(slots[s]), [&](const auto& which) {
        rows_.refresh(which);
        for (const Size j : which) take(j);
      });
      if (s == 0)
        move.choice = known_.choice(learners, point.negligible());
      else
        move.correction = known_.choice(learners, 0.0);
    }
    move.evaluations = static_cast<int>(rows_.n_passes() - before);
    return move;
  }

 private:
  GramRows& rows_;
  Knowledge known_;
  Vec theta_;  // scratch
};

}  // namespace cwboost
