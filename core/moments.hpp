// Moments instead of bins, for columns with very many values. The range of the column is cut into
// pieces; a row has the number of its piece and its position t within it. A piece has four "bins":
// the sums of x, xt, xt^2 and xt^3 over its rows. A function that is cubic on every piece has a
// basis with four rows per piece, so learners treat moments like any other bins.
// Does not know about losses, slots or threads, nor where the pieces end.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <variant>

#include "basis.hpp"
#include "kernels.hpp"
#include "sums.hpp"
#include "types.hpp"

namespace cwboost {

constexpr Size n_powers = 4;

struct MomentSet {
  std::span<const std::uint16_t> piece;  // (n)
  In t;                                  // (n), from -1 to 1
  Size n_bins;                           // 4 per piece: bin 4 p + q stands for t^q on piece p
};

using RowSet = std::variant<IndexSet, MomentSet>;

inline Size bins_of(const RowSet& set) {
  return std::visit([](const auto& s) { return s.n_bins; }, set);
}

// n zeros, aligned to a cache line so that no aligned group of four crosses two lines.
inline Real* zeros(Vec& room, Size n) {
  constexpr Size line = 64 / sizeof(Real);
  room.assign(n + line, 0.0);
  const Size begun = reinterpret_cast<std::uintptr_t>(room.data()) / sizeof(Real) % line;
  return room.data() + (line - begun) % line;
}

// --- sums ---------------------------------------------------------------------------------------

// Four rows at a time: computes their products with the powers as vectors, then adds each row to
// its own copy of the piece.
CWBOOST_KERNEL inline void add_to_pieces(const MomentSet& set, const Real* x, RowRange rows,
                                         Real* sums) {
  constexpr Size copies = 4;
  const std::uint16_t* const piece = set.piece.data();
  const Real* const t = set.t.data();
  Real m[n_powers][copies];
  const auto multiply = [&](Size i, Size n) {
    for (Size c = 0; c < n; ++c) m[0][c] = x[i + c];
    for (Size q = 1; q < n_powers; ++q)
      for (Size c = 0; c < n; ++c) m[q][c] = m[q - 1][c] * t[i + c];
  };
  const auto add = [&](Size i, Size copy) {
    Real* const to = sums + (piece[i] * copies + copy) * n_powers;
    Real sum[n_powers];  // read all before writing any: one vector addition
    for (Size q = 0; q < n_powers; ++q) sum[q] = to[q] + m[q][copy];
    for (Size q = 0; q < n_powers; ++q) to[q] = sum[q];
  };
  Size i = rows.begin;
  for (; i + copies <= rows.end; i += copies) {
    multiply(i, copies);
    for (Size c = 0; c < copies; ++c) add(i + c, c);
  }
  multiply(i, rows.end - i);
  for (Size c = 0; i + c < rows.end; ++c) add(i + c, c);
}

// sums[p * n_bins + b] += the moments of x[p]; `scratch` is reused between calls.
template <Size planes>
void bin_sums(const MomentSet& set, std::array<const Real*, planes> x, RowRange rows, Real* sums,
              Vec& scratch) {
  for (Size p = 0; p < planes; ++p) {
    Real* const by_piece = zeros(scratch, 4 * set.n_bins);
    add_to_pieces(set, x[p], rows, by_piece);
    for (Size b = 0; b < set.n_bins; ++b) {
      const Real* const from = by_piece + b / n_powers * 4 * n_powers + b % n_powers;
      sums[p * set.n_bins + b] +=
          (from[0] + from[n_powers]) + (from[2 * n_powers] + from[3 * n_powers]);
    }
  }
}

// --- values -------------------------------------------------------------------------------------

// The value of a row, given a value per bin.
template <class Index>
struct BinValues {
  const Index* index;
  const Real* values;
  CWBOOST_INLINE Real operator()(Size i) const { return values[index[i]]; }
};
struct Cubics {
  const std::uint16_t* piece;
  const Real* t;
  const Real* values;
  CWBOOST_INLINE Real operator()(Size i) const {
    const Real* const c = values + n_powers * piece[i];
    return (c[0] + t[i] * c[1]) + (t[i] * t[i]) * (c[2] + t[i] * c[3]);
  }
};

// Calls `then` with a function that gives the values of rows first, first + 1, ...
template <class Then>
void with_values(const IndexSet& set, const Real* values, Size first, Then then) {
  std::visit([&](auto index) { then(BinValues{index.data() + first, values}); }, set.index);
}
template <class Then>
void with_values(const MomentSet& set, const Real* values, Size first, Then then) {
  then(Cubics{&set.piece[first], &set.t[first], values});
}

// --- cross-Grams --------------------------------------------------------------------------------

// table (coefficients of a, moments of b): for each row of the data, adds w times the product of
// its basis row of a and its powers of b.
template <class A, class W>
CWBOOST_KERNEL void add_powers(const A* a, const Basis& basis, const MomentSet& b, W w,
                               Real* table) {
  const Size n = b.t.size(), n_moments = b.n_bins;
  const auto* const piece = b.piece.data();
  const Real* const t_b = b.t.data();
  for (Size i = 0; i < n; ++i) {
    const Real t = t_b[i], x = static_cast<Real>(w[i]), xt = x * t;
    const Four powers{x, xt, xt * t, xt * t * t};
    Real* const to = table + n_powers * piece[i];
    for (Size e = basis.first(a[i]); e < basis.first(a[i] + Size{1}); ++e) {
      Four product = powers;
      multiply(product, basis.value(e));
      add_to(to + basis.column(e) * n_moments, product);
    }
  }
}

inline Vec half_gram(const IndexSet& a, const Basis& basis_a, const MomentSet& b,
                     const Weights& weights) {
  Vec table(basis_a.n_coef() * b.n_bins, 0.0);
  std::visit(
      [&](auto index) {
        by_kind(weights, [&](auto w) { add_powers(index.data(), basis_a, b, w, table.data()); });
      },
      a.index);
  return table;
}

// table (pieces of a, pieces of b, copies, powers of a, powers of b): for each row of the data,
// adds w times the product of its powers of a and b. Rows go to the copies in turn; the number of
// copies is a power of two.
template <class W>
CWBOOST_KERNEL void add_products(const MomentSet& a, const MomentSet& b, W w, Size copies,
                                 Real* table) {
  const Size n = b.t.size(), n_pieces = b.n_bins / n_powers;
  const auto *const piece_a = a.piece.data(), *const piece_b = b.piece.data();
  const Real *const t_a = a.t.data(), *const t_b = b.t.data();
  for (Size i = 0; i < n; ++i) {
    const Size cell = (piece_a[i] * n_pieces + piece_b[i]) * copies + (i & (copies - 1));
    Real* const to = table + cell * n_powers * n_powers;
    const Real s = t_a[i], t = t_b[i];
    Four products{1.0, t, t * t, t * t * t};
    multiply(products, static_cast<Real>(w[i]));
    for (Size q = 0; q < n_powers; ++q) {
      add_to(to + q * n_powers, products);
      multiply(products, s);
    }
  }
}

inline Vec half_gram(const MomentSet& a, const Basis& basis_a, const MomentSet& b,
                     const Weights& weights) {
  const Size n_a = a.n_bins / n_powers, n_b = b.n_bins / n_powers;
  const Size copies =
      n_a * n_b <= 64 ? 4 : 1;  // with few cells an addition would wait for the previous one
  constexpr Size size = n_powers * n_powers;
  Vec room;
  Real* const table = zeros(room, n_a * n_b * copies * size);
  by_kind(weights, [&](auto w) { add_products(a, b, w, copies, table); });
  Vec out(basis_a.n_coef() * b.n_bins, 0.0);
  for (Size m = 0; m < a.n_bins; ++m)
    for (Size e = basis_a.first(m); e < basis_a.first(m + 1); ++e) {
      Real* const to = out.data() + basis_a.column(e) * b.n_bins;
      const Real* const from =
          table + (m / n_powers * n_b * copies * n_powers + m % n_powers) * n_powers;
      const Real value = basis_a.value(e);
      for (Size cell = 0; cell < n_b * copies; ++cell) {
        Four product;
        std::memcpy(&product, from + cell * size, sizeof product);
        multiply(product, value);
        add_to(to + cell / copies * n_powers, product);
      }
    }
  return out;
}

// B_a' C B_b where b has moments. B_a' C is computed first because it is small.
template <class SetA>
Vec cross_gram(const SetA& a, const Basis& basis_a, const MomentSet& b, const Basis& basis_b,
               const Weights& weights) {
  const Size d_a = basis_a.n_coef(), d_b = basis_b.n_coef();
  const Vec half = half_gram(a, basis_a, b, weights);  // (coefficients of a, moments of b)
  Vec out(d_a * d_b, 0.0);
  for (Size j = 0; j < d_a; ++j)
    basis_b.transpose_multiply(In(half).subspan(j * b.n_bins, b.n_bins),
                               Out(out).subspan(j * d_b, d_b));
  return out;
}

inline Vec cross_gram(const MomentSet& a, const Basis& basis_a, const IndexSet& b,
                      const Basis& basis_b, const Weights& weights) {
  const Size d_a = basis_a.n_coef(), d_b = basis_b.n_coef();
  const Vec turned = cross_gram(b, basis_b, a, basis_a, weights);
  Vec out(d_a * d_b);
  for (Size i = 0; i < d_a; ++i)
    for (Size j = 0; j < d_b; ++j) out[i * d_b + j] = turned[j * d_a + i];
  return out;
}

}  // namespace cwboost
