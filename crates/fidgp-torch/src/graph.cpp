// A C face for libtorch's own graph class, at::cuda::CUDAGraph, for streams, for the cache of memory and for two settings.
//
// libtorch's CUDA headers want CUDA's, which a machine that only builds need not have. So none of them is included: the few
// functions are looked up by their mangled names in the CUDA part that the process has opened, and called with the types
// they are declared with. What they throw stops here and becomes a message.

#include <c10/core/CachingDeviceAllocator.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <stdexcept>
#include <string>

namespace {

// c10::cuda::CUDAStream: device and number, two words that are passed in registers.
struct Stream {
  int64_t words[2];
};

// c10::MempoolId_t, a pair of two words; zeros ask for a pool of the graph's own.
struct Pool {
  unsigned long long words[2];
};

// cudaStreamCaptureModeThreadLocal: other threads may allocate while this one captures.
constexpr int THREAD_LOCAL = 1;

// More than sizeof(at::cuda::CUDAGraph), about 150 bytes in 2.11.
constexpr std::size_t GRAPH_BYTES = 4096;

template <typename Function> Function *find(const char *name) {
  void *symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("libtorch has no CUDA part with ") + name);
  }
  return reinterpret_cast<Function *>(symbol);
}

template <typename Work> int guarded(char *message, std::size_t size, Work work) {
  try {
    work();
    return 0;
  } catch (const std::exception &error) {
    std::snprintf(message, size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, size, "an exception without words");
  }
  return 1;
}

// cudaEventDisableTiming
constexpr unsigned NO_TIMING = 2;

void cuda(int status, const char *what) {
  if (status != 0) {
    throw std::runtime_error(std::string(what) + ": CUDA error " + std::to_string(status));
  }
}

// A setting of at::globalContext().
void set(const char *name, bool value) {
  find<void(void *, bool)>(name)(find<void *()>("_ZN2at13globalContextEv")(), value);
}

void call(const char *name, void *graph) { find<void(void *)>(name)(graph); }

} // namespace

extern "C" {

int fidgp_current_stream(int8_t device, Stream *stream, char *message, std::size_t size) {
  return guarded(message, size, [&] { *stream = find<Stream(int8_t)>("_ZN3c104cuda20getCurrentCUDAStreamEa")(device); });
}

int fidgp_side_stream(int8_t device, Stream *stream, char *message, std::size_t size) {
  return guarded(message, size,
                 [&] { *stream = find<Stream(bool, int8_t)>("_ZN3c104cuda17getStreamFromPoolEba")(false, device); });
}

int fidgp_set_stream(Stream stream, char *message, std::size_t size) {
  return guarded(message, size,
                 [&] { find<void(Stream)>("_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE")(stream); });
}

// What is launched on `waiting` from now on starts after what has been launched on `awaited`.
int fidgp_wait(Stream waiting, Stream awaited, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    auto *raw = find<void *(const Stream *)>("_ZNK3c104cuda10CUDAStream6streamEv");
    void *event = nullptr;
    cuda(find<int(void **, unsigned)>("cudaEventCreateWithFlags")(&event, NO_TIMING), "an event");
    const int recorded = find<int(void *, void *)>("cudaEventRecord")(event, raw(&awaited));
    const int waits = recorded ? recorded : find<int(void *, void *, unsigned)>("cudaStreamWaitEvent")(raw(&waiting), event, 0);
    find<int(void *)>("cudaEventDestroy")(event);
    cuda(waits, "a stream waiting for another");
  });
}

// What is made without naming a device, events among it, is made on this one from now on, in this thread.
int fidgp_use_device(int device, char *message, std::size_t size) {
  return guarded(message, size, [&] { cuda(find<int(int)>("cudaSetDevice")(device), "choosing the device"); });
}

int fidgp_memory_in_use(std::size_t *bytes, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    std::size_t free = 0, total = 0;
    cuda(find<int(std::size_t *, std::size_t *)>("cudaMemGetInfo")(&free, &total), "the memory of the device");
    *bytes = total - free;
  });
}

// Gives memory that no tensor holds back to the device.
int fidgp_empty_cache(char *message, std::size_t size) {
  return guarded(message, size, [&] { c10::getDeviceAllocator(c10::DeviceType::CUDA)->emptyCache(); });
}

// Convolutions of f32 tensors are computed in f32. libtorch's default is TF32, with 10 bits of mantissa.
int fidgp_exact_convolutions(char *message, std::size_t size) {
  return guarded(message, size, [&] { set("_ZN2at7Context17setAllowTF32CuDNNEb", false); });
}

// Convolutions add in the same order every time.
int fidgp_repeatable_convolutions(char *message, std::size_t size) {
  return guarded(message, size, [&] { set("_ZN2at7Context21setDeterministicCuDNNEb", true); });
}

int fidgp_graph_new(void **graph, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    auto *construct = find<void(void *, bool)>("_ZN2at4cuda9CUDAGraphC1Eb");
    void *memory = std::aligned_alloc(64, GRAPH_BYTES);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    try {
      construct(memory, false);
    } catch (...) {
      std::free(memory);
      throw;
    }
    *graph = memory;
  });
}

int fidgp_graph_begin(void *graph, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    find<void(void *, Pool, int)>("_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode")(
        graph, Pool{{0, 0}}, THREAD_LOCAL);
  });
}

int fidgp_graph_end(void *graph, char *message, std::size_t size) {
  return guarded(message, size, [&] { call("_ZN2at4cuda9CUDAGraph11capture_endEv", graph); });
}

int fidgp_graph_replay(void *graph, char *message, std::size_t size) {
  return guarded(message, size, [&] { call("_ZN2at4cuda9CUDAGraph6replayEv", graph); });
}

void fidgp_graph_free(void *graph) {
  char ignored[256];
  guarded(ignored, sizeof ignored, [&] { call("_ZN2at4cuda9CUDAGraphD1Ev", graph); });
  std::free(graph);
}
}
