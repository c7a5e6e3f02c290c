// Finds the learner with the largest gain, evaluating only the contenders.
// Does not know what an optimizer does with the choice.
//
// sqrt(gain_k) is a seminorm of the residual with norm at most one (the eigenvalues of 2H - HH lie
// in [0, 1]), so it cannot change by more than the residual moved. The last exact value plus the
// distance moved since is therefore an upper bound. Learners are evaluated in the order of their
// bounds until the best exact value reaches the next bound; the others cannot be the choice.
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

constexpr Real tie = 1e-9;  // relative; gains this close are equal, and the first learner wins
constexpr Real rounding = 1e-12;  // error of sqrt(gain), relative to the norm of the residual
constexpr Real infinite = std::numeric_limits<Real>::infinity();

// How c follows from r: c = r + share (c - removed), where `removed` is the last correction. If
// share is 0, c = r.
struct Carry {
  Real share = 0.0;
  const Update* removed = nullptr;
};

// Decides what an iteration does: one update per residual slot, for r and, if there is one, for c.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual Move next(Point& point, std::span<const Slot> slots, const Carry& carry) = 0;
  virtual bool live() const = 0;  // false: the move was recorded and must not be altered
  // Whether recorded steps are repeated exactly as they were taken, so that the rows end in the
  // same bits (see RunOptions::n_given).
  virtual bool retraces() const { return false; }
  // Predicts how r will move when f moves by step * choice: by about the returned multiple of the
  // choice. The rows add this to r beforehand, so that `moved` measures only the rest.
  virtual Real predict_move(const Point&, const Update&, Real) { return 0.0; }
};

class RecordedMoves final : public Chooser {
 public:
  explicit RecordedMoves(const std::vector<Move>& moves) : moves_(moves) {}
  bool live() const override { return false; }
  bool retraces() const override { return own; }
  Move next(Point& point, std::span<const Slot> slots, const Carry& carry) override {
    if (repeated_search) repeated_search->next(point, slots, carry);
    return moves_.at(next_++);
  }

  bool own = false;  // the moves were made by this run before it was interrupted
  // A search to repeat along with the recorded moves, or null. The moves are known, but the last
  // bits of the sums of a row-free search depend on when they were refreshed.
  Chooser* repeated_search = nullptr;

 private:
  const std::vector<Move>& moves_;
  Size next_ = 0;
};

// Sums, gains and bounds of all learners for one residual.
struct GainBounds {
  std::vector<Vec> s;  // B'u, (n_coef) per output: exact or propagated
  Vec root, gain;      // computed from s
  Vec error;           // distance (norm) of the residual from one whose sums are s, at most
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

  // Computes gain and root from s[j]; `theta` is scratch.
  void solve(const Learners& learners, Size j, Vec& theta) {
    theta.resize(s[j].size());
    gain[j] = learners[j]->solve(s[j], theta);
    root[j] = std::isfinite(gain[j]) ? std::sqrt(std::max(gain[j], 0.0)) : infinite;
  }

  // The same for propagated sums; if they overflowed, nothing is known.
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

  // Makes contenders exact, `at_a_time` together and the largest bound first, until no other
  // learner can be the choice. A contender is a learner whose bound reaches every other's lower
  // bound.
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
    std::vector<std::pair<Real, Size>> heap;  // max-heap of bounds
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

  // The exact learner with the largest gain; of ties the first.
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

// Searches with bin sums from the rows: of the contenders or, if `full`, of all learners.
class Search final : public Chooser {
 public:
  static constexpr Size least_rows = 2000;    // with fewer rows a pass costs less than a cross-Gram
  static constexpr double worthwhile = 15.0;  // expected uses that justify a cross-Gram
  static constexpr Size rows_per_entry = 16;  // needed for a cross-Gram to save more than it costs
  // Cross-Grams with removed learners are made until there are trial_grams per learner; from then
  // on only while each has been used least_uses times on average. With thousands of two-valued
  // columns most pairs of learners meet once.
  static constexpr Size trial_grams = 32, least_uses = 2;

  Search(bool full, int n_iter) : full_(full), left_(n_iter) {}
  bool live() const override { return true; }

