// Arithmetic for loops over rows: exp and log that compilers vectorise, sums in a fixed number of
// lanes, and the macro that compiles a function for several instruction sets.
//
// Every variant of a function does the same operations in the same order; sums use `lanes` lanes
// whatever the width of the registers. Results still differ between machines in the last digits:
// those with a fused multiply-add use it here (exp then takes two thirds of the time).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "types.hpp"

// CWBOOST_KERNEL compiles a function for the baseline, AVX2 and AVX-512; the variant is selected
// when the module is loaded. CWBOOST_WIDE does so without the fused multiply-add, for results that
// must not depend on the machine (bins). Only the baseline is compiled under a sanitizer, whose
// runtime is not ready when variants are selected, and on systems that cannot select variants.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CWBOOST_CLONES(...) __attribute__((target_clones(__VA_ARGS__, "default")))
#else
#define CWBOOST_CLONES(...)
#endif
#define CWBOOST_KERNEL CWBOOST_CLONES("arch=x86-64-v4", "arch=x86-64-v3")
#define CWBOOST_WIDE CWBOOST_CLONES("avx2")
#if defined(__GNUC__)
#define CWBOOST_INLINE inline __attribute__((always_inline))
#else
#define CWBOOST_INLINE inline
#endif

namespace cwboost {

constexpr Size lanes = 8;

// exp(x) = 2^k exp(r) with x = k log 2 + r and a polynomial in r (Chebyshev, error 1.3e-17):
// accurate to about one unit in the last place.
struct Exponential {
  static constexpr Real log2e = 1.4426950408889634074;
  static constexpr Real high = 6.93145751953125e-1, low = 1.42860682030941723212e-6;  // of log 2
  static constexpr Real shift = 0x1.8p52;  // adding it rounds to an integer, found in the last bits
  Real k, of_r;

  CWBOOST_INLINE explicit Exponential(Real x) {
    k = (x * log2e + shift) - shift;
    const Real r = (x - k * high) - k * low;
    Real p = 2.510038549551031907762e-8;
    p = p * r + 2.762008844540974816102e-7;
    p = p * r + 2.755726845999706477171e-6;
    p = p * r + 2.480152129595437513121e-5;
    p = p * r + 1.984126986305361687787e-4;
    p = p * r + 1.388888891721371690144e-3;
    p = p * r + 8.333333333330061832518e-3;
    p = p * r + 4.1666666666624127873e-2;
    p = p * r + 1.666666666666666745273e-1;
    p = p * r + 0.5;
    of_r = p * (r * r) + r + 1.0;
  }
  static CWBOOST_INLINE Real power_of_two(Real e) {  // -1022 <= e <= 1023
    return std::bit_cast<Real>((std::bit_cast<std::uint64_t>(e + shift) + 1023) << 52);
  }
};

// Returns 0 or infinity where the result leaves the range, and NaN for NaN.
CWBOOST_INLINE Real fast_exp(Real x) {
  Real c = x > 709.79 ? 709.79 : x;
  c = c < -745.2 ? -745.2 : c;
  const Exponential e(c);
  const Real half = (e.k * 0.5 + Exponential::shift) - Exponential::shift;
  const Real y = e.of_r * Exponential::power_of_two(half) * Exponential::power_of_two(e.k - half);
  return x > 709.782712893384 ? std::numeric_limits<Real>::infinity() : y;
}

// Faster, for x <= 0 only; never returns less than exp(-708) = 3e-308.
CWBOOST_INLINE Real fast_exp_of_negative(Real x) {
  const Exponential e(x < -708.0 ? -708.0 : x);
  return e.of_r * Exponential::power_of_two(e.k);
}

// log of a number in [1, 2] as 2 atanh((t - 1) / (t + 1)), with an error of 2e-16.
CWBOOST_INLINE Real fast_log_of_one_to_two(Real t) {
  const Real s = (t - 1.0) / (t + 1.0), u = s * s;
  Real p = 8.08246908473566931061e-2;
  p = p * u + 4.400158825434386734426e-2;
  p = p * u + 6.000577591428889346159e-2;
  p = p * u + 6.657067775440581431351e-2;
  p = p * u + 7.692785296456121801742e-2;
  p = p * u + 9.090894708663223945393e-2;
  p = p * u + 1.111111135890089084573e-1;
  p = p * u + 1.428571428355253046381e-1;
  p = p * u + 2.000000000000729830706e-1;
  p = p * u + 3.333333333333332927623e-1;
  return 2.0 * s * (1.0 + u * p);
}

// Sum of value(0) .. value(n - 1): per lane first, then over the lanes.
template <class Value>
CWBOOST_INLINE Real sum_in_lanes(Size n, Value value) {
  Real lane[lanes] = {};
  Size i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Size l = 0; l < lanes; ++l) lane[l] += value(i + l);
  for (Size l = 0; i + l < n; ++l) lane[l] += value(i + l);
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

// log of the product of value(0) .. value(n - 1). They lie in [1, 2] and there are at most 8,000,
// so the product cannot overflow. As accurate as the sum of logs, at one multiplication each.
template <class Value>
CWBOOST_INLINE Real log_product(Size n, Value value) {
  Real lane[lanes] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
  Size i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Size l = 0; l < lanes; ++l) lane[l] *= value(i + l);
  for (Size l = 0; i + l < n; ++l) lane[l] *= value(i + l);
  Real sum = 0.0;
  for (const Real product : lane) sum += std::log(product);
  return sum;
}

// Four numbers in one vector register; compilers do not vectorise short loops over four numbers by
// themselves. Passed by reference, because the calling convention depends on the instruction set.
#if defined(__GNUC__)
using Four = Real __attribute__((vector_size(4 * sizeof(Real))));
CWBOOST_INLINE void multiply(Four& x, Real f) { x *= f; }
CWBOOST_INLINE void add(Four& x, const Four& y) { x += y; }
#else
struct Four {
  Real at[4];
};
inline void multiply(Four& x, Real f) {
  for (Real& number : x.at) number *= f;
}
inline void add(Four& x, const Four& y) {
  for (Size i = 0; i < 4; ++i) x.at[i] += y.at[i];
}
#endif

CWBOOST_INLINE void add_to(Real* to, const Four& x) {
  Four sum;
  std::memcpy(&sum, to, sizeof sum);
  add(sum, x);
  std::memcpy(to, &sum, sizeof sum);
}

}  // namespace cwboost
