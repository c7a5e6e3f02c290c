// Loops over the rows of one block: the arithmetic of the verbs that treat every row alone.
// Does not know about slots or threads (see local_rows.hpp).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels.hpp"
#include "types.hpp"

namespace cwboost {

CWBOOST_KERNEL inline void mix_rows(Size n, Real a, const Real* x, Real b, const Real* y,
                                    Real* out) {
  if (a == 0.0 && b == 0.0)
    for (Size i = 0; i < n; ++i) out[i] = 0.0;  // even if x is infinite or NaN
  else if (b == 0.0)
    for (Size i = 0; i < n; ++i) out[i] = a * x[i];
  else
    for (Size i = 0; i < n; ++i) out[i] = a * x[i] + b * y[i];
}

// x where the mask is one, 0 where it is zero (even if x is infinite or NaN), without a branch.
CWBOOST_INLINE Real keep(Real x, std::uint8_t mask) {
  return std::bit_cast<Real>(std::bit_cast<std::uint64_t>(x) & (std::uint64_t{0} - mask));
}

// out = fresh, 0 outside the part; returns the weighted squared distance from the old values.
CWBOOST_KERNEL inline Real replace_all(Size n, const Real* fresh, Real* out) {
  return sum_in_lanes(n, [=](Size i) {
    const Real change = fresh[i] - out[i];
    out[i] = fresh[i];
    return change * change;
  });
}
CWBOOST_KERNEL inline Real replace_masked(Size n, const Real* fresh, Real* out,
                                          const std::uint8_t* mask) {
  return sum_in_lanes(n, [=](Size i) {
    const Real change = keep(fresh[i] - out[i], mask[i]);
    out[i] = keep(fresh[i], mask[i]);
    return change * change;
  });
}
CWBOOST_KERNEL inline Real replace_weighted(Size n, const Real* fresh, Real* out, const Real* w) {
  return sum_in_lanes(n, [=](Size i) {
    const Real change = w[i] > 0.0 ? fresh[i] - out[i] : 0.0;
    out[i] = w[i] > 0.0 ? fresh[i] : 0.0;
    return w[i] * change * change;
  });
}

// Sum of w (value + log factor); rows of weight 0 may have an infinite loss.
CWBOOST_KERNEL inline Real total_loss(Size n, const Real* value, const Real* factor) {
  Real sum = sum_in_lanes(n, [=](Size i) { return value[i]; });
  if (factor) sum += log_product(n, [=](Size i) { return factor[i]; });
  return sum;
}
CWBOOST_KERNEL inline Real masked_loss(Size n, const Real* value, const Real* factor,
                                       const std::uint8_t* mask) {
  Real sum = sum_in_lanes(n, [=](Size i) { return keep(value[i], mask[i]); });
  if (factor) sum += log_product(n, [=](Size i) { return 1.0 + keep(factor[i] - 1.0, mask[i]); });
  return sum;
}
CWBOOST_KERNEL inline Real weighted_loss(Size n, const Real* value, const Real* factor,
                                         const Real* w) {
  Real sum = sum_in_lanes(n, [=](Size i) { return w[i] > 0.0 ? w[i] * value[i] : 0.0; });
  if (factor)
    sum += sum_in_lanes(
        n, [=](Size i) { return w[i] > 0.0 ? w[i] * fast_log_of_one_to_two(factor[i]) : 0.0; });
  return sum;
}

// Sum of w |x - centre|; rows of weight 0 may be infinite or NaN.
CWBOOST_KERNEL inline Real absolute_sum(Size n, const Real* x, Real centre) {
  return sum_in_lanes(n, [=](Size i) { return std::abs(x[i] - centre); });
}
CWBOOST_KERNEL inline Real absolute_sum(Size n, const Real* x, Real centre,
                                        const std::uint8_t* mask) {
  return sum_in_lanes(n, [=](Size i) { return keep(std::abs(x[i] - centre), mask[i]); });
}
CWBOOST_KERNEL inline Real absolute_sum(Size n, const Real* x, Real centre, const Real* w) {
  return sum_in_lanes(n, [=](Size i) { return w[i] > 0.0 ? w[i] * std::abs(x[i] - centre) : 0.0; });
}

CWBOOST_KERNEL inline void weigh(Size n, const Real* w, const Real* x, Real* out) {
  for (Size i = 0; i < n; ++i) out[i] = w[i] == 0.0 ? 0.0 : w[i] * x[i];  // x may be infinite there
}
CWBOOST_KERNEL inline void weigh(Size n, const std::uint8_t* mask, const Real* x, Real* out) {
  for (Size i = 0; i < n; ++i) out[i] = keep(x[i], mask[i]);
}

template <class Value>
void add_values(Size n, Value value, Real* out) {
  for (Size i = 0; i < n; ++i) out[i] += value(i);
}
template <class Value>
void add_values_within(Size n, Value value, const std::uint8_t* mask, Real* out) {
  for (Size i = 0; i < n; ++i) out[i] += keep(value(i), mask[i]);
}
template <class Value>
void add_values_within(Size n, Value value, const Real* w, Real* out) {
  for (Size i = 0; i < n; ++i) out[i] += w[i] > 0.0 ? value(i) : 0.0;
}

}  // namespace cwboost
