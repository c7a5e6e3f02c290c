// Python bindings of what runs once per fit: column summaries, bins, basis rows, systems and pairs.
#include "bind_common.hpp"
#include "pairs.hpp"
#include "setup.hpp"
#include "system.hpp"

namespace cwboost {
namespace {

using Marks = Array<bool>;
template <class T>
using Writable = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Mask mask_of(const std::optional<Marks>& training) { return training ? view(*training) : Mask{}; }
In reals_of(const std::optional<Reals>& values) { return values ? view(*values) : In{}; }

std::tuple<Real, Real, Size, Size, bool, bool> survey_column(const Reals& values,
                                                             const std::optional<Marks>& training) {
  const GilRelease released;
  const Survey s = survey(view(values), mask_of(training));
  return {s.low, s.high, s.missing, s.all_missing, s.beyond, s.infinite};
}

std::optional<nb::ndarray<nb::numpy, Real>> distinct_numbers(const Reals& values,
                                                             const std::optional<Marks>& training,
                                                             Size limit) {
  Vec out;
  bool few = false;
  {
    const GilRelease released;
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
    const GilRelease released;
    out = quantiles(view(values), mask_of(training), reals_of(weights), view(shares));
  }
  return to_numpy(std::move(out));
}

std::pair<nb::ndarray<nb::numpy, Real>, nb::ndarray<nb::numpy, Real>> weigh_numbers(
    const Reals& values, const std::optional<Marks>& training,
    const std::optional<Reals>& weights) {
  std::pair<Vec, Vec> out;
  {
    const GilRelease released;
    out = weigh_distinct(view(values), mask_of(training), reals_of(weights));
  }
  return {to_numpy(std::move(out.first)), to_numpy(std::move(out.second))};
}

template <class T>
void check_bins(Size n_values, Size n_index, Size n_bins) {
  if (n_values != n_index) throw std::invalid_argument("index must have one number per value");
  if (n_bins == 0 || n_bins - 1 > std::numeric_limits<T>::max())
    throw std::invalid_argument(
        "the integer type of the index is too small for the number of bins");
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
      nb::call_guard<GilRelease>());
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
      "sums"_a.noconvert(), nb::call_guard<GilRelease>());
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
        if (bin_values.size() < n_bins)
          throw std::invalid_argument("bin_values is shorter than the number of bins");
        exact.write(view(index), view(bin_values));
        return n_bins;
      },
      "values"_a.noconvert(), "training"_a.noconvert().none(), "index"_a.noconvert(),
      "bin_values"_a.noconvert(), nb::call_guard<GilRelease>());
  m.def(
      "weigh_bins",
      [](const Array<T>& index, const std::optional<Reals>& weights, const Writable<Real>& out) {
        weigh_bins(view(index), reals_of(weights), view(out));
      },
      "index"_a.noconvert(), "weights"_a.noconvert().none(), "out"_a.noconvert(),
      nb::call_guard<GilRelease>());
  m.def(
      "assign_equal",
      [](const Reals& values, Real first, Real last, Size size, const Writable<T>& index) {
        if (!(first < last) || size < 2 || size > std::numeric_limits<std::int32_t>::max())
          throw std::invalid_argument("assign_equal: expected two points or more, increasing");
        check_bins<T>(values.size(), index.size(), size);
        assign_equal(view(values), first, last, size, size, view(index));
      },
      "values"_a.noconvert(), "first"_a, "last"_a, "size"_a, "index"_a.noconvert(),
      nb::call_guard<GilRelease>());
  m.def(
      "assign_nearest",
      [](const Reals& values, const Reals& points, const Writable<T>& index) {
        check_bins<T>(values.size(), index.size(), points.size());
        return assign_nearest(view(values), view(points), points.size(), view(index));
      },
      "values"_a.noconvert(), "points"_a.noconvert(), "index"_a.noconvert(),
      nb::call_guard<GilRelease>());
  m.def(
      "assign_cuts",
      [](const Reals& values, const Reals& cuts, const Writable<T>& index) {
        check_bins<T>(values.size(), index.size(), cuts.size() + 1);
        assign_cuts(view(values), view(cuts), cuts.size() + 1, view(index));
      },
      "values"_a.noconvert(), "cuts"_a.noconvert(), "index"_a.noconvert(),
      nb::call_guard<GilRelease>());
}

// Records come as tuples of their fields: BasisRows (terms/bases), SmoothingTarget
// (fitting/smoothing.py), SystemTask (fitting/systems.py) and TableTask (fitting/pair_systems.py).
using BasisTuple = std::tuple<Array<std::int64_t>, Array<std::int32_t>, Reals>;
using TargetTuple = std::tuple<Real, Real, bool, bool, Size, Real>;
using Matrix = nb::ndarray<Real, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using SystemTuple =
    std::tuple<BasisTuple, Reals, Block, TargetTuple, Matrix, Matrix, Writable<Real>>;
