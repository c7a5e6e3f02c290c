// Shared by the bind_*.cpp files: array types, conversion to NumPy, the interpreter lock, and
// Python's signals.
// Arrays come in contiguous and of fixed dtype; others are refused, not converted. The object that
// views an array keeps it alive.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#if defined(__GLIBCXX__) && defined(__linux__)
#include <cxxabi.h>
#include <unistd.h>
#endif

#include "basis.hpp"
#include "types.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace cwboost {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Reals = Array<Real>;
using Block = nb::ndarray<const Real, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class A>
auto view(const A& array) {
  return std::span(array.data(), array.size());
}

template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T> values, std::vector<Size> shape) {
  auto* const owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner);
}

template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T> values) {
  const Size n = values.size();
  return to_numpy(std::move(values), {n});
}

// Calls a function that may ask for the interpreter lock. While the interpreter ends, Python before
// version 3.14 ends such a thread by pthread_exit, which unwinds the stack, also through code that
// must not throw. The thread then waits here until the process ends, as in later versions.
template <class Call>
auto wait_at_exit(const Call& call) {
#if defined(__GLIBCXX__) && defined(__linux__)
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  return call();
#endif
}

class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    wait_at_exit([this] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

class GilAcquire {
 public:
  GilAcquire() : state_(wait_at_exit([] { return PyGILState_Ensure(); })) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

// Lets Python handle signals, at most twenty times a second.
class Signals {
 public:
  void operator()() {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    const GilAcquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  Clock::time_point last_ = Clock::now();
};

// Identifies a basis to rows elsewhere, which cannot be sent a pointer.
inline std::uintptr_t key_of(const Basis& basis) {
  return reinterpret_cast<std::uintptr_t>(&basis);
}

}  // namespace cwboost
