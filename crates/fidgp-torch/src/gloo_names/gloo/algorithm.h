// Stand-in: libtorch's header of its Gloo group includes this one, which its package leaves out, and uses nothing of it.
#pragma once
