// Stand-in: libtorch holds contexts by pointer and makes them itself.
#pragma once

#include <chrono>

namespace gloo {
class Context {
public:
  void setTimeout(std::chrono::milliseconds timeout);
};
namespace transport {
class UnboundBuffer;
}
} // namespace gloo
