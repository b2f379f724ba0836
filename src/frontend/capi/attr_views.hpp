#pragma once
// Converts the engine's attributes to the C interface's, for callbacks.

#include <list>
#include <string>
#include <vector>

#include "gex/gex.h"
#include "ir/attrs.hpp"

namespace gex::capi {

// The attributes of one node in the form of gex.h; owns what they point to.
class AttrViews {
 public:
  AttrViews(const AttrSchema& schema, const AttrList& values);
  AttrViews(const AttrViews&) = delete;
  AttrViews& operator=(const AttrViews&) = delete;

  const std::vector<gex_attr>& attrs() const { return attrs_; }

 private:
  gex_attr view(const std::string& name, const AttrValue& value);
  gex_size size_of_dim(Dim dim);
  const gex_size* keep_sizes(const std::vector<Dim>& dims);

  std::vector<gex_attr> attrs_;
  // Lists, because their elements never move.
  std::list<std::string> texts_;
  std::list<std::vector<gex_size>> sizes_;
  std::list<std::vector<const char*>> strings_;
};

}  // namespace gex::capi
