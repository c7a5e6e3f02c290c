// Squared loss without passes over the rows: answers the verbs from cross-Grams.
//
// The residual is y - score, so every slot is a combination of the residual y0 at the start and of
// learners: x = share y0 + sum_k B_k coef_k. The sums of a slot by learner and the products of two
// slots follow from cross-Grams, at a cost that does not depend on the number of rows. The rows are
// asked once per learner (sums of y0) and once per pair of learners (cross-Gram), and only when a
// contender needs it. Does not know how learners are chosen (search.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "grams.hpp"
#include "point.hpp"

namespace cwboost {

// All slots, weighted by one part of the rows.
class PartSlots {
 public:
  static constexpr Size n_slots = 6;  // 0..4 and the passing slot

  PartSlots(Rows& rows, const Learners& learners, Part part, bool fitted, Slot y0)
      : rows_(&rows),
        learners_(&learners),
        part_(part),
        grams_(rows, learners, part, fitted),
        y0_(y0),
        total_(rows.weight(part)) {
    for (const Learner* learner : learners) begin_.push_back(begin_.back() + learner->n_coef());
  }

  // Starts again from the y0 that the rows hold, which has the given squared norm.
  void restart(Real square_norm) {
    square_norm_ = square_norm;
    base_.assign(begin_.back(), 0.0);
    base_known_.assign(n_learners(), 0);
    active_.assign(n_learners(), 0);
    for (Entry& x : slots_) x.live = false;
  }

  Real norm(Size x) const { return std::sqrt(std::max(0.0, product_[x][x])); }
  Real risk(Size x) const { return 0.5 * std::max(0.0, product_[x][x]) / total_; }
  bool far_below(Size x, Real share) const { return product_[x][x] < share * square_norm_; }
  In coef(Size x, Size j) const { return of(slots_[x].coef, j); }
  In sums(Size x, Size j) const { return of(slots_[x].s, j); }
  Real error(Size x, Size j) const { return slots_[x].error[j]; }
  Size n_passes() const { return n_passes_; }

  void fill(Size x) { set(x, 1.0, true); }
  void zero(Size x) { set(x, 0.0, false); }

  void mix(Size out, Real a, Size x, Real b, Size y) {
    std::array<Real, n_slots> products;
    for (Size z = 0; z < n_slots; ++z) products[z] = a * product_[x][z] + b * product_[y][z];
    const Real own = a * a * product_[x][x] + 2.0 * a * b * product_[x][y] + b * b * product_[y][y];
    const Entry &from = slots_[x], &other = slots_[y];
    Entry& to = slots_[out];  // may be one of them
    to.live = true;
    to.score = from.score;
    to.share = a * from.share + b * other.share;
    to.coef.resize(begin_.back());
    to.s.resize(begin_.back());
    to.error.resize(n_learners());
    for (Size i = 0; i < begin_.back(); ++i) {
      to.coef[i] = a * from.coef[i] + b * other.coef[i];
      to.s[i] = a * from.s[i] + b * other.s[i];
    }
    for (Size j = 0; j < n_learners(); ++j)
      to.error[j] = scaled(a, from.error[j]) + scaled(b, other.error[j]);
    place(out, products, own);
  }

  void residual(Size at, Size out) {  // the slot of a score holds y - score
    mix(out, 1.0, at, 0.0, at);
    slots_[out].score = false;
  }

  void add(Size x, Size k, In theta) {
    refresh({k});
    active_[k] = 1;
    Entry& slot = slots_[x];
    const Real sign = slot.score ? -1.0 : 1.0;  // y - score falls
    const Real square = grams_.square_norm(k, theta), size = std::sqrt(std::max(0.0, square));
    std::array<Real, n_slots> products = product_[x];
    for (Size z = 0; z < n_slots; ++z)
      if (slots_[z].live) products[z] += sign * dot(theta, sums(z, k));
    const Real own = product_[x][x] + 2.0 * sign * dot(theta, sums(x, k)) + square;
    for (Size i = 0; i < theta.size(); ++i) slot.coef[begin_[k] + i] += sign * theta[i];
    for (Size j = 0; j < n_learners(); ++j) {
      if (!std::isfinite(slot.error[j])) continue;
      if (!grams_.add_product(j, k, theta, sign, of(slot.s, j))) slot.error[j] += size;
    }
    place(x, products, own);
  }

