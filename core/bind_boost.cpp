// Python bindings of the column side and the loop: learners, optimizers, paths, boost and replay.
// The GIL is released around the whole loop.
#include "bind_common.hpp"
#include "boost.hpp"

namespace cwboost {
namespace {

// --- learners -----------------------------------------------------------------------------------

struct NumpyLearner : Learner {
  using Learner::Learner;
  std::vector<nb::object> keep;
};

using Gram = nb::ndarray<const Real, nb::c_contig, nb::device::cpu>;

void make_learner(NumpyLearner* self, Size set, Array<std::int64_t> begin,
                  Array<std::int32_t> column, Reals value, Gram gram, Gram factor,
                  std::optional<Block> removed, std::optional<Block> weigher, Size n_b) {
  if (gram.ndim() < 1 || gram.ndim() > 2)
    throw std::invalid_argument("gram must be (d, d) or, if diagonal, (d)");
  const Basis basis(view(begin), view(column), view(value), gram.shape(0));
  const In along = weigher ? view(*weigher) : In{}, onto = removed ? view(*removed) : In{};
  if (n_b > 0)
    new (self) NumpyLearner(set, basis, view(gram), view(factor), n_b, onto, along);
  else
    new (self) NumpyLearner(set, basis, gram.ndim() == 1, view(gram), view(factor), onto, along);
  self->keep = {nb::cast(begin), nb::cast(column), nb::cast(value)};
  if (removed) self->keep.push_back(nb::cast(*removed));
  if (weigher) self->keep.push_back(nb::cast(*weigher));
}

// The verb Cross for pairs of learners; the caller keeps them alive until the reply.
Cross cross_of(const std::vector<const NumpyLearner*>& learners,
               const std::vector<std::pair<Size, Size>>& pairs, Part part, Slot by, int output) {
  Cross cross{{}, part, by, output};
  for (const auto& [a, b] : pairs) {
    const NumpyLearner &x = *learners.at(a), &y = *learners.at(b);
    cross.pairs.push_back({x.set(), y.set(), &x.basis(), &y.basis()});
  }
  return cross;
}

void bind_learner(nb::module_& m) {
  m.def("cross_of", &cross_of, "learners"_a, "pairs"_a, "part"_a, "by"_a = ones_slot,
        "output"_a = 0, "The verb Cross for pairs of learners, which must outlive it.");
  nb::class_<NumpyLearner>(m, "Learner", "Turns bin sums into coefficients and gain.")
      .def("__init__", &make_learner, "set"_a, "begin"_a.noconvert(), "column"_a.noconvert(),
           "value"_a.noconvert(), "gram"_a.noconvert(), "factor"_a.noconvert(),
           "removed"_a.none() = nb::none(), "weigher"_a.none() = nb::none(), "n_b"_a = 0)
      .def_prop_ro("set", &NumpyLearner::set)
      .def_prop_ro("n_coef", &NumpyLearner::n_coef)
      .def_prop_ro("basis_key", [](const NumpyLearner& self) { return key_of(self.basis()); })
      .def(
          "fit",
          [](const NumpyLearner& self, Block sums) {  // (q, n_bins) -> theta (q, d), gain
            if (sums.shape(1) != self.n_bins()) throw std::invalid_argument("one sum per bin");
            Fit fit = self.fit(view(sums), sums.shape(0));
            return std::pair(to_numpy(std::move(fit.theta), {sums.shape(0), self.n_coef()}),
                             fit.gain);
          },
          "sums"_a.noconvert());
}

// --- path and loop ------------------------------------------------------------------------------

// The updates of all iterations, one after the other; lengths follow from learners and outputs.
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
               std::optional<Array<std::int32_t>> evaluations,
               std::optional<Array<std::int32_t>> outputs, std::optional<Reals> metrics) {
  const Size n = choices.size();
  if (corrections.size() != n || halvings.size() != n || risk.size() != n + 1 ||
      validation_risk.size() != n + 1 || (evaluations && evaluations->size() != n) ||
      (outputs && outputs->size() != n) || (metrics && metrics->size() % (n + 1) != 0))
    throw std::invalid_argument("path: arrays of different lengths");
  Path path;
  const auto take = [&](int learner, int output, In from, Size& at) {
    Update update{learner, {}, output};
    if (learner < 0) return update;
    const Size n_moved = output == all_outputs ? n_outputs : 1;
    const Size length = n_coef.at(static_cast<Size>(learner)) * n_moved;
    if (at + length > from.size()) throw std::invalid_argument("path: updates are too short");
    update.theta.assign(from.data() + at, from.data() + at + length);
    at += length;
    return update;
  };
  Size at = 0, correction_at = 0;
  for (Size i = 0; i < n; ++i) {
    Move move;
    const int output = outputs ? outputs->data()[i] : all_outputs;
    move.choice = take(choices.data()[i], output, view(updates), at);
    move.correction =
        take(corrections.data()[i], all_outputs, view(correction_updates), correction_at);
    move.halvings = halvings.data()[i];
    move.evaluations = evaluations ? evaluations->data()[i] : 0;
    path.moves.push_back(std::move(move));
  }
  const Size n_metrics = metrics ? metrics->size() / (n + 1) : 0;
  for (Size i = 0; i <= n; ++i) {
    path.risks.push_back({risk.data()[i], validation_risk.data()[i]});
    if (n_metrics == 0) continue;
    const Real* const from = metrics->data() + i * n_metrics;
    path.risks.back().metrics.assign(from, from + n_metrics);
  }
  path.switched_after = switched_after;
  path.rewound_to = rewound_to;
  new (self) Path(std::move(path));
}

// Lets long passes over the rows handle signals too.
class PollGuard {
 public:
  PollGuard(Rows& rows, Signals& signals) : rows_(rows) {
    rows.poll = [&signals] { signals(); };
  }
  ~PollGuard() { rows_.poll = {}; }
  PollGuard(const PollGuard&) = delete;
  PollGuard& operator=(const PollGuard&) = delete;

