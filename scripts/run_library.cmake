# libgex_run is made of object files of these layers.
set(GEX_RUN_OBJECTS "")
foreach(name base target nvidia problems types loop program plan runtime kernel_interp kernels codes files bounds
        model_files run capi_run)
  list(APPEND GEX_RUN_OBJECTS $<TARGET_OBJECTS:gex_layer_${name}>)
  if(NOT name STREQUAL "kernels")  # the linker drops functions that only the compiler uses
    target_compile_options(gex_layer_${name} PRIVATE -ffunction-sections)
  endif()
endforeach()

# Large sources that run once for each program that is loaded: small code, so that libgex_run stays below 4 MB. Its objects
# are those of libgex. Not in unity builds, which the demo and wheels use: both are without libgex_run, and a source with
# options of its own is compiled alone.
if(NOT GEX_UNITY)
  foreach(path loop/parse loop/print loop/single_op loop/verify nvidia/api program/artefact program/parse program/print
               program/verify problems/problem plan/merge_launches plan/repeat_launches plan/report plan/streams
               plan/super_kernels base/dim/text base/text/lexer interp/kernel_tape runtime/drivers/cpu/profile
               runtime/drivers/cuda/loaded runtime/drivers/cuda/side_streams runtime/session/image
               runtime/session/pairwise_probabilities runtime/session/registry runtime/session/staged_call
               backend/parsed_codes base/cpu_count base/log interp/eval_kernel plan/overlap program/text_line
               runtime/drivers/null/null_device runtime/memory/release_plan runtime/session/user_kernels
               frontend/capi/kernel frontend/capi/resources frontend/capi/run frontend/capi/run_host deploy/code_image deploy/container
               deploy/device_code deploy/metadata deploy/model deploy/signature cache/access_bounds cache/bounds_check
               cache/problem_bounds frontend/capi/model loop/builder loop/canonical base/tensor plan/checker
               cache/atomic_file backend/cpu/kernels/tuning_candidates runtime/background/static_code)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/${path}.cpp PROPERTIES COMPILE_OPTIONS -Os)
  endforeach()
endif()

# Autotuning needs a compiler. And a fifth of the size, for x86-64 processors without AVX2: see
# src/deploy/run_only/processor.cpp.
set(GEX_RUN_WITHOUT "cuda/launch_timer[.]cpp")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(GEX_RUN_WITHOUT "(cuda/launch_timer|kernels/variant_baseline)[.]cpp")
endif()
add_library(gex_run SHARED src/deploy/run_only/without_baseline.cpp
            src/deploy/run_only/without_launch_timer.cpp
            "$<FILTER:${GEX_RUN_OBJECTS},EXCLUDE,${GEX_RUN_WITHOUT}>")
target_link_libraries(gex_run PRIVATE gex_options ${CMAKE_DL_LIBS} pthread)
target_include_directories(gex_run PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:include>)
target_link_options(gex_run PRIVATE LINKER:--version-script=${CMAKE_SOURCE_DIR}/scripts/libgex_run.map
                    LINKER:--gc-sections LINKER:-s)
if(GEX_LLD)
  target_link_options(gex_run PRIVATE LINKER:--icf=all  # functions with equal code once
                      LINKER:-z,pack-relative-relocs)   # addresses in a tenth of the space; glibc 2.36
endif()
if(NOT GEX_SAN)  # sanitizers leave their functions to the program
  target_link_options(gex_run PRIVATE LINKER:--no-undefined)
endif()
if(SKBUILD)  # wheels have libgex
  set_target_properties(gex_run PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
set_target_properties(gex_run PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
                      VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/libgex_run.map)
