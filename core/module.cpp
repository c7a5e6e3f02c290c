// The map of the extension: each line registers what the file of that name binds.
#include <nanobind/nanobind.h>

namespace cwboost {
void bind_rows(nanobind::module_& m);     // losses, verbs, rows
void bind_boost(nanobind::module_& m);    // learners, optimizers, paths, the loop
void bind_setup(nanobind::module_& m);    // column summaries, bins, basis rows, systems, pairs
void bind_predict(nanobind::module_& m);  // prediction
}  // namespace cwboost

NB_MODULE(_core, m) {
  m.doc() = "The core of cwboost: rows and their verbs, learners, the boosting loop.";
#ifdef NDEBUG
  nanobind::set_leak_warnings(false);  // a program may end while it still holds objects
#endif
  cwboost::bind_rows(m);
  cwboost::bind_boost(m);
  cwboost::bind_setup(m);
  cwboost::bind_predict(m);
}
