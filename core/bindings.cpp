// The compiled boundary and the only file that includes nanobind. Arrays come in contiguous and of
// fixed dtype (refused, not converted) and are kept alive by the object that views them; one Path
// comes out. The GIL is released around the whole loop. Knows no mathematics.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <nanobind/trampoline.h>

#include <chrono>
#include <optional>

#include "boost.hpp"
#include "pairs.hpp"
#include "predict.hpp"
#include "setup.hpp"
#include "system.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace cwboost {
namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Reals = Array<Real>;
using Block = nb::ndarray<const Real, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class A>
auto view(const A& array) {
  return std::span(array.data(), array.size());
}

template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T> values, std::vector<Size> shape) {
  auto* const owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T> values) {
  const Size n = values.size();
  return to_numpy(std::move(values), {n});
}

// --- losses -------------------------------------------------------------------------------------

// A loss in Python: evaluate(score (q, n), want_residual, want_loss) -> (residual (q, n), loss
// (n)), None where not wanted. Shapes are checked in losses.py.
class PythonLoss final : public Loss {
 public:
  PythonLoss(nb::callable evaluate, Size n_outputs)
      : evaluate_(std::move(evaluate)), n_outputs_(n_outputs) {}
  Size n_outputs() const override { return n_outputs_; }
  bool whole() const override { return true; }
  void evaluate(Size n, const Real*, Planes<const Real> score,
                const Wanted& wanted) const override {
    const nb::gil_scoped_acquire gil;
    auto block = to_numpy(Vec(score.at, score.at + n * n_outputs_), {n_outputs_, n});
    const bool residual(wanted.residual);
    const auto out = nb::cast<nb::tuple>(evaluate_(block, residual, wanted.value != nullptr));
    copy(out[0], wanted.residual.at, n * n_outputs_);
    copy(out[1], wanted.value, n);
  }

 private:
  static void copy(nb::handle from, Real* to, Size n) {
    if (!to) return;
    const auto array = nb::cast<nb::ndarray<const Real, nb::c_contig, nb::device::cpu>>(from);
    if (array.size() != n) throw std::invalid_argument("a loss returned an array of a wrong size");
    std::copy(array.data(), array.data() + n, to);
  }
  nb::callable evaluate_;
  Size n_outputs_;
};

// --- rows ---------------------------------------------------------------------------------------

struct HeldSet {
  RowSet set;
  nb::object keep;
};
struct HeldMoments : HeldSet {};

struct HeldRows final : LocalRows {
  using LocalRows::LocalRows;
  std::vector<nb::object> keep;
};

struct PythonRows final : Rows {
  NB_TRAMPOLINE(Rows, 7);
  Size n_outputs() const override { NB_OVERRIDE_PURE(n_outputs); }
  std::vector<Reply> run(const std::vector<Verb>& batch) override { NB_OVERRIDE_PURE(run, batch); }
  Size n_rows() const override { NB_OVERRIDE(n_rows); }
  bool far() const override { NB_OVERRIDE(far); }
  bool linear() const override { NB_OVERRIDE(linear); }
  bool knows_cross() const override { NB_OVERRIDE(knows_cross); }
  Real weight(Part part) const override { NB_OVERRIDE(weight, part); }
};

// A basis that a cross-Gram is asked for by rows elsewhere.
struct HeldBasis {
  Basis basis;
  nb::object keep;
};

std::uintptr_t key_of(const Basis& basis) { return reinterpret_cast<std::uintptr_t>(&basis); }

// Verbs and replies travel as what their constructors take.
template <class Class, class Parts>
void travels(Class& cls, Parts parts) {
  cls.def("__reduce__", [parts](nb::handle self) {
    return nb::make_tuple(self.type(), parts(nb::cast<const typename Class::Type&>(self)));
  });
}

template <class T>
void bind_index(nb::class_<HeldSet>& cls) {
  cls.def(
      "__init__",
      [](HeldSet* self, Array<T> index, Size n_bins) {
        new (self) HeldSet{IndexSet{view(index), n_bins}, nb::cast(index)};
      },
      "index"_a.noconvert(), "n_bins"_a);
}

void make_rows(HeldRows* self, std::shared_ptr<Loss> loss, Reals y, std::optional<Block> offset,
               const std::vector<const HeldSet*>& sets,
               const std::vector<std::variant<Array<bool>, Reals>>& parts, Size n_threads,
               std::shared_ptr<Crosses> crosses) {
  std::vector<RowSet> index;
  std::vector<Weights> weights;
  std::vector<nb::object> keep{nb::cast(y)};
  for (const auto* set : sets) {
    if (!set) throw nb::type_error("sets: expected index sets, got None");
    index.push_back(set->set);
    keep.push_back(set->keep);
  }
  for (const auto& part : parts) {
    if (const auto* marks = std::get_if<Array<bool>>(&part))  // true is the byte 1
      weights.emplace_back(
          std::span(reinterpret_cast<const std::uint8_t*>(marks->data()), marks->size()));
    else
      weights.emplace_back(view(std::get<Reals>(part)));
    keep.push_back(std::visit([](const auto& array) { return nb::cast(array); }, part));
  }
  if (offset) keep.push_back(nb::cast(*offset));
  new (self) HeldRows(std::move(loss), view(y), offset ? view(*offset) : In{}, std::move(index),
                      std::move(weights), n_threads, std::move(crosses));
  self->keep = std::move(keep);
}

