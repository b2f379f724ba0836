#include "runtime/launch_watch.hpp"

namespace gex::runtime {

LaunchWatch*& LaunchWatch::slot() {
  static thread_local LaunchWatch* watch = nullptr;
  return watch;
}

}  // namespace gex::runtime
