// A pool of threads that runs numbered tasks. No other file starts threads.
//
// Results never depend on the number of threads: callers split the work by the size of the problem
// alone and combine the results in the order of the task numbers.
//
// The calling thread takes tasks too. A round ends when its tasks are done, so a thread that the
// system schedules late, as happens on a busy machine, finds no task and delays no round.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "types.hpp"

namespace cwboost {

class Workers {
 public:
  // Threads are started when a round first has tasks for them. If the system refuses one, the
  // work is done by those that could be started.
  explicit Workers(Size n_threads) : n_threads_(n_threads) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  // Runs task(0) .. task(n_tasks - 1), each once, in any order; returns when all have ended. `poll`
  // runs on the calling thread between its tasks and may throw to cancel the rest. The first
  // exception of a task or of `poll` is rethrown after every running task has ended.
  void run(Size n_tasks, const std::function<void(Size)>& task,
           const std::function<void()>& poll = {}) {
    const Size n_useful = std::min(n_threads_, n_tasks);
    if (n_tasks <= max_tasks) start(n_useful);
    if (n_useful < 2 || threads_.empty() || n_tasks > max_tasks) {
      for (Size i = 0; i < n_tasks; ++i) {
        if (poll) poll();
        task(i);
      }
      return;
    }
    task_ = &task;
    error_ = nullptr;
    n_done_ = 0;
    tasks_ = counts(n_tasks, 0);
    {
      const std::lock_guard lock(mutex_);
      ++round_;
    }
    if (n_useful > threads_.size())
      wake_.notify_all();
    else
      for (Size i = 1; i < n_useful; ++i) wake_.notify_one();
    work(poll);
    const auto ended = [&] { return n_done_ == n_tasks; };
    if (!linger(ended)) {
      std::unique_lock lock(mutex_);
      end_.wait(lock, ended);
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static constexpr Size max_tasks = std::numeric_limits<std::uint32_t>::max();

  static std::uint64_t counts(std::uint64_t n_tasks, std::uint64_t next) {
    return n_tasks << 32U | next;
  }

  void start(Size n_threads) {
    while (threads_.size() + 1 < n_threads) {
      try {
        threads_.emplace_back([this] { serve(); });
      } catch (const std::exception&) {    // no memory for its stack, or too many threads
        n_threads_ = threads_.size() + 1;  // do not ask again
        return;
      }
    }
  }

  void serve() {
    Size seen = 0;
    const auto called = [&] { return closing_ || round_ != seen; };
    for (;;) {
      if (!linger(called)) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, called);
      }
      if (closing_) return;
      seen = round_;
      work({});
    }
  }

  // Waits briefly without giving up the processor: the next round often follows within
  // microseconds, sooner than a thread can sleep and wake up. Returns whether it happened.
  template <class Done>
  static bool linger(const Done& done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    while (!done())
      if (std::chrono::steady_clock::now() > until) return false;
    return true;
  }

  // Takes tasks until there are none. A task that is taken keeps its round open, so `task_` and
  // the counts belong to it; a thread that comes late only finds that no task is left.
  void work(const std::function<void()>& poll) {
    for (;;) {
      const std::uint64_t taken = tasks_++;
      const Size i = taken & max_tasks, n_tasks = taken >> 32U;
      if (i >= n_tasks) return;
      Size n_ended = 1;
      try {
        if (poll) poll();
        (*task_)(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        const auto left = tasks_.exchange(counts(n_tasks, n_tasks));  // nobody takes another task
        n_ended += n_tasks - std::min<Size>(left & max_tasks, n_tasks);
      }
      if (n_done_.fetch_add(n_ended) + n_ended == n_tasks) {
        {
          const std::lock_guard lock(mutex_);
        }  // the caller either sleeps by now or will look
        end_.notify_one();
      }
    }
  }

  Size n_threads_;  // with the calling one
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, end_;
  std::atomic<Size> round_ = 0;
  std::atomic<bool> closing_ = false;
  const std::function<void(Size)>* task_ = nullptr;
  std::atomic<std::uint64_t> tasks_ = 0;  // of this round: number (upper half), next (lower half)
  std::atomic<Size> n_done_ = 0;
  std::exception_ptr error_;
};

}  // namespace cwboost