  // To first order r moves by -slope times the step, where slope is the mean second derivative of
  // the loss. This needs cross-Grams, which pay only for a learner that will be chosen often.
  Real predict_move(const Point& point, const Update& choice, Real step) override {
    const auto k = static_cast<Size>(choice.learner);
    last_step_ = step;
    const double uses = static_cast<double>(chosen_[k]) / n_moves_ * left_;
    started_[k] = started_[k] || uses >= worthwhile;
    if (!(slope_ > 0.0) || !started_[k] || !can_cross(point)) return 0.0;
    predicted_factor_ = -slope_ * step;
    return predicted_factor_;
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
      bounds_[s].settle(at_a_time(point), rounding * norm_[s], make);
    }
    measure_slope();
    move.choice = bounds_[0].choice(learners, point.negligible());
    remember(move.choice);
    if (slots.size() > 1) move.correction = bounds_[1].choice(learners, 0.0);
    move.evaluations = static_cast<int>(evaluations_);
    return move;
  }

 private:
  void forget(Point& point) {
    const Learners& learners = *point.learners();
    for (auto& known : bounds_) known.forget(learners, point.rows().n_outputs());
    if (epoch_ == point.epoch()) return;
    epoch_ = point.epoch();
    norm_ = {0.0, 0.0};
    slope_ = 0.0;
    last_.learner = -1;
    predicted_factor_ = 0.0;
    chosen_.assign(learners.size(), 0);
    started_.assign(learners.size(), 0);
    missed_.clear();
    n_sharpened_ = n_uses_ = 0;
    recurring_ = true;
    grams_.emplace(point.rows(), learners, point.part(), true);
    Size n_sets = 0;
    for (const Learner* learner : learners) n_sets = std::max(n_sets, learner->set() + 1);
    on_set_.assign(n_sets, {});
    for (Size j = 0; j < learners.size(); ++j) on_set_[learners[j]->set()].push_back(j);
  }

  // How many learners are evaluated together. Few at a time need fewer evaluations; many share
  // memory traffic and round trips, which matters for few rows and for remote rows.
  Size at_a_time(const Point& point) const {
    const Size n = point.rows().n_rows();
    if (full_ || n == 0 || point.rows().remote()) return point.learners()->size();
    return std::max<Size>(1, (Size{1} << 14) / n);
  }

