// Number types and views, decided once for the whole core. Knows nothing else.
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

// Blocks of several outputs are planes: entry i of output o of a block of length n is x[o * n + i].
// This holds for scores (n rows), bin sums and bin values (n bins) and coefficients (n coef).

}  // namespace cwboost
