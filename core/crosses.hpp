// A cache of cross-Grams for fits with the same weights and bins: cross-Grams do not depend on
// smoothing, so such fits share them. Keys are addresses of arrays, which must outlive the cache.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "types.hpp"

namespace cwboost {

class Crosses {
 public:
  static constexpr Size max_entries = Size{1} << 25;  // numbers stored: 256 MB

  using Key =
      std::array<const void*, 7>;  // weights, two bin indices, and values and columns of two bases

  std::optional<Vec> find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto at = made_.find(key);
    return at == made_.end() ? std::nullopt : std::optional(at->second);
  }

  void store(const Key& key, const Vec& gram) {
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
