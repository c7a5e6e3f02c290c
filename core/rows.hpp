// The row side: everything as long as the data, behind a few verbs. The engine drives `Rows`; where
// the rows live (here, in Python, on other machines) is not its business.
// Knows nothing of learners, optimizers or columns.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "loss.hpp"
#include "parallel.hpp"
#include "types.hpp"

namespace cwboost {

using Slot = int;   // a block (rows, outputs) that the rows keep: a score or a residual
using Part = Size;  // a weight vector over the rows
using Set = Size;   // a bin index

constexpr Slot no_slot = -1;    // residual: only the risk is wanted
constexpr Slot ones_slot = -2;  // bin_sums: the bin weights themselves
constexpr Slot max_slots = 16;

// The verbs. A batch of them is sent in one call, so that far rows need few round trips.
struct Fill {  // out = offset + start
  Slot out;
  Vec start;  // one number per output
};
struct Residual {  // out = -dloss/dscore at `at`; replies how far out moved, and the risks
  Slot at;
  Slot out;
  std::vector<Part> parts;  // `moved` is weighted by the first, a risk is given for each
};
struct MeanResidual {  // out = the residual averaged along the straight line between two scores
  Slot from;
  Slot to;
  Slot out;
};
struct BinSums {  // per slot and set: sum of w x over the rows of each bin
  std::vector<Slot> slots;
  std::vector<Set> sets;
  Part part;
};
struct Joint {  // weights of the joint bins of two sets
  Set a;
  Set b;
  Part part;
};
struct Add {  // slot[i] += bin_values[bin[i]]
  Slot slot;
  Set set;
  Vec bin_values;  // (n_bins) per output
};
struct Mix {  // out = a x + b y
  Slot out;
  Real a;
  Slot x;
  Real b;
  Slot y;
};
using Verb = std::variant<Fill, Residual, MeanResidual, BinSums, Joint, Add, Mix>;

template <class... Verbs>
std::vector<Verb> batch_of(Verbs&&... verbs) {
  std::vector<Verb> out;
  (out.emplace_back(std::forward<Verbs>(verbs)), ...);
  return out;
}

struct Reply {
  Real moved = 0.0;  // Residual: weighted norm of the change of `out`
  Vec risk;          // Residual: weighted mean loss, per part
  std::vector<Vec>
      sums;  // BinSums: slot by slot, set by set; Joint: one table (n_bins a, n_bins b)
};

class Rows {
 public:
  virtual ~Rows() = default;
  virtual Size n_outputs() const = 0;
  virtual std::vector<Reply> run(const std::vector<Verb>& batch) = 0;

  // Called now and then from the thread that called run; throws to give up (Ctrl-C).
  std::function<void()> poll;
};

// Rows that are not there: what a recorded path needs to be replayed.
class NoRows final : public Rows {
 public:
  explicit NoRows(Size n_outputs) : n_outputs_(n_outputs) {}
  Size n_outputs() const override { return n_outputs_; }
  std::vector<Reply> run(const std::vector<Verb>& batch) override {
    return std::vector<Reply>(batch.size(), Reply{0.0, {0.0, 0.0, 0.0}, {}});
  }

 private:
  Size n_outputs_;
};

// A bin index, as narrow as its bins allow.
struct IndexSet {
  std::variant<std::span<const std::uint8_t>, std::span<const std::uint16_t>,
               std::span<const std::uint32_t>>
      index;  // (n)
  Size n_bins;
};

// Rows in this process. Inputs are views that the caller keeps alive; slots are owned.
class LocalRows : public Rows {
 public:
  LocalRows(std::shared_ptr<Loss> loss, In y, In offset, std::vector<IndexSet> sets,
            std::vector<In> parts, Size n_threads)
      : loss_(std::move(loss)),
        y_(y),
        offset_(offset),
        sets_(std::move(sets)),
        parts_(std::move(parts)),
        workers_(n_threads) {
    const Size n = y_.size(), q = loss_->n_outputs();
    if (!offset_.empty() && offset_.size() != n * q)
      throw std::invalid_argument("offset must have one value per row and output");
    for (const In part : parts_) {
      if (part.size() != n) throw std::invalid_argument("a part must have one weight per row");
      Real total = 0.0;
      for (const Real w : part) total += w;
      totals_.push_back(total);
    }
    for (const auto& set : sets_)
      std::visit(
          [&](auto index) {
            if (index.size() != n) throw std::invalid_argument("a set must have one bin per row");
            for (const auto bin : index)
              if (bin >= set.n_bins) throw std::invalid_argument("a set has a bin out of range");
          },
          set.index);
  }

