# gex_unity(TARGET): with GEX_UNITY, sources of one folder of src are compiled together, in chunks of
# about GEX_UNITY_BYTES. Most of a source's compile time goes to headers, which a chunk reads once.
# Sources with compile options or definitions of their own stay alone: CMake takes care of that.
set(GEX_UNITY_BYTES 64000)
# Names in unnamed namespaces meet in a chunk. Rename one of two that clash, or list its source here.
set(GEX_UNITY_ALONE
  backend/cuda/attention_text.cpp
  backend/cuda/conv2d_text.cpp
  backend/cuda/matmul_text.cpp
  backend/cuda/sort_text.cpp
  frontend/onnx/importer.cpp
  frontend/onnx/model.cpp
  frontend/onnx/ops_microsoft.cpp
  frontend/onnx/ops_ml.cpp
  frontend/onnx/ops_training.cpp
  cache/problem_bounds.cpp
  cache/store_folder.cpp
  backend/cpu/llvm/math_log.cpp
  frontend/python/runner.cpp)

function(gex_unity target)
  if(NOT GEX_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  set(layer_before "")
  foreach(path ${sources})
    cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${path})
    string(REGEX REPLACE "^src/" "" name ${name})
    string(REGEX REPLACE "/.*" "" layer ${name})
    file(SIZE ${path} size)
    if(NOT layer STREQUAL layer_before)
      set(chunk 0)
      set(bytes 0)
      set(layer_before ${layer})
    elseif(bytes GREATER GEX_UNITY_BYTES)
      math(EXPR chunk "${chunk} + 1")
      set(bytes 0)
    endif()
    if(name IN_LIST GEX_UNITY_ALONE)
      set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    math(EXPR bytes "${bytes} + ${size}")
    set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${layer}_${chunk})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