void bind_rows(nb::module_& m) {
  nb::class_<Loss>(m, "Loss", "A loss on one row.").def_prop_ro("n_outputs", &Loss::n_outputs);
  m.def("make_loss", &make_loss, "name"_a, "parameter"_a = 0.0);
  m.def(
      "python_loss",
      [](nb::callable evaluate, Size n_outputs) -> std::shared_ptr<Loss> {
        return std::make_shared<PythonLoss>(std::move(evaluate), n_outputs);
      },
      "evaluate"_a, "n_outputs"_a = 1,
      nb::sig("def python_loss(evaluate: Callable[..., object], n_outputs: int = 1) -> Loss"));

  m.attr("NO_SLOT") = no_slot;
  m.attr("ONES_SLOT") = ones_slot;
  m.attr("PASSING_SLOT") = passing_slot;
  nb::class_<Fill> fill(m, "Fill", "out = offset + start");
  travels(fill, [](const Fill& v) { return nb::make_tuple(v.out, v.start); });
  fill.def(nb::init<Slot, Vec>(), "out"_a, "start"_a)
      .def_ro("out", &Fill::out)
      .def_ro("start", &Fill::start);
  nb::class_<Residual> residual(m, "Residual",
                                "out = -dloss/dscore at `at` -> moved, risk per part");
  travels(residual, [](const Residual& v) { return nb::make_tuple(v.at, v.out, v.parts, v.risk); });
  residual
      .def(nb::init<Slot, Slot, std::vector<Part>, bool>(), "at"_a, "out"_a, "parts"_a,
           "risk"_a = true)
      .def_ro("risk", &Residual::risk)
      .def_ro("at", &Residual::at)
      .def_ro("out", &Residual::out)
      .def_ro("parts", &Residual::parts);
  nb::class_<MeanResidual> mean(m, "MeanResidual",
                                "out = residual averaged from one score to another");
  travels(mean, [](const MeanResidual& v) { return nb::make_tuple(v.from, v.to, v.out, v.part); });
  mean.def(nb::init<Slot, Slot, Slot, std::optional<Part>>(), "start"_a, "to"_a, "out"_a,
           "part"_a = nb::none())
      .def_ro("start", &MeanResidual::from)
      .def_ro("to", &MeanResidual::to)
      .def_ro("out", &MeanResidual::out)
      .def_ro("part", &MeanResidual::part);
  nb::class_<BinSums> bin_sums(m, "BinSums",
                               "sums of w x per bin -> sums, slot by slot, set by set");
  travels(bin_sums, [](const BinSums& v) { return nb::make_tuple(v.slots, v.sets, v.part); });
  bin_sums.def(nb::init<std::vector<Slot>, std::vector<Set>, Part>(), "slots"_a, "sets"_a, "part"_a)
      .def_ro("slots", &BinSums::slots)
      .def_ro("sets", &BinSums::sets)
      .def_ro("part", &BinSums::part);
  nb::class_<Joint> joint(m, "Joint", "weights of the joint bins of two sets -> sums[0]");
  travels(joint, [](const Joint& v) { return nb::make_tuple(v.a, v.b, v.part); });
  joint.def(nb::init<Set, Set, Part>(), "a"_a, "b"_a, "part"_a)
      .def_ro("a", &Joint::a)
      .def_ro("b", &Joint::b)
      .def_ro("part", &Joint::part);
  nb::class_<HeldBasis>(m, "Basis", "A basis over bins, in compressed rows.")
      .def(
          "__init__",
          [](HeldBasis* self, Array<std::int64_t> begin, Array<std::int32_t> column, Reals value,
             Size n_coef) {
            new (self) HeldBasis{Basis(view(begin), view(column), view(value), n_coef),
                                 nb::make_tuple(begin, column, value)};
          },
          "begin"_a.noconvert(), "column"_a.noconvert(), "value"_a.noconvert(), "n_coef"_a);
  using Asked = std::tuple<Set, Set, const HeldBasis*, const HeldBasis*>;
  nb::class_<Cross>(m, "Cross", "cross-Grams of pairs of bases -> sums, pair by pair")
      .def(
          "__init__",  // whoever asks keeps the bases until the answer
          [](Cross* self, const std::vector<Asked>& pairs, Part part) {
            Cross cross{{}, part};
            for (const auto& [a, b, x, y] : pairs) {
              if (!x || !y) throw nb::type_error("pairs: expected bases, got None");
              cross.pairs.push_back({a, b, &x->basis, &y->basis});
            }
            new (self) Cross(std::move(cross));
          },
          "pairs"_a, "part"_a)
      .def_prop_ro("pairs",
                   [](const Cross& self) {  // two sets, and keys of two bases
                     std::vector<std::tuple<Set, Set, std::uintptr_t, std::uintptr_t>> out;
                     for (const auto& pair : self.pairs)
                       out.emplace_back(pair.a, pair.b, key_of(*pair.basis_a),
                                        key_of(*pair.basis_b));
                     return out;
                   })
      .def_ro("part", &Cross::part);
  nb::class_<Add> add(m, "Add", "slot[i] += bin_values[bin[i]]");
  travels(add, [](const Add& v) {
    return nb::make_tuple(v.slot, v.set, to_numpy(Vec(v.bin_values)), v.within);
  });
  add.def(
         "__init__",
         [](Add* self, Slot slot, Set set, const Reals& values, std::optional<Part> within) {
           new (self) Add{slot, set, Vec(values.data(), values.data() + values.size()), within};
         },
         "slot"_a, "set"_a, "bin_values"_a, "within"_a = nb::none())
      .def_ro("within", &Add::within)
      .def_ro("slot", &Add::slot)
      .def_ro("set", &Add::set)
      .def_prop_ro(
          "bin_values", [](const Add& self) { return to_numpy(Vec(self.bin_values)); },
          nb::rv_policy::move);
  nb::class_<Mix> mix(m, "Mix", "out = a x + b y");
  travels(mix, [](const Mix& v) { return nb::make_tuple(v.out, v.a, v.x, v.b, v.y); });
  mix.def(nb::init<Slot, Real, Slot, Real, Slot>(), "out"_a, "a"_a, "x"_a, "b"_a, "y"_a)
      .def_ro("out", &Mix::out)
      .def_ro("a", &Mix::a)
      .def_ro("x", &Mix::x)
      .def_ro("b", &Mix::b)
      .def_ro("y", &Mix::y);
  nb::class_<Reply> reply(m, "Reply", "What a verb answers.");
  travels(reply, [](const Reply& v) {
    std::vector<nb::ndarray<nb::numpy, Real>> sums;
    for (const Vec& s : v.sums) sums.push_back(to_numpy(Vec(s)));
    return nb::make_tuple(v.moved, v.risk, sums);
  });
  reply
      .def(
          "__init__",
          [](Reply* self, Real moved, Vec risk, const std::vector<Reals>& sums) {
            new (self) Reply{moved, std::move(risk), {}};
            for (const auto& s : sums) self->sums.emplace_back(s.data(), s.data() + s.size());
          },
          "moved"_a = 0.0, "risk"_a = Vec{}, "sums"_a = nb::list())
      .def_ro("moved", &Reply::moved)
      .def_ro("risk", &Reply::risk)
      .def_prop_ro(
          "sums",
          [](const Reply& self) {
            std::vector<nb::ndarray<nb::numpy, Real>> out;
            for (const Vec& s : self.sums) out.push_back(to_numpy(Vec(s)));
            return out;
          },
          nb::rv_policy::move);

  nb::class_<HeldSet> index(m, "IndexSet", "A bin index of 8, 16 or 32 bits.");
  bind_index<std::uint8_t>(index);
  bind_index<std::uint16_t>(index);
  bind_index<std::uint32_t>(index);
  index.def_prop_ro("n_bins", [](const HeldSet& self) { return bins_of(self.set); });
  nb::class_<HeldMoments, HeldSet>(
      m, "MomentSet", "Pieces, and places t in them; bin 4 p + q stands for t^q on piece p.")
      .def(
          "__init__",
          [](HeldMoments* self, Array<std::uint16_t> piece, Reals t, Size n_pieces) {
            const MomentSet set{view(piece), view(t), n_pieces * n_powers};
            new (self) HeldMoments{{set, nb::make_tuple(piece, t)}};
          },
          "piece"_a.noconvert(), "t"_a.noconvert(), "n_pieces"_a);

  nb::class_<Rows, PythonRows>(m, "Rows", "The row side, behind its verbs; may be subclassed.")
      .def(nb::init<>())
      .def("n_outputs", &Rows::n_outputs)
      .def("n_rows", &Rows::n_rows)
      .def("far", &Rows::far)
      .def("linear", &Rows::linear)
      .def("knows_cross", &Rows::knows_cross)
      .def("weight", &Rows::weight, "part"_a)
      .def("run", &Rows::run, "batch"_a, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<Crosses>(m, "Crosses", "Cross-Grams that rows with the same weights and bins share.")
      .def(nb::init<>())
      .def("__len__", &Crosses::size);
  nb::class_<HeldRows, Rows>(m, "LocalRows", "Rows in this process.")
      .def("__init__", &make_rows, "loss"_a, "y"_a.noconvert(), "offset"_a.noconvert().none(),
           "sets"_a, "parts"_a.noconvert(), "n_threads"_a = 1, "crosses"_a.none() = nb::none())
      .def(
          "read",
          [](const HeldRows& self, Slot slot) {
            const In values = self.read(slot);
            return to_numpy(Vec(values.begin(), values.end()), {self.n_outputs(), self.n_rows()});
          },
          "slot"_a);
}

// --- learners -----------------------------------------------------------------------------------

struct HeldLearner : Learner {
  using Learner::Learner;
  std::vector<nb::object> keep;
};

using Gram = nb::ndarray<const Real, nb::c_contig, nb::device::cpu>;

void make_learner(HeldLearner* self, Size set, Array<std::int64_t> begin,
                  Array<std::int32_t> column, Reals value, Gram gram, Gram factor,
                  std::optional<Block> removed, std::optional<Block> weigher, Size n_b) {
  if (gram.ndim() < 1 || gram.ndim() > 2)
    throw std::invalid_argument("gram must be (d, d) or, if diagonal, (d)");
  const Basis basis(view(begin), view(column), view(value), gram.shape(0));
  const In along = weigher ? view(*weigher) : In{}, onto = removed ? view(*removed) : In{};
  if (n_b > 0)
    new (self) HeldLearner(set, basis, view(gram), view(factor), n_b, onto, along);
  else
    new (self) HeldLearner(set, basis, gram.ndim() == 1, view(gram), view(factor), onto, along);
  self->keep = {nb::cast(begin), nb::cast(column), nb::cast(value)};
  if (removed) self->keep.push_back(nb::cast(*removed));
  if (weigher) self->keep.push_back(nb::cast(*weigher));
}

void bind_learner(nb::module_& m) {
  nb::class_<HeldLearner>(m, "Learner", "Bin sums -> coefficients and gain; back to bin values.")
      .def("__init__", &make_learner, "set"_a, "begin"_a.noconvert(), "column"_a.noconvert(),
           "value"_a.noconvert(), "gram"_a.noconvert(), "factor"_a.noconvert(),
           "removed"_a.none() = nb::none(), "weigher"_a.none() = nb::none(), "n_b"_a = 0)
      .def_prop_ro("set", &HeldLearner::set)
      .def_prop_ro("n_coef", &HeldLearner::n_coef)
      .def_prop_ro("basis_key", [](const HeldLearner& self) { return key_of(self.basis()); })
      .def(
          "fit",
          [](const HeldLearner& self, Block sums) {  // (q, n_bins) -> theta (q, d), gain
            if (sums.shape(1) != self.n_bins()) throw std::invalid_argument("one sum per bin");
            Fit fit = self.fit(view(sums), sums.shape(0));
            return std::pair(to_numpy(std::move(fit.theta), {sums.shape(0), self.n_coef()}),
                             fit.gain);
          },
          "sums"_a.noconvert());
}

// --- path and loop ------------------------------------------------------------------------------

// Updates of all iterations end to end; how long each is follows from the learner it is for.
Vec flatten(const Path& path, Update Move::* which) {
  Vec out;
  for (const Move& move : path.moves)
    out.insert(out.end(), (move.*which).theta.begin(), (move.*which).theta.end());
  return out;
}

template <class Get>
nb::ndarray<nb::numpy, std::int32_t> per_move(const Path& path, Get get) {
  std::vector<std::int32_t> out;
  for (const Move& move : path.moves) out.push_back(get(move));
  return to_numpy(std::move(out));
}

nb::ndarray<nb::numpy, Real> per_risk(const Path& path, Real Risks::* which) {
  Vec out;
  for (const Risks& risks : path.risks) out.push_back(risks.*which);
  return to_numpy(std::move(out));
}

void make_path(Path* self, Array<std::int32_t> choices, Array<std::int32_t> corrections,
               Array<std::int32_t> halvings, Reals updates, Reals correction_updates, Reals risk,
               Reals validation_risk, int switched_after, int rewound_to,
               const std::vector<Size>& n_coef, Size n_outputs,
               std::optional<Array<std::int32_t>> evaluations) {
  const Size n = choices.size();
  if (corrections.size() != n || halvings.size() != n || risk.size() != n + 1 ||
      validation_risk.size() != n + 1 || (evaluations && evaluations->size() != n))
    throw std::invalid_argument("path: arrays of different lengths");
  Path path;
  const auto take = [&](int learner, In from, Size& at) {
    Update update{learner, {}};
    if (learner < 0) return update;
    const Size length = n_coef.at(static_cast<Size>(learner)) * n_outputs;
    if (at + length > from.size()) throw std::invalid_argument("path: updates are too short");
    update.theta.assign(from.data() + at, from.data() + at + length);
    at += length;
    return update;
  };
  Size at = 0, correction_at = 0;
  for (Size i = 0; i < n; ++i) {
    Move move;
    move.choice = take(choices.data()[i], view(updates), at);
    move.correction = take(corrections.data()[i], view(correction_updates), correction_at);
    move.halvings = halvings.data()[i];
    move.evaluations = evaluations ? evaluations->data()[i] : 0;
    path.moves.push_back(std::move(move));
  }
  for (Size i = 0; i <= n; ++i) path.risks.push_back({risk.data()[i], validation_risk.data()[i]});
  path.switched_after = switched_after;
  path.rewound_to = rewound_to;
  new (self) Path(std::move(path));
}

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

// Lets Python handle signals, at most twenty times a second.
class Signals {
 public:
  void operator()() {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  Clock::time_point last_ = Clock::now();
};

// Long passes over the rows look at signals too.
class Polled {
 public:
  Polled(Rows& rows, Signals& signals) : rows_(rows) {
    rows.poll = [&signals] { signals(); };
  }
  ~Polled() { rows_.poll = {}; }
  Polled(const Polled&) = delete;
  Polled& operator=(const Polled&) = delete;

 private:
  Rows& rows_;
};

using After = std::function<bool(int, Real, Real, int)>;
using Save = std::function<double(const Path&)>;  // returns after how many seconds to call it again

void take_learners(const std::vector<const HeldLearner*>& from, Learners& to) {
  for (const auto* learner : from) {
    if (!learner) throw nb::type_error("expected learners, got None");
    to.push_back(learner);
  }
}

Path run_boost(Rows& rows, const std::vector<const HeldLearner*>& training,
               const std::vector<const HeldLearner*>& all, const Optimizer& optimizer, Vec start,
               Real scale, Part training_part, std::optional<Part> validation_part, Part all_part,
               int n_iter, int patience, const Path& history, std::optional<double> time_limit,
               const std::optional<After>& after, How how, double every, std::optional<int> given,
               const std::optional<Save>& save) {
  Learners for_training, for_all;
  Problem problem{&rows,
                  &for_training,
                  &for_all,
                  {},
                  std::move(start),
                  scale,
                  {training_part, validation_part, all_part},
                  how};
  take_learners(training, for_training);
  take_learners(all, for_all);
  for (const Learner* learner : for_training) problem.n_coef.push_back(learner->n_coef());
  const auto* hybrid = std::get_if<Hybrid>(&optimizer);
  if (hybrid && hybrid->then_all && for_all.size() != for_training.size())
    throw std::invalid_argument("Hybrid on all rows needs learners fitted to all rows");

  Signals signals;
  const auto began = Clock::now();
  auto told = began;   // when `after` was last called: not again within `every` seconds
  auto saved = began;  // when `save` was last called,
  double rest = 0.0;   // and the seconds for which it is not called again
  Boost boost(problem, optimizer);
  Until until{n_iter, patience};
  until.given = given;
  until.after = [&](int m, const Risks& risks, const Move& move) {
    signals();
    const auto now = Clock::now();
    if (after && Seconds(now - told).count() >= every) {
      told = now;
      const nb::gil_scoped_acquire gil;
      if ((*after)(m, risks.training, risks.validation, move.choice.learner))
        throw Stopped{"callback"};
    }
    if (m <= history.n_iter()) return;
    if (save && Seconds(now - saved).count() >= rest) {
      const nb::gil_scoped_acquire gil;
      rest = (*save)(boost.path);
      saved = Clock::now();
    }
    if (time_limit && Seconds(Clock::now() - began).count() > *time_limit)
      throw Stopped{"time limit"};
  };
  const Polled polled(rows, signals);
  try {
    const nb::gil_scoped_release released;
    boost.run(history, until);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_KeyboardInterrupt)) throw;
    boost.path.stopped = "interrupted";
  }
  return std::move(boost.path);
}