 private:
  Rows& rows_;
};

Learners take_learners(const std::vector<const NumpyLearner*>& from) {
  Learners out;
  for (const auto* learner : from) {
    if (!learner) throw nb::type_error("expected learners, got None");
    out.push_back(learner);
  }
  return out;
}

// A problem as Python gives it: keeps rows, learners and optimizer alive.
struct PythonProblem {
  BoostProblem problem;
  Learners learners, all_learners;
  std::vector<nb::object> keep;
};

void make_problem(PythonProblem* self, Rows& rows, const std::vector<const NumpyLearner*>& learners,
                  const Optimizer& optimizer, Vec start, Real scale, Vec state,
                  const std::vector<const NumpyLearner*>& all_learners, Part training,
                  std::optional<Part> validation, Part all, SearchMode search) {
  const auto next = optimizer.next_phase();
  if (next && next->all_rows && all_learners.size() != learners.size())
    throw std::invalid_argument("this optimizer needs learners fitted to all rows: all_learners=");
  auto training_learners = take_learners(learners), others = take_learners(all_learners);
  auto* const made = new (self)
      PythonProblem{{&rows, &optimizer}, std::move(training_learners), std::move(others), {}};
  BoostProblem& problem = made->problem;
  problem.learners = &made->learners;
  problem.all_learners = &made->all_learners;
  for (const Learner* learner : made->learners) problem.n_coef.push_back(learner->n_coef());
  problem.start = std::move(start);
  problem.scale = scale;
  problem.state = std::move(state);
  problem.parts = {training, validation, all};
  problem.search = search;
  made->keep = {nb::find(rows), nb::find(optimizer)};
  for (const auto& list : {learners, all_learners})
    for (const auto* learner : list) made->keep.push_back(nb::find(learner));
}

// How far a run goes, and what it calls on its way.
struct PythonOptions {
  RunOptions options;
  std::optional<double> time_limit;                                // seconds
  std::optional<std::function<bool(int, Real, Real, int)>> after;  // returns true to stop
  double after_every;                                      // least seconds between two calls
  std::optional<std::function<double(const Path&)>> save;  // returns seconds until the next call
  std::optional<std::function<Vec(Real)>> measure;         // see RunOptions::measure
};

Path run_boost(const PythonProblem& given, const Path& history, const PythonOptions& request) {
  Signals signals;
  const auto began = Clock::now();
  auto reported = began, saved = began;
  double pause = 0.0;  // seconds for which `save` is not called again
  Boost boost(given.problem);
  RunOptions options = request.options;
  if (request.measure)
    options.measure = [&](Real validation_risk) {
      const GilAcquire gil;
      return wait_at_exit([&] { return (*request.measure)(validation_risk); });
    };
  options.after = [&](int m, const Risks& risks, const Move& move) {
    signals();
    const auto now = Clock::now();
    if (request.after && Seconds(now - reported).count() >= request.after_every) {
      reported = now;
      const GilAcquire gil;
      if (wait_at_exit([&] {
            return (*request.after)(m, risks.training, risks.validation, move.choice.learner);
          }))
        throw Stop{StopReason::callback};
    }
    if (m <= history.n_iter()) return;
    if (request.save && Seconds(now - saved).count() >= pause) {
      const GilAcquire gil;
      pause = wait_at_exit([&] { return (*request.save)(boost.path); });
      saved = Clock::now();
    }
    if (request.time_limit && Seconds(Clock::now() - began).count() > *request.time_limit)
      throw Stop{StopReason::time_limit};
  };
  const PollGuard guard(*given.problem.rows, signals);
  try {
    const GilRelease released;
    boost.run(history, options);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_KeyboardInterrupt)) throw;
    boost.path.stopped = StopReason::interrupted;
  }
  return std::move(boost.path);
}

