// A C face for libtorch's process groups: the store at which processes meet, Gloo, and NCCL where the CUDA part is open.
//
// Gloo's own headers are not in libtorch's package; gloo_names/ has what c10d's header asks of them. NCCL's group is looked up
// by its mangled names, as the graph class in graph.cpp is: its header wants CUDA's. All of its other functions are virtual and
// belong to c10d::Backend, which is in the part that is always there.

#define USE_C10D_GLOO

#include <atomic>
#include <c10/util/Logging.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <new>
#include <string>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

namespace {

using Milliseconds = std::chrono::milliseconds;
using StorePointer = c10::intrusive_ptr<c10d::Store>;
using BackendPointer = c10::intrusive_ptr<c10d::Backend>;

// `server` is the same store seen without its prefix; it goes last.
struct Place {
  StorePointer server;
  StorePointer store;
};

// Gradients may outlive a group, so its few bytes stay where they are when it is closed.
struct Group {
  BackendPointer backend;
  Milliseconds timeout;
  // How many of its calls wait for other processes just now.
  std::atomic<int> waiting{0};

  Group(BackendPointer own, Milliseconds limit) : backend(std::move(own)), timeout(limit) {}

  c10d::Backend &open() const {
    if (!backend) {
      throw std::runtime_error("the process group is closed");
    }
    return *backend;
  }
};

// Counts a call that waits, for as long as it lives.
struct Waits {
  std::atomic<int> &count;
  explicit Waits(Group &group) : count(group.waiting) { ++count; }
  ~Waits() { --count; }
};

template <typename Work> int guarded(char *message, std::size_t size, Work work) {
  try {
    work();
    return 0;
  } catch (const c10::Error &error) {
    std::snprintf(message, size, "%s", error.what_without_backtrace());
  } catch (const std::exception &error) {
    std::snprintf(message, size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, size, "an exception without words");
  }
  return 1;
}

void all_reduce(Group &group, at::Tensor tensor) {
  const Waits waits(group);
  std::vector<at::Tensor> tensors{tensor};
  c10d::AllreduceOptions options;
  options.timeout = group.timeout;
  group.open().allreduce(tensors, options)->wait();
}

BackendPointer by_gloo(const StorePointer &store, int rank, int size, Milliseconds timeout, const std::string &interface,
                    const std::string &host) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  if (!interface.empty()) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface));
  } else if (!host.empty()) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
  } else {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, std::move(options));
}

// More than the sizes of c10d::ProcessGroupNCCL and its options in 2.11.
constexpr std::size_t NCCL_BYTES = 65536;

void *find(const char *name) {
  void *symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("libtorch has no CUDA part with NCCL (") + name + ")");
  }
  return symbol;
}

// The memory is zeroed and taken over by the pointer, which destroys what was made in it by its own virtual destructor.
template <typename Base, typename Construct> c10::intrusive_ptr<Base> made(Construct construct) {
  void *memory = ::operator new(NCCL_BYTES);
  std::memset(memory, 0, NCCL_BYTES);
  try {
    construct(memory);
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
  return c10::intrusive_ptr<Base>::unsafe_steal_from_new(static_cast<Base *>(memory));
}

BackendPointer by_nccl(const StorePointer &store, int rank, int size, Milliseconds timeout) {
  using Options = c10d::Backend::Options;
  using OptionsPointer = c10::intrusive_ptr<Options>;
  auto *make_options = reinterpret_cast<void (*)(void *, bool)>(find("_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb"));
  auto *make_group = reinterpret_cast<void (*)(void *, StorePointer, int, int, OptionsPointer)>(
      find("_ZN4c10d16ProcessGroupNCCLC1EN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_typeIS3_"
           "EEEEiiNS2_INS0_7OptionsENS5_IS8_EEEE"));
  auto options = made<Options>([&](void *memory) { make_options(memory, false); });
  options->timeout = timeout;
  return made<c10d::Backend>([&](void *memory) { make_group(memory, store, rank, size, options); });
}

// The sum over all processes as a function that can be differentiated. The losses of the processes are later averaged with
// weights proportional to `mass`; what comes back from the others is made commensurate with this process's own loss.
struct SumAcross : public torch::autograd::Function<SumAcross> {
  static at::Tensor forward(torch::autograd::AutogradContext *context, const at::Tensor &part, int64_t group, double mass) {
    context->saved_data["group"] = group;
    context->saved_data["mass"] = mass;
    auto sum = part.detach().clone(at::MemoryFormat::Contiguous);
    all_reduce(*reinterpret_cast<Group *>(group), sum);
    return sum;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 torch::autograd::variable_list gradients) {
    auto *group = reinterpret_cast<Group *>(context->saved_data["group"].toInt());
    const double mass = context->saved_data["mass"].toDouble();
    auto sum = (gradients[0].detach() * mass).contiguous();
    all_reduce(*group, sum);
    return {mass > 0 ? sum / mass : at::zeros_like(sum), at::Tensor(), at::Tensor()};
  }
};

} // namespace