nb::ndarray<nb::numpy, Real> replay(const Path& path, int m, const Optimizer& optimizer,
                                    std::vector<Size> n_coef, Size n_outputs, Real scale) {
  if (m < 0 || m > path.n_iter()) throw std::invalid_argument("replay: no such iteration");
  NoRows nowhere(n_outputs);
  Boost boost({&nowhere, nullptr, nullptr, std::move(n_coef), {}, scale, {}}, optimizer);
  boost.run(path, {m, 0});
  return to_numpy(Vec(boost.coef()));
}

// What a loop that was cut off had done of n_iter iterations, without rows: less than its path if
// that has more, or if patience ended sooner. See Until::given.
Path cut_path(const Path& path, int n_iter, int patience, const Optimizer& optimizer,
              std::vector<Size> n_coef, Size n_outputs, bool watched, int given) {
  NoRows nowhere(n_outputs);
  const Parts parts{0, watched ? std::optional<Part>(0) : std::nullopt, 0};
  Boost boost({&nowhere, nullptr, nullptr, std::move(n_coef), {}, 1.0, parts}, optimizer);
  Until until{std::min(n_iter, path.n_iter()), patience};
  until.given = given;
  boost.run(path, until);
  return std::move(boost.path);
}

// The risk of a part of the rows after 0, 1, .. iterations of a path that may be from others. `at`
// is called after each, when slot 0 has the scores; it returns true to stop.
nb::ndarray<nb::numpy, Real> follow(Rows& rows, const std::vector<const HeldLearner*>& learners,
                                    const Optimizer& optimizer, Vec start, Real scale, Part part,
                                    const Path& path,
                                    const std::optional<std::function<bool(int)>>& at) {
  Learners taken;
  take_learners(learners, taken);
  Problem problem{&rows, &taken, &taken, {}, std::move(start), scale, {part, {}, part}};
  problem.how = How::full;
  problem.other_rows = true;
  for (const Learner* learner : taken) problem.n_coef.push_back(learner->n_coef());
  Signals signals;
  Until until{path.n_iter(), 0};
  until.recorded = [&](int m) {
    signals();
    if (!at) return;
    const nb::gil_scoped_acquire gil;
    if ((*at)(m)) throw Stopped{"callback"};
  };
  Boost boost(problem, optimizer);
  {
    const nb::gil_scoped_release released;
    boost.run(path, until);
  }
  return per_risk(boost.path, &Risks::training);
}

