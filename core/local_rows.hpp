// Rows in this process: answers the verbs by passes over arrays, on several threads.
// Does not know about learners or optimizers.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "crosses.hpp"
#include "kernels.hpp"
#include "loss.hpp"
#include "moments.hpp"
#include "parallel.hpp"
#include "row_loops.hpp"
#include "sums.hpp"
#include "types.hpp"
#include "verbs.hpp"

namespace cwboost {

// The caller keeps the input arrays alive; slots are owned.
class LocalRows : public Rows {
 public:
  LocalRows(std::shared_ptr<Loss> loss, In y, In offset, std::vector<RowSet> sets,
            std::vector<Weights> parts, Size n_threads, std::shared_ptr<Crosses> crosses = {})
      : loss_(std::move(loss)),
        y_(y),
        n_rows_(y.size() / loss_->n_targets()),
        offset_(offset),
        sets_(std::move(sets)),
        parts_(std::move(parts)),
        crosses_(std::move(crosses)),
        workers_(n_threads) {
    const Size n = n_rows(), q = loss_->n_outputs();
    if (y_.size() != n * loss_->n_targets())
      throw std::invalid_argument("y must have one value per row and target of the loss");
    if (!offset_.empty() && offset_.size() != n * q)
      throw std::invalid_argument("offset must have one value per row and output");
    for (const Weights& part : parts_)
      if (part.size != n) throw std::invalid_argument("a part must have one weight per row");
    for (const auto& set : sets_) std::visit([&](const auto& s) { check(s); }, set);
  }

  Size n_rows() const override { return n_rows_; }
  Size n_outputs() const override { return loss_->n_outputs(); }
  bool linear() const override { return loss_->linear(); }
  bool knows_cross() const override { return true; }
  Real weight(Part p) const override { return part(p).total; }

  // Consecutive verbs that treat every row alone share one pass, block by block; the others run one
  // after the other.
  std::vector<Reply> run(const std::vector<Verb>& batch) override {
    std::vector<Reply> replies(batch.size());
    for (Size i = 0; i < batch.size();) {
      Size end = i;
      while (end < batch.size() && by_row(batch[end])) ++end;
      if (loss_->whole()) end = std::min(end, i + 1);
      if (end > i) {
        pass(std::span(batch).subspan(i, end - i), std::span(replies).subspan(i, end - i));
        i = end;
        continue;
      }
      replies[i] = std::visit([this](const auto& verb) { return apply(verb); }, batch[i]);
      ++i;
    }
    return replies;
  }

  In read(Slot slot) const {
    const Vec& values = slots_.at(static_cast<Size>(slot));
    if (values.empty()) throw std::invalid_argument("a slot was read before it was written");
    return values;
  }

 private:
  static constexpr Size block = 1 << 11;  // rows; small enough to stay in the cache
  static constexpr Size chunk = 1 << 15;  // rows of a task; sums are added up by chunk, in order
  static constexpr Size max_pending = 1 << 22;  // sums of tasks not yet added up: 32 MB

  static bool by_row(const Verb& verb) {
    return std::holds_alternative<Fill>(verb) || std::holds_alternative<Residual>(verb) ||
           std::holds_alternative<Add>(verb) || std::holds_alternative<Mix>(verb) ||
           std::holds_alternative<AbsoluteSum>(verb);
  }

  Out write(Slot slot) {
    auto& values = slots_.at(static_cast<Size>(slot));
    if (values.empty()) values.assign(n_rows() * n_outputs(), 0.0);
    ++version_[static_cast<Size>(slot)];
    return values;
  }

  const Weights& part(Part p) const { return parts_.at(p); }

  void check(const IndexSet& set) const {
    std::visit([&](auto index) { check(index, set.n_bins); }, set.index);
  }
  void check(const MomentSet& set) const {
    if (set.t.size() != n_rows()) throw std::invalid_argument("a set must have one t per row");
    check(set.piece, set.n_bins / n_powers);
  }
  template <class Index>
  void check(std::span<const Index> index, Size n_bins) const {
    if (index.size() != n_rows()) throw std::invalid_argument("a set must have one bin per row");
    Index top = 0;
    for (const Index bin : index) top = std::max(top, bin);
    if (n_rows() > 0 && top >= n_bins) throw std::invalid_argument("a set has a bin out of range");
  }