extern "C" {

int fidgp_place_new(void **place, const char *host, uint16_t port, bool serves, int64_t timeout, char *message,
                    std::size_t size) {
  return guarded(message, size, [&] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
      FLAGS_caffe2_log_level = 3; // c10d logs what it throws as well, with a trace of C++
    }
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = serves;
    options.waitWorkers = false;
    options.timeout = Milliseconds(timeout);
    auto server = c10::make_intrusive<c10d::TCPStore>(host, options);
    auto store = c10::make_intrusive<c10d::PrefixStore>("fidgp/", server);
    *place = new Place{std::move(server), std::move(store)};
  });
}

// The same store under a longer prefix.
int fidgp_place_room(void **room, void *place, const char *prefix, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    auto *own = static_cast<Place *>(place);
    *room = new Place{own->server, c10::make_intrusive<c10d::PrefixStore>(prefix, own->store)};
  });
}

int fidgp_place_set(void *place, const char *key, const uint8_t *bytes, std::size_t count, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    static_cast<Place *>(place)->store->set(key, std::vector<uint8_t>(bytes, bytes + count));
  });
}

// Whether all of the keys are there, in one request.
int fidgp_place_has(void *place, const char *const *keys, std::size_t count, bool *has, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    *has = static_cast<Place *>(place)->store->check(std::vector<std::string>(keys, keys + count));
  });
}

// The text is given back with `free`.
int fidgp_place_get(void *place, const char *key, uint8_t **bytes, std::size_t *count, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    const auto found = static_cast<Place *>(place)->store->get(key);
    *bytes = static_cast<uint8_t *>(std::malloc(found.size() + 1));
    if (*bytes == nullptr) {
      throw std::bad_alloc();
    }
    std::copy(found.begin(), found.end(), *bytes);
    *count = found.size();
  });
}

void fidgp_bytes_free(uint8_t *bytes) { std::free(bytes); }

void fidgp_place_free(void *place) {
  char ignored[256];
  guarded(ignored, sizeof ignored, [&] { delete static_cast<Place *>(place); });
}

int fidgp_group_new(void **group, void *place, int rank, int ranks, bool on_cuda, const char *interface, const char *host,
                    int64_t timeout, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    const auto &store = static_cast<Place *>(place)->store;
    const Milliseconds limit(timeout);
    auto own = c10::make_intrusive<c10d::PrefixStore>(on_cuda ? "nccl/" : "gloo/", store);
    auto backend = on_cuda ? by_nccl(own, rank, ranks, limit) : by_gloo(own, rank, ranks, limit, interface, host);
    *group = new Group(std::move(backend), limit);
  });
}

int fidgp_group_all_reduce(void *group, void *tensor, char *message, std::size_t size) {
  return guarded(message, size, [&] { all_reduce(*static_cast<Group *>(group), *static_cast<at::Tensor *>(tensor)); });
}

int fidgp_group_broadcast(void *group, void *tensor, int from, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    auto &own = *static_cast<Group *>(group);
    const Waits waits(own);
    std::vector<at::Tensor> tensors{*static_cast<at::Tensor *>(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    options.timeout = own.timeout;
    own.open().broadcast(tensors, options)->wait();
  });
}

// `gathered` has a leading axis over the processes.
int fidgp_group_all_gather(void *group, void *tensor, void *gathered, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    auto &own = *static_cast<Group *>(group);
    const Waits waits(own);
    std::vector<std::vector<at::Tensor>> outputs{static_cast<at::Tensor *>(gathered)->unbind(0)};
    std::vector<at::Tensor> inputs{*static_cast<at::Tensor *>(tensor)};
    c10d::AllgatherOptions options;
    options.timeout = own.timeout;
    own.open().allgather(outputs, inputs, options)->wait();
  });
}

int fidgp_group_barrier(void *group, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    auto &own = *static_cast<Group *>(group);
    const Waits waits(own);
    c10d::BarrierOptions options;
    options.timeout = own.timeout;
    own.open().barrier(options)->wait();
  });
}

// A new tensor, which the caller owns.
int fidgp_group_sum(void *group, void *tensor, double mass, void **sum, char *message, std::size_t size) {
  return guarded(message, size, [&] {
    auto result = SumAcross::apply(*static_cast<at::Tensor *>(tensor), reinterpret_cast<int64_t>(group), mass);
    *sum = new at::Tensor(std::move(result));
  });
}

bool fidgp_group_waits(void *group) { return static_cast<Group *>(group)->waiting > 0; }

// Closes the connections: whoever waits for this process learns that it is gone.
void fidgp_group_close(void *group) {
  char ignored[256];
  guarded(ignored, sizeof ignored, [&] { static_cast<Group *>(group)->backend.reset(); });
}
}