// What a path needs to be replayed without rows.
struct ReplayProblem {
  BoostProblem problem;
  Size n_outputs;
  nb::object keep;  // the optimizer
};

void make_replay(ReplayProblem* self, const Optimizer& optimizer, std::vector<Size> n_coef,
                 Size n_outputs, Real scale, bool has_validation) {
  auto* const made =
      new (self) ReplayProblem{{nullptr, &optimizer}, n_outputs, nb::find(optimizer)};
  made->problem.n_coef = std::move(n_coef);
  made->problem.scale = scale;
  if (has_validation) made->problem.parts.validation = validation_part;
}

// The coefficients after m iterations of a path.
nb::ndarray<nb::numpy, Real> replay(const ReplayProblem& given, const Path& path, int m) {
  if (m < 0 || m > path.n_iter()) throw std::invalid_argument("replay: no such iteration");
  NoRows no_rows(given.n_outputs);
  BoostProblem problem = given.problem;
  problem.rows = &no_rows;
  Boost boost(problem);
  boost.run(path, {m});
  return to_numpy(Vec(boost.coef()));
}

// The part of a checkpoint's path that a run with these options would have: shorter if the path has
// more iterations, or if a rule ends the run earlier.
Path cut_path(const ReplayProblem& given, const Path& path, const PythonOptions& request) {
  NoRows no_rows(given.n_outputs);
  BoostProblem problem = given.problem;
  problem.rows = &no_rows;
  Boost boost(problem);
  RunOptions options = request.options;
  options.n_iter = std::min(options.n_iter, path.n_iter());
  boost.run(path, options);
  return std::move(boost.path);
}

// The risk of the training part after 0, 1, .. iterations of a path, which may be of a fit to other
// rows. `at` is called after each iteration, when slot_f has the scores; it returns true to stop.
nb::ndarray<nb::numpy, Real> follow(const PythonProblem& given, const Path& path,
                                    const std::optional<std::function<bool(int)>>& at) {
  BoostProblem problem = given.problem;
  problem.all_learners = problem.learners;
  problem.parts = {problem.parts.training, {}, problem.parts.training};
  problem.search = SearchMode::full;
  problem.other_rows = true;
  Signals signals;
  RunOptions options{path.n_iter()};
  options.recorded = [&](int m) {
    signals();
    if (!at) return;
    const GilAcquire gil;
    if (wait_at_exit([&] { return (*at)(m); })) throw Stop{StopReason::callback};
  };
  Boost boost(problem);
  {
    const GilRelease released;
    boost.run(path, options);
  }
  return per_risk(boost.path, &Risks::training);
}

nb::ndarray<nb::numpy, Real> gram_of(Rows& rows, const std::vector<const NumpyLearner*>& learners,
                                     Part part) {
  const Learners taken = take_learners(learners);
  Size n = 0;
  for (const Learner* learner : taken) n += learner->n_coef();
  Signals signals;
  const PollGuard guard(rows, signals);
  Vec gram;
  {
    const GilRelease released;
    gram = whole_gram(rows, taken, part);
  }
  return to_numpy(std::move(gram), {n, n});
}

void bind_optimizers(nb::module_& m) {
  nb::class_<Optimizer>(m, "Optimizer");
  nb::class_<Plain, Optimizer>(m, "Plain").def(nb::init<Real>(), "rate"_a);
  nb::class_<Accelerated, Optimizer>(m, "Accelerated")
      .def(nb::init<Real, Real>(), "rate"_a, "momentum"_a);
  nb::class_<Hybrid, Optimizer>(m, "Hybrid")
      .def(nb::init<Real, Real, int, bool, bool, int>(), "rate"_a, "momentum"_a, "switch_after"_a,
           "rewind"_a, "then_all"_a, "switch_patience"_a);
}