  void chunks(const std::function<void(Size, RowRange)>& task) {
    const Size n = n_rows(), n_chunks = (n + chunk - 1) / chunk;
    workers_.run(
        n_chunks, [&](Size c) { task(c, {c * chunk, std::min((c + 1) * chunk, n)}); }, poll);
  }

  // --- passes ---

  struct Tally {  // sums of a Residual or an AbsoluteSum over some rows
    Real moved = 0.0;
    Vec risk;      // per part
    Vec absolute;  // per output
  };

  struct Scratch {  // arrays of one task
    explicit Scratch(Size q)
        : passing(new Real[block * q]),
          fresh(new Real[block * q]),
          value(new Real[block]),
          factor(new Real[block]) {}
    std::unique_ptr<Real[]> passing, fresh, value, factor;
  };

  void pass(std::span<const Verb> verbs, std::span<Reply> replies) {
    for (const Verb& verb : verbs) std::visit([this](const auto& v) { prepare(v); }, verb);
    const Size n = n_rows(), n_chunks = (n + chunk - 1) / chunk;
    std::vector<Tally> tallies(verbs.size() * n_chunks);
    if (loss_->whole()) evaluate_whole(verbs[0]);
    chunks([&](Size c, RowRange rows) {
      Scratch scratch(n_outputs());
      for (Size begin = rows.begin; begin < rows.end; begin += block) {
        const RowRange some{begin, std::min(begin + block, rows.end)};
        for (Size v = 0; v < verbs.size(); ++v)
          std::visit([&](const auto& verb) { on(verb, some, scratch, tallies[v * n_chunks + c]); },
                     verbs[v]);
      }
    });
    for (Size v = 0; v < verbs.size(); ++v)
      replies[v] = std::visit(
          [&](const auto& verb) {
            return total(verb, std::span(tallies).subspan(v * n_chunks, n_chunks));
          },
          verbs[v]);
  }

  template <class Other>
  Reply total(const Other&, std::span<const Tally>) const {
    return {};
  }

  Reply total(const AbsoluteSum&, std::span<const Tally> tallies) const {
    Vec sums(n_outputs());
    for (const Tally& tally : tallies)
      for (Size o = 0; o < sums.size(); ++o) sums[o] += tally.absolute[o];
    return {0.0, {}, {std::move(sums)}};
  }

  Reply total(const Residual& verb, std::span<const Tally> tallies) const {
    Reply reply{0.0, Vec(verb.risk ? verb.parts.size() : 0), {}};
    for (const Tally& tally : tallies) {
      reply.moved += tally.moved;
      for (Size p = 0; p < reply.risk.size(); ++p) reply.risk[p] += tally.risk[p];
    }
    reply.moved = std::sqrt(reply.moved);
    for (Size p = 0; p < reply.risk.size(); ++p) reply.risk[p] /= part(verb.parts[p]).total;
    return reply;
  }

  // Checks a verb and allocates its slots before any row changes.
  void prepare(const Fill& verb) {
    if (verb.start.size() != n_outputs())
      throw std::invalid_argument("fill: expected one start per output");
    write_any(verb.out);
  }
  void prepare(const Residual& verb) {
    read_any(verb.at);
    for (const Part p : verb.parts) part(p);
    check_state(verb.state);
    if (verb.out == no_slot) return;
    if (verb.out == passing_slot || verb.parts.empty())
      throw std::invalid_argument("residual: expected a permanent slot and a part");
    write(verb.out);
    set_inside(verb.out, verb.parts[0]);
  }
  void prepare(const Add& verb) {
    const bool one = verb.output != all_outputs;
    if (one && (verb.output < 0 || static_cast<Size>(verb.output) >= n_outputs()))
      throw std::invalid_argument("add: the loss does not have this output");
    if (verb.bin_values.size() != bins_of(sets_.at(verb.set)) * (one ? 1 : n_outputs()))
      throw std::invalid_argument("add: expected one value per bin and output");
    if (verb.within) part(*verb.within);
    write_any(verb.slot);
    if (verb.slot >= 0 && inside_[static_cast<Size>(verb.slot)] != verb.within)
      set_inside(verb.slot, {});
  }
  void prepare(const Mix& verb) {
    if (verb.a != 0.0 || verb.b != 0.0) {
      read_any(verb.x);
      read_any(verb.y);
    }
    write_any(verb.out);
    if (verb.out >= 0) {
      const auto inside = [this](Slot s) {
        return s >= 0 ? inside_[static_cast<Size>(s)] : std::optional<Part>{};
      };
      set_inside(verb.out, verb.b == 0.0 || inside(verb.x) == inside(verb.y)
                               ? inside(verb.x)
                               : std::optional<Part>{});
    }
  }
  void prepare(const AbsoluteSum& verb) {
    read_any(verb.slot);
    part(verb.part);
    if (verb.centre.size() != n_outputs())
      throw std::invalid_argument("absolute sum: expected one centre per output");
  }
  template <class Other>
  void prepare(const Other&) {}

