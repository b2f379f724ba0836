# For another processor: the tests of the kernels and a program that runs model files, both without the compiler of gex.
# scripts/aarch64 builds `cross_tests` and runs them under an emulator.
set(GEX_GTEST /usr/src/googletest/googletest CACHE PATH "Sources of GoogleTest, which is compiled for the other processor")
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/kernels/*.cpp)
list(FILTER sources EXCLUDE REGEX "linkage_test[.]cpp")  # it reads object files with the tools of this machine
add_executable(cross_test_kernels EXCLUDE_FROM_ALL ${sources} ${GEX_GTEST}/src/gtest-all.cc ${GEX_GTEST}/src/gtest_main.cc)
target_include_directories(cross_test_kernels SYSTEM PRIVATE ${GEX_GTEST} ${GEX_GTEST}/include)
target_link_libraries(cross_test_kernels PRIVATE gex_options gex_layer_kernels)
add_executable(cross_run_artefact EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/examples/layers/run_artefact.cpp)
target_link_libraries(cross_run_artefact PRIVATE gex_options gex_layer_run gex_layer_execute)
set_target_properties(cross_test_kernels cross_run_artefact PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_custom_target(cross_tests DEPENDS cross_test_kernels cross_run_artefact gex_run)
