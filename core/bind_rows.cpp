// Python bindings of the row side: losses, verbs, replies, index sets and rows.
#include <nanobind/trampoline.h>

#include "bind_common.hpp"
#include "local_rows.hpp"

namespace cwboost {
namespace {

// --- losses -------------------------------------------------------------------------------------

// What a loss in Python is given; valid during the call only.
struct PythonInput {
  const LossInput* input;
  Size n_targets, n_outputs;

  const LossInput& at() const {
    if (!input) throw std::runtime_error("a LossInput can be read only while the loss is called");
    return *input;
  }
  nb::ndarray<nb::numpy, Real> y() const { return planes(at().y, n_targets); }
  nb::ndarray<nb::numpy, Real> score() const { return planes(at().score, n_outputs); }
  nb::ndarray<nb::numpy, Real> state() const {
    return to_numpy(Vec(at().state.begin(), at().state.end()));
  }
  std::optional<nb::ndarray<nb::numpy, Real>> weights() const {
    if (!at().weights) return {};
    Vec out(input->n);
    for (Size i = 0; i < out.size(); ++i) out[i] = (*input->weights)[input->first_row + i];
    return to_numpy(std::move(out));
  }

 private:
  nb::ndarray<nb::numpy, Real> planes(Planes<const Real> from, Size n_planes) const {
    Vec out;
    out.reserve(n_planes * input->n);
    for (Size p = 0; p < n_planes; ++p) out.insert(out.end(), from[p], from[p] + input->n);
    return to_numpy(std::move(out), {n_planes, input->n});
  }
};

// A loss in Python: evaluate(input, want_residual, want_loss) -> (residual (q, n), loss (n)), None
// where not wanted. The Python class of user-defined losses checks shapes.
class PythonLoss final : public Loss {
 public:
  PythonLoss(nb::callable evaluate, Size n_outputs, Size n_targets, Size n_state,
             std::optional<nb::callable> curvature)
      : evaluate_(std::move(evaluate)),
        curvature_(std::move(curvature)),
        n_outputs_(n_outputs),
        n_targets_(n_targets),
        n_state_(n_state) {
    if (n_outputs == 0 || n_targets == 0)
      throw std::invalid_argument("a loss needs at least one output and one target");
  }
  Size n_outputs() const override { return n_outputs_; }
  Size n_targets() const override { return n_targets_; }
  Size n_state() const override { return n_state_; }
  bool whole() const override { return true; }
  void evaluate(const LossInput& at, const LossOutput& out) const override {
    with_input(at, [&](const nb::object& given) {
      const bool want_residual(out.residual);
      const auto found = nb::cast<nb::tuple>(evaluate_(given, want_residual, out.value != nullptr));
      copy(found[0], out.residual.at, at.n * n_outputs_);
      copy(found[1], out.value, at.n);
    });
  }
  bool has_curvature() const override { return curvature_.has_value(); }
  void curvature(const LossInput& at, Planes<Real> out) const override {
    if (!curvature_) return Loss::curvature(at, out);
    with_input(at, [&](const nb::object& given) {
      copy((*curvature_)(given), out.at, at.n * n_outputs_);
    });
  }

