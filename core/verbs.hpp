// The verbs: all that the engine may ask of rows, and the abstract `Rows` that answers them.
// Does not know where the rows are (see local_rows.hpp), nor about learners or optimizers.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "basis.hpp"
#include "types.hpp"

namespace cwboost {

using Slot = int;   // an array (outputs, rows) that the rows store: a score or a residual
using Part = Size;  // a weight vector over the rows
using Set = Size;   // a bin index, or the pieces and positions of moments

constexpr Slot no_slot = -1;       // Residual: compute the risk only
constexpr Slot ones_slot = -2;     // BinSums: the bin weights themselves
constexpr Slot passing_slot = -3;  // temporary: lasts until the end of its batch
constexpr Slot max_slots = 16;

constexpr int all_outputs = -1;  // an Add or an Update that moves every output

// The verbs. They are sent in batches, so that remote rows need few round trips and local rows go
// through the memory once.
struct Fill {  // out = offset + start
  Slot out;
  Vec start;  // one number per output
};
struct Residual {  // out = -dloss/dscore at `at`; replies with the distance moved and risks
  Slot at;
  Slot out;
  std::vector<Part> parts;  // out is 0 outside the first part, whose weights `moved` uses
  bool risk = true;         // whether to reply with the risk of each part
  Vec state = {};           // of the loss, see Loss::n_state
};
struct MeanResidual {  // out = the residual averaged along the straight line between two scores
  Slot from;
  Slot to;
  Slot out;
  std::optional<Part> part = {};  // out is 0 outside
  Vec state = {};                 // of the loss
};
struct BinSums {  // per slot and set: sum of w x over the rows of each bin
  std::vector<Slot> slots;
  std::vector<Set> sets;
  Part part;
};
struct Cross {  // per pair of sets the cross-Gram B_a' C B_b, C the weights of the joint bins
  struct Pair {
    Set a, b;
    const Basis *basis_a, *basis_b;
  };
  std::vector<Pair> pairs;
  Part part;
};
struct Add {  // slot[i] += bin_values[bin[i]]; for moments, the cubic of the row's piece
  Slot slot;
  Set set;
  Vec bin_values;                    // (n_bins) per output
  std::optional<Part> within = {};   // only rows of this part
  std::optional<Size> learner = {};  // the same as a learner's number
  Vec theta = {};                    // and its coefficients, for GramRows
  int output = all_outputs;          // if one output moves, bin_values are (n_bins)
};
struct Mix {  // out = a x + b y
  Slot out;
  Real a;
  Slot x;
  Real b;
  Slot y;
};
struct AbsoluteSum {  // sum of w |x - centre| over the rows, for the sizes of effects
  Slot slot;
  Part part;
  Vec centre;  // one number per output
};
using Verb = std::variant<Fill, Residual, MeanResidual, BinSums, Cross, Add, Mix, AbsoluteSum>;

template <class... Verbs>
std::vector<Verb> batch_of(Verbs&&... verbs) {
  std::vector<Verb> out;
  (out.emplace_back(std::forward<Verbs>(verbs)), ...);
  return out;
}

struct Reply {
  Real moved = 0.0;  // Residual: weighted norm of the change of `out`
  Vec risk;          // Residual: weighted mean loss, per part
  // BinSums: slot by slot, set by set. Cross: per pair (n_coef a, n_coef b). AbsoluteSum:
  // (outputs).
  std::vector<Vec> sums;
};

class Rows {
 public:
  virtual ~Rows() = default;
  virtual Size n_outputs() const = 0;
  virtual std::vector<Reply> run(const std::vector<Verb>& batch) = 0;
  // Rows that a pass over one set costs; 0 if asking for fewer sets saves nothing.
  virtual Size n_rows() const { return 0; }
  virtual bool remote() const { return false; }       // a round trip takes longer than a pass
  virtual bool linear() const { return false; }       // residual = y - score
  virtual bool knows_cross() const { return false; }  // answers the verb Cross
  virtual bool by_theta() const { return false; }     // reads learner and theta of Add
  virtual Real weight(Part) const {                   // sum of weights; needed with Cross
    throw std::logic_error("these rows do not report their weights");
  }

  // Called now and then by the thread that called run; throws to cancel (Ctrl-C).
  std::function<void()> poll;
};

// Stands for rows when a recorded path is replayed without data.
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

}  // namespace cwboost
