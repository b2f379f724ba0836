# Headers under GE's names, so that programs for GE find what they include. Each includes all of
# include/gex/compat. Every op function of ge_ops*.hpp has its own header es_<Op>.h, as in GE.
set(GEX_GE_INCLUDE ${CMAKE_BINARY_DIR}/include/gex/compat/ge_include)
set(GEX_GE_HEADERS
    es_all_ops.h ge/es_graph_builder.h ge/ge_api.h ge/ge_api_types.h ge/ge_utils.h ge/fusion/graph_fuse_inspector_utils.h
    ge/fusion/graph_rewriter.h ge/fusion/infer_shape_util.h ge/fusion/match_result.h ge/fusion/pattern.h
    ge/fusion/pattern_matcher.h ge/fusion/pattern_matcher_config.h ge/fusion/subgraph_boundary.h
    ge/fusion/pass/decompose_pass.h ge/fusion/pass/fusion_base_pass.h ge/fusion/pass/fusion_pass_reg.h
    ge/fusion/pass/pattern_fusion_pass.h graph/ascend_string.h graph/gnode.h graph/graph.h graph/tensor.h
    graph/types.h register/register_custom_pass.h)
file(GLOB GEX_GE_OPS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/gex/compat/ge_ops*.hpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GEX_GE_OPS})
foreach(path ${GEX_GE_OPS})
  file(READ ${path} text)
  string(REGEX REPLACE "\nnamespace detail {.*}  // namespace detail" "" text "${text}")
  string(REGEX MATCHALL "\n(inline )?[A-Za-z0-9:<>]+ [A-Z][A-Za-z0-9]*\\(|\nusing gex::es::[A-Z][A-Za-z0-9]+" functions "${text}")
  foreach(function ${functions})
    string(REGEX MATCH "[A-Z][A-Za-z0-9]*\\(?$" name "${function}")
    string(REPLACE "(" "" name "${name}")
    if(name)
      list(APPEND GEX_GE_HEADERS es_${name}.h)
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES GEX_GE_HEADERS)
foreach(header ${GEX_GE_HEADERS})
  file(CONFIGURE OUTPUT ${GEX_GE_INCLUDE}/${header} CONTENT
       "#pragma once\n// GE's header of this name.\n\n#include \"gex/compat/ge_all.hpp\"\n")
endforeach()
