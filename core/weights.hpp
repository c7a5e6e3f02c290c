// Weights of rows: a training part, a fold or a bag is a weight vector over the same rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "types.hpp"

namespace cwboost {

// A weight vector over the rows. Most are all one, or zero and one: multiplying by them costs
// nothing, and a byte per row is enough to store them.
struct Weights {
  enum class Kind { ones, mask, numbers };
  Size size;
  In numbers = {};                          // (n), if given as numbers
  std::span<const std::uint8_t> mask = {};  // (n), if all are zero or one
  Real total = 0.0;
  Kind kind = Kind::ones;

  explicit Weights(In values) : size(values.size()), numbers(values) {
    for (const Real w : values) {
      total += w;
      if (w != 1.0 && kind != Kind::numbers) kind = w == 0.0 ? Kind::mask : Kind::numbers;
    }
    if (kind != Kind::mask) return;
    own_.assign(values.begin(), values.end());
    mask = own_;
  }
  explicit Weights(std::span<const std::uint8_t> marks) : size(marks.size()), mask(marks) {
    Size n = 0;
    for (const std::uint8_t mark : marks) n += mark;
    total = static_cast<Real>(n);
    kind = n == size ? Kind::ones : Kind::mask;
  }
  Weights(Weights&&) = default;  // own_ keeps its address, so `mask` stays valid
  Weights& operator=(Weights&&) = default;

  Real operator[](Size i) const {
    return kind == Kind::ones ? 1.0 : kind == Kind::mask ? static_cast<Real>(mask[i]) : numbers[i];
  }
  const void* address() const {  // identifies the weights; null: all are one
    if (kind == Kind::ones) return nullptr;
    return numbers.empty() ? static_cast<const void*>(mask.data()) : numbers.data();
  }

 private:
  std::vector<std::uint8_t> own_;
};

struct Ones {
  Real operator[](Size) const { return 1.0; }
};

// Calls use(w), where w[i] is the weight of row i in the type of its kind.
template <class Use>
void by_kind(const Weights& weights, Use use) {
  if (weights.kind == Weights::Kind::ones)
    use(Ones{});
  else if (weights.kind == Weights::Kind::mask)
    use(weights.mask.data());
  else
    use(weights.numbers.data());
}

}  // namespace cwboost
