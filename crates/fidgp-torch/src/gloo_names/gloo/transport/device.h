// Stand-in: a device is only passed on.
#pragma once

namespace gloo {
namespace transport {
class Device;
}
} // namespace gloo