nb::ndarray<nb::numpy, Real> gram_of(HeldRows& rows,
                                     const std::vector<const HeldLearner*>& learners, Part part) {
  Learners taken;
  take_learners(learners, taken);
  Size n = 0;
  for (const Learner* learner : taken) n += learner->n_coef();
  Signals signals;
  const Polled polled(rows, signals);
  Vec gram;
  {
    const nb::gil_scoped_release released;
    gram = whole_gram(rows, taken, part);
  }
  return to_numpy(std::move(gram), {n, n});
}

void bind_boost(nb::module_& m) {
  nb::class_<Plain>(m, "Plain")
      .def("__init__", [](Plain* self, Real rate) { new (self) Plain{rate}; }, "rate"_a);
  nb::class_<Accelerated>(m, "Accelerated")
      .def(
          "__init__",
          [](Accelerated* self, Real rate, Real momentum) {
            new (self) Accelerated{rate, momentum};
          },
          "rate"_a, "momentum"_a);
  nb::class_<Hybrid>(m, "Hybrid")
      .def(
          "__init__",
          [](Hybrid* self, Real rate, Real momentum, int switch_after, bool rewind, bool then_all) {
            new (self) Hybrid{{rate, momentum}, {rate}, switch_after, rewind, then_all};
          },
          "rate"_a, "momentum"_a, "switch_after"_a, "rewind"_a, "then_all"_a);

  nb::enum_<How>(m, "How", "How choices are made.")
      .value("automatic", How::automatic)
      .value("full", How::full)
      .value("certified", How::certified)
      .value("row_free", How::row_free);
  nb::class_<Path>(m, "Path", "The chronological record of a fit.")
      .def(nb::init<>())
      .def("__init__", &make_path, "choices"_a.noconvert(), "corrections"_a.noconvert(),
           "halvings"_a.noconvert(), "updates"_a.noconvert(), "correction_updates"_a.noconvert(),
           "risk"_a.noconvert(), "validation_risk"_a.noconvert(), "switched_after"_a,
           "rewound_to"_a, "n_coef"_a, "n_outputs"_a, "evaluations"_a.none() = nb::none())
      .def_prop_ro(
          "choices",
          [](const Path& p) {
            return per_move(p, [](const Move& move) { return move.choice.learner; });
          },
          nb::rv_policy::move)
      .def_prop_ro(
          "corrections",
          [](const Path& p) {
            return per_move(p, [](const Move& move) { return move.correction.learner; });
          },
          nb::rv_policy::move)
      .def_prop_ro(
          "halvings",
          [](const Path& p) { return per_move(p, [](const Move& move) { return move.halvings; }); },
          nb::rv_policy::move)
      .def_prop_ro(
          "evaluations",
          [](const Path& p) {
            return per_move(p, [](const Move& move) { return move.evaluations; });
          },
          nb::rv_policy::move)
      .def_prop_ro(
          "updates", [](const Path& p) { return to_numpy(flatten(p, &Move::choice)); },
          nb::rv_policy::move)
      .def_prop_ro(
          "correction_updates",
          [](const Path& p) { return to_numpy(flatten(p, &Move::correction)); },
          nb::rv_policy::move)
      .def_prop_ro(
          "risk", [](const Path& p) { return per_risk(p, &Risks::training); }, nb::rv_policy::move)
      .def_prop_ro(
          "validation_risk", [](const Path& p) { return per_risk(p, &Risks::validation); },
          nb::rv_policy::move)
      .def_ro("switched_after", &Path::switched_after)
      .def_ro("rewound_to", &Path::rewound_to)
      .def_ro("stopped", &Path::stopped);

  m.def("boost", &run_boost, "rows"_a, "training"_a, "all"_a, "optimizer"_a, "start"_a, "scale"_a,
        "training_part"_a, "validation_part"_a.none(), "all_part"_a, "n_iter"_a, "patience"_a,
        "history"_a, "time_limit"_a.none(), "after"_a.none(), "how"_a = How::automatic,
        "every"_a = 0.0, "given"_a = nb::none(), "save"_a = nb::none());
  m.def("follow", &follow, "rows"_a, "learners"_a, "optimizer"_a, "start"_a, "scale"_a, "part"_a,
        "path"_a, "at"_a.none() = nb::none(), nb::rv_policy::move);
  m.def("gram", &gram_of, "rows"_a, "learners"_a, "part"_a, nb::rv_policy::move);
  m.def("replay", &replay, "path"_a, "m"_a, "optimizer"_a, "n_coef"_a, "n_outputs"_a, "scale"_a);
  m.def("cut", &cut_path, "path"_a, "n_iter"_a, "patience"_a, "optimizer"_a, "n_coef"_a,
        "n_outputs"_a, "watched"_a, "given"_a);
}

