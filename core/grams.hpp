// Cross-Grams G_jk = B_j' C_jk B_k of pairs of learners, with C_jk the weights of their joint bins:
// by how much the sums of learner j change when learner k is added. They are computed when needed
// (verb Cross) and dropped when they take too much memory.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "point.hpp"
#include "types.hpp"

namespace cwboost {

class Grams {
 public:
  static constexpr Size max_entries = Size{1} << 26;  // numbers stored at a time: 512 MB

  // `fitted`: the learners' own Grams belong to this part.
  Grams(Rows& rows, const Learners& learners, Part part, bool fitted)
      : rows_(&rows), learners_(&learners), part_(part), fitted_(fitted) {}

  using Pair = std::pair<Size, Size>;

  bool has(Size j, Size k) const { return (j == k && fitted_) || made_.contains(key(j, k)); }

  // Computes the missing ones; returns the number of passes over the rows.
  Size make(const std::vector<Pair>& pairs) {
    std::vector<Pair> todo;
    Cross cross{{}, part_};
    Size entries = 0;
    for (const auto& [a, b] : pairs) {
      const auto [j, k] = std::minmax(a, b);
      if (has(j, k)) continue;
      const Learner &x = *(*learners_)[j], &y = *(*learners_)[k];
      made_[key(j, k)];  // a pair may be listed twice
      todo.emplace_back(j, k);
      entries += x.n_coef() * y.n_coef();
      cross.pairs.push_back({x.set(), y.set(), &x.basis(), &y.basis()});
    }
    if (todo.empty()) return 0;
    auto reply = rows_->run(batch_of(std::move(cross))).at(0);
    if (reply.sums.size() != todo.size())
      throw std::invalid_argument("the rows replied with a wrong number of cross-Grams");
    for (Size i = 0; i < todo.size(); ++i)
      made_[key(todo[i].first, todo[i].second)] = std::move(reply.sums[i]);
    entries_ += entries;
    return todo.size();
  }

  bool too_many() const { return entries_ > max_entries; }
  void drop() {
    made_.clear();
    entries_ = 0;
  }

  // out += factor G_jk theta, per output; returns whether the cross-Gram is there.
  bool add_product(Size j, Size k, In theta, Real factor, Out out) const {
    const Size d_j = (*learners_)[j]->n_coef(), d_k = (*learners_)[k]->n_coef();
    const bool own = j == k && fitted_;
    const auto found = own ? made_.end() : made_.find(key(j, k));
    if (!own && found == made_.end()) return false;
    for (Size o = 0; o * d_k < theta.size(); ++o) {
      const In x = theta.subspan(o * d_k, d_k);
      const Out to = out.subspan(o * d_j, d_j);
      if (own) {
        Vec product(d_j);
        (*learners_)[j]->multiply_gram(x, product);
        for (Size i = 0; i < d_j; ++i) to[i] += factor * product[i];
      } else if (j <= k) {  // stored as (d_j, d_k)
        add_rows_times(found->second, x, factor, to);
      } else {  // as (d_k, d_j)
        for (Size l = 0; l < d_k; ++l) {
          const Real f = factor * x[l];
          for (Size i = 0; i < d_j; ++i) to[i] += f * found->second[l * d_j + i];
        }
      }
    }
    return true;
  }

  // theta' G_kk theta, summed over outputs
  Real square_norm(Size k, In theta) const {
    const Learner& learner = *(*learners_)[k];
    const Size d = learner.n_coef();
    Real sum = 0.0;
    if (fitted_) {
      for (Size o = 0; o < theta.size(); o += d) sum += learner.quadratic(theta.subspan(o, d));
      return sum;
    }
    Vec product(theta.size());
    add_product(k, k, theta, 1.0, product);
    for (Size i = 0; i < theta.size(); ++i) sum += theta[i] * product[i];
    return sum;
  }

 private:
  // out += factor M x, M stored by rows. The additions of one row wait for each other, so four rows
  // are summed at a time.
  static void add_rows_times(In matrix, In x, Real factor, Out out) {
    const Size d = x.size();
    Size i = 0;
    for (; i + 4 <= out.size(); i += 4) {
      const Real* const row = matrix.data() + i * d;
      Real a = 0.0, b = 0.0, c = 0.0, e = 0.0;
      for (Size l = 0; l < d; ++l) {
        a += row[l] * x[l];
        b += row[d + l] * x[l];
        c += row[2 * d + l] * x[l];
        e += row[3 * d + l] * x[l];
      }
      out[i] += factor * a;
      out[i + 1] += factor * b;
      out[i + 2] += factor * c;
      out[i + 3] += factor * e;
    }
    for (; i < out.size(); ++i) {
      Real sum = 0.0;
      for (Size l = 0; l < d; ++l) sum += matrix[i * d + l] * x[l];
      out[i] += factor * sum;
    }
  }

  Size key(Size j, Size k) const { return std::min(j, k) * learners_->size() + std::max(j, k); }

  Rows* rows_;
  const Learners* learners_;
  Part part_;
  bool fitted_;
  std::unordered_map<Size, Vec> made_;
  Size entries_ = 0;
};

// The Gram matrix of all bases side by side: (D, D), D the total number of coefficients.
inline Vec whole_gram(Rows& rows, const Learners& learners, Part part) {
  std::vector<Size> begin{0};
  Cross cross{{}, part};
  for (Size j = 0; j < learners.size(); ++j) {
    const Learner& x = *learners[j];
    begin.push_back(begin.back() + x.n_coef());
    for (Size k = 0; k <= j; ++k) {
      const Learner& y = *learners[k];
      cross.pairs.push_back({x.set(), y.set(), &x.basis(), &y.basis()});
    }
  }
  const auto blocks = rows.run(batch_of(std::move(cross))).at(0).sums;
  const Size n = begin.back();
  Vec gram(n * n);
  auto block = blocks.begin();
  for (Size j = 0; j < learners.size(); ++j)
    for (Size k = 0; k <= j; ++k, ++block) {
      auto value = block->begin();
      for (Size a = begin[j]; a < begin[j + 1]; ++a)
        for (Size b = begin[k]; b < begin[k + 1]; ++b) gram[a * n + b] = gram[b * n + a] = *value++;
    }
  return gram;
}

}  // namespace cwboost
