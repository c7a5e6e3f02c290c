// Cross-Grams that fits with the same weights on the same bins share: whatever their smoothing,
// these are the same. Knows no rows; it lives no longer than the arrays that its keys point to.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "types.hpp"

namespace cwboost {

class Crosses {
 public:
  static constexpr Size max_entries = Size{1} << 25;  // numbers kept: 256 MB

  using Key = std::array<const void*, 7>;  // weights, bins of one and the other, their bases

  std::optional<Vec> find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto at = made_.find(key);
    return at == made_.end() ? std::nullopt : std::optional(at->second);
  }

  void keep(const Key& key, const Vec& gram) {
    const std::lock_guard lock(mutex_);
    if (entries_ + gram.size() > max_entries) return;
    if (made_.emplace(key, gram).second) entries_ += gram.size();
  }

  Size size() const {
    const std::lock_guard lock(mutex_);
    return made_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Vec> made_;
  Size entries_ = 0;
};

}  // namespace cwboost