using TableTuple = std::tuple<Block, Block, TargetTuple, Matrix>;

SmoothingTarget to_target(const TargetTuple& fields) {
  const auto [smoothing, df, net, trace_h, null_dim, ridge] = fields;
  return {smoothing, df, net, trace_h, null_dim, ridge};
}

// What the core finds for a system: lambda, df, net df, 1 if solved.
Out numbers_of(const Matrix& numbers, Size system) { return {numbers.data() + 4 * system, 4}; }

void check_numbers(const Matrix& numbers, Size n_systems) {
  if (numbers.shape(0) != n_systems || numbers.shape(1) != 4)
    throw std::invalid_argument("numbers must be (systems, 4)");
}

void solve_systems(const std::vector<SystemTuple>& tasks, const Matrix& numbers, Size n_threads) {
  check_numbers(numbers, tasks.size());
  std::vector<System> systems;
  for (Size k = 0; k < tasks.size(); ++k) {
    const auto& [rows, weights, penalty, target, gram, factor, mean] = tasks[k];
    const auto& [begin, column, value] = rows;
    systems.push_back({{view(begin), view(column), view(value)},
                       view(weights),
                       view(penalty),
                       to_target(target),
                       view(gram),
                       view(factor),
                       view(mean),
                       numbers_of(numbers, k)});
  }
  const GilRelease released;
  Workers workers(n_threads);
  solve(systems, workers);
}

void solve_pairs(const std::vector<TableTuple>& tasks, const Matrix& numbers, Size n_threads) {
  check_numbers(numbers, tasks.size());
  std::vector<PairSystem> systems;
  for (Size k = 0; k < tasks.size(); ++k) {
    const auto& [weights, penalty, target, factor] = tasks[k];
    systems.push_back({view(weights), weights.shape(1), view(penalty), to_target(target),
                       view(factor), numbers_of(numbers, k)});
  }
  const GilRelease released;
  Workers workers(n_threads);
  solve(systems, workers);
}

// values (n, 1 + outputs): w and w r per row; pairs: (column, column, penalty, null_dim);
// out (pairs, outputs + 1): the gains, then the df.
void rank_pairs(const std::vector<Array<std::uint8_t>>& index, const std::vector<Size>& n_bins,
                const Block& values, const std::vector<std::tuple<Size, Size, Block, Size>>& pairs,
                Real df, const Matrix& out, Size n_threads) {
  PairRows rows{{}, n_bins, view(values), values.shape(1)};
  if (n_bins.size() != index.size() || rows.width < 2)
    throw std::invalid_argument(
        "rank_pairs: expected n_bins per column, and values with a weight and residuals");
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
  const GilRelease released;
  Workers workers(n_threads);
  rank(rows, candidates, df, view(out), workers);
}

}  // namespace

void bind_setup(nb::module_& m) {
  m.def("survey", &survey_column, "values"_a.noconvert(), "training"_a.noconvert().none(),
        "low, high and number of missing cells of the training rows; missing cells of all rows; "
        "whether some rows are outside low..high; whether some are infinite");
  m.def("distinct", &distinct_numbers, "values"_a.noconvert(), "training"_a.noconvert().none(),
        "limit"_a, nb::rv_policy::move,
        "Distinct numbers, increasing; None if there are more than limit.");
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
      nb::call_guard<GilRelease>());
  m.def(
      "power_rows",
      [](const Reals& values, Real center, Real scale, Size first, Size n_coef,
         const Writable<Real>& value) {
        if (value.size() != values.size() * n_coef)
          throw std::invalid_argument("power_rows: the rows do not fit the array");
        power_rows(view(values), center, scale, first, n_coef, view(value));
      },
      "values"_a.noconvert(), "center"_a, "scale"_a, "first"_a, "n_coef"_a, "value"_a.noconvert(),
      nb::call_guard<GilRelease>());
  m.def("solve_systems", &solve_systems, "systems"_a, "numbers"_a.noconvert(), "n_threads"_a = 1);
  m.def("solve_pairs", &solve_pairs, "systems"_a, "numbers"_a.noconvert(), "n_threads"_a = 1);
  m.def("rank_pairs", &rank_pairs, "index"_a, "n_bins"_a, "values"_a.noconvert(), "pairs"_a, "df"_a,
        "out"_a.noconvert(), "n_threads"_a = 1);
}

}  // namespace cwboost