// --- set-up -------------------------------------------------------------------------------------

using Marks = Array<bool>;
template <class T>
using Writable = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Mask mask_of(const std::optional<Marks>& training) { return training ? view(*training) : Mask{}; }
In reals_of(const std::optional<Reals>& values) { return values ? view(*values) : In{}; }

std::tuple<Real, Real, Size, Size, bool, bool> survey_column(const Reals& values,
                                                             const std::optional<Marks>& training) {
  const nb::gil_scoped_release released;
  const Survey s = survey(view(values), mask_of(training));
  return {s.low, s.high, s.missing, s.all_missing, s.beyond, s.infinite};
}

std::optional<nb::ndarray<nb::numpy, Real>> distinct_numbers(const Reals& values,
                                                             const std::optional<Marks>& training,
                                                             Size limit) {
  Vec out;
  bool few = false;
  {
    const nb::gil_scoped_release released;
    few = distinct(view(values), mask_of(training), limit, out);
  }
  if (!few) return {};
  return to_numpy(std::move(out));
}

nb::ndarray<nb::numpy, Real> find_quantiles(const Reals& values,
                                            const std::optional<Marks>& training,
                                            const std::optional<Reals>& weights,
                                            const Reals& shares) {
  Vec out;
  {
    const nb::gil_scoped_release released;
    out = quantiles(view(values), mask_of(training), reals_of(weights), view(shares));
  }
  return to_numpy(std::move(out));
}

std::pair<nb::ndarray<nb::numpy, Real>, nb::ndarray<nb::numpy, Real>> weigh_numbers(
    const Reals& values, const std::optional<Marks>& training,
    const std::optional<Reals>& weights) {
  std::pair<Vec, Vec> out;
  {
    const nb::gil_scoped_release released;
    out = weigh_distinct(view(values), mask_of(training), reals_of(weights));
  }
  return {to_numpy(std::move(out.first)), to_numpy(std::move(out.second))};
}

