// A pool of threads that runs numbered tasks. No other file starts threads.
//
// Results never depend on the number of threads: callers split the work by the size of the problem
// alone and combine the results in the order of the task numbers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "types.hpp"

namespace cwboost {

class Workers {
 public:
  explicit Workers(Size n_threads) {
    for (Size i = 1; i < n_threads; ++i) threads_.emplace_back([this] { serve(); });
  }
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
    if (threads_.empty() || n_tasks < 2) {
      for (Size i = 0; i < n_tasks; ++i) {
        if (poll) poll();
        task(i);
      }
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      n_tasks_ = n_tasks;
      next_ = 0;
      error_ = nullptr;
      busy_ = threads_.size();
      ++round_;
    }
    wake_.notify_all();
    work(poll);
    linger([this] { return busy_ == 0; });
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void serve() {
    Size seen = 0;
    for (;;) {
      linger([&] { return closing_ || round_ != seen; });
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return closing_ || round_ != seen; });
      if (closing_) return;
      seen = round_;
      lock.unlock();
      work({});
      lock.lock();
      if (--busy_ == 0) idle_.notify_one();
    }
  }

  // Spins briefly: the next round often follows within microseconds, faster than sleep and wake-up.
  template <class Done>
  static void linger(Done done) {
    for (int i = 0; i < 200 && !done(); ++i) std::this_thread::yield();
  }

  void work(const std::function<void()>& poll) {
    try {
      for (Size i = next_++; i < n_tasks_; i = next_++) {
        if (poll) poll();
        (*task_)(i);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = n_tasks_;  // no thread starts another task
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  const std::function<void(Size)>* task_ = nullptr;
  std::atomic<Size> next_ = 0;
  Size n_tasks_ = 0;
  std::atomic<Size> busy_ = 0;
  std::atomic<Size> round_ = 0;
  std::atomic<bool> closing_ = false;
  std::exception_ptr error_;
};

}  // namespace cwboost