  // Makes the sums of some learners exact in all slots.
  void refresh(const std::vector<Size>& which) {
    std::vector<Size> todo;
    for (const Size j : which)
      if (std::ranges::any_of(slots_, [&](const Entry& x) { return x.live && x.error[j] != 0.0; }))
        todo.push_back(j);
    if (todo.empty() && (todo = ungrammed(which)).empty()) return;
    if (grams_.too_many()) grams_.drop();
    know_base(todo);
    std::vector<Grams::Pair> pairs;
    for (const Size j : todo)
      for (Size k = 0; k < n_learners(); ++k)
        if (active_[k] || k == j) pairs.emplace_back(j, k);
    n_passes_ += grams_.make(pairs);
    for (Entry& x : slots_)
      for (const Size j : todo)
        if (x.live) make_exact(x, j);
  }

  // Expresses the slots by a new y0: the present slot f, which the caller has put into the rows.
  void rebase(Size f, Real square_norm) {
    const Vec shift = slots_[f].coef;
    const auto was_active = active_;
    std::array<bool, n_slots> live;
    for (Size x = 0; x < n_slots; ++x) live[x] = slots_[x].live;
    restart(square_norm);
    for (Size x = 0; x < n_slots; ++x) {
      Entry& slot = slots_[x];
      slot.live = live[x];
      if (!slot.live) continue;
      for (Size i = 0; i < shift.size(); ++i) slot.coef[i] -= slot.share * shift[i];
      slot.error.assign(n_learners(), infinite);
      for (Size j = 0; j < n_learners(); ++j) active_[j] = active_[j] || has_coef(slot, j);
    }
    std::vector<Size> needed;
    for (Size j = 0; j < n_learners(); ++j)
      if (was_active[j]) needed.push_back(j);
    refresh(needed);
    for (Size x = 0; x < n_slots; ++x)
      for (Size z = x; z < n_slots; ++z)
        if (slots_[x].live && slots_[z].live) product_[x][z] = product_[z][x] = product(x, z);
  }

 private:
  static constexpr Real infinite = std::numeric_limits<Real>::infinity();

  struct Entry {
    bool live = false;
    bool score = false;  // the slot holds y - score
    Real share = 0.0;    // of y0
    Vec coef, s;         // of all learners, one after the other
    Vec error;           // (learners) error bound of s, as a norm of the slot
  };