template <class T>
void check_bins(Size n_values, Size n_index, Size n_bins) {
  if (n_values != n_index) throw std::invalid_argument("index must have one number per value");
  if (n_bins == 0 || n_bins - 1 > std::numeric_limits<T>::max())
    throw std::invalid_argument("index cannot hold so many bins");
}

void bind_pieces(nb::module_& m) {
  m.def(
      "place",
      [](const Reals& values, const Reals& edges, const Writable<std::uint16_t>& piece,
         const Writable<Real>& t) {
        const In ends = view(edges);
        if (ends.size() < 2 || std::ranges::adjacent_find(ends, std::greater_equal()) != ends.end())
          throw std::invalid_argument("place: expected two edges or more, increasing");
        check_bins<std::uint16_t>(values.size(), piece.size(), ends.size());
        if (t.size() != values.size())
          throw std::invalid_argument("t must have one number per value");
        place(view(values), ends, view(piece), view(t));
      },
      "values"_a.noconvert(), "edges"_a.noconvert(), "piece"_a.noconvert(), "t"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "weigh_pieces",
      [](const Array<std::uint16_t>& piece, const Reals& t, const std::optional<Reals>& weights,
         const Writable<Real>& sums) {
        const auto pieces = view(piece);
        const In w = reals_of(weights);
        if (t.size() != pieces.size() || (weights && w.size() != pieces.size()))
          throw std::invalid_argument("weigh_pieces: one piece, t and weight per row");
        for (const Size p : pieces)
          if ((p + 1) * n_nodes > sums.size())
            throw std::invalid_argument("weigh_pieces: a piece out of range");
        weigh_pieces(pieces, view(t), w, view(sums));
      },
      "piece"_a.noconvert(), "t"_a.noconvert(), "weights"_a.noconvert().none(),
      "sums"_a.noconvert(), nb::call_guard<nb::gil_scoped_release>());
}

template <class T>
void bind_assign(nb::module_& m) {
  m.def(
      "bin_exactly",
      [](const Reals& values, const std::optional<Marks>& training, const Writable<T>& index,
         const Writable<Real>& bin_values) {
        const ExactBins exact(view(values), mask_of(training));
        const Size n_bins = exact.n_bins();
        if (n_bins > 0) check_bins<T>(values.size(), index.size(), n_bins);
        if (bin_values.size() < n_bins) throw std::invalid_argument("no room for so many bins");
        exact.write(view(index), view(bin_values));
        return n_bins;
      },
      "values"_a.noconvert(), "training"_a.noconvert().none(), "index"_a.noconvert(),
      "bin_values"_a.noconvert(), nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "weigh_bins",
      [](const Array<T>& index, const std::optional<Reals>& weights, const Writable<Real>& out) {
        weigh_bins(view(index), reals_of(weights), view(out));
      },
      "index"_a.noconvert(), "weights"_a.noconvert().none(), "out"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "assign_equal",
      [](const Reals& values, Real first, Real last, Size size, const Writable<T>& index) {
        if (!(first < last) || size < 2 || size > std::numeric_limits<std::int32_t>::max())
          throw std::invalid_argument("assign_equal: expected two points or more, increasing");
        check_bins<T>(values.size(), index.size(), size);
        assign_equal(view(values), first, last, size, size, view(index));
      },
      "values"_a.noconvert(), "first"_a, "last"_a, "size"_a, "index"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "assign_nearest",
      [](const Reals& values, const Reals& points, const Writable<T>& index) {
        check_bins<T>(values.size(), index.size(), points.size());
        return assign_nearest(view(values), view(points), points.size(), view(index));
      },
      "values"_a.noconvert(), "points"_a.noconvert(), "index"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "assign_cuts",
      [](const Reals& values, const Reals& cuts, const Writable<T>& index) {
        check_bins<T>(values.size(), index.size(), cuts.size() + 1);
        assign_cuts(view(values), view(cuts), cuts.size() + 1, view(index));
      },
      "values"_a.noconvert(), "cuts"_a.noconvert(), "index"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>());
}

using BasisTuple = std::tuple<Array<std::int64_t>, Array<std::int32_t>, Reals>;
using Matrix = nb::ndarray<Real, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
// (basis rows, weights, penalty, (smoothing, df, net, tr H, null dimensions), gram, factor, mean)
using SystemTuple = std::tuple<BasisTuple, Reals, Block, std::tuple<Real, Real, bool, bool, Size>,
                               Matrix, Matrix, Writable<Real>>;

void solve_systems(const std::vector<SystemTuple>& given, const Matrix& numbers, Size n_threads) {
  if (numbers.shape(0) != given.size() || numbers.shape(1) != 4)
    throw std::invalid_argument("numbers must be (systems, 4)");
  std::vector<System> systems;
  for (Size k = 0; k < given.size(); ++k) {
    const auto& [rows, weights, penalty, aim, gram, factor, mean] = given[k];
    const auto& [begin, column, value] = rows;
    const auto& [smoothing, df, net, trace_h, null_dim] = aim;
    systems.push_back({{view(begin), view(column), view(value)},
                       view(weights),
                       view(penalty),
                       {smoothing, df, net, trace_h, null_dim},
                       view(gram),
                       view(factor),
                       view(mean),
                       Out(numbers.data() + 4 * k, 4)});
  }
  const nb::gil_scoped_release released;
  Workers workers(n_threads);
  solve(systems, workers);
}

// (weights (n_a, n_b), penalty, (smoothing, df, net, tr H, null dimensions), factor)
using PairTuple = std::tuple<Block, Block, std::tuple<Real, Real, bool, bool, Size>, Matrix>;

void solve_pairs(const std::vector<PairTuple>& given, const Matrix& numbers, Size n_threads) {
  if (numbers.shape(0) != given.size() || numbers.shape(1) != 4)
    throw std::invalid_argument("numbers must be (systems, 4)");
  std::vector<PairSystem> systems;
  for (Size k = 0; k < given.size(); ++k) {
    const auto& [weights, penalty, aim, factor] = given[k];
    const auto& [smoothing, df, net, trace_h, null_dim] = aim;
    systems.push_back({view(weights),
                       weights.shape(1),
                       view(penalty),
                       {smoothing, df, net, trace_h, null_dim},
                       view(factor),
                       Out(numbers.data() + 4 * k, 4)});
  }
  const nb::gil_scoped_release released;
  Workers workers(n_threads);
  solve(systems, workers);
}

