// Losses on one row: its value and its residual, minus the derivative by the score. Knows nothing
// of starts, domains and step scales (losses.py) or of weights and rows (rows.hpp).
//
// To add a loss: one struct here, one line in make_loss, one class in losses.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "types.hpp"

namespace cwboost {

// A loss as the rows see it. `y`, `score` and `residual` are whole blocks of n rows (planes); only
// rows begin..end are read and written. `residual` and `loss` may be null where not wanted.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual Size n_outputs() const { return 1; }
  // True if the rows must be evaluated in one call from the calling thread (a loss in Python).
  virtual bool whole() const { return false; }
  virtual void evaluate(Size begin, Size end, Size n, const Real* y, const Real* score,
                        Real* residual, Real* loss) const = 0;
};

struct Squared {  // (y - f)^2 / 2
  Real value(Real y, Real f) const { return 0.5 * (y - f) * (y - f); }
  Real residual(Real y, Real f) const { return y - f; }
};

struct Absolute {  // |y - f|
  Real value(Real y, Real f) const { return std::abs(y - f); }
  Real residual(Real y, Real f) const { return y > f ? 1.0 : (y < f ? -1.0 : 0.0); }
};

struct Quantile {  // tau (y - f) above the score, (1 - tau) (f - y) below
  Real tau;
  Real value(Real y, Real f) const { return y >= f ? tau * (y - f) : (1.0 - tau) * (f - y); }
  Real residual(Real y, Real f) const { return y > f ? tau : (y < f ? tau - 1.0 : 0.0); }
};

struct Huber {  // r^2 / 2 up to delta, then linear
  Real delta;
  Real value(Real y, Real f) const {
    const Real r = std::abs(y - f);
    return r <= delta ? 0.5 * r * r : delta * (r - 0.5 * delta);
  }
  Real residual(Real y, Real f) const { return std::clamp(y - f, -delta, delta); }
};

struct Binomial {  // log(1 + exp(-y f)), y in {-1, 1}
  Real value(Real y, Real f) const {
    const Real z = -y * f;
    return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
  }
  Real residual(Real y, Real f) const { return y / (1.0 + std::exp(y * f)); }
};

struct Poisson {  // exp(f) - y f, without log y!
  Real value(Real y, Real f) const { return std::exp(f) - y * f; }
  Real residual(Real y, Real f) const { return y - std::exp(f); }
};

struct Gamma {  // f + y exp(-f), half the deviance up to a constant of y
  Real value(Real y, Real f) const { return f + y * std::exp(-f); }
  Real residual(Real y, Real f) const { return y * std::exp(-f) - 1.0; }
};

struct Tweedie {  // exp((2-p) f) / (2-p) - y exp((1-p) f) / (1-p), 1 < p < 2
  Real power;
  Real value(Real y, Real f) const {
    const Real a = 1.0 - power, b = 2.0 - power;
    return std::exp(b * f) / b - y * std::exp(a * f) / a;
  }
  Real residual(Real y, Real f) const {
    return y * std::exp((1.0 - power) * f) - std::exp((2.0 - power) * f);
  }
};

// The loop over rows for a loss with one output; the loss is inlined into it.
template <class OneRow>
class OneOutput final : public Loss {
 public:
  explicit OneOutput(OneRow row) : row_(row) {}
  void evaluate(Size begin, Size end, Size, const Real* y, const Real* score, Real* residual,
                Real* loss) const override {
    if (residual)
      for (Size i = begin; i < end; ++i) residual[i] = row_.residual(y[i], score[i]);
    if (loss)
      for (Size i = begin; i < end; ++i) loss[i] = row_.value(y[i], score[i]);
  }

 private:
  OneRow row_;
};

// log(sum_o exp(f_o)) - f_y; y is the number of the class, one output per class.
class Multinomial final : public Loss {
 public:
  explicit Multinomial(Size n_classes) : n_classes_(n_classes) {}
  Size n_outputs() const override { return n_classes_; }
  void evaluate(Size begin, Size end, Size n, const Real* y, const Real* score, Real* residual,
                Real* loss) const override {
    for (Size i = begin; i < end; ++i) {
      Real top = score[i];
      for (Size o = 1; o < n_classes_; ++o) top = std::max(top, score[o * n + i]);
      Real sum = 0.0;
      for (Size o = 0; o < n_classes_; ++o) sum += std::exp(score[o * n + i] - top);
      const auto own = static_cast<Size>(y[i]);
      if (loss) loss[i] = top + std::log(sum) - score[own * n + i];
      if (residual)
        for (Size o = 0; o < n_classes_; ++o)
          residual[o * n + i] = (o == own ? 1.0 : 0.0) - std::exp(score[o * n + i] - top) / sum;
    }
  }

 private:
  Size n_classes_;
};

template <class OneRow>
std::shared_ptr<Loss> one_output(OneRow row) {
  return std::make_shared<OneOutput<OneRow>>(row);
}

// `parameter` is the loss's one number (tau, delta, power, number of classes); most ignore it.
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