  Size n_rows() const { return y_.size(); }
  Size n_outputs() const override { return loss_->n_outputs(); }

  std::vector<Reply> run(const std::vector<Verb>& batch) override {
    std::vector<Reply> replies;
    replies.reserve(batch.size());
    for (const auto& verb : batch)
      replies.push_back(std::visit([this](const auto& v) { return apply(v); }, verb));
    return replies;
  }

  In read(Slot slot) const {
    const Vec& values = slots_.at(static_cast<Size>(slot));
    if (values.empty()) throw std::invalid_argument("a slot was read before it was written");
    return values;
  }

 private:
  // Rows per task of an elementwise pass; sums over rows are taken per block, then in block order.
  static constexpr Size block = 1 << 14;

  Out write(Slot slot) {
    auto& values = slots_.at(static_cast<Size>(slot));
    if (values.empty()) values.assign(n_rows() * n_outputs(), 0.0);
    return values;
  }

  In part(Part p) const { return parts_.at(p); }

  void blocks(Size n_items, const std::function<void(Size, Size, Size)>& task) {
    const Size n_blocks = (n_items + block - 1) / block;
    workers_.run(
        n_blocks, [&](Size b) { task(b, b * block, std::min((b + 1) * block, n_items)); }, poll);
  }

  // Evaluates the loss at `score` block by block (in one go if it must be whole) and hands every
  // block to `take(block, begin, end)` as soon as it is there.
  void evaluate(In score, Real* residual, Real* loss,
                const std::function<void(Size, Size, Size)>& take) {
    const Size n = n_rows();
    if (loss_->whole()) loss_->evaluate(0, n, n, y_.data(), score.data(), residual, loss);
    blocks(n, [&](Size b, Size begin, Size end) {
      if (!loss_->whole()) loss_->evaluate(begin, end, n, y_.data(), score.data(), residual, loss);
      take(b, begin, end);
    });
  }

  Reply apply(const Fill& fill) {
    const Size n = n_rows(), q = n_outputs();
    if (fill.start.size() != q) throw std::invalid_argument("fill: one start per output");
    const Out out = write(fill.out);
    for (Size o = 0; o < q; ++o)
      for (Size i = 0; i < n; ++i)
        out[o * n + i] = fill.start[o] + (offset_.empty() ? 0.0 : offset_[o * n + i]);
    return {};
  }

  Reply apply(const Residual& verb) {
    const Size n = n_rows(), q = n_outputs();
    const bool wanted = verb.out != no_slot;
    const In score = read(verb.at);
    const Out out = wanted ? write(verb.out) : Out{};
    fresh_.resize(wanted ? n * q : 0);  // the new residual, until compared with the old one
    losses_.resize(n);
    const Size n_blocks = (n + block - 1) / block, n_parts = verb.parts.size();
    Vec moved(n_blocks), risk(n_blocks * n_parts);
    evaluate(score, wanted ? fresh_.data() : nullptr, losses_.data(),
             [&](Size b, Size begin, Size end) {
               for (Size p = 0; p < n_parts; ++p) {
                 const In w = part(verb.parts[p]);
                 for (Size i = begin; i < end; ++i)
                   if (w[i] > 0.0) risk[p * n_blocks + b] += w[i] * losses_[i];
               }
               if (!wanted) return;
               const In w = part(verb.parts.at(0));
               for (Size o = 0; o < q; ++o)
                 for (Size i = begin; i < end; ++i) {
                   const Real change = fresh_[o * n + i] - out[o * n + i];
                   if (w[i] > 0.0) moved[b] += w[i] * change * change;
                   out[o * n + i] = fresh_[o * n + i];
                 }
             });
    Reply reply{0.0, Vec(n_parts), {}};
    for (const Real m : moved) reply.moved += m;
    reply.moved = std::sqrt(reply.moved);
    for (Size p = 0; p < n_parts; ++p) {
      for (Size b = 0; b < n_blocks; ++b) reply.risk[p] += risk[p * n_blocks + b];
      reply.risk[p] /= totals_[verb.parts[p]];
    }
    return reply;
  }