  void write_any(Slot slot) {
    if (slot == passing_slot && loss_->whole()) passing_.resize(n_rows() * n_outputs());
    if (slot != passing_slot) write(slot);
  }
  void read_any(Slot slot) const {
    if (slot != passing_slot) read(slot);
  }
  void check_state(const Vec& state) const {
    if (state.size() != loss_->n_state())
      throw std::invalid_argument("residual: expected " + std::to_string(loss_->n_state()) +
                                  " numbers for the state of the loss, got " +
                                  std::to_string(state.size()));
  }
  void set_inside(Slot slot, std::optional<Part> p) { inside_[static_cast<Size>(slot)] = p; }

  Planes<Real> rows_of(Slot slot, RowRange rows, const Scratch& scratch) {
    if (slot != passing_slot)
      return {slots_[static_cast<Size>(slot)].data() + rows.begin, n_rows()};
    if (loss_->whole()) return {passing_.data() + rows.begin, n_rows()};
    return {scratch.passing.get(), block};
  }

  void on(const Fill& verb, RowRange rows, Scratch& scratch, Tally&) {
    const auto out = rows_of(verb.out, rows, scratch);
    const Size m = rows.end - rows.begin, n = n_rows();
    for (Size o = 0; o < n_outputs(); ++o)
      for (Size i = 0; i < m; ++i)
        out[o][i] = verb.start[o] + (offset_.empty() ? 0.0 : offset_[o * n + rows.begin + i]);
  }

  void on(const Mix& verb, RowRange rows, Scratch& scratch, Tally&) {
    const auto x = rows_of(verb.x, rows, scratch), y = rows_of(verb.y, rows, scratch),
               out = rows_of(verb.out, rows, scratch);
    for (Size o = 0; o < n_outputs(); ++o)
      mix_rows(rows.end - rows.begin, verb.a, x[o], verb.b, y[o], out[o]);
  }

  void on(const Add& verb, RowRange rows, Scratch& scratch, Tally&) {
    const auto out = rows_of(verb.slot, rows, scratch);
    const Size m = rows.end - rows.begin, n_bins = bins_of(sets_[verb.set]);
    const auto kind = verb.within ? part(*verb.within).kind : Weights::Kind::ones;
    const Size first = verb.output == all_outputs ? 0 : static_cast<Size>(verb.output);
    const Size last = verb.output == all_outputs ? n_outputs() : first + 1;
    for (Size o = first; o < last; ++o) {
      const auto add = [&](auto value) {
        if (kind == Weights::Kind::ones)
          add_values(m, value, out[o]);
        else if (kind == Weights::Kind::mask)
          add_values_within(m, value, &part(*verb.within).mask[rows.begin], out[o]);
        else
          add_values_within(m, value, &part(*verb.within).numbers[rows.begin], out[o]);
      };
      const Real* const values = verb.bin_values.data() + (o - first) * n_bins;
      std::visit([&](const auto& set) { with_values(set, values, rows.begin, add); },
                 sets_[verb.set]);
    }
  }

