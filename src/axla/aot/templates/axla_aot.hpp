#ifndef AXLA_AOT_HPP_1
#define AXLA_AOT_HPP_1

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#if defined(__GLIBCXX__) && !defined(_GLIBCXX_HAS_GTHREADS) && !defined(AXLA_NO_THREADS)
#define AXLA_NO_THREADS
#endif
#ifndef AXLA_NO_THREADS
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>
#endif

/* Accessors check their indices where AXLA_BOUNDS_CHECKS is defined: the same in all files of a program. */
#ifdef AXLA_BOUNDS_CHECKS
#define AXLA_CHECK_INDEX(array, dimension, index, bound) \
  ::axla::internal::check_index(array, dimension, index, bound)
#else
#define AXLA_CHECK_INDEX(array, dimension, index, bound) ((void)0)
#endif

namespace axla {

typedef axla_f16 half;
typedef axla_bf16 bfloat16;

/* An argument, a variable or a result. */
struct ShapeInfo {
  const int64_t *dimensions;
  int32_t num_dimensions;
  const char *dtype; /* f32, s8, ... */
  const char *name;
  size_t size;  /* bytes */
  size_t count; /* elements */
  size_t leaf;  /* its place in the C structs */
};

/* What is known of a compiled function before it runs. */
struct FunctionData {
  const char *name;
  int32_t (*run)(axla_frame *frame);
  const char *(*error)(int32_t code);
  const ShapeInfo *args; /* arguments, then variables */
  const ShapeInfo *results;
  size_t num_args, num_variables, num_results;
  size_t workspace_size, alignment;
  bool takes_weights;
};

/* The number of arguments, variables and results of a class. */
template <size_t kArgs, size_t kVariables, size_t kResults>
struct Counts {
  static constexpr size_t kNumArgs = kArgs;
  static constexpr size_t kNumVariables = kVariables;
  static constexpr size_t kNumResults = kResults;
};
#if __cplusplus < 201703L
template <size_t A, size_t V, size_t R> constexpr size_t Counts<A, V, R>::kNumArgs;
template <size_t A, size_t V, size_t R> constexpr size_t Counts<A, V, R>::kNumVariables;
template <size_t A, size_t V, size_t R> constexpr size_t Counts<A, V, R>::kNumResults;
#endif

namespace internal {

/* Ends the process, with a message, for an index that is not in its array. */
inline void check_index(const char *array, int dimension, size_t index, size_t bound) {
  if (index < bound) return;
  const unsigned long at = index & ~0ul, size = bound & ~0ul;
  std::fprintf(stderr, "%s: index %lu of dimension %d is not below %lu\n", array, at, dimension, size);
  std::abort();
}

/* A parallel loop of a compiled function: ranges that run in any order. */
class Loop {
 public:
  Loop(axla_frame *frame, axla_kernel *kernel, void *args, int64_t count, int64_t grain)
      : frame_(frame), kernel_(kernel), args_(args), count_(count), grain_(grain) {}

  int64_t ranges() const { return count_ / grain_ + (count_ % grain_ != 0); }

  int32_t run(int64_t range) const {
    if (frame_->cancel && *frame_->cancel) return AXLA_CANCELLED;
    const int64_t begin = range * grain_, rest = count_ - begin;
    return kernel_(frame_, args_, begin, begin + (rest < grain_ ? rest : grain_));
  }

 private:
  axla_frame *frame_;
  axla_kernel *kernel_;
  void *args_;
  int64_t count_, grain_;
};

/* Of alternatives that fit, the one with the highest rank is taken. */
template <int N> struct Rank : Rank<N - 1> {};
template <> struct Rank<0> {};

}  // namespace internal

#ifdef AXLA_NO_THREADS
namespace internal {

/* The code of the lowest range that failed. */
template <class Pool>
int32_t run_loop(Pool *pool, const Loop &loop) {
  int64_t lowest = loop.ranges();
  int32_t code = AXLA_OK;
  pool->parallel_for(loop.ranges(), [&](int64_t range) {
    const int32_t found = loop.run(range);
    if (found != AXLA_OK && range < lowest) {
      lowest = range;
      code = found;
    }
  });
  return code;
}

}  // namespace internal
#else
namespace internal {

/* How a loop ended: the code of the lowest range that failed. */
class Outcome {
 public:
  explicit Outcome(const Loop &loop) : loop_(loop), lowest_(loop.ranges()), code_(AXLA_OK) {}

