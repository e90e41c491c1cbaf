// One library of kernels. KERNELS is the file that has them. Each library has its own in a namespace without a name, so that
// nothing of one library is taken for something of another.
#include "device.h"

namespace {
#include KERNELS
}

// Gives the library the emulator's functions, and returns the list of its kernels.
extern "C" const emulator::Export* isentrope_emulated(const emulator::Calls* calls) {
  emulator::calls = calls;
  return emulated_unit_;
}