 private:
  template <class Use>
  void with_input(const LossInput& at, Use use) const {
    const GilAcquire gil;
    const nb::object given = nb::cast(PythonInput{&at, n_targets_, n_outputs_});
    struct Expiry {  // Python may keep the object, in a traceback for instance
      PythonInput& given;
      ~Expiry() { given.input = nullptr; }
    } const expiry{nb::cast<PythonInput&>(given)};
    wait_at_exit([&] { use(given); });
  }
  static void copy(nb::handle from, Real* to, Size n) {
    if (!to) return;
    const auto array = nb::cast<nb::ndarray<const Real, nb::c_contig, nb::device::cpu>>(from);
    if (array.size() != n)
      throw std::invalid_argument("a loss returned an array of the wrong size");
    std::copy(array.data(), array.data() + n, to);
  }
  nb::callable evaluate_;
  std::optional<nb::callable> curvature_;
  Size n_outputs_, n_targets_, n_state_;
};

// The loss of every row at scores (n_outputs, n).
nb::ndarray<nb::numpy, Real> loss_values(const Loss& loss, const Array<Real>& y,
                                         const Block& score) {
  const Size n = score.shape(1);
  if (loss.n_state() != 0) throw std::invalid_argument("values: the loss needs its state");
  if (score.shape(0) != loss.n_outputs() || y.size() != n * loss.n_targets())
    throw std::invalid_argument("values: y and score have the wrong sizes");
  Vec value(n), factor(loss.has_factor() ? n : 0);
  loss.evaluate({n, {y.data(), n}, {score.data(), n}},
                {{}, value.data(), factor.empty() ? nullptr : factor.data()});
  for (Size i = 0; i < factor.size(); ++i) value[i] += std::log(factor[i]);
  return to_numpy(std::move(value));
}

// --- rows ---------------------------------------------------------------------------------------

struct NumpySet {
  RowSet set;
  nb::object keep;
};
struct NumpyMoments : NumpySet {};

struct NumpyRows final : LocalRows {
  using LocalRows::LocalRows;
  std::vector<nb::object> keep;
};

struct PythonRows final : Rows {
  NB_TRAMPOLINE(Rows, 7);
  Size n_outputs() const override { NB_OVERRIDE_PURE(n_outputs); }
  std::vector<Reply> run(const std::vector<Verb>& batch) override { NB_OVERRIDE_PURE(run, batch); }
  Size n_rows() const override { NB_OVERRIDE(n_rows); }
  bool remote() const override { NB_OVERRIDE(remote); }
  bool linear() const override { NB_OVERRIDE(linear); }
  bool knows_cross() const override { NB_OVERRIDE(knows_cross); }
  Real weight(Part part) const override { NB_OVERRIDE(weight, part); }
};

// A basis for the verb Cross of rows in another process.
struct NumpyBasis {
  Basis basis;
  nb::object keep;
};

// Makes a verb or reply picklable by the arguments of its constructor.
template <class Class, class Parts>
void pickles_as(Class& cls, Parts parts) {
  cls.def("__reduce__", [parts](nb::handle self) {
    return nb::make_tuple(self.type(), parts(nb::cast<const typename Class::Type&>(self)));
  });
}

template <class T>
void bind_index(nb::class_<NumpySet>& cls) {
  cls.def(
      "__init__",
      [](NumpySet* self, Array<T> index, Size n_bins) {
        new (self) NumpySet{IndexSet{view(index), n_bins}, nb::cast(index)};
      },
      "index"_a.noconvert(), "n_bins"_a);
}

void make_rows(NumpyRows* self, std::shared_ptr<Loss> loss, const std::variant<Reals, Block>& y,
               std::optional<Block> offset, const std::vector<const NumpySet*>& sets,
               const std::vector<std::variant<Array<bool>, Reals>>& parts, Size n_threads,
               std::shared_ptr<Crosses> crosses) {
  std::vector<RowSet> index;
  std::vector<Weights> weights;
  std::vector<nb::object> keep{std::visit([](const auto& array) { return nb::cast(array); }, y)};
  const auto* const planes = std::get_if<Block>(&y);
  if (planes && planes->shape(0) != loss->n_targets())
    throw std::invalid_argument("y must be (n,) or (n_targets, n)");
  for (const auto* set : sets) {
    if (!set) throw nb::type_error("sets: expected index sets, got None");
    index.push_back(set->set);
    keep.push_back(set->keep);
  }
  for (const auto& part : parts) {
    if (const auto* marks = std::get_if<Array<bool>>(&part))  // true is stored as the byte 1
      weights.emplace_back(
          std::span(reinterpret_cast<const std::uint8_t*>(marks->data()), marks->size()));
    else
      weights.emplace_back(view(std::get<Reals>(part)));
    keep.push_back(std::visit([](const auto& array) { return nb::cast(array); }, part));
  }
  if (offset) keep.push_back(nb::cast(*offset));
  new (self) NumpyRows(std::move(loss), planes ? view(*planes) : view(std::get<Reals>(y)),
                       offset ? view(*offset) : In{}, std::move(index), std::move(weights),
                       n_threads, std::move(crosses));
  self->keep = std::move(keep);
}

}  // namespace

void bind_rows(nb::module_& m) {
  nb::class_<Loss>(m, "Loss", "A loss on one row.")
      .def_prop_ro("n_outputs", &Loss::n_outputs)
      .def_prop_ro("n_targets", &Loss::n_targets)
      .def_prop_ro("n_state", &Loss::n_state)
      .def_prop_ro("has_curvature", &Loss::has_curvature)
      .def("values", &loss_values, "y"_a, "score"_a,
           "Return (n,) the loss of every row at scores (n_outputs, n).");
  nb::class_<PythonInput>(m, "LossInput", "What a loss in Python is given: arrays by plane.")
      .def_prop_ro("y", &PythonInput::y, nb::rv_policy::move, "(n_targets, n)")
      .def_prop_ro("score", &PythonInput::score, nb::rv_policy::move, "(n_outputs, n)")
      .def_prop_ro("state", &PythonInput::state, nb::rv_policy::move, "(n_state,)")
      .def_prop_ro("weights", &PythonInput::weights, nb::rv_policy::move,
                   "(n,) of the part that is fitted, or None");
  m.def("make_loss", &make_loss, "name"_a, "parameter"_a = 0.0);
  m.def(
      "python_loss",
      [](nb::callable evaluate, Size n_outputs, Size n_targets, Size n_state,
         std::optional<nb::callable> curvature) -> std::shared_ptr<Loss> {
        return std::make_shared<PythonLoss>(std::move(evaluate), n_outputs, n_targets, n_state,
                                            std::move(curvature));
      },
      "evaluate"_a, "n_outputs"_a = 1, "n_targets"_a = 1, "n_state"_a = 0,
      "curvature"_a = nb::none(),
      nb::sig("def python_loss(evaluate: Callable[[LossInput, bool, bool], tuple[object, object]],"
              " n_outputs: int = 1, n_targets: int = 1, n_state: int = 0,"
              " curvature: Callable[[LossInput], object] | None = None) -> Loss"));

  m.attr("NO_SLOT") = no_slot;
  m.attr("ONES_SLOT") = ones_slot;
  m.attr("PASSING_SLOT") = passing_slot;
  nb::class_<Fill> fill(m, "Fill", "out = offset + start");
  pickles_as(fill, [](const Fill& v) { return nb::make_tuple(v.out, v.start); });
  fill.def(nb::init<Slot, Vec>(), "out"_a, "start"_a)
      .def_ro("out", &Fill::out)
      .def_ro("start", &Fill::start);
  nb::class_<Residual> residual(m, "Residual",
                                "out = -dloss/dscore at `at` -> moved, risk per part");
  pickles_as(residual, [](const Residual& v) {
    return nb::make_tuple(v.at, v.out, v.parts, v.risk, v.state);
  });
  residual
      .def(nb::init<Slot, Slot, std::vector<Part>, bool, Vec>(), "at"_a, "out"_a, "parts"_a,
           "risk"_a = true, "state"_a = Vec{})
      .def_ro("state", &Residual::state)
      .def_ro("risk", &Residual::risk)
      .def_ro("at", &Residual::at)
      .def_ro("out", &Residual::out)
      .def_ro("parts", &Residual::parts);
  nb::class_<MeanResidual> mean(m, "MeanResidual",
                                "out = residual averaged from one score to another");
  pickles_as(mean, [](const MeanResidual& v) {
    return nb::make_tuple(v.from, v.to, v.out, v.part, v.state);
  });
  mean.def(nb::init<Slot, Slot, Slot, std::optional<Part>, Vec>(), "start"_a, "to"_a, "out"_a,
           "part"_a = nb::none(), "state"_a = Vec{})
      .def_ro("state", &MeanResidual::state)
      .def_ro("start", &MeanResidual::from)
      .def_ro("to", &MeanResidual::to)
      .def_ro("out", &MeanResidual::out)
      .def_ro("part", &MeanResidual::part);
  nb::class_<Curvature> curvature(m, "Curvature", "out = second derivative of the loss at `at`");
  pickles_as(curvature, [](const Curvature& v) { return nb::make_tuple(v.at, v.out, v.state); });
  curvature.def(nb::init<Slot, Slot, Vec>(), "at"_a, "out"_a, "state"_a = Vec{})
      .def_ro("state", &Curvature::state)
      .def_ro("at", &Curvature::at)
      .def_ro("out", &Curvature::out);
  nb::class_<BinSums> bin_sums(m, "BinSums",
                               "sums of w x per bin -> sums, slot by slot, set by set");
  pickles_as(bin_sums, [](const BinSums& v) { return nb::make_tuple(v.slots, v.sets, v.part); });
  bin_sums.def(nb::init<std::vector<Slot>, std::vector<Set>, Part>(), "slots"_a, "sets"_a, "part"_a)
      .def_ro("slots", &BinSums::slots)
      .def_ro("sets", &BinSums::sets)
      .def_ro("part", &BinSums::part);
  nb::class_<NumpyBasis>(m, "Basis", "A basis over bins, in compressed rows.")
      .def(
          "__init__",
          [](NumpyBasis* self, Array<std::int64_t> begin, Array<std::int32_t> column, Reals value,
             Size n_coef) {
            new (self) NumpyBasis{Basis(view(begin), view(column), view(value), n_coef),
                                  nb::make_tuple(begin, column, value)};
          },
          "begin"_a.noconvert(), "column"_a.noconvert(), "value"_a.noconvert(), "n_coef"_a);
  using CrossTuple = std::tuple<Set, Set, const NumpyBasis*, const NumpyBasis*>;
  nb::class_<Cross>(m, "Cross", "cross-Grams of pairs of bases -> sums, pair by pair")
      .def(
          "__init__",  // the caller keeps the bases alive until the reply
          [](Cross* self, const std::vector<CrossTuple>& pairs, Part part, Slot by, int output) {
            Cross cross{{}, part, by, output};
            for (const auto& [a, b, x, y] : pairs) {
              if (!x || !y) throw nb::type_error("pairs: expected bases, got None");
              cross.pairs.push_back({a, b, &x->basis, &y->basis});
            }
            new (self) Cross(std::move(cross));
          },
          "pairs"_a, "part"_a, "by"_a = ones_slot, "output"_a = 0)
      .def_prop_ro("pairs",
                   [](const Cross& self) {  // two sets and the keys of two bases
                     std::vector<std::tuple<Set, Set, std::uintptr_t, std::uintptr_t>> out;
                     for (const auto& pair : self.pairs)
                       out.emplace_back(pair.a, pair.b, key_of(*pair.basis_a),
                                        key_of(*pair.basis_b));
                     return out;
                   })
      .def_ro("part", &Cross::part)
      .def_ro("by", &Cross::by)
      .def_ro("output", &Cross::output);
  m.attr("ALL_OUTPUTS") = all_outputs;
  nb::class_<Add> add(m, "Add", "slot[i] += bin_values[bin[i]], for all outputs or for one");
  pickles_as(add, [](const Add& v) {
    return nb::make_tuple(v.slot, v.set, to_numpy(Vec(v.bin_values)), v.within, v.output);
  });
  add.def(
         "__init__",
         [](Add* self, Slot slot, Set set, const Reals& values, std::optional<Part> within,
            int output) {
           new (self)
               Add{slot, set,   Vec(values.data(), values.data() + values.size()), within, {},
                   {},   output};
         },
         "slot"_a, "set"_a, "bin_values"_a, "within"_a = nb::none(), "output"_a = all_outputs)
      .def_ro("output", &Add::output)
      .def_ro("within", &Add::within)
      .def_ro("slot", &Add::slot)
      .def_ro("set", &Add::set)
      .def_prop_ro(
          "bin_values", [](const Add& self) { return to_numpy(Vec(self.bin_values)); },
          nb::rv_policy::move);
  nb::class_<Mix> mix(m, "Mix", "out = a x + b y");
  pickles_as(mix, [](const Mix& v) { return nb::make_tuple(v.out, v.a, v.x, v.b, v.y); });
  mix.def(nb::init<Slot, Real, Slot, Real, Slot>(), "out"_a, "a"_a, "x"_a, "b"_a, "y"_a)
      .def_ro("out", &Mix::out)
      .def_ro("a", &Mix::a)
      .def_ro("x", &Mix::x)
      .def_ro("b", &Mix::b)
      .def_ro("y", &Mix::y);
  nb::class_<AbsoluteSum> absolute(m, "AbsoluteSum", "sum of w |x - centre| -> sums, per output");
  pickles_as(absolute,
             [](const AbsoluteSum& v) { return nb::make_tuple(v.slot, v.part, v.centre); });
  absolute.def(nb::init<Slot, Part, Vec>(), "slot"_a, "part"_a, "centre"_a)
      .def_ro("slot", &AbsoluteSum::slot)
      .def_ro("part", &AbsoluteSum::part)
      .def_ro("centre", &AbsoluteSum::centre);
  nb::class_<Reply> reply(m, "Reply", "The reply to a verb.");
  pickles_as(reply, [](const Reply& v) {
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

  nb::class_<NumpySet> index(m, "IndexSet", "A bin index of 8, 16 or 32 bits.");
  bind_index<std::uint8_t>(index);
  bind_index<std::uint16_t>(index);
  bind_index<std::uint32_t>(index);
  index.def_prop_ro("n_bins", [](const NumpySet& self) { return bins_of(self.set); });
  nb::class_<NumpyMoments, NumpySet>(
      m, "MomentSet",
      "Pieces of a column and positions t within them; bin 4 p + q stands for t^q on piece p.")
      .def(
          "__init__",
          [](NumpyMoments* self, Array<std::uint16_t> piece, Reals t, Size n_pieces) {
            const MomentSet set{view(piece), view(t), n_pieces * n_powers};
            new (self) NumpyMoments{{set, nb::make_tuple(piece, t)}};
          },
          "piece"_a.noconvert(), "t"_a.noconvert(), "n_pieces"_a);

  nb::class_<Rows, PythonRows>(m, "Rows", "Answers the verbs; may be subclassed.")
      .def(nb::init<>())
      .def("n_outputs", &Rows::n_outputs)
      .def("n_rows", &Rows::n_rows)
      .def("remote", &Rows::remote)
      .def("linear", &Rows::linear)
      .def("knows_cross", &Rows::knows_cross)
      .def("weight", &Rows::weight, "part"_a)
      .def("run", &Rows::run, "batch"_a, nb::call_guard<GilRelease>());
  nb::class_<Crosses>(m, "Crosses",
                      "A cache of cross-Grams for rows with the same weights and bins.")
      .def(nb::init<>())
      .def("__len__", &Crosses::size);
  nb::class_<NumpyRows, Rows>(m, "LocalRows", "Rows in this process.")
      .def("__init__", &make_rows, "loss"_a, "y"_a.noconvert(), "offset"_a.noconvert().none(),
           "sets"_a, "parts"_a.noconvert(), "n_threads"_a = 1, "crosses"_a.none() = nb::none())
      .def(
          "read",
          [](const NumpyRows& self, Slot slot) {
            const In values = self.read(slot);
            return to_numpy(Vec(values.begin(), values.end()), {self.n_outputs(), self.n_rows()});
          },
          "slot"_a);
}

}  // namespace cwboost
