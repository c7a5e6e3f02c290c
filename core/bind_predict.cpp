// Python bindings of prediction.
#include "bind_common.hpp"
#include "predict.hpp"

namespace cwboost {
namespace {

using Pieces = Array<predict::Piece>;
using Numbers = nb::ndarray<nb::ro, nb::device::cpu>;  // any supported dtype, strided
using Effects = nb::ndarray<Real, nb::ndim<3>, nb::device::cpu>;

std::span<const predict::Piece> pieces(const Pieces& array) { return {array.data(), array.size()}; }

predict::Kind kind_of(const Numbers& array) {
  const auto type = array.dtype();
  if (type == nb::dtype<double>()) return predict::Kind::float64;
  if (type == nb::dtype<float>()) return predict::Kind::float32;
  if (type == nb::dtype<std::int64_t>()) return predict::Kind::int64;
  if (type == nb::dtype<std::int32_t>()) return predict::Kind::int32;
  if (type == nb::dtype<bool>()) return predict::Kind::boolean;
  throw nb::type_error("lookup: numbers of this dtype cannot be read in place");
}

// Column `column` of an array of one or two dimensions.
predict::Strided strided(const Numbers& array, Size column = 0) {
  const auto bytes = static_cast<std::ptrdiff_t>(array.itemsize());
  const auto* data = static_cast<const std::byte*>(array.data());
  if (array.ndim() == 2) {
    if (column >= array.shape(1))
      throw std::invalid_argument("lookup: the table has no such column");
    data += array.stride(1) * bytes * static_cast<std::ptrdiff_t>(column);
  }
  return {data, array.stride(0) * bytes, kind_of(array)};
}

// A column of a table; None: the terms do not need it.
using ColumnInput = std::variant<std::monostate, Numbers, std::pair<Array<std::int64_t>, Pieces>,
                                 std::pair<Numbers, const predict::Breaks*>>;

predict::Column to_column(const ColumnInput& given, Size n) {
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
    return predict::LevelCodes{
        labels->first.data(), sizeof(std::int64_t), {map.data(), map.data() + map.size()}};
  }
  if (const auto* searched = std::get_if<3>(&given)) {
    long_enough(searched->first);
    if (!searched->second) throw nb::type_error("lookup: expected breaks, got None");
    return predict::LevelNumbers{strided(searched->first), searched->second};
  }
  return {};
}

// First column with an infinite number or -1, first row whose effects add up to NaN or -1, rows
// with unseen levels or outside the limits per axis.
using LookupReport = std::tuple<std::int64_t, std::int64_t, std::vector<Size>>;

// Lets Python handle signals between tasks.
LookupReport run_lookup(const predict::Lookup& self, const std::vector<predict::Column>& columns,
                        Size first, Size last, Effects& effects, bool add, Size n_threads) {
  const Size n = effects.shape(1);
  const bool together = n == 0 || effects.shape(2) == 1 || effects.stride(2) == 1;
  if (!together || effects.shape(2) != self.n_outputs() ||
      effects.shape(0) != (add ? 1 : last - first))
    throw std::invalid_argument("lookup: the effects do not fit");
  const predict::Target target{effects.data(), effects.stride(1), add ? 0 : effects.stride(0)};
  predict::Findings found;
  {
    const GilRelease released;
    Signals signals;
    found = self.run(columns, n, first, last, target, n_threads, std::ref(signals));
  }
  const auto number = [](Size x) {
    return x == predict::no_row ? -1 : static_cast<std::int64_t>(x);
  };
  return {number(found.infinite), number(found.not_a_number), std::move(found.outside)};
}

}  // namespace

void bind_predict(nb::module_& m) {
  nb::class_<predict::Breaks>(m, "Breaks", "Maps numbers to pieces.")
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
  nb::class_<predict::Axis>(m, "Axis", "Maps the values of a column to pieces and t.")
      .def(
          "__init__",
          [](predict::Axis* self, Size source, const predict::Breaks* breaks, const Reals& origin,
             const Reals& inverse, predict::Piece n_pieces, predict::Piece unseen,
             const std::pair<Real, Real>& limits) {
            new (self) predict::Axis{source,
                                     breaks ? std::optional(*breaks) : std::nullopt,
                                     Vec(origin.data(), origin.data() + origin.size()),
                                     Vec(inverse.data(), inverse.data() + inverse.size()),
                                     n_pieces,
                                     unseen,
                                     limits.first,
                                     limits.second};
          },
          "source"_a, "breaks"_a.none(), "origin"_a.noconvert(), "inverse"_a.noconvert(),
          "n_pieces"_a, "unseen"_a, "limits"_a);
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
          [](const predict::Lookup& self, const std::vector<ColumnInput>& columns, Size first,
             Size last, Effects effects, bool add, Size n_threads) {
            std::vector<predict::Column> found;
            for (const ColumnInput& given : columns)
              found.push_back(to_column(given, effects.shape(1)));
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

}  // namespace cwboost