  void on(const AbsoluteSum& verb, RowRange rows, Scratch& scratch, Tally& tally) {
    const auto x = rows_of(verb.slot, rows, scratch);
    const Size m = rows.end - rows.begin;
    const Weights& w = part(verb.part);
    tally.absolute.resize(n_outputs());
    for (Size o = 0; o < n_outputs(); ++o) {
      if (w.kind == Weights::Kind::ones)
        tally.absolute[o] += absolute_sum(m, x[o], verb.centre[o]);
      else if (w.kind == Weights::Kind::mask)
        tally.absolute[o] += absolute_sum(m, x[o], verb.centre[o], &w.mask[rows.begin]);
      else
        tally.absolute[o] += absolute_sum(m, x[o], verb.centre[o], &w.numbers[rows.begin]);
    }
  }

  void on(const Residual& verb, RowRange rows, Scratch& scratch, Tally& tally) {
    const Size m = rows.end - rows.begin;
    const bool out_wanted = verb.out != no_slot;
    LossOutput at;  // the block's residuals and losses
    if (loss_->whole()) {
      if (out_wanted) at.residual = {fresh_.data() + rows.begin, n_rows()};
      if (verb.risk) at.value = losses_.data() + rows.begin;
    } else {
      if (out_wanted) at.residual = {scratch.fresh.get(), block};
      if (verb.risk) at.value = scratch.value.get();
      if (verb.risk && loss_->has_factor()) at.factor = scratch.factor.get();
      const auto score = rows_of(verb.at, rows, scratch);
      LossInput input = input_at(rows, {score.at, score.stride}, verb.state);
      if (!verb.parts.empty()) input.weights = &part(verb.parts[0]);
      loss_->evaluate(input, at);
    }
    tally.risk.resize(verb.risk ? verb.parts.size() : 0);
    for (Size p = 0; p < tally.risk.size(); ++p) {
      const auto same = std::ranges::find(verb.parts, verb.parts[p]) - verb.parts.begin();
      tally.risk[p] = static_cast<Size>(same) < p
                          ? tally.risk[static_cast<Size>(same)]
                          : tally.risk[p] + loss_of(verb.parts[p], rows, at);
    }
    if (!out_wanted) return;
    const auto out = rows_of(verb.out, rows, scratch);
    for (Size o = 0; o < n_outputs(); ++o) {
      const Weights& w = part(verb.parts[0]);
      if (w.kind == Weights::Kind::ones)
        tally.moved += replace_all(m, at.residual[o], out[o]);
      else if (w.kind == Weights::Kind::mask)
        tally.moved += replace_masked(m, at.residual[o], out[o], &w.mask[rows.begin]);
      else
        tally.moved += replace_weighted(m, at.residual[o], out[o], &w.numbers[rows.begin]);
    }
  }

  Real loss_of(Part p, RowRange rows, const LossOutput& at) const {
    const Size m = rows.end - rows.begin;
    const Weights& w = part(p);
    switch (w.kind) {
      case Weights::Kind::ones:
        return total_loss(m, at.value, at.factor);
      case Weights::Kind::mask:
        return masked_loss(m, at.value, at.factor, w.mask.data() + rows.begin);
      default:
        return weighted_loss(m, at.value, at.factor, &w.numbers[rows.begin]);
    }
  }

  template <class Other>
  void on(const Other&, RowRange, Scratch&, Tally&) {}  // does not take part in a pass

  // Evaluates a loss that must see all rows at once, before the pass over the blocks; the pass then
  // has one verb only.
  void evaluate_whole(const Verb& only) {
    const auto* verb = std::get_if<Residual>(&only);
    if (!verb) return;
    LossOutput out;
    const Size n = n_rows();
    if (verb->out != no_slot) {
      fresh_.resize(n * n_outputs());
      out.residual = {fresh_.data(), n};
    }
    if (verb->risk) {
      losses_.resize(n);
      out.value = losses_.data();
    }
    const Real* const score = verb->at == passing_slot ? passing_.data() : read(verb->at).data();
    LossInput input = input_at({0, n}, {score, n}, verb->state);
    if (!verb->parts.empty()) input.weights = &part(verb->parts[0]);
    loss_->evaluate(input, out);
  }

  LossInput input_at(RowRange rows, Planes<const Real> score, const Vec& state) const {
    const Planes<const Real> y{y_.data() + rows.begin, n_rows()};
    return {rows.end - rows.begin, y, score, state, nullptr, rows.begin};
  }

