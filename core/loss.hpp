// Losses: the value of the loss of a row, and the residual, minus its derivative by the score.
// Does not know about starts, domains and step scales (see the Python package losses).
//
// To add a loss: a struct with the formulas of one row, a line in make_loss, and a Python class.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels.hpp"
#include "types.hpp"
#include "weights.hpp"

namespace cwboost {

// Some rows of an array with several outputs or targets: entry i of plane o is at[o * stride + i].
template <class T>
struct Planes {
  T* at = nullptr;
  Size stride = 0;
  explicit operator bool() const { return at != nullptr; }
  T* operator[](Size o) const { return at + o * stride; }
};

// Where a loss is evaluated: some rows with their y and scores.
struct LossInput {
  Size n;                            // rows
  Planes<const Real> y;              // one plane per target
  Planes<const Real> score;          // one plane per output
  In state = {};                     // see Loss::n_state
  const Weights* weights = nullptr;  // of the part that is fitted; null if unknown
  Size first_row = 0;                // row i of this input has weight (*weights)[first_row + i]
};

// Where the results go; null: not needed. The loss of a row is value + log(factor), with
// 1 <= factor <= 2: sums of such logs are cheap (log_product).
struct LossOutput {
  Planes<Real> residual = {};
  Real* value = nullptr;
  Real* factor = nullptr;  // only for losses that have one
};

// A loss as the rows see it.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual Size n_outputs() const { return 1; }  // scores per row; a choice moves all of them
  virtual Size n_targets() const { return 1; }  // columns of y: 2 for (time, event)
  // Numbers that the loss of every row depends on in addition to its score: a dispersion,
  // thresholds, a table over bins of time. The verbs carry them and the loop keeps them fixed
  // (BoostProblem). A loss that estimates them during the fit needs one more verb, which replies
  // with sums over the rows, and an update from these sums on the column side (Point).
  virtual Size n_state() const { return 0; }
  // True if all rows must be evaluated in one call from the calling thread (a loss in Python).
  virtual bool whole() const { return false; }
  virtual bool has_factor() const { return false; }
  // True if residual = y - score: the rows are then needed for set-up only (gram_rows.hpp).
  virtual bool linear() const { return false; }
  virtual void evaluate(const LossInput& at, const LossOutput& out) const = 0;
  // The second derivative of the loss of each row by each of its scores.
  virtual bool has_curvature() const { return false; }
  virtual void curvature(const LossInput&, Planes<Real>) const {
    throw std::invalid_argument("this loss does not have a second derivative");
  }
};

struct RowLoss {  // the loss of one row; the compiler drops what a loop does not use
  Real residual, value, factor = 1.0;
};

struct Squared {  // (y - f)^2 / 2
  RowLoss operator()(Real y, Real f) const { return {y - f, 0.5 * (y - f) * (y - f)}; }
  Real curvature(Real, Real) const { return 1.0; }
};

struct Absolute {  // |y - f|
  RowLoss operator()(Real y, Real f) const {
    return {y > f ? 1.0 : (y < f ? -1.0 : 0.0), std::abs(y - f)};
  }
};

struct Quantile {  // tau (y - f) if y >= f, else (1 - tau) (f - y)
  Real tau;
  RowLoss operator()(Real y, Real f) const {
    return {y > f ? tau : (y < f ? tau - 1.0 : 0.0),
            y >= f ? tau * (y - f) : (1.0 - tau) * (f - y)};
  }
};

struct Huber {  // r^2 / 2 up to |r| = delta, then linear
  Real delta;
  RowLoss operator()(Real y, Real f) const {
    const Real r = y - f, size = std::abs(r);
    const Real inner = 0.5 * r * r, outer = delta * (size - 0.5 * delta);
    const Real clipped = r > delta ? delta : (r < -delta ? -delta : r);
    return {clipped, size <= delta ? inner : outer};
  }
  Real curvature(Real y, Real f) const { return std::abs(y - f) <= delta ? 1.0 : 0.0; }
};