  // Five Gauss points, then a correction along the line that makes <residual, to - from> exactly
  // the fall of the loss, row by row (a discrete gradient): exact for kinks too.
  Reply apply(const MeanResidual& verb) {
    constexpr std::array<Real, 5> at = {0.046910077030668004, 0.23076534494715845, 0.5,
                                        0.76923465505284155, 0.953089922969332};
    constexpr std::array<Real, 5> weight = {0.11846344252809454, 0.23931433524968324,
                                            0.28444444444444444, 0.23931433524968324,
                                            0.11846344252809454};
    const Size n = n_rows(), q = n_outputs();
    const In from = read(verb.from), to = read(verb.to);
    const Out out = write(verb.out);
    Vec point(n * q), residual(n * q), before(n), after(n);
    std::fill(out.begin(), out.end(), 0.0);
    for (Size k = 0; k < at.size(); ++k) {
      for (Size i = 0; i < n * q; ++i) point[i] = from[i] + at[k] * (to[i] - from[i]);
      evaluate(point, residual.data(), nullptr, [&](Size, Size begin, Size end) {
        for (Size o = 0; o < q; ++o)
          for (Size i = begin; i < end; ++i) out[o * n + i] += weight[k] * residual[o * n + i];
      });
    }
    evaluate(from, nullptr, before.data(), [](Size, Size, Size) {});
    evaluate(to, nullptr, after.data(), [&](Size, Size begin, Size end) {
      for (Size i = begin; i < end; ++i) {
        Real length = 0.0, fall = 0.0;
        for (Size o = 0; o < q; ++o) {
          const Real d = to[o * n + i] - from[o * n + i];
          length += d * d;
          fall += out[o * n + i] * d;
        }
        if (length <= std::numeric_limits<Real>::min()) continue;
        const Real correction = (before[i] - after[i] - fall) / length;
        for (Size o = 0; o < q; ++o)
          out[o * n + i] += correction * (to[o * n + i] - from[o * n + i]);
      }
    });
    return {};
  }

  Reply apply(const BinSums& verb) {
    const Size n = n_rows(), q = n_outputs();
    const In w = part(verb.part);
    std::vector<In> planes;  // w x, one per slot and output; shared by all sets
    weighted_.resize(verb.slots.size());
    for (Size s = 0; s < verb.slots.size(); ++s) {
      if (verb.slots[s] == ones_slot) {
        planes.push_back(w);
        continue;
      }
      const In x = read(verb.slots[s]);
      Vec& wx = weighted_[s];
      wx.resize(n * q);
      blocks(n, [&](Size, Size begin, Size end) {
        for (Size o = 0; o < q; ++o)
          for (Size i = begin; i < end; ++i)
            wx[o * n + i] = w[i] == 0.0 ? 0.0 : w[i] * x[o * n + i];  // a row outside may be inf
      });
      for (Size o = 0; o < q; ++o) planes.push_back(In(wx).subspan(o * n, n));
    }
    // One task per set and chunk of rows; the chunk depends on the set alone, so that a set's sums
    // do not depend on the threads or on which other sets are asked for.
    struct Task {
      Size set, begin, end;
      Vec sums;  // (n_bins) per plane
    };
    std::vector<Task> tasks;
    for (const Set s : verb.sets) {
      const Size chunk = std::max<Size>(Size{1} << 18, 16 * sets_.at(s).n_bins);
      for (Size begin = 0; begin < n || begin == 0; begin += chunk)
        tasks.push_back({s, begin, std::min(begin + chunk, n), {}});
    }
    workers_.run(
        tasks.size(),
        [&](Size t) {
          Task& task = tasks[t];
          const IndexSet& set = sets_[task.set];
          task.sums.assign(set.n_bins * planes.size(), 0.0);
          std::visit(
              [&](auto index) {
                Size p = 0;
                for (; p + 1 < planes.size(); p += 2) {  // two planes share a pass
                  Real* const sums = task.sums.data() + p * set.n_bins;
                  Real* const more = sums + set.n_bins;
                  for (Size i = task.begin; i < task.end; ++i) {
                    sums[index[i]] += planes[p][i];
                    more[index[i]] += planes[p + 1][i];
                  }
                }
                if (p < planes.size()) {
                  Real* const sums = task.sums.data() + p * set.n_bins;
                  for (Size i = task.begin; i < task.end; ++i) sums[index[i]] += planes[p][i];
                }
              },
              set.index);
        },
        poll);
    return gather(verb, tasks);
  }