  void operator()(int64_t range) {
    const int32_t found = loop_.run(range);
    if (found == AXLA_OK) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (range >= lowest_) return;
    lowest_ = range;
    code_ = found;
  }
  int32_t code() const { return code_; }

 private:
  const Loop &loop_;
  std::mutex mutex_;
  int64_t lowest_;
  int32_t code_;
};

/* Ranges for whoever asks. It outlives the loop, for tasks that begin when nothing is left to do. */
class Ranges {
 public:
  Ranges(Outcome *outcome, int64_t count) : outcome_(outcome), count_(count), next_(0), ended_(0) {}

  void work() {
    for (int64_t range = claim(); range < count_; range = claim()) {
      (*outcome_)(range);
      std::lock_guard<std::mutex> lock(mutex_);
      if (++ended_ == count_) all_.notify_one();
    }
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (ended_ < count_) all_.wait(lock);
  }

 private:
  int64_t claim() {
    std::lock_guard<std::mutex> lock(mutex_);
    return next_ < count_ ? next_++ : count_;
  }

  Outcome *outcome_;
  const int64_t count_;
  int64_t next_, ended_;
  std::mutex mutex_;
  std::condition_variable all_;
};

typedef std::function<void()> Task;

template <class Pool> auto post(Pool *pool, Task task, Rank<2>) -> decltype((void)pool->Schedule(task)) {
  pool->Schedule(task);
}
template <class Pool> auto post(Pool *pool, Task task, Rank<1>) -> decltype((void)pool->schedule(task)) {
  pool->schedule(task);
}
template <class Pool>
auto post(Pool *pool, Task task, Rank<0>) -> decltype((void)pool->enqueueNoNotification(task)) {
  pool->enqueueNoNotification(task);
}
template <class Pool> auto width(Pool *pool, Rank<2>) -> decltype(static_cast<int64_t>(pool->NumThreads())) {
  return static_cast<int64_t>(pool->NumThreads());
}
template <class Pool> auto width(Pool *pool, Rank<1>) -> decltype(static_cast<int64_t>(pool->num_threads())) {
  return static_cast<int64_t>(pool->num_threads());
}
template <class Pool> auto width(Pool *pool, Rank<0>) -> decltype(static_cast<int64_t>(pool->numThreads())) {
  return static_cast<int64_t>(pool->numThreads());
}

template <class Pool>
auto each(Pool *pool, int64_t count, Outcome &outcome, Rank<1>)
    -> decltype((void)pool->parallel_for(count, std::ref(outcome))) {
  pool->parallel_for(count, std::ref(outcome));
}
/* The caller takes part, so it ends also when the pool's threads are busy elsewhere. */
template <class Pool>
void each(Pool *pool, int64_t count, Outcome &outcome, Rank<0>) {
  const std::shared_ptr<Ranges> ranges = std::make_shared<Ranges>(&outcome, count);
  const int64_t threads = width(pool, Rank<2>()), most = threads < count ? threads : count;
  for (int64_t i = 1; i < most; ++i) post(pool, [ranges] { ranges->work(); }, Rank<2>());
  ranges->work();
  ranges->wait();
}

template <class Pool>
int32_t run_loop(Pool *pool, const Loop &loop) {
  Outcome outcome(loop);
  each(pool, loop.ranges(), outcome, Rank<1>());
  return outcome.code();
}

}  // namespace internal

/* Threads for set_thread_pool. The thread that runs a function is one of them. */
class ThreadPool {
 public:
  explicit ThreadPool(int threads) : stop_(false) {
    for (int i = 1; i < threads; ++i) threads_.push_back(std::thread([this] { serve(); }));
  }
  ~ThreadPool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    ready_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int NumThreads() const { return static_cast<int>(threads_.size()) + 1; }

  void Schedule(std::function<void()> task) {
    if (threads_.empty()) return task();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    ready_.notify_one();
  }