  // --- the other verbs ---

  // Averages over five Gauss points, then corrects along the line so that <residual, to - from> is
  // exactly the fall of the loss of each row (a discrete gradient); this is exact for kinks too.
  Reply apply(const MeanResidual& verb) {
    read(verb.from);
    read(verb.to);
    write(verb.out);
    if (verb.part) part(*verb.part);
    check_state(verb.state);
    set_inside(verb.out, verb.part);
    if (loss_->whole()) {
      average_residual(verb, {0, n_rows()});
    } else {
      chunks([&](Size, RowRange rows) {
        for (Size begin = rows.begin; begin < rows.end; begin += block)
          average_residual(verb, {begin, std::min(begin + block, rows.end)});
      });
    }
    return {};
  }

  void average_residual(const MeanResidual& verb, RowRange rows) {
    constexpr std::array<Real, 5> at = {0.046910077030668004, 0.23076534494715845, 0.5,
                                        0.76923465505284155, 0.953089922969332};
    constexpr std::array<Real, 5> weight = {0.11846344252809454, 0.23931433524968324,
                                            0.28444444444444444, 0.23931433524968324,
                                            0.11846344252809454};
    const Size m = rows.end - rows.begin, q = n_outputs();
    const auto of = [&](Slot slot) {
      return Planes<Real>{slots_[static_cast<Size>(slot)].data() + rows.begin, n_rows()};
    };
    const Planes<Real> from = of(verb.from), to = of(verb.to), out = of(verb.out);
    LossInput input = input_at(rows, {}, verb.state);
    if (verb.part) input.weights = &part(*verb.part);
    const auto evaluate = [&](Planes<const Real> score, const LossOutput& result) {
      input.score = score;
      loss_->evaluate(input, result);
    };
    Vec point(m * q), residual(m * q), fall(m), factor(loss_->has_factor() ? m : 0), value(m);
    for (Size o = 0; o < q; ++o) std::fill_n(out[o], m, 0.0);
    for (Size k = 0; k < at.size(); ++k) {
      for (Size o = 0; o < q; ++o)
        for (Size i = 0; i < m; ++i)
          point[o * m + i] = from[o][i] + at[k] * (to[o][i] - from[o][i]);
      evaluate({point.data(), m}, {{residual.data(), m}});
      for (Size o = 0; o < q; ++o)
        for (Size i = 0; i < m; ++i) out[o][i] += weight[k] * residual[o * m + i];
    }
    for (const Real sign : {1.0, -1.0}) {  // loss at `from` minus loss at `to`
      const Planes<Real>& score = sign > 0.0 ? from : to;
      evaluate({score.at, score.stride},
               {{}, value.data(), factor.empty() ? nullptr : factor.data()});
      for (Size i = 0; i < m; ++i)
        fall[i] += sign * (value[i] + (factor.empty() ? 0.0 : std::log(factor[i])));
    }
    for (Size i = 0; i < m; ++i) {
      Real length = 0.0, along = 0.0;
      for (Size o = 0; o < q; ++o) {
        const Real d = to[o][i] - from[o][i];
        length += d * d;
        along += out[o][i] * d;
      }
      if (length <= std::numeric_limits<Real>::min()) continue;
      const Real correction = (fall[i] - along) / length;
      for (Size o = 0; o < q; ++o) out[o][i] += correction * (to[o][i] - from[o][i]);
    }
    if (verb.part)
      for (Size i = 0; i < m; ++i)
        if (part(*verb.part)[rows.begin + i] == 0.0)
          for (Size o = 0; o < q; ++o) out[o][i] = 0.0;
  }

  Reply apply(const Curvature& verb) {
    read(verb.at);
    write(verb.out);
    check_state(verb.state);
    set_inside(verb.out, {});
    const auto of = [&](Slot slot, RowRange rows) {
      return Planes<Real>{slots_[static_cast<Size>(slot)].data() + rows.begin, n_rows()};
    };
    const auto evaluate = [&](RowRange rows) {
      const auto at = of(verb.at, rows);
      loss_->curvature(input_at(rows, {at.at, at.stride}, verb.state), of(verb.out, rows));
    };
    if (loss_->whole())
      evaluate({0, n_rows()});
    else
      chunks([&](Size, RowRange rows) { evaluate(rows); });
    return {};
  }