  static Real scaled(Real factor, Real error) {
    return factor == 0.0 ? 0.0 : std::abs(factor) * error;
  }
  static Real dot(In a, In b) {
    Real sum = 0.0;
    for (Size i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  Size n_learners() const { return begin_.size() - 1; }
  In of(const Vec& all, Size j) const {
    return In(all).subspan(begin_[j], begin_[j + 1] - begin_[j]);
  }
  Out of(Vec& all, Size j) const { return Out(all).subspan(begin_[j], begin_[j + 1] - begin_[j]); }
  bool has_coef(const Entry& x, Size j) const {
    return std::ranges::any_of(of(x.coef, j), [](Real c) { return c != 0.0; });
  }

  void set(Size x, Real share, bool score) {
    Entry& slot = slots_[x];
    slot = {true,
            score,
            share,
            Vec(begin_.back(), 0.0),
            Vec(begin_.back(), 0.0),
            Vec(n_learners(), 0.0)};
    for (Size j = 0; share != 0.0 && j < n_learners(); ++j) {
      if (base_known_[j])
        std::ranges::copy(of(base_, j), of(slot.s, j).begin());
      else
        slot.error[j] = infinite;
    }
    std::array<Real, n_slots> products{};
    for (Size z = 0; z < n_slots && share != 0.0; ++z)
      if (z != x && slots_[z].live) products[z] = with_base(slots_[z]);
    place(x, products, share * square_norm_);
  }

  Real with_base(const Entry& z) {  // <y0, z>
    Real sum = z.share * square_norm_;
    for (Size k = 0; k < n_learners(); ++k)
      if (has_coef(z, k)) {
        know_base({k});
        sum += dot(of(z.coef, k), of(base_, k));
      }
    return sum;
  }
  Real product(Size x, Size z) {
    Real sum = slots_[x].share * with_base(slots_[z]);
    for (Size k = 0; k < n_learners(); ++k)
      if (has_coef(slots_[x], k)) sum += dot(of(slots_[x].coef, k), of(slots_[z].s, k));
    return sum;
  }

  void place(Size x, const std::array<Real, n_slots>& products, Real own) {
    for (Size z = 0; z < n_slots; ++z) product_[x][z] = product_[z][x] = products[z];
    product_[x][x] = own;
  }

  // The given learners whose own Gram in this part is missing.
  std::vector<Size> ungrammed(const std::vector<Size>& which) const {
    std::vector<Size> out;
    for (const Size j : which)
      if (!grams_.has(j, j)) out.push_back(j);
    return out;
  }

  // Computes the sums of y0 for some learners.
  void know_base(const std::vector<Size>& which) {
    std::vector<Size> todo;
    std::vector<Set> sets;
    for (const Size j : which)
      if (!base_known_[j]) {
        todo.push_back(j);
        sets.push_back((*learners_)[j]->set());
      }
    if (todo.empty()) return;
    const auto sums = rows_->run(batch_of(BinSums{{y0_}, sets, part_})).at(0).sums;
    n_passes_ += todo.size();
    for (Size i = 0; i < todo.size(); ++i) {
      (*learners_)[todo[i]]->contract(sums.at(i), of(base_, todo[i]));
      base_known_[todo[i]] = 1;
    }
  }

  void make_exact(Entry& x, Size j) {
    const Out s = of(x.s, j);
    const In base = of(base_, j);
    for (Size i = 0; i < s.size(); ++i) s[i] = x.share * base[i];
    for (Size k = 0; k < n_learners(); ++k)
      if (active_[k] && has_coef(x, k)) grams_.add_product(j, k, of(x.coef, k), 1.0, s);
    x.error[j] = 0.0;
  }

  Rows* rows_;
  const Learners* learners_;
  Part part_;
  Grams grams_;
  Slot y0_;     // slot of the rows that holds y0, weighted by this part
  Real total_;  // sum of the weights
  Real square_norm_ = 0.0;
  std::vector<Size> begin_{0};  // first coefficient of each learner
  Vec base_;                    // sums of y0
  std::vector<char> base_known_;
  std::vector<char> active_;  // learners with coefficients in some slot
  std::array<Entry, n_slots> slots_;
  std::array<std::array<Real, n_slots>, n_slots> product_{};
  Size n_passes_ = 0;
};

class GramRows final : public Rows {
 public:
  // The learners are fitted to the first part, which also decides choices.
  GramRows(Rows& rows, const Learners& learners, const std::vector<Part>& parts)
      : rows_(rows), learners_(learners) {
    for (const Part part : parts) {
      if (std::ranges::find(parts_, part) != parts_.end()) continue;
      const auto slot = static_cast<Slot>(first_base + parts_.size());
      part_slots_.emplace_back(rows, learners, part, parts_.empty(), slot);
      parts_.push_back(part);
    }
  }

  Size n_outputs() const override { return 1; }
  bool linear() const override { return true; }
  bool by_theta() const override { return true; }

  std::vector<Reply> run(const std::vector<Verb>& batch) override {
    if (rows_.poll) rows_.poll();
    std::vector<Reply> replies;
    for (const Verb& verb : batch)
      replies.push_back(std::visit([this](const auto& v) { return apply(v); }, verb));
    return replies;
  }

  In sums(Slot slot, Size j) const { return part_slots_[0].sums(place(slot), j); }
  Real error(Slot slot, Size j) const { return part_slots_[0].error(place(slot), j); }
  Real norm(Slot slot) const { return part_slots_[0].norm(place(slot)); }
  void refresh(const std::vector<Size>& which) { part_slots_[0].refresh(which); }
  Size n_passes() const {
    Size sum = 0;
    for (const PartSlots& slots : part_slots_) sum += slots.n_passes();
    return sum;
  }

 private:
  static constexpr Size first_base = 5;    // slots of the underlying rows, one per part
  static constexpr Real far_below = 1e-6;  // share of the squared norm at the last start

  static Size place(Slot slot) {
    return slot == passing_slot ? PartSlots::n_slots - 1 : static_cast<Size>(slot);
  }

  // Runs `batch`, stores the residual at slot_f in the rows per part, and returns its squared
  // norms.
  Vec put_base(std::vector<Verb> batch) {
    const Size from = batch.size();
    for (Size p = 0; p < parts_.size(); ++p) {
      const auto slot = static_cast<Slot>(first_base + p);
      batch.push_back(Mix{slot, 0.0, slot, 0.0, slot});
      batch.push_back(Residual{slot_f, slot, {parts_[p]}, false});
    }
    const auto replies = rows_.run(batch);
    Vec out;
    for (Size p = 0; p < parts_.size(); ++p) {
      const Real moved = replies.at(from + 2 * p + 1).moved;
      out.push_back(moved * moved);
    }
    return out;
  }

  Reply apply(const Fill& verb) {
    if (based_on_ != verb.start) {
      const Vec norms = put_base(batch_of(verb));
      for (Size p = 0; p < part_slots_.size(); ++p) part_slots_[p].restart(norms[p]);
      based_on_ = verb.start;
    }
    for (PartSlots& slots : part_slots_) slots.fill(place(verb.out));
    return {};
  }

  Reply apply(const Mix& verb) {
    for (PartSlots& slots : part_slots_)
      if (verb.a == 0.0 && verb.b == 0.0)
        slots.zero(place(verb.out));
      else
        slots.mix(place(verb.out), verb.a, place(verb.x), verb.b, place(verb.y));
    return {};
  }

  Reply apply(const Add& verb) {
    for (PartSlots& slots : part_slots_)
      slots.add(place(verb.slot), verb.learner.value(), verb.theta);
    return {};
  }

  // Called when the residual has become so small that its products, updated step by step, lose
  // digits: starts again from the present score.
  void rebase() {
    const Size f = place(slot_f);
    std::vector<Verb> batch;
    for (Size k = 0; k < learners_.size(); ++k) {
      const In coef = part_slots_[0].coef(f, k);  // of y - score since the last start
      if (std::ranges::all_of(coef, [](Real c) { return c == 0.0; })) continue;
      Vec values = learners_[k]->bin_values(coef, 1);
      for (Real& v : values) v = -v;
      batch.push_back(Add{slot_f, learners_[k]->set(), std::move(values)});
    }
    const Vec norms = put_base(std::move(batch));
    for (Size p = 0; p < part_slots_.size(); ++p) part_slots_[p].rebase(f, norms[p]);
    based_on_.clear();
  }

  Reply apply(const Residual& verb) {
    Reply reply;
    if (verb.at == slot_f && part_slots_[0].far_below(place(slot_f), far_below)) rebase();
    for (const Part part : verb.parts) {
      const auto p = std::ranges::find(parts_, part) - parts_.begin();
      reply.risk.push_back(part_slots_.at(static_cast<Size>(p)).risk(place(verb.at)));
    }
    if (verb.out != no_slot)
      for (PartSlots& slots : part_slots_) slots.residual(place(verb.at), place(verb.out));
    return reply;
  }

  template <class Other>
  Reply apply(const Other&) {
    throw std::logic_error("this verb needs rows");
  }

  Rows& rows_;
  const Learners& learners_;
  std::vector<Part> parts_;
  std::vector<PartSlots> part_slots_;
  Vec based_on_;  // the start that y0 belongs to; empty after a rebase
};

}  // namespace cwboost