// values (n, 1 + outputs): w and w r per row; pairs: (column, column, penalty, null dimensions);
// out (pairs, outputs + 1): the gains, and the df they were reached with.
void rank_pairs(const std::vector<Array<std::uint8_t>>& index, const std::vector<Size>& n_bins,
                const Block& values, const std::vector<std::tuple<Size, Size, Block, Size>>& pairs,
                Real df, const Matrix& out, Size n_threads) {
  PairRows rows{{}, n_bins, view(values), values.shape(1)};
  if (n_bins.size() != index.size() || rows.width < 2)
    throw std::invalid_argument("rank_pairs: expected bins per column, a weight and residuals");
  for (Size k = 0; k < index.size(); ++k) {
    rows.index.push_back(view(index[k]));
    bool fits = index[k].size() == values.shape(0);
    for (const auto bin : rows.index.back()) fits = fits && bin < n_bins[k];
    if (!fits) throw std::invalid_argument("rank_pairs: an index does not fit the rows or bins");
  }
  std::vector<Candidate> candidates;
  for (const auto& [a, b, penalty, null_dim] : pairs) {
    const bool known = a < index.size() && b < index.size() && n_bins[a] > 1 && n_bins[b] > 1;
    const Size m = known ? (n_bins[a] - 1) * (n_bins[b] - 1) : 0;
    if (!known || penalty.size() != m * m)
      throw std::invalid_argument("rank_pairs: a penalty does not fit the inner cells of its pair");
    candidates.push_back({a, b, view(penalty), null_dim});
  }
  if (out.shape(0) != pairs.size() || out.shape(1) != rows.width)
    throw std::invalid_argument("rank_pairs: out must be (pairs, outputs + 1)");
  const nb::gil_scoped_release released;
  Workers workers(n_threads);
  rank(rows, candidates, df, view(out), workers);
}

void bind_setup(nb::module_& m) {
  m.def(
      "survey", &survey_column, "values"_a.noconvert(), "training"_a.noconvert().none(),
      "low, high, missing cells of the training rows; missing cells of all rows, whether some lie "
      "beyond low and high, whether some are infinite");
  m.def("distinct", &distinct_numbers, "values"_a.noconvert(), "training"_a.noconvert().none(),
        "limit"_a, nb::rv_policy::move, "Distinct numbers, increasing; None if there are more.");
  m.def("quantiles", &find_quantiles, "values"_a.noconvert(), "training"_a.noconvert().none(),
        "weights"_a.noconvert().none(), "shares"_a.noconvert(), nb::rv_policy::move);
  m.def("weigh_distinct", &weigh_numbers, "values"_a.noconvert(), "training"_a.noconvert().none(),
        "weights"_a.noconvert().none(), nb::rv_policy::move);
  bind_pieces(m);
  bind_assign<std::uint8_t>(m);
  bind_assign<std::uint16_t>(m);
  bind_assign<std::uint32_t>(m);
  m.def(
      "spline_rows",
      [](const Reals& values, const Reals& knots, Size degree, bool linear,
         const std::optional<Writable<std::int64_t>>& begin, const Writable<std::int32_t>& column,
         const Writable<Real>& value) {
        return Splines(view(knots), degree, linear)
            .write(view(values), begin ? view(*begin) : std::span<std::int64_t>{}, view(column),
                   view(value));
      },
      "values"_a.noconvert(), "knots"_a.noconvert(), "degree"_a, "linear"_a,
      "begin"_a.noconvert().none(), "column"_a.noconvert(), "value"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "power_rows",
      [](const Reals& values, Real center, Real scale, Size first, Size n_coef,
         const Writable<Real>& value) {
        if (value.size() != values.size() * n_coef)
          throw std::invalid_argument("power_rows: the rows do not fit the array");
        power_rows(view(values), center, scale, first, n_coef, view(value));
      },
      "values"_a.noconvert(), "center"_a, "scale"_a, "first"_a, "n_coef"_a, "value"_a.noconvert(),
      nb::call_guard<nb::gil_scoped_release>());
  m.def("solve_systems", &solve_systems, "systems"_a, "numbers"_a.noconvert(), "n_threads"_a = 1);
  m.def("solve_pairs", &solve_pairs, "systems"_a, "numbers"_a.noconvert(), "n_threads"_a = 1);
  m.def("rank_pairs", &rank_pairs, "index"_a, "n_bins"_a, "values"_a.noconvert(), "pairs"_a, "df"_a,
        "out"_a.noconvert(), "n_threads"_a = 1);
}

// --- prediction ---------------------------------------------------------------------------------

using Pieces = Array<predict::Piece>;
using Numbers = nb::ndarray<nb::ro, nb::device::cpu>;  // any of the kinds, strided
using Effects = nb::ndarray<Real, nb::ndim<3>, nb::device::cpu>;

std::span<const predict::Piece> pieces(const Pieces& array) { return {array.data(), array.size()}; }

predict::Kind kind_of(const Numbers& array) {
  const auto type = array.dtype();
  if (type == nb::dtype<double>()) return predict::Kind::float64;
  if (type == nb::dtype<float>()) return predict::Kind::float32;
  if (type == nb::dtype<std::int64_t>()) return predict::Kind::int64;
  if (type == nb::dtype<std::int32_t>()) return predict::Kind::int32;
  if (type == nb::dtype<bool>()) return predict::Kind::boolean;
  throw nb::type_error("lookup: numbers of this kind cannot be read in place");
}

// Column `column` of an array of one or two dimensions.
predict::Strided strided(const Numbers& array, Size column = 0) {
  const auto bytes = static_cast<std::ptrdiff_t>(array.itemsize());
  const auto* data = static_cast<const std::byte*>(array.data());
  if (array.ndim() == 2) {
    if (column >= array.shape(1)) throw std::invalid_argument("lookup: no such column");
    data += array.stride(1) * bytes * static_cast<std::ptrdiff_t>(column);
  }
  return {data, array.stride(0) * bytes, kind_of(array)};
}

// What a column of a table is given as; None: not needed by the terms asked for.
using Given = std::variant<std::monostate, Numbers, std::pair<Array<std::int64_t>, Pieces>,
                           std::pair<Numbers, const predict::Breaks*>>;

