// Handlers of XLA's FFI for test_ffi_handlers.py, written with the headers that jaxlib ships.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Floats = ffi::Buffer<ffi::F32>;
#define EXPORT extern "C" __attribute__((visibility("default")))

template <typename T>
static double Sum(ffi::Span<const T> values) {
  double sum = 0;
  for (T value : values) sum = sum * 10 + static_cast<double>(value);
  return sum;
}

// A result for each attribute.
static ffi::Error Attributes(ffi::Dictionary attrs, ffi::Result<ffi::Buffer<ffi::F64>> out) {
  double *y = out->typed_data();
  ffi::DiagnosticEngine engine;
#define PUT(type, name) { auto v = attrs.get<type>(name); if (v.has_error()) return v.error(); *y++ = *v; }
#define PUT_ARRAY(type, name) { auto v = attrs.get<ffi::Span<const type>>(name); if (v.has_error()) return v.error(); *y++ = Sum(*v); }
  PUT(bool, "pred") PUT(int8_t, "s8") PUT(int16_t, "s16") PUT(int32_t, "s32") PUT(int64_t, "s64")
  PUT(uint8_t, "u8") PUT(uint16_t, "u16") PUT(uint32_t, "u32") PUT(uint64_t, "u64") PUT(float, "f32") PUT(double, "f64")
  PUT_ARRAY(int8_t, "as8") PUT_ARRAY(int16_t, "as16") PUT_ARRAY(int32_t, "as32") PUT_ARRAY(int64_t, "as64")
  PUT_ARRAY(uint8_t, "au8") PUT_ARRAY(uint64_t, "au64") PUT_ARRAY(float, "af32") PUT_ARRAY(double, "af64")
  PUT_ARRAY(int32_t, "matrix")
  auto text = attrs.get<std::string_view>("text");
  if (text.has_error()) return text.error();
  *y++ = text->size();
  *y++ = *text == std::string_view("h\xc3\xa9\0\"\\", 6);
  auto inner = attrs.get<ffi::Dictionary>("inner");
  if (inner.has_error()) return inner.error();
  *y++ = inner->size();
  auto deepest = inner->contains("deepest") ? inner->get<ffi::Dictionary>("deepest") : inner;
  if (deepest.has_error()) return deepest.error();
  auto one = deepest->get<int64_t>("one");
  if (one.has_error()) return one.error();
  *y++ = *one;
  *y++ = attrs.size();
  if (out->typed_data() + out->element_count() != y) return ffi::Error::Internal("the result has another size");
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
                              ffi::Ffi::Bind().Attrs().Ret<ffi::Buffer<ffi::F64>>());

// x * factor + bias, and the sum; named attributes.
static ffi::Error Scale(Floats x, ffi::Result<Floats> y, ffi::ResultBufferR0<ffi::F32> sum, float factor,
                        std::string_view fail) {
  if (!fail.empty()) return ffi::Error(ffi::ErrorCode::kOutOfRange, std::string(fail));
  float total = 0;
  for (size_t i = 0; i < x.element_count(); i++) total += y->typed_data()[i] = x.typed_data()[i] * factor;
  *sum->typed_data() = total;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale,
                              ffi::Ffi::Bind().Arg<Floats>().Ret<Floats>().Ret<ffi::BufferR0<ffi::F32>>()
                                  .Attr<float>("factor").Attr<std::string_view>("fail"));