struct Binomial {  // log(1 + exp(-y f)), y in {-1, 1}
  static constexpr bool has_factor = true;
  RowLoss operator()(Real y, Real f) const {
    const Real z = y * f;
    const Real e = fast_exp_of_negative(-std::abs(z));
    const Real share = 1.0 / (1.0 + e);
    return {y * (z > 0.0 ? e * share : share), z > 0.0 ? 0.0 : -z, 1.0 + e};
  }
  Real curvature(Real, Real f) const {
    const Real e = fast_exp_of_negative(-std::abs(f));
    return e / ((1.0 + e) * (1.0 + e));
  }
};

struct Poisson {  // exp(f) - y f, without log y!
  RowLoss operator()(Real y, Real f) const {
    const Real mean = fast_exp(f);
    return {y - mean, mean - y * f};
  }
  Real curvature(Real, Real f) const { return fast_exp(f); }
};

struct Gamma {  // f + y exp(-f), half the deviance up to a term that depends on y only
  RowLoss operator()(Real y, Real f) const {
    const Real ratio = y * fast_exp(-f);
    return {ratio - 1.0, f + ratio};
  }
  Real curvature(Real y, Real f) const { return y * fast_exp(-f); }
};

struct Tweedie {  // exp((2-p) f) / (2-p) - y exp((1-p) f) / (1-p), 1 < p < 2
  Real power;
  RowLoss operator()(Real y, Real f) const {
    const Real a = 1.0 - power, b = 2.0 - power;
    const Real up = fast_exp(b * f), down = y * fast_exp(a * f);
    return {down - up, up / b - down / a};
  }
  Real curvature(Real y, Real f) const {
    const Real a = 1.0 - power, b = 2.0 - power;
    return b * fast_exp(b * f) - a * y * fast_exp(a * f);
  }
};

template <class OneRow>
constexpr bool row_has_factor = requires { OneRow::has_factor; };
template <class OneRow>
constexpr bool row_has_curvature = requires(const OneRow& row) { row.curvature(0.0, 0.0); };

template <class OneRow>
CWBOOST_KERNEL void residuals(OneRow row, Size n, const Real* y, const Real* score,
                              Real* residual) {
  for (Size i = 0; i < n; ++i) residual[i] = row(y[i], score[i]).residual;
}
template <class OneRow>
CWBOOST_KERNEL void values(OneRow row, Size n, const Real* y, const Real* score, Real* value,
                           Real* factor) {
  for (Size i = 0; i < n; ++i) {
    const RowLoss at = row(y[i], score[i]);
    value[i] = at.value;
    if constexpr (row_has_factor<OneRow>) factor[i] = at.factor;
  }
}
template <class OneRow>
CWBOOST_KERNEL void residuals_and_values(OneRow row, Size n, const Real* y, const Real* score,
                                         Real* residual, Real* value, Real* factor) {
  for (Size i = 0; i < n; ++i) {
    const RowLoss at = row(y[i], score[i]);
    residual[i] = at.residual;
    value[i] = at.value;
    if constexpr (row_has_factor<OneRow>) factor[i] = at.factor;
  }
}

template <class OneRow>
CWBOOST_KERNEL void curvatures(OneRow row, Size n, const Real* y, const Real* score, Real* out) {
  for (Size i = 0; i < n; ++i) out[i] = row.curvature(y[i], score[i]);
}

// A loss with one output and one target; its formulas are inlined into the loops over rows.
template <class OneRow>
class OneOutput final : public Loss {
 public:
  explicit OneOutput(OneRow row) : row_(row) {}
  bool has_factor() const override { return row_has_factor<OneRow>; }
  bool linear() const override { return std::is_same_v<OneRow, Squared>; }
  void evaluate(const LossInput& at, const LossOutput& out) const override {
    const Real *const y = at.y[0], *const score = at.score[0];
    if (out.residual && out.value)
      residuals_and_values(row_, at.n, y, score, out.residual[0], out.value, out.factor);
    else if (out.residual)
      residuals(row_, at.n, y, score, out.residual[0]);
    else
      values(row_, at.n, y, score, out.value, out.factor);
  }
  bool has_curvature() const override { return row_has_curvature<OneRow>; }
  void curvature(const LossInput& at, Planes<Real> out) const override {
    if constexpr (row_has_curvature<OneRow>)
      curvatures(row_, at.n, at.y[0], at.score[0], out[0]);
    else
      Loss::curvature(at, out);
  }