void bind_path(nb::module_& m) {
  nb::class_<Path>(m, "Path", "The chronological record of a fit.")
      .def(nb::init<>())
      .def("__init__", &make_path, "choices"_a.noconvert(), "corrections"_a.noconvert(),
           "halvings"_a.noconvert(), "updates"_a.noconvert(), "correction_updates"_a.noconvert(),
           "risk"_a.noconvert(), "validation_risk"_a.noconvert(), "switched_after"_a,
           "rewound_to"_a, "n_coef"_a, "n_outputs"_a, "evaluations"_a.none() = nb::none(),
           "outputs"_a.none() = nb::none(), "metrics"_a.none() = nb::none())
      .def_prop_ro(
          "metrics",  // iterate by iterate
          [](const Path& p) {
            Vec out;
            for (const Risks& risks : p.risks)
              out.insert(out.end(), risks.metrics.begin(), risks.metrics.end());
            return to_numpy(std::move(out));
          },
          nb::rv_policy::move)
      .def_prop_ro(
          "outputs",  // that each choice moved
          [](const Path& p) {
            return per_move(p, [](const Move& move) { return move.choice.output; });
          },
          nb::rv_policy::move)
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
      .def_prop_ro("stopped", [](const Path& p) -> std::string {
        return p.stopped ? stop_texts[static_cast<Size>(*p.stopped)].text : "";
      });
}

void bind_loop(nb::module_& m) {
  m.attr("SLOT_F") = slot_f;
  m.attr("SLOT_R") = slot_r;
  m.attr("SLOT_H") = slot_h;
  m.attr("SLOT_C") = slot_c;
  m.attr("TRAINING_PART") = training_part;
  m.attr("VALIDATION_PART") = validation_part;
  m.attr("ALL_PART") = all_part;
  nb::enum_<StopReason> reasons(m, "StopReason", nb::is_str(), "Why a fit ended.");
  for (const StopText& entry : stop_texts) reasons.str_value(entry.name, entry.reason, entry.text);
  nb::enum_<SearchMode>(m, "SearchMode", "How the best learner of an iteration is found.")
      .value("automatic", SearchMode::automatic)
      .value("full", SearchMode::full)
      .value("certified", SearchMode::certified)
      .value("row_free", SearchMode::row_free);
  nb::class_<PythonProblem>(m, "BoostProblem", "Rows, learners and optimizer of a fit.")
      .def("__init__", &make_problem, "rows"_a, "learners"_a, "optimizer"_a, nb::kw_only(),
           "start"_a, "scale"_a = 1.0, "state"_a = Vec{}, "all_learners"_a = nb::list(),
           "training_part"_a = training_part, "validation_part"_a = nb::none(),
           "all_part"_a = all_part, "search"_a = SearchMode::automatic);
  nb::class_<StoppingRule> rule(m, "StoppingRule", "When a run ends early.");
  nb::enum_<StoppingRule::Kind>(rule, "Kind")
      .value("patience", StoppingRule::Kind::patience)
      .value("stagnation", StoppingRule::Kind::stagnation);
  rule.def(nb::init<StoppingRule::Kind, int, int, Real>(), "kind"_a, "metric"_a, "iterations"_a,
           "share"_a = 0.0);
  nb::class_<PythonOptions>(m, "RunOptions", "How far a run goes, and what it calls on its way.")
      .def(
          "__init__",
          [](PythonOptions* self, int n_iter, std::vector<StoppingRule> rules,
             std::optional<int> n_given, std::optional<double> time_limit,
             decltype(PythonOptions::after) after, double after_every,
             decltype(PythonOptions::save) save, decltype(PythonOptions::measure) measure) {
            new (self) PythonOptions{{n_iter, std::move(rules), n_given},
                                     time_limit,
                                     std::move(after),
                                     after_every,
                                     std::move(save),
                                     std::move(measure)};
          },
          "n_iter"_a, nb::kw_only(), "rules"_a = std::vector<StoppingRule>{},
          "n_given"_a = nb::none(), "time_limit"_a = nb::none(), "after"_a = nb::none(),
          "after_every"_a = 0.0, "save"_a = nb::none(), "measure"_a = nb::none());
  nb::class_<ReplayProblem>(m, "ReplayProblem", "What a path needs to be replayed without rows.")
      .def("__init__", &make_replay, "optimizer"_a, "n_coef"_a, "n_outputs"_a = 1, nb::kw_only(),
           "scale"_a = 1.0, "has_validation"_a = false);
  m.def("boost", &run_boost, "problem"_a, "history"_a, "options"_a);
  m.def("follow", &follow, "problem"_a, "path"_a, "at"_a = nb::none(), nb::rv_policy::move);
  m.def("replay", &replay, "problem"_a, "path"_a, "m"_a, nb::rv_policy::move);
  m.def("cut", &cut_path, "problem"_a, "path"_a, "options"_a);
  m.def("gram", &gram_of, "rows"_a, "learners"_a, "part"_a, nb::rv_policy::move);
}

}  // namespace

void bind_boost(nb::module_& m) {
  nb::exception<OtherRows>(m, "OtherRowsError", PyExc_ValueError);
  bind_learner(m);
  bind_optimizers(m);
  bind_path(m);
  bind_loop(m);
}

}  // namespace cwboost
