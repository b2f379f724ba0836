# libgex_run is made of some of libgex's object files.
set(GEX_RUN_PATTERN "src/(base|loop|nvidia|plan|problems|program|runtime|target|backend/cpu/kernels)/")
string(APPEND GEX_RUN_PATTERN "|src/deploy/[a-z_]+[.]cpp")
string(APPEND GEX_RUN_PATTERN "|src/backend/(cpu/attached|parsed_codes)[.]cpp")
string(APPEND GEX_RUN_PATTERN "|src/cache/(access_bounds|atomic_file|bounds_check|mapped_file|problem_bounds)[.]cpp")
string(APPEND GEX_RUN_PATTERN "|src/interp/(eval_kernel|kernel_tape)[.]cpp")
string(APPEND GEX_RUN_PATTERN "|src/ir/(assume|type)[.]cpp")
string(APPEND GEX_RUN_PATTERN "|src/frontend/capi/(async|boundary|kernel|model|resources|run|run_host|tagged|tensor_view)[.]cpp")

# Large sources that run once for each program that is loaded: small code, so that libgex_run has at
# most 4 MiB. Its objects are those of libgex.
foreach(path loop/parse loop/print loop/verify program/parse program/verify problems/problem
             deploy/model cache/access_bounds cache/bounds_check)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/${path}.cpp PROPERTIES COMPILE_OPTIONS -Os)
endforeach()

# A fifth of the size, for x86-64 processors without AVX2: see src/deploy/run_only/processor.cpp.
set(GEX_RUN_WITHOUT "nothing")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(GEX_RUN_WITHOUT "kernels/variant_baseline[.]cpp")
endif()

file(GLOB GEX_RUN_ONLY CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/deploy/run_only/*.cpp)
if(GEX_UNITY)
  # Objects of a chunk hold sources of other parts too: all but the largest are compiled once more.
  set(GEX_RUN_SOURCES ${GEX_SOURCES})
  list(FILTER GEX_RUN_SOURCES INCLUDE REGEX "${GEX_RUN_PATTERN}")
  list(FILTER GEX_RUN_SOURCES EXCLUDE REGEX "kernels/variant_")
  add_library(gex_run SHARED ${GEX_RUN_ONLY} ${GEX_RUN_SOURCES})
  gex_unity(gex_run)
  set(GEX_RUN_PATTERN "kernels/variant_")
else()
  add_library(gex_run SHARED ${GEX_RUN_ONLY})
endif()
set(GEX_RUN_OBJECTS "$<FILTER:$<TARGET_OBJECTS:gex>,INCLUDE,${GEX_RUN_PATTERN}>")
target_sources(gex_run PRIVATE "$<FILTER:${GEX_RUN_OBJECTS},EXCLUDE,${GEX_RUN_WITHOUT}>")
target_link_libraries(gex_run PRIVATE gex_options ${CMAKE_DL_LIBS} pthread)
target_include_directories(gex_run PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:include>)
target_link_options(gex_run PRIVATE LINKER:--version-script=${CMAKE_SOURCE_DIR}/scripts/libgex_run.map
                    LINKER:--gc-sections LINKER:-s)
if(GEX_LLD)
  target_link_options(gex_run PRIVATE LINKER:--icf=all)  # functions with equal code once
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