  // w x for a slot, (n) per output. This is the slot itself if all weights are one, or if they are
  // zero and one and the slot is zero outside the part; otherwise a copy, valid until the slot
  // changes.
  In weighted(Slot slot, Part p) {
    const Weights& w = part(p);
    if (slot == ones_slot) return numbers(w);
    const In x = read(slot);
    const auto s = static_cast<Size>(slot);
    if (w.kind == Weights::Kind::ones || (w.kind == Weights::Kind::mask && inside_[s] == p))
      return x;
    Copy& copy = copies_[s];
    if (copy.version != version_[s] || copy.part != p) {
      copy.values.resize(x.size());
      const Size n = n_rows();
      chunks([&](Size, RowRange rows) {
        for (Size o = 0; o < n_outputs(); ++o) {
          const Size at = o * n + rows.begin;
          const Size n_here = rows.end - rows.begin;
          if (w.kind == Weights::Kind::mask)
            weigh(n_here, &w.mask[rows.begin], &x[at], &copy.values[at]);
          else
            weigh(n_here, &w.numbers[rows.begin], &x[at], &copy.values[at]);
        }
      });
      copy.version = version_[s];
      copy.part = p;
    }
    return copy.values;
  }

  In numbers(const Weights& w) {  // also of weights stored as bytes
    if (!w.numbers.empty() || w.size == 0) return w.numbers;
    weights_.resize(w.size);
    for (Size i = 0; i < w.size; ++i) weights_[i] = w[i];
    return weights_;
  }

  // One task per set and chunk of rows. The chunks of a set depend on the set alone, so that its
  // sums do not depend on threads or on the other sets of the batch.
  struct SumTask {
    Size set, k;  // number of the set, and its position in the verb
    RowRange rows;
    Vec sums = {};  // (n_bins) per plane
  };

  Reply apply(const BinSums& verb) {
    const Size n = n_rows(), q = n_outputs();
    std::vector<const Real*> planes;
    for (const Slot slot : verb.slots) {
      const In x = weighted(slot, verb.part);
      for (Size o = 0; o < (slot == ones_slot ? 1 : q); ++o) planes.push_back(x.data() + o * n);
    }
    std::vector<SumTask> tasks;
    tasks.reserve(verb.sets.size());
    for (Size k = 0; k < verb.sets.size(); ++k) {
      const Size bins = bins_of(sets_.at(verb.sets[k]));
      const Size length = chunk * ((16 * bins + chunk - 1) / chunk);
      for (Size begin = 0; begin < n || begin == 0; begin += length)
        tasks.push_back({verb.sets[k], k, {begin, std::min(begin + length, n)}});
    }
    // Sorted by rows, so that the values to add are in the cache. With few rows a task takes
    // several sets: less work than that is done before another thread has woken up.
    if (n > chunk)
      std::ranges::stable_sort(tasks, {}, [](const SumTask& task) { return task.rows.begin; });
    const Size group = std::max<Size>(1, chunk / std::max<Size>(n, 1));
    Reply reply;
    reply.sums.resize(verb.slots.size() * verb.sets.size());
    for (Size begin = 0, end = 0; begin < tasks.size(); begin = end) {
      for (Size held = 0; end < tasks.size() && held < max_pending; ++end)
        held += bins_of(sets_[tasks[end].set]) * planes.size();
      const auto some = std::span(tasks).subspan(begin, end - begin);
      workers_.run((some.size() + group - 1) / group,
                   [&](Size g) {
                     for (Size t = g * group; t < std::min((g + 1) * group, some.size()); ++t)
                       sum(some[t], planes);
                   },
                   poll);
      gather(verb, some, reply);
    }
    return reply;
  }