predict::Column to_column(const Given& given, Size n) {
  const auto long_enough = [n](const auto& array) {
    if (array.ndim() != 1 || array.shape(0) != n)
      throw std::invalid_argument("lookup: columns differ in length");
  };
  if (const auto* numbers = std::get_if<1>(&given)) {
    long_enough(*numbers);
    return strided(*numbers);
  }
  if (const auto* labels = std::get_if<2>(&given)) {
    long_enough(labels->first);
    const auto& map = labels->second;
    return predict::Labelled{
        labels->first.data(), sizeof(std::int64_t), {map.data(), map.data() + map.size()}};
  }
  if (const auto* searched = std::get_if<3>(&given)) {
    long_enough(searched->first);
    if (!searched->second) throw nb::type_error("lookup: expected breaks, got None");
    return predict::Searched{strided(searched->first), searched->second};
  }
  return {};
}

// Source with an infinite number or -1, row whose effects add up to no number or -1, unseen rows
// per axis.
using Noticed = std::tuple<std::int64_t, std::int64_t, std::vector<Size>>;

// Lets Python handle signals between tasks.
Noticed run_lookup(const predict::Lookup& self, const std::vector<predict::Column>& columns,
                   Size first, Size last, Effects& effects, bool add, Size n_threads) {
  const Size n = effects.shape(1);
  const bool together = n == 0 || effects.shape(2) == 1 || effects.stride(2) == 1;
  if (!together || effects.shape(2) != self.n_outputs() ||
      effects.shape(0) != (add ? 1 : last - first))
    throw std::invalid_argument("lookup: the effects do not fit");
  const predict::Target target{effects.data(), effects.stride(1), add ? 0 : effects.stride(0)};
  predict::Findings found;
  {
    const nb::gil_scoped_release released;
    Signals signals;
    found = self.run(columns, n, first, last, target, n_threads, std::ref(signals));
  }
  const auto number = [](Size x) {
    return x == predict::no_row ? -1 : static_cast<std::int64_t>(x);
  };
  return {number(found.infinite), number(found.not_a_number), std::move(found.unseen)};
}

void bind_predict(nb::module_& m) {
  nb::class_<predict::Breaks>(m, "Breaks", "Numbers -> pieces.")
      .def(
          "__init__",
          [](predict::Breaks* self, const Reals& breaks, const Pieces& of, predict::Piece missing) {
            new (self) predict::Breaks(view(breaks), pieces(of), missing);
          },
          "breaks"_a.noconvert(), "pieces"_a.noconvert(), "missing"_a)
      .def(
          "find",
          [](const predict::Breaks& self, const Reals& x) {
            std::vector<predict::Piece> out(x.size());
            self.find(x.data(), x.size(), out.data());
            return to_numpy(std::move(out));
          },
          "x"_a.noconvert());
  nb::class_<predict::Axis>(m, "Axis", "One way to see a column: value -> piece and t.")
      .def(
          "__init__",
          [](predict::Axis* self, Size source, const predict::Breaks* breaks, const Reals& origin,
             const Reals& inverse, predict::Piece n_pieces, predict::Piece unseen) {
            new (self) predict::Axis{source,
                                     breaks ? std::optional(*breaks) : std::nullopt,
                                     Vec(origin.data(), origin.data() + origin.size()),
                                     Vec(inverse.data(), inverse.data() + inverse.size()),
                                     n_pieces,
                                     unseen};
          },
          "source"_a, "breaks"_a.none(), "origin"_a.noconvert(), "inverse"_a.noconvert(),
          "n_pieces"_a, "unseen"_a);
  nb::class_<predict::Term>(m, "Term", "A piecewise polynomial over one or two axes.")
      .def(
          "__init__",
          [](predict::Term* self, std::vector<Size> axes, std::vector<Size> powers,
             const Reals& coef) {
            new (self) predict::Term{std::move(axes), std::move(powers),
                                     Vec(coef.data(), coef.data() + coef.size())};
          },
          "axes"_a, "powers"_a, "coef"_a.noconvert());
  nb::class_<predict::Lookup>(m, "Lookup", "Terms, evaluated at raw values of their columns.")
      .def(
          "__init__",
          [](predict::Lookup* self, const std::vector<const predict::Axis*>& axes,
             const std::vector<const predict::Term*>& terms, Size n_outputs) {
            std::vector<predict::Axis> own_axes;
            std::vector<predict::Term> own_terms;
            for (const auto* axis : axes) own_axes.push_back(*axis);
            for (const auto* term : terms) own_terms.push_back(*term);
            new (self) predict::Lookup(std::move(own_axes), std::move(own_terms), n_outputs);
          },
          "axes"_a, "terms"_a, "n_outputs"_a)
      .def(
          "run",
          [](const predict::Lookup& self, const std::vector<Given>& columns, Size first, Size last,
             Effects effects, bool add, Size n_threads) {
            std::vector<predict::Column> found;
            for (const Given& given : columns) found.push_back(to_column(given, effects.shape(1)));
            return run_lookup(self, found, first, last, effects, add, n_threads);
          },
          "columns"_a, "first"_a, "last"_a, "effects"_a.noconvert(), "add"_a, "n_threads"_a,
          nb::sig("def run(self, columns: Sequence[object], first: int, last: int, effects: "
                  "NDArray[numpy.float64], add: bool, n_threads: int) -> tuple[int, int, "
                  "list[int]]"))
      .def(
          "run_array",
          [](const predict::Lookup& self, const Numbers& table, const std::vector<Size>& columns,
             Effects effects, bool add, Size n_threads) {
            if (table.ndim() != 2 || table.shape(0) != effects.shape(1))
              throw std::invalid_argument("lookup: the table does not fit the effects");
            std::vector<predict::Column> found;
            for (const Size column : columns) found.push_back(strided(table, column));
            return run_lookup(self, found, 0, self.n_terms(), effects, add, n_threads);
          },
          "table"_a.noconvert(), "columns"_a, "effects"_a.noconvert(), "add"_a, "n_threads"_a,
          nb::sig("def run_array(self, table: object, columns: Sequence[int], effects: "
                  "NDArray[numpy.float64], add: bool, n_threads: int) -> tuple[int, int, "
                  "list[int]]"));
}

}  // namespace
}  // namespace cwboost

NB_MODULE(_core, m) {
  m.doc() = "The core of cwboost: rows behind verbs, learners, the boosting loop.";
#ifdef NDEBUG
  nb::set_leak_warnings(false);  // what a program still holds at its end is no one's alarm
#endif
  cwboost::bind_rows(m);
  cwboost::bind_learner(m);
  cwboost::bind_boost(m);
  cwboost::bind_setup(m);
  cwboost::bind_predict(m);
}