// The sum of all operands in each result.
static ffi::Error Sums(ffi::RemainingArgs args, ffi::RemainingRets rets) {
  for (size_t r = 0; r < rets.size(); r++) {
    auto out = rets.get<Floats>(r);
    if (out.has_error()) return out.error();
    float *y = (*out)->typed_data();
    std::memset(y, 0, (*out)->size_bytes());
    for (size_t a = 0; a < args.size(); a++) {
      auto in = args.get<Floats>(a);
      if (in.has_error()) return in.error();
      for (size_t i = 0; i < in->element_count(); i++) y[i] += in->typed_data()[i] * (r + 1);
    }
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(sums, Sums, ffi::Ffi::Bind().RemainingArgs().RemainingRets());

// dtype, rank, bytes and up to two sizes of each operand; then its first byte.
static ffi::Error Describe(ffi::RemainingArgs args, ffi::Result<ffi::Buffer<ffi::S64>> out) {
  int64_t *y = out->typed_data();
  for (size_t a = 0; a < args.size(); a++) {
    auto x = args.get<ffi::AnyBuffer>(a);
    if (x.has_error()) return x.error();
    auto dims = x->dimensions();
    int64_t row[] = {static_cast<int64_t>(x->element_type()), static_cast<int64_t>(dims.size()),
                     static_cast<int64_t>(x->size_bytes()), dims.size() > 0 ? dims[0] : -1,
                     dims.size() > 1 ? dims[1] : -1, x->element_count() ? *static_cast<uint8_t *>(x->untyped_data()) : -1};
    for (int64_t value : row) *y++ = value;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(describe, Describe, ffi::Ffi::Bind().RemainingArgs().Ret<ffi::Buffer<ffi::S64>>());

// Adds 1 in place where the result lies in the memory of the operand, and fails where an array is not aligned.
static ffi::Error Aligned(Floats a, Floats b, ffi::Result<Floats> y, ffi::Result<Floats> z) {
  for (const float *p : {a.typed_data(), b.typed_data(), y->typed_data(), z->typed_data()})
    if (reinterpret_cast<uintptr_t>(p) % 64) return ffi::Error::Internal("an array is not aligned");
  if (y->typed_data() != b.typed_data()) return ffi::Error::Internal("the result is elsewhere");
  for (size_t i = 0; i < b.element_count(); i++) y->typed_data()[i] += a.typed_data()[0];
  for (size_t i = 0; i < b.element_count(); i++) z->typed_data()[i] = -a.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(aligned, Aligned,
                              ffi::Ffi::Bind().Arg<Floats>().Arg<Floats>().Ret<Floats>().Ret<Floats>());

// A token, an array and a token; gives an array and a token.
static ffi::Error Tokens(ffi::Token, Floats x, ffi::Token, ffi::Result<ffi::Token>, ffi::Result<Floats> y) {
  std::memcpy(y->typed_data(), x.typed_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(tokens, Tokens,
                              ffi::Ffi::Bind().Arg<ffi::Token>().Arg<Floats>().Arg<ffi::Token>()
                                  .Ret<ffi::Token>().Ret<Floats>());

// Reverses through scratch memory of `blocks` blocks.
static ffi::Error Reverse(ffi::ScratchAllocator scratch, Floats x, ffi::Result<Floats> y, int64_t alignment) {
  auto block = scratch.Allocate(x.size_bytes(), alignment), more = scratch.Allocate(1 << 20);
  if (!block || !more) return ffi::Error(ffi::ErrorCode::kResourceExhausted, "no scratch memory");
  if (reinterpret_cast<uintptr_t>(*block) % alignment || *block == *more) return ffi::Error::Internal("bad block");
  std::memset(*more, 1, 1 << 20);
  float *copy = static_cast<float *>(*block);
  size_t n = x.element_count();
  std::memcpy(copy, x.typed_data(), x.size_bytes());
  for (size_t i = 0; i < n; i++) y->typed_data()[i] = copy[n - 1 - i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(reverse, Reverse,
                              ffi::Ffi::Bind().Ctx<ffi::ScratchAllocator>().Arg<Floats>().Ret<Floats>()
                                  .Attr<int64_t>("alignment"));

// Squares, a task for each element; waits for them here.
static ffi::Error Tasks(ffi::ThreadPool pool, Floats x, ffi::Result<Floats> y, ffi::ResultBufferR0<ffi::S64> threads) {
  std::mutex mutex;
  std::condition_variable done;
  size_t left = x.element_count();
  for (size_t i = 0, n = left; i < n; i++) {
    pool.Schedule([&, i, in = x.typed_data(), out = y->typed_data()] {
      out[i] = in[i] * in[i];
      std::lock_guard<std::mutex> lock(mutex);
      if (--left == 0) done.notify_one();
    });
  }
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [&] { return left == 0; });
  *threads->typed_data() = pool.num_threads();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(tasks, Tasks,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Ret<Floats>()
                                  .Ret<ffi::BufferR0<ffi::S64>>());

// The same, done after the handler has returned; fails where an element is negative.
static ffi::Future Later(ffi::ThreadPool pool, Floats x, ffi::Result<Floats> y) {
  ffi::CountDownPromise promise(x.element_count());
  ffi::Future future(promise);
  for (size_t i = 0; i < x.element_count(); i++) {
    pool.Schedule([=, in = x.typed_data(), out = y->typed_data()]() mutable {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      out[i] = in[i] * in[i];
      if (in[i] < 0) promise.CountDown(ffi::Error(ffi::ErrorCode::kDataLoss, "a negative element"));
      else promise.CountDown();
    });
  }
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later, ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Ret<Floats>());

// What a context has on a CPU: the run, the device, no stream, no user data.
struct Nothing { static ffi::TypeId id; };
ffi::TypeId Nothing::id = {77};
static ffi::Error Context(ffi::Context context, ffi::Result<ffi::Buffer<ffi::S64>> out) {
  auto run = context.get<ffi::RunId>();
  auto device = context.get<ffi::DeviceOrdinal>();
  if (run.has_error() || device.has_error()) return ffi::Error::Internal("no run or no device");
  out->typed_data()[0] = run->run_id;
  out->typed_data()[1] = *device;
  auto stream = context.get<ffi::PlatformStream<void *>>();
  auto data = context.get<ffi::UserData<Nothing>>();
  if (stream.has_value() || data.has_value()) return ffi::Error::Internal("a stream or user data");
  return ffi::Error(ffi::ErrorCode::kFailedPrecondition, stream.error().message() + "; " + data.error().message());
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(context, Context, ffi::Ffi::Bind().Ctx<ffi::Context>().Ret<ffi::Buffer<ffi::S64>>());
static ffi::Error RunOf(ffi::RunId run, int32_t device, ffi::Result<ffi::Buffer<ffi::S64>> out) {
  out->typed_data()[0] = run.run_id;
  out->typed_data()[1] = device;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(run_of, RunOf,
                              ffi::Ffi::Bind().Ctx<ffi::RunId>().Ctx<ffi::DeviceOrdinal>().Ret<ffi::Buffer<ffi::S64>>());

// A counter for each call site, made by the stage `instantiate`.
struct Counter {
  static ffi::TypeId id;
  explicit Counter(int64_t first) : value(first) { alive++; }
  ~Counter() { alive--; }
  std::atomic<int64_t> value;
  static std::atomic<int64_t> alive;
};
ffi::TypeId Counter::id = {};
std::atomic<int64_t> Counter::alive = 0;
static ffi::TypeInfo info = ffi::MakeTypeInfo<Counter>();
EXPORT void *counter_type() { return &Counter::id; }
EXPORT void *counter_info() { return &info; }
EXPORT int64_t counters_alive() { return Counter::alive; }
static ffi::ErrorOr<std::unique_ptr<Counter>> Begin(int64_t first) {
  if (first < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("first is negative"));
  return std::make_unique<Counter>(first);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter_begin, Begin, ffi::Ffi::BindInstantiate().Attr<int64_t>("first"));
static ffi::Error Count(Counter *counter, ffi::ResultBufferR0<ffi::S64> out) {
  *out->typed_data() = counter->value++;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(counter, Count,
                              ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::BufferR0<ffi::S64>>());

// Versions that a handler says it was compiled for.
static XLA_FFI_Error *Version(XLA_FFI_CallFrame *frame, int major, int minor) {
  if (frame->extension_start == nullptr) return nullptr;
  auto *metadata = reinterpret_cast<XLA_FFI_Metadata_Extension *>(frame->extension_start)->metadata;
  metadata->api_version.major_version = major;
  metadata->api_version.minor_version = minor;
  metadata->traits = ~0u;
  return nullptr;
}
EXPORT XLA_FFI_Error *version_0_0(XLA_FFI_CallFrame *frame) { return Version(frame, 0, 0); }
EXPORT XLA_FFI_Error *version_0_1(XLA_FFI_CallFrame *frame) { return Version(frame, 0, 1); }
EXPORT XLA_FFI_Error *version_1_0(XLA_FFI_CallFrame *frame) { return Version(frame, 1, 0); }

// Calls the last function that 0.5 has, CustomOptions_Get, and the place behind it, with the same arguments.
static XLA_FFI_Error *Newer(XLA_FFI_CallFrame *frame) {
  if (frame->extension_start != nullptr) return Version(frame, 0, 99);
  struct { size_t size; void *extension, *context; const XLA_FFI_Attrs *options; } args = {32, nullptr, frame->ctx, nullptr};
  auto *end = reinterpret_cast<XLA_FFI_Error *(*const *)(void *)>(
      reinterpret_cast<const char *>(frame->api) + frame->api->struct_size);
  if (auto *error = end[-1](&args)) return error;
  return args.options->struct_size >= XLA_FFI_Attrs_STRUCT_SIZE && args.options->size == 0 ? end[0](&args) : nullptr;
}
EXPORT XLA_FFI_Error *version_0_99(XLA_FFI_CallFrame *frame) { return Newer(frame); }

// Registers a handler and a type through the table of functions, and says what it was told.
static XLA_FFI_Error *Register(XLA_FFI_CallFrame *frame) {
  if (frame->extension_start != nullptr) return Version(frame, 0, XLA_FFI_API_MINOR);
  static ffi::TypeId id = {};
  static ffi::TypeInfo empty = {XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, nullptr};
  if (auto *error = ffi::Ffi::RegisterTypeId(frame->api, "registered.type", &id, empty)) return error;
  if (id.type_id == 0) return ffi::Ffi::RegisterTypeId(frame->api, "", nullptr, empty);
  if (auto *error = ffi::Ffi::RegisterStaticHandler(frame->api, "registered", "Host", &version_0_1)) return error;
  return ffi::Ffi::RegisterStaticHandler(frame->api, "registered", "CUDA", &version_0_1);
}
EXPORT XLA_FFI_Error *registers(XLA_FFI_CallFrame *frame) { return Register(frame); }

// Sizes and places, to be compared with axla's tables.
#define SIZE(type) {#type, "", XLA_FFI_##type##_STRUCT_SIZE}
#define FUNCTION(name) {"Api", "XLA_FFI_" #name, offsetof(XLA_FFI_Api, XLA_FFI_##name)},
#define FIELD(type, field) {#type, #field, offsetof(XLA_FFI_##type, field)}
struct Fact { const char *type, *field; uint64_t value; };
EXPORT const Fact layout[] = {
    SIZE(Buffer), FIELD(Buffer, dtype), FIELD(Buffer, data), FIELD(Buffer, rank), FIELD(Buffer, dims),
    SIZE(Args), SIZE(Rets), SIZE(Attrs), FIELD(Attrs, size), FIELD(Attrs, types), FIELD(Attrs, names), FIELD(Attrs, attrs),
    SIZE(CallFrame), FIELD(CallFrame, api), FIELD(CallFrame, ctx), FIELD(CallFrame, stage), FIELD(CallFrame, future),
    FIELD(CallFrame, args.size), FIELD(CallFrame, args.types), FIELD(CallFrame, args.args),
    FIELD(CallFrame, rets.size), FIELD(CallFrame, rets.types), FIELD(CallFrame, rets.rets),
    FIELD(CallFrame, attrs.size), FIELD(CallFrame, attrs.types), FIELD(CallFrame, attrs.names), FIELD(CallFrame, attrs.attrs),
    SIZE(Metadata), FIELD(Metadata, traits), FIELD(Metadata, state_type_id), SIZE(Api_Version),
    SIZE(Metadata_Extension), FIELD(Metadata_Extension, metadata),
    SIZE(Api), FIELD(Api, api_version), FIELD(Api, internal_api),
    FIELD(Handler_Register_Args, name), FIELD(Handler_Register_Args, platform), FIELD(Handler_Register_Args, bundle.instantiate),
    FIELD(Handler_Register_Args, bundle.execute), FIELD(Type_Register_Args, name), FIELD(Type_Register_Args, type_id),
    FIELD(Type_Register_Args, type_info), FIELD(TypeInfo, deleter),
    FUNCTION(Handler_Register) FUNCTION(Type_Register)
    FUNCTION(Error_Create) FIELD(Error_Create_Args, message), FIELD(Error_Create_Args, errc),
    FUNCTION(Error_Destroy) FIELD(Error_Destroy_Args, error),
    FUNCTION(Stream_Get) FIELD(Stream_Get_Args, ctx), FIELD(Stream_Get_Args, stream),
    FUNCTION(RunId_Get) FIELD(RunId_Get_Args, ctx), FIELD(RunId_Get_Args, run_id),
    FUNCTION(DeviceOrdinal_Get) FIELD(DeviceOrdinal_Get_Args, ctx), FIELD(DeviceOrdinal_Get_Args, device_ordinal),
    FUNCTION(State_Set) FIELD(State_Set_Args, ctx), FIELD(State_Set_Args, stage), FIELD(State_Set_Args, type_id), FIELD(State_Set_Args, state),
    FUNCTION(State_Get) FIELD(State_Get_Args, ctx), FIELD(State_Get_Args, stage), FIELD(State_Get_Args, type_id), FIELD(State_Get_Args, state),
    FUNCTION(DeviceMemory_Allocate) FIELD(DeviceMemory_Allocate_Args, ctx), FIELD(DeviceMemory_Allocate_Args, size), FIELD(DeviceMemory_Allocate_Args, alignment), FIELD(DeviceMemory_Allocate_Args, data),
    FUNCTION(DeviceMemory_Free) FIELD(DeviceMemory_Free_Args, ctx), FIELD(DeviceMemory_Free_Args, size), FIELD(DeviceMemory_Free_Args, data),
    FUNCTION(ThreadPool_Schedule) FIELD(ThreadPool_Schedule_Args, ctx), FIELD(ThreadPool_Schedule_Args, task), FIELD(ThreadPool_Schedule_Args, data),
    FUNCTION(ThreadPool_NumThreads) FIELD(ThreadPool_NumThreads_Args, ctx), FIELD(ThreadPool_NumThreads_Args, num_threads),
    FUNCTION(Future_Create) FIELD(Future_Create_Args, future),
    FUNCTION(Future_SetAvailable) FIELD(Future_SetAvailable_Args, future),
    FUNCTION(Future_SetError) FIELD(Future_SetError_Args, future), FIELD(Future_SetError_Args, error),
#if XLA_FFI_API_MINOR < 4
    {"Api", "XLA_FFI_Error_GetDetails", offsetof(XLA_FFI_Api, XLA_FFI_Error_GetMessage)},
    {"Error_GetDetails_Args", "message", offsetof(XLA_FFI_Error_GetMessage_Args, message)},
    {"Api", "XLA_FFI_InvokeContext_Get", offsetof(XLA_FFI_Api, XLA_FFI_ExecutionContext_Get)},
    {"InvokeContext_Get_Args", "data", offsetof(XLA_FFI_ExecutionContext_Get_Args, data)},
#else
    FUNCTION(Error_GetDetails) FIELD(Error_GetDetails_Args, message), FIELD(Error_GetDetails_Args, errc),
    FUNCTION(InvokeContext_Get) FIELD(InvokeContext_Get_Args, data),
    FUNCTION(InvokeContext_FindExtension) FIELD(InvokeContext_FindExtension_Args, extension),
#endif
#if XLA_FFI_API_MINOR >= 5
    FUNCTION(CustomOptions_Get) FIELD(CustomOptions_Get_Args, ctx), FIELD(CustomOptions_Get_Args, attrs),
#endif
    {nullptr, nullptr, 0}};
