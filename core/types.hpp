// Number types and views that every file of the core uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cwboost {

using Real = double;
using Size = std::size_t;
using Vec = std::vector<Real>;
using In = std::span<const Real>;
using Out = std::span<Real>;

// Arrays with several outputs are stored output by output: entry i of output o of an array of
// length n is x[o * n + i]. This holds for scores (n rows), bin sums and bin values (n bins) and
// coefficients (n coefficients).

}  // namespace cwboost