 private:
  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      while (!stop_ && tasks_.empty()) ready_.wait(lock);
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  bool stop_;
};

/* Some threads of a pool, as Eigen has it. */
class ThreadPoolDevice {
 public:
  ThreadPoolDevice(ThreadPool *pool, int threads) : pool_(pool), threads_(threads) {}
  int NumThreads() const { return threads_; }
  void Schedule(std::function<void()> task) { pool_->Schedule(std::move(task)); }

 private:
  ThreadPool *pool_;
  int threads_;
};
#endif

/* What all compiled functions have in common. An object is used by one thread at a time. A move takes memory,
 * addresses and settings along; what is left can be assigned to and destroyed. */
class CompiledFunction {
 public:
  enum class AllocMode {
    /* The object has memory for arguments, variables and results. */
    ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS,
    /* The caller sets arguments and variables; the object has memory for results. */
    RESULTS_PROFILES_AND_TEMPS_ONLY,
    ARGS_RESULTS_AND_TEMPS = ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS,
    RESULTS_AND_TEMPS_ONLY = RESULTS_PROFILES_AND_TEMPS_ONLY
  };

  CompiledFunction(const CompiledFunction &) = delete;
  CompiledFunction &operator=(const CompiledFunction &) = delete;

  /* Reads arguments and variables, writes results and variables. False on failure: see error_msg(). */
  bool Run() {
    if (!memory_) return fail("no memory: there was too little, or the object was moved");
    if (data_.takes_weights && !frame_.constants) return fail("the weights are not set: call set_weights");
    for (size_t i = 0; i < num_args() + num_variables(); ++i) {
      if (!args_[i]) return fail(std::string(data_.args[i].name) + " has no data");
      leaves_[data_.args[i].leaf] = args_[i];
    }
    for (size_t i = 0; i < num_results(); ++i) {
      if (!results_[i]) return fail(std::string(data_.results[i].name) + " has no data");
    }
    frame_.arguments = leaves_;
    frame_.results = results_;
    const int32_t code = data_.run(&frame_);
    return code == AXLA_OK || fail(data_.error(code));
  }

  std::string error_msg() const { return error_; }
  void set_error_msg(const std::string &message) { error_ = message; }

  /* Threads for the runs from now on. The pool stays the caller's, and has one of
   *   parallel_for(int64_t count, f): calls f(0) ... f(count - 1) on any threads, returns when all have ended
   *   schedule(f), Schedule(f), enqueueNoNotification(f): calls f() on another thread, later; with
   *   num_threads(), NumThreads() or numThreads()
   * Eigen's ThreadPool and ThreadPoolDevice do. Results are the same with any number of threads. */
  template <class Pool>
  void set_thread_pool(Pool *pool) {
    frame_.parallel_for = pool ? &spread<Pool> : nullptr;
    frame_.pool = pool;
  }
  void set_thread_pool(std::nullptr_t) { set_parallel_for(nullptr, nullptr); }
  void set_parallel_for(axla_parallel_for *function, void *pool) {
    frame_.parallel_for = function;
    frame_.pool = pool;
  }

  /* A flag that ends a run when it is not 0. */
  void set_cancel(const volatile int32_t *flag) { frame_.cancel = flag; }

  /* The state of random numbers, which goes on from run to run. */
  void set_rng_state(uint64_t low, uint64_t high) {
    frame_.rng_state[0] = low;
    frame_.rng_state[1] = high;
  }

  /* By number: arguments, and behind them variables. */
  void *arg_data(size_t i) { return args_[i]; }
  const void *arg_data(size_t i) const { return args_[i]; }
  void set_arg_data(size_t i, const void *data) { args_[i] = const_cast<void *>(data); }
  void *result_data(size_t i) { return results_[i]; }
  const void *result_data(size_t i) const { return results_[i]; }
  void set_result_data(size_t i, void *data) { results_[i] = data; }
  void **args() { return args_; }
  const void *const *args() const { return args_; }
  void **results() { return results_; }
  const void *const *results() const { return results_; }

  size_t num_args() const { return data_.num_args; }
  size_t num_variables() const { return data_.num_variables; }
  size_t num_results() const { return data_.num_results; }
  size_t arg_size(size_t i) const { return data_.args[i].size; }
  size_t result_size(size_t i) const { return data_.results[i].size; }