 private:
  OneRow row_;
};

// log(sum_o exp(f_o)) - f_y, where y is the number of the class; one output per class.
class Multinomial final : public Loss {
 public:
  explicit Multinomial(Size n_classes) : n_classes_(n_classes) {}
  Size n_outputs() const override { return n_classes_; }
  void evaluate(const LossInput& at, const LossOutput& out) const override {
    const Real* const y = at.y[0];
    constexpr Size step = 256;  // rows at a time, so that loops run over rows
    Real top[step], sum[step], e[step];
    for (Size begin = 0; begin < at.n; begin += step) {
      const Size m = std::min(step, at.n - begin);
      const auto plane = [&](Size o) { return at.score[o] + begin; };
      std::copy_n(plane(0), m, top);
      for (Size o = 1; o < n_classes_; ++o) raise(m, plane(o), top);
      std::fill_n(sum, m, 0.0);
      for (Size o = 0; o < n_classes_; ++o) {
        Real* const to = out.residual ? out.residual[o] + begin : e;
        add_exp(m, plane(o), top, to, sum);
      }
      if (out.residual)
        for (Size o = 0; o < n_classes_; ++o) shares(m, o, y + begin, sum, out.residual[o] + begin);
      if (out.value)
        for (Size i = 0; i < m; ++i)
          out.value[begin + i] =
              top[i] + std::log(sum[i]) - plane(static_cast<Size>(y[begin + i]))[i];
    }
  }
  bool has_curvature() const override { return true; }
  void curvature(const LossInput& at, Planes<Real> out) const override {  // p (1 - p)
    evaluate(at, {out});
    for (Size o = 0; o < n_classes_; ++o)
      for (Size i = 0; i < at.n; ++i) {  // the residual is 1 - p for the own class, else -p
        const Real r = std::abs(out[o][i]);
        out[o][i] = r * (1.0 - r);
      }
  }

 private:
  CWBOOST_KERNEL static void raise(Size n, const Real* score, Real* top) {
    for (Size i = 0; i < n; ++i) top[i] = top[i] < score[i] ? score[i] : top[i];
  }
  CWBOOST_KERNEL static void add_exp(Size n, const Real* score, const Real* top, Real* out,
                                     Real* sum) {
    for (Size i = 0; i < n; ++i) {
      out[i] = fast_exp(score[i] - top[i]);
      sum[i] += out[i];
    }
  }
  CWBOOST_KERNEL static void shares(Size n, Size o, const Real* y, const Real* sum, Real* out) {
    const auto own = static_cast<Real>(o);
    for (Size i = 0; i < n; ++i) out[i] = (y[i] == own ? 1.0 : 0.0) - out[i] / sum[i];
  }

  Size n_classes_;
};

template <class OneRow>
std::shared_ptr<Loss> one_output(OneRow row) {
  return std::make_shared<OneOutput<OneRow>>(row);
}

// `parameter` is the number that some losses have: tau, delta, power, number of classes.
inline std::shared_ptr<Loss> make_loss(const std::string& name, Real parameter) {
  static const std::map<std::string, std::function<std::shared_ptr<Loss>(Real)>> registry = {
      {"squared", [](Real) { return one_output(Squared{}); }},
      {"absolute", [](Real) { return one_output(Absolute{}); }},
      {"quantile", [](Real tau) { return one_output(Quantile{tau}); }},
      {"huber", [](Real delta) { return one_output(Huber{delta}); }},
      {"binomial", [](Real) { return one_output(Binomial{}); }},
      {"poisson", [](Real) { return one_output(Poisson{}); }},
      {"gamma", [](Real) { return one_output(Gamma{}); }},
      {"tweedie", [](Real power) { return one_output(Tweedie{power}); }},
      {"multinomial",
       [](Real classes) { return std::make_shared<Multinomial>(static_cast<Size>(classes)); }},
  };
  const auto entry = registry.find(name);
  if (entry == registry.end()) throw std::invalid_argument("the core has no loss '" + name + "'");
  return entry->second(parameter);
}

}  // namespace cwboost
