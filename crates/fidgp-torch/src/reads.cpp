// Counts the operations of this thread that make the host wait for a device: reading a number, or a size that depends on numbers.

#include <ATen/record_function.h>
#include <cstdint>
#include <cstring>
#include <memory>

namespace {

constexpr const char *READS[] = {"aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::masked_select", "aten::_unique2"};

thread_local std::uint64_t count = 0;

std::unique_ptr<at::ObserverContext> look(const at::RecordFunction &function) {
  for (const char *name : READS) {
    count += std::strcmp(function.name(), name) == 0;
  }
  return nullptr;
}

} // namespace

extern "C" {

std::uint64_t fidgp_reads_begin() {
  count = 0;
  return at::addThreadLocalCallback(at::RecordFunctionCallback(look).scopes({at::RecordScope::FUNCTION}));
}

std::uint64_t fidgp_reads_end(std::uint64_t handle) {
  at::removeCallback(handle);
  return count;
}
}
