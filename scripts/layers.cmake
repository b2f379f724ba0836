# A static library for each layer of the engine: gex::base, gex::ir, gex::passes, ... A program links those it uses; their
# needs come with them. libgex_core, libgex and libgex_run are made of the same object files. `ninja gex_layers` makes the
# archives; `cmake --install BUILD --component layers` installs them for find_package(gex COMPONENTS layers).
# Lines go from the bottom layer up: a layer needs only those above its line (tests/python/test_layers.py checks it).
set(GEX_LAYERS "")
set(GEX_UNASSIGNED ${GEX_SOURCES})
add_custom_target(gex_layers)

# gex_objects(NAME KIND REGEX): the sources of src that match and that no earlier line has, compiled as target gex_layer_NAME.
function(gex_objects name kind pattern)
  set(sources ${GEX_UNASSIGNED})
  list(FILTER sources INCLUDE REGEX "${CMAKE_SOURCE_DIR}/src/(${pattern})")
  list(REMOVE_ITEM GEX_UNASSIGNED ${sources})
  set(GEX_UNASSIGNED ${GEX_UNASSIGNED} PARENT_SCOPE)
  add_library(gex_layer_${name} ${kind} EXCLUDE_FROM_ALL ${sources})
  target_compile_options(gex_layer_${name} PRIVATE $<TARGET_PROPERTY:gex_options,INTERFACE_COMPILE_OPTIONS>)
  target_include_directories(gex_layer_${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:include/gex/layers> $<INSTALL_INTERFACE:include>)
  gex_unity(gex_layer_${name})
endfunction()

# gex_layer(NAME REGEX [NEEDS layers or libraries...] [WITH objects...])
function(gex_layer name pattern)
  cmake_parse_arguments(layer "" "" "NEEDS;WITH" ${ARGN})
  gex_objects(${name} STATIC "${pattern}")
  set(GEX_UNASSIGNED ${GEX_UNASSIGNED} PARENT_SCOPE)
  add_library(gex::${name} ALIAS gex_layer_${name})
  foreach(need ${layer_NEEDS})
    if(TARGET gex_layer_${need})
      set(need gex_layer_${need})
    endif()
    target_link_libraries(gex_layer_${name} PUBLIC ${need})
  endforeach()
  foreach(objects ${layer_WITH})
    target_sources(gex_layer_${name} PRIVATE $<TARGET_OBJECTS:gex_layer_${objects}>)
  endforeach()
  target_compile_features(gex_layer_${name} INTERFACE cxx_std_20)
  set_target_properties(gex_layer_${name} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME gex_${name}
                        ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/layers)
  add_dependencies(gex_layers gex_layer_${name})
  set(GEX_LAYERS ${GEX_LAYERS} ${name} PARENT_SCOPE)
  set_property(GLOBAL APPEND_STRING PROPERTY GEX_LAYER_LIST "${name}: ${layer_NEEDS}\n")
endfunction()

# What a program that runs model files can do with.
gex_layer(base "base/" NEEDS pthread ${CMAKE_DL_LIBS})
gex_layer(target "target/" NEEDS base)
gex_layer(nvidia "nvidia/" NEEDS ${CMAKE_DL_LIBS})
gex_layer(problems "problems/" NEEDS base)
gex_layer(types "ir/(assume|type)[.]cpp" NEEDS base)
gex_layer(loop "loop/" NEEDS types base)
gex_layer(program "program/" NEEDS base)
gex_layer(plan "plan/" NEEDS program base)
gex_layer(runtime "runtime/" NEEDS plan program problems nvidia base)
gex_layer(execute "compile/execute[.]cpp" NEEDS runtime target base)
gex_layer(kernel_interp "interp/(eval_kernel|kernel_tape)[.]cpp" NEEDS loop program base)
gex_layer(kernels "backend/cpu/kernels/" NEEDS problems program base)
gex_layer(codes "backend/(parsed_codes|cpu/attached)[.]cpp" NEEDS kernels loop problems program base)
gex_layer(files "cache/(atomic_file|mapped_file)[.]cpp" NEEDS base)
gex_layer(bounds "cache/(access_bounds|bounds_check|problem_bounds)[.]cpp"
          NEEDS kernels loop problems program base)
gex_objects(model_files OBJECT "deploy/[a-z_]+[.]cpp")
gex_layer(run "deploy/run_only/(processor|text_code)[.]cpp" WITH model_files
          NEEDS runtime kernel_interp bounds codes files program nvidia target base)

# The compiler.
gex_layer(ir "ir/" NEEDS types base)
gex_layer(ops "ops/" NEEDS ir types loop problems target base)
# ir finds the ops through an object that nothing refers to: the linker is told to take its file.
target_link_options(gex_layer_ops INTERFACE LINKER:--undefined=_ZN3gex3ops20register_builtin_opsEv)
gex_layer(interp "interp/" NEEDS kernel_interp ops ir types loop base)
gex_layer(passes "passes/" NEEDS interp ops ir types loop base)
gex_layer(store "cache/(store|store_folder|object_store)[.]cpp" NEEDS files program base)
gex_layer(backend "backend/" NEEDS store codes kernels kernel_interp runtime loop problems nvidia target program base)
gex_layer(lower "lower/" NEEDS ops ir types loop target base)
gex_layer(options "compile/options[.]cpp" NEEDS ir base)
gex_layer(emit "emit/" NEEDS options backend lower plan ops ir types loop program problems target base)
gex_layer(compile "(compile|cache)/" NEEDS emit options lower backend store bounds codes files passes ops ir types
          execute runtime program problems target base)
gex_layer(deploy "deploy/build/" WITH model_files
          NEEDS compile backend store bounds codes files runtime program nvidia target base)
gex_layer(report "report/" NEEDS compile backend plan loop problems program runtime nvidia target types base)
gex_layer(fx "frontend/fx/" NEEDS ops ir types base)
gex_layer(onnx "frontend/onnx/" NEEDS compile execute interp ops ir types runtime base)

# The implementation of gex.h.
gex_objects(capi_run OBJECT
            "frontend/capi/(async|boundary|kernel|model|resources|run|run_host|tagged|tensor_view)[.]cpp")
gex_objects(capi OBJECT "frontend/capi/")

# Code that runs once for each model or graph: a fifth less time to compile it.
foreach(name deploy report onnx capi)
  target_compile_options(gex_layer_${name} PRIVATE -O1)
endforeach()

if(GEX_UNASSIGNED)
  message(FATAL_ERROR "no layer of scripts/layers.cmake has these sources: ${GEX_UNASSIGNED}")
endif()
get_property(GEX_LAYER_LIST GLOBAL PROPERTY GEX_LAYER_LIST)
file(WRITE ${CMAKE_BINARY_DIR}/lib/layers/needs.txt "${GEX_LAYER_LIST}")  # for the test

if(NOT SKBUILD)
  foreach(name ${GEX_LAYERS})
    install(TARGETS gex_layer_${name} EXPORT gex_layers
            ARCHIVE DESTINATION lib/gex COMPONENT layers EXCLUDE_FROM_ALL)
  endforeach()
  install(DIRECTORY src/ DESTINATION include/gex/layers COMPONENT layers EXCLUDE_FROM_ALL FILES_MATCHING
          PATTERN "*.hpp" PATTERN "*.def" PATTERN python EXCLUDE PATTERN llvm EXCLUDE)
  install(EXPORT gex_layers NAMESPACE gex:: FILE gexLayers.cmake DESTINATION lib/cmake/gex
          COMPONENT layers EXCLUDE_FROM_ALL)
endif()