  void sum(SumTask& task, const std::vector<const Real*>& planes) const {
    const Size n_bins = bins_of(sets_[task.set]);
    task.sums.assign(n_bins * planes.size(), 0.0);
    thread_local Vec scratch;
    std::visit(
        [&](const auto& set) {
          Size p = 0;
          for (; p + 1 < planes.size(); p += 2)
            bin_sums<2>(set, {planes[p], planes[p + 1]}, task.rows, &task.sums[p * n_bins],
                        scratch);
          if (p < planes.size())
            bin_sums<1>(set, {planes[p]}, task.rows, &task.sums[p * n_bins], scratch);
        },
        sets_[task.set]);
  }

  void gather(const BinSums& verb, std::span<SumTask> tasks, Reply& reply) const {
    const Size n_sets = verb.sets.size();
    for (SumTask& task : tasks) {  // tasks of one set come in the order of their rows
      Vec found = std::exchange(task.sums, {});
      if (verb.slots.size() == 1 && reply.sums[task.k].empty()) {
        reply.sums[task.k] = std::move(found);
        continue;
      }
      auto from = found.begin();
      for (Size s = 0; s < verb.slots.size(); ++s) {
        const Size length =
            bins_of(sets_[task.set]) * (verb.slots[s] == ones_slot ? 1 : n_outputs());
        Vec& sums = reply.sums[s * n_sets + task.k];
        sums.resize(length, 0.0);
        for (Real& sum : sums) sum += *from++;
      }
    }
  }

  Reply apply(const Cross& verb) {
    Reply reply;
    reply.sums.resize(verb.pairs.size());
    std::optional<Weights> product;
    if (verb.by != ones_slot) {
      const Size n = n_rows(), at = static_cast<Size>(verb.output);
      if (at >= n_outputs()) throw std::invalid_argument("cross: the loss lacks this output");
      product.emplace(weighted(verb.by, verb.part).subspan(at * n, n));
    }
    const Weights& w = product ? *product : part(verb.part);
    Crosses* const known_crosses = product ? nullptr : crosses_.get();
    for (const auto& pair : verb.pairs)
      if (bins_of(sets_.at(pair.a)) != pair.basis_a->n_bins() ||
          bins_of(sets_.at(pair.b)) != pair.basis_b->n_bins())
        throw std::invalid_argument("cross: a basis must have one row per bin of its set");
    workers_.run(
        verb.pairs.size(),
        [&](Size i) {
          const auto& pair = verb.pairs[i];
          const auto &x = *pair.basis_a, &y = *pair.basis_b;
          const Crosses::Key key{
              w.address(),       first_of(sets_[pair.a]), first_of(sets_[pair.b]),
              x.values().data(), y.values().data(),       x.columns().data(),
              y.columns().data()};
          if (known_crosses)
            if (auto known = known_crosses->find(key))
              return void(reply.sums[i] = std::move(*known));
          reply.sums[i] =
              std::visit([&](const auto& a, const auto& b) { return cross_gram(a, x, b, y, w); },
                         sets_[pair.a], sets_[pair.b]);
          if (known_crosses) known_crosses->store(key, reply.sums[i]);
        },
        poll);
    return reply;
  }

  static const void* first_of(const RowSet& set) {
    return std::visit([](const auto& s) { return first_of(s); }, set);
  }
  static const void* first_of(const IndexSet& set) {
    return std::visit([](auto index) -> const void* { return index.data(); }, set.index);
  }
  static const void* first_of(const MomentSet& set) { return set.t.data(); }

  template <class ByRow>
  Reply apply(const ByRow&) {  // handled by a pass
    return {};
  }

  struct Copy {
    Vec values;
    Size version = 0;
    Part part = 0;
  };

  std::shared_ptr<Loss> loss_;
  In y_;  // (n) per target
  Size n_rows_;
  In offset_;  // (n) per output, or empty
  std::vector<RowSet> sets_;
  std::vector<Weights> parts_;
  std::shared_ptr<Crosses> crosses_;  // may be shared with other rows, or null
  std::array<Vec, max_slots> slots_;
  std::array<Size, max_slots> version_{};                   // how often each slot was written
  std::array<std::optional<Part>, max_slots> inside_ = {};  // part outside which a slot is zero
  std::array<Copy, max_slots> copies_;                      // weighted slots
  Vec passing_, fresh_, losses_;                            // for losses that must see all rows
  Vec weights_;                                             // weights of a part as numbers
  Workers workers_;
};

}  // namespace cwboost
