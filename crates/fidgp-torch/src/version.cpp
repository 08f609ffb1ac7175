// Which libtorch this was compiled against, and which one the process runs with.

#include <cstdint>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

extern "C" {

// Both as libtorch writes them: a byte each for major, minor and patch, from the highest on. 0: it does not say.
void fidgp_versions(uint64_t *built, uint64_t *loaded) {
  *built = TORCH_ABI_VERSION;
  auto *asked = reinterpret_cast<uint64_t (*)()>(dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  *loaded = asked == nullptr ? 0 : asked();
}
}
