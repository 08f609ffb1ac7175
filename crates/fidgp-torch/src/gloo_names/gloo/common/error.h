// Stand-in, as algorithm.h.
#pragma once