  /* Each kind of value has numbers of its own; -1 or null for what there is not. */
  bool HasNameIndices() const { return true; }
  int LookupArgIndex(const std::string &name) const { return find(data_.args, num_args(), name); }
  int LookupVariableIndex(const std::string &name) const {
    return find(data_.args + num_args(), num_variables(), name);
  }
  int LookupResultIndex(const std::string &name) const { return find(data_.results, num_results(), name); }
  const char *GetArgName(size_t i) const { return i < num_args() ? data_.args[i].name : nullptr; }
  const char *GetVariableName(size_t i) const {
    return i < num_variables() ? data_.args[num_args() + i].name : nullptr;
  }
  const char *GetResultName(size_t i) const { return i < num_results() ? data_.results[i].name : nullptr; }

  const int64_t *profile_counters() const { return nullptr; }
  bool hlo_profiling_enabled() const { return false; }

 protected:
  /* `leaves`, `args` and `results` are tables of the class, with room for the pointers. */
  CompiledFunction(const FunctionData &data, void **leaves, void **args, void **results, AllocMode mode)
      : data_(data), args_(args), results_(results), leaves_(leaves), memory_(nullptr), frame_() {
    static const uint64_t seed[2] = AXLA_RNG_SEED;
    const bool all = mode == AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS;
    const size_t given = num_args() + num_variables();
    size_t total = data.alignment;
    for (size_t i = 0; all && i < given; ++i) total += padded(data.args[i].size);
    for (size_t i = 0; i < num_results(); ++i) total += padded(data.results[i].size);
    memory_ = std::calloc(total + padded(data.workspace_size), 1);
    char *next = static_cast<char *>(memory_);
    const size_t mask = data.alignment - 1;
    if (next) next += mask - ((reinterpret_cast<uintptr_t>(next) + mask) & mask);
    for (size_t i = 0; i < given; ++i) args[i] = all ? place(&next, data.args[i].size) : nullptr;
    for (size_t i = 0; i < num_results(); ++i) results[i] = place(&next, data.results[i].size);
    frame_.version = AXLA_FRAME_VERSION;
    frame_.workspace = next;
    set_rng_state(seed[0], seed[1]);
  }
  /* For a move: without memory. */
  CompiledFunction(const FunctionData &data, void **leaves, void **args, void **results)
      : data_(data), args_(args), results_(results), leaves_(leaves), memory_(nullptr), frame_() {
    std::fill_n(args, num_args() + num_variables(), nullptr);
    std::fill_n(results, num_results(), nullptr);
  }
  void move_from(CompiledFunction &other) {
    std::swap_ranges(args_, args_ + num_args() + num_variables(), other.args_);
    std::swap_ranges(results_, results_ + num_results(), other.results_);
    std::swap(memory_, other.memory_);
    std::swap(frame_, other.frame_);
    error_.swap(other.error_);
  }
  ~CompiledFunction() { std::free(memory_); }

  const FunctionData &data_;
  void **args_;
  void **results_;
  void **leaves_;
  void *memory_;
  axla_frame frame_;
  std::string error_;

 private:
  size_t padded(size_t size) const {
    return (size + data_.alignment - 1) / data_.alignment * data_.alignment;
  }

  void *place(char **next, size_t size) const {
    void *const here = *next;
    if (here) *next += padded(size);
    return here;
  }

  bool fail(const std::string &message) {
    error_ = message;
    return false;
  }

  static int find(const ShapeInfo *values, size_t count, const std::string &name) {
    for (size_t i = 0; i < count; ++i) {
      if (name == values[i].name) return static_cast<int>(i);
    }
    return -1;
  }

  /* The parallel_for of a frame whose pool is a Pool. */
  template <class Pool>
  static int32_t spread(axla_frame *frame, axla_kernel *kernel, void *args, int64_t count, int64_t grain) {
    const internal::Loop loop(frame, kernel, args, count, grain);
    return internal::run_loop(static_cast<Pool *>(frame->pool), loop);
  }
};

}  // namespace axla

#endif /* AXLA_AOT_HPP_1 */
