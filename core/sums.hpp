// Sums over rows by bin: bin sums of one or two numbers per row, and cross-Grams of two bases. Each
// function goes over its rows once and in order, so that results do not depend on threads.
// Does not know about losses, slots or threads. Columns with very many values: see moments.hpp.
#pragma once

#include <array>
#include <variant>

#include "basis.hpp"
#include "kernels.hpp"
#include "types.hpp"
#include "weights.hpp"

namespace cwboost {

// A bin index, as narrow as the number of bins allows.
struct IndexSet {
  std::variant<std::span<const std::uint8_t>, std::span<const std::uint16_t>,
               std::span<const std::uint32_t>>
      index;  // (n)
  Size n_bins;
};

struct RowRange {
  Size begin, end;
};

// --- bin sums -----------------------------------------------------------------------------------

// Rows i, i + 1, .. go to different copies of a bin. Otherwise a column with most of its rows in
// one bin would wait for the previous addition. There are as many copies as the first-level cache
// holds.
constexpr Size copies_of(Size n_bins) { return n_bins <= 512 ? 4 : n_bins <= 65536 ? 2 : 1; }

template <Size copies, Size planes, class Index>
void add_to_bins(Index index, std::array<const Real*, planes> x, RowRange rows, Real* bins) {
  const auto add = [&](Size i, Size copy) {
    Real* const bin = bins + (static_cast<Size>(index[i]) * copies + copy) * planes;
    std::array<Real, planes> sum;  // read all before writing any: one vector addition
    for (Size p = 0; p < planes; ++p) sum[p] = bin[p] + x[p][i];
    for (Size p = 0; p < planes; ++p) bin[p] = sum[p];
  };
  Size i = rows.begin;
  for (; i + copies <= rows.end; i += copies)
    for (Size c = 0; c < copies; ++c) add(i + c, c);
  for (Size c = 0; i < rows.end; ++i, ++c) add(i, c);
}

// sums[p * n_bins + b] += sum of x[p][i] over the rows of bin b; `scratch` is reused between calls.
template <Size planes>
void bin_sums(const IndexSet& set, std::array<const Real*, planes> x, RowRange rows, Real* sums,
              Vec& scratch) {
  const auto with = [&]<Size copies>() {
    scratch.assign(set.n_bins * copies * planes, 0.0);
    std::visit(
        [&](auto index) { add_to_bins<copies, planes>(index.data(), x, rows, scratch.data()); },
        set.index);
    for (Size b = 0; b < set.n_bins; ++b)
      for (Size p = 0; p < planes; ++p) {
        Real sum = 0.0;
        for (Size c = 0; c < copies; ++c) sum += scratch[(b * copies + c) * planes + p];
        sums[p * set.n_bins + b] += sum;
      }
  };
  switch (copies_of(set.n_bins)) {
    case 4:
      return with.template operator()<4>();
    case 2:
      return with.template operator()<2>();
    default:
      return with.template operator()<1>();
  }
}

// --- cross-Grams --------------------------------------------------------------------------------

// table (bins of a, coefficients of b): for each row of the data, add w times its basis row of b.
template <Size width, class A, class B, class W>
CWBOOST_KERNEL void add_narrow_rows(A a, B b, const Basis& basis, W w, Size n, Real* table) {
  const Size d = basis.n_coef();
  const Real* const narrow = basis.narrow();
  const std::uint32_t* const start = basis.starts();
  for (Size i = 0; i < n; ++i) {
    const Size bin = b[i];
    const Real* const from = narrow + bin * width;
    Real* const to = table + static_cast<Size>(a[i]) * d + start[bin];
    std::array<Real, width> sum;
    for (Size p = 0; p < width; ++p) sum[p] = to[p] + static_cast<Real>(w[i]) * from[p];
    for (Size p = 0; p < width; ++p) to[p] = sum[p];
  }
}

template <class A, class B>
void add_rows(A a, B b, const Basis& basis, const Weights& weights, Real* table) {
  const Size n = weights.size, d = basis.n_coef();
  const auto narrow = [&]<Size width>() {
    by_kind(weights, [&](auto w) { add_narrow_rows<width>(a, b, basis, w, n, table); });
  };
  switch (basis.width()) {
    case 1:
      return narrow.template operator()<1>();
    case 2:
      return narrow.template operator()<2>();
    case 4:
      return narrow.template operator()<4>();
    default:
      for (Size i = 0; i < n; ++i)
        for (Size e = basis.first(b[i]); e < basis.first(b[i] + Size{1}); ++e)
          table[static_cast<Size>(a[i]) * d + basis.column(e)] += weights[i] * basis.value(e);
  }
}

// B_a' C B_b, with C the weights of the joint bins of two sets: (coefficients of a, coefficients of
// b). The intermediate table has the bins of one set and the coefficients of the other, whichever
// is smaller.
inline Vec cross_gram(const IndexSet& a, const Basis& basis_a, const IndexSet& b,
                      const Basis& basis_b, const Weights& weights) {
  const Size d_a = basis_a.n_coef(), d_b = basis_b.n_coef();
  Vec out(d_a * d_b, 0.0);
  const bool bins_of_a = a.n_bins * d_b <= b.n_bins * d_a;
  const Basis &over = bins_of_a ? basis_a : basis_b, &rows = bins_of_a ? basis_b : basis_a;
  const Size d = rows.n_coef();
  Vec table(over.n_bins() * d, 0.0);
  std::visit(
      [&](auto i, auto j) {
        if (bins_of_a)
          add_rows(i.data(), j.data(), basis_b, weights, table.data());
        else
          add_rows(j.data(), i.data(), basis_a, weights, table.data());
      },
      a.index, b.index);
  for (Size bin = 0; bin < over.n_bins(); ++bin)
    for (Size e = over.first(bin); e < over.first(bin + 1); ++e) {
      const Real v = over.value(e);
      const Real* const from = table.data() + bin * d;
      const Size k = over.column(e);
      if (bins_of_a)
        for (Size j = 0; j < d; ++j) out[k * d_b + j] += v * from[j];
      else
        for (Size j = 0; j < d; ++j) out[j * d_b + k] += v * from[j];
    }
  return out;
}

}  // namespace cwboost