  template <class Tasks>
  Reply gather(const BinSums& verb, const Tasks& tasks) const {
    Reply reply;
    const Size n_sets = verb.sets.size();
    reply.sums.resize(verb.slots.size() * n_sets);
    Size t = 0;
    for (Size k = 0; k < n_sets; ++k) {
      const Size n_bins = sets_[verb.sets[k]].n_bins;
      Vec total = tasks[t].sums;
      while (++t < tasks.size() && tasks[t].begin > 0)
        for (Size j = 0; j < total.size(); ++j) total[j] += tasks[t].sums[j];
      auto from = total.begin();
      for (Size s = 0; s < verb.slots.size(); ++s) {
        const auto length =
            static_cast<std::ptrdiff_t>(n_bins * (verb.slots[s] == ones_slot ? 1 : n_outputs()));
        reply.sums[s * n_sets + k].assign(from, from + length);
        from += length;
      }
    }
    return reply;
  }

  Reply apply(const Joint& verb) {
    const In w = part(verb.part);
    const IndexSet &a = sets_.at(verb.a), &b = sets_.at(verb.b);
    Vec table(a.n_bins * b.n_bins, 0.0);
    std::visit(
        [&](auto i, auto j) {
          for (Size row = 0; row < n_rows(); ++row)
            table[static_cast<Size>(i[row]) * b.n_bins + j[row]] += w[row];
        },
        a.index, b.index);
    Reply reply;
    reply.sums.push_back(std::move(table));
    return reply;
  }

  Reply apply(const Add& verb) {
    const Size n = n_rows(), q = n_outputs();
    const IndexSet& set = sets_.at(verb.set);
    if (verb.bin_values.size() != set.n_bins * q)
      throw std::invalid_argument("add: one value per bin and output");
    const Out out = write(verb.slot);
    std::visit(
        [&](auto index) {
          blocks(n, [&](Size, Size begin, Size end) {
            for (Size o = 0; o < q; ++o) {
              const Real* const values = verb.bin_values.data() + o * set.n_bins;
              for (Size i = begin; i < end; ++i) out[o * n + i] += values[index[i]];
            }
          });
        },
        set.index);
    return {};
  }

  Reply apply(const Mix& verb) {
    const In x = read(verb.x), y = read(verb.y);
    const Out out = write(verb.out);
    blocks(out.size(), [&](Size, Size begin, Size end) {
      if (verb.b == 0.0)
        for (Size i = begin; i < end; ++i) out[i] = verb.a * x[i];
      else
        for (Size i = begin; i < end; ++i) out[i] = verb.a * x[i] + verb.b * y[i];
    });
    return {};
  }

  std::shared_ptr<Loss> loss_;
  In y_;       // (n)
  In offset_;  // (n) per output, or empty
  std::vector<IndexSet> sets_;
  std::vector<In> parts_;  // (n) each
  Vec totals_;             // sum of weights of each part
  std::array<Vec, max_slots> slots_;
  std::vector<Vec> weighted_;  // scratch, kept between calls
  Vec fresh_, losses_;         // scratch, kept between calls
  Workers workers_;
};

}  // namespace cwboost