  // Updates the bounds after the residuals moved. The sums of c are propagated by
  //   s(c) = s(r) + share (s(c) - G theta),  error(c) = error(r) + share error(c).
  // Where the cross-Gram G with the removed learner is missing, the norm of its update is added to
  // the error.
  void follow(Point& point, std::span<const Slot> slots, const Carry& carry) {
    const Learners& learners = *point.learners();
    Real moved = point.take_moved() * (1.0 + 1e-10);
    if (!std::isfinite(moved)) moved = infinite;
    norm_[0] += moved;
    for (Size j = 0; j < learners.size(); ++j) {
      bounds_[0].error[j] += moved;
      bounds_[0].exact[j] = 0;
    }
    if (predicted_factor_ != 0.0) follow_prediction(learners);
    if (slots.size() < 2) return;
    removed_norm_ = 0.0;
    removed_ = carry.share > 0.0 ? carry.removed->learner : -1;
    if (removed_ >= 0) {
      const auto k = static_cast<Size>(removed_);
      removed_norm_ = std::sqrt(std::max(0.0, grams_->square_norm(k, carry.removed->theta)));
      if (!std::isfinite(removed_norm_)) removed_norm_ = infinite;
    }
    norm_[1] = norm_[0] + (removed_ < 0 ? 0.0 : carry.share * (norm_[1] + removed_norm_));
    if (full_) return;
    GainBounds &r = bounds_[0], &c = bounds_[1];
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
      if (grams_->add_product(j, k, carry.removed->theta, -1.0, c.s[j]))
        ++n_uses_;
      else
        c.error[j] += carry.share * removed_norm_;
      for (Size i = 0; i < c.s[j].size(); ++i) c.s[j][i] = r.s[j][i] + carry.share * c.s[j][i];
      c.estimate(learners, j, theta_);
    }
  }

  void follow_prediction(const Learners& learners) {
    GainBounds& r = bounds_[0];
    const auto k = static_cast<Size>(last_.learner);
    const Real size =
        std::abs(predicted_factor_) * std::sqrt(std::max(0.0, grams_->square_norm(k, last_.theta)));
    norm_[0] += size;
    for (Size j = 0; j < learners.size(); ++j) {
      if (!std::isfinite(r.error[j])) continue;
      if (grams_->add_product(j, k, last_.theta, predicted_factor_, r.s[j]))
        r.estimate(learners, j, theta_);
      else
        r.error[j] += size;
    }
  }

  // Measures the slope: by how much the last step changed the sums of the learner it moved.
  void measure_slope() {
    if (last_.learner < 0 || last_step_ == 0.0 || full_) return;
    const auto k = static_cast<Size>(last_.learner);
    if (!bounds_[0].exact[k]) return;
    Real fell = 0.0;
    for (Size i = 0; i < last_.theta.size(); ++i)
      fell += last_.theta[i] * (last_s_[i] - bounds_[0].s[k][i]);
    const Real slope = fell / (last_step_ * grams_->square_norm(k, last_.theta));
    if (std::isfinite(slope) && slope > 0.0)
      slope_ = slope_ > 0.0 ? 0.8 * slope_ + 0.2 * slope : slope;
  }

  void remember(const Update& choice) {
    last_ = choice;
    last_s_ = bounds_[0].s[static_cast<Size>(choice.learner)];
    ++chosen_[static_cast<Size>(choice.learner)];
    ++n_moves_;
    --left_;
    predicted_factor_ = 0.0;
  }

  bool can_cross(const Point& point) const {
    return !full_ && point.rows().n_rows() >= least_rows && point.rows().knows_cross() &&
           !grams_->too_many();
  }

  // Whether cross-Grams with removed learners save more passes than they cost; once they do not,
  // no more are made.
  bool removals_recur() {
    if (n_sharpened_ >= trial_grams * bounds_[1].root.size() && n_uses_ < least_uses * n_sharpened_)
      recurring_ = false;
    return recurring_;
  }

  // Whether a product with the cross-Gram costs little compared to the pass that it may save.
  static bool pays(const Point& point, Size j, Size k) {
    const Learners& learners = *point.learners();
    return learners[j]->n_coef() * learners[k]->n_coef() * rows_per_entry <= point.rows().n_rows();
  }

  // Computes the cross-Gram with the predicted learner for learners that had to be evaluated twice
  // because it was missing.
  void want_grams(const Point& point, const std::vector<Size>& which) {
    if (predicted_factor_ == 0.0) return;
    const auto k = static_cast<Size>(last_.learner);
    std::vector<Grams::Pair> pairs;
    for (const Size j : which)
      if (!grams_->has(j, k) && pays(point, j, k) && ++missed_[j * bounds_[0].root.size() + k] >= 2)
        pairs.emplace_back(j, k);
    evaluations_ += grams_->make(pairs);
  }

  // Computes exact sums of some learners and of all that share a set with them: sums of r for the
  // search on r; of c, and of r where they are not exact yet, for the search on c.
  void evaluate(Point& point, std::span<const Slot> slots, const std::vector<Size>& which, Size s) {
    const Learners& learners = *point.learners();
    std::vector<Set> sets;
    bool all_known = true, none_lost = true;  // for r
    for (const Size j : which) {
      sets.push_back(learners[j]->set());
      all_known = all_known && bounds_[0].exact[j];
      none_lost = none_lost && std::isfinite(bounds_[0].error[j]);
    }
    std::ranges::sort(sets);
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    const Size first = s == 1 && all_known ? 1 : 0;
    const Size last = s == 0 && none_lost && !full_ && recurring_ ? 1 : slots.size();
    const auto asked = slots.subspan(first, last - first);
    const auto sums =
        point.run(batch_of(BinSums{{asked.begin(), asked.end()}, sets, point.part()})).at(0).sums;
    if (sums.size() != asked.size() * sets.size())
      throw std::invalid_argument("the rows replied with a wrong number of sums");
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
            bounds_[t].make_exact(learners, j, u, theta_);
        }
    want_grams(point, which);
  }

  // Only r was evaluated: the error found in its sums was the same in the sums of c.
  void carry_over(const Learners& learners, Size j, const Vec& u) {
    GainBounds &r = bounds_[0], &c = bounds_[1];
    const Real error = r.error[j];
    const Vec before = r.s[j];
    r.make_exact(learners, j, u, theta_);
    if (c.exact[j] || !std::isfinite(c.error[j])) return;
    for (Size i = 0; i < before.size(); ++i) c.s[j][i] += r.s[j][i] - before[i];
    c.error[j] = std::max(0.0, c.error[j] - error);
    c.estimate(learners, j, theta_);
  }

  // Computes missing cross-Grams between the removed learner and the contenders for the correction.
  // Each costs a pass and saves one whenever that learner is removed again. The likely choice is
  // evaluated first, so that few contenders remain.
  template <class Make>
  void sharpen(Point& point, const Carry& carry, Make make) {
    if (removed_ < 0 || !can_cross(point) || !removals_recur()) return;
    GainBounds& c = bounds_[1];
    const auto k = static_cast<Size>(removed_);
    const Size likely = static_cast<Size>(std::ranges::max_element(c.root) - c.root.begin());
    if (!c.exact[likely]) make(std::vector{likely});
    const Real best = c.root[likely];
    std::vector<Grams::Pair> pairs;
    for (Size j = 0; j < c.root.size(); ++j)
      if (!c.exact[j] && std::isfinite(c.error[j]) && !(c.bound(j) < best) && !grams_->has(j, k))
        pairs.emplace_back(j, k);
    evaluations_ += grams_->make(pairs);
    n_sharpened_ += pairs.size();
    for (const auto& [j, _] : pairs) {
      grams_->add_product(j, k, carry.removed->theta, -carry.share, c.s[j]);
      c.error[j] = std::max(0.0, c.error[j] - carry.share * removed_norm_);
      c.estimate(*point.learners(), j, theta_);
    }
  }

  bool full_;
  std::array<GainBounds, 2> bounds_;  // for r and for c
  std::array<Real, 2> norm_{};        // upper bounds of their norms
  std::optional<Grams> grams_;
  std::vector<std::vector<Size>> on_set_;  // learners of each set
  Size epoch_ = static_cast<Size>(-1);
  int removed_ = -1;         // learner of the last correction
  Real removed_norm_ = 0.0;  // norm of that correction
  int left_;                 // iterations left
  int n_moves_ = 0;
  std::vector<int> chosen_;    // times, per learner
  std::vector<char> started_;  // learners whose steps are predicted
  Real slope_ = 0.0;           // mean second derivative of the loss; 0 if unknown
  Update last_;                // the last choice
  Vec last_s_;                 // its sums when chosen
  Real last_step_ = 0.0;
  Real predicted_factor_ = 0.0;  // multiple of it that was added to r beforehand
  std::unordered_map<Size, int> missed_;
  Size n_sharpened_ = 0, n_uses_ = 0;  // cross-Grams made by sharpen(), and products for c
  bool recurring_ = true;              // whether more are made
  Size evaluations_ = 0;
  Vec theta_;  // scratch
};

// Searches without rows: GramRows has the sums, exact or with a bound on their error.
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
        bounds_.s[j].assign(sums.begin(), sums.end());
        bounds_.error[j] = rows_.error(slots[s], j);
        bounds_.exact[j] = bounds_.error[j] == 0.0;
        bounds_.solve(learners, j, theta_);
      };
      if (bounds_.s.size() != learners.size()) bounds_.forget(learners, rows_.n_outputs());
      for (Size j = 0; j < learners.size(); ++j) take(j);
      bounds_.settle(2, rounding * rows_.norm(slots[s]), [&](const auto& which) {
        rows_.refresh(which);
        for (const Size j : which) take(j);
      });
      if (s == 0)
        move.choice = bounds_.choice(learners, point.negligible());
      else
        move.correction = bounds_.choice(learners, 0.0);
    }
    move.evaluations = static_cast<int>(rows_.n_passes() - before);
    return move;
  }

 private:
  GramRows& rows_;
  GainBounds bounds_;
  Vec theta_;  // scratch
};

}  // namespace cwboost
