"""The program on the page "Using AOT compilation", word for word."""

DOCUMENT = """
#define EIGEN_USE_THREADS
#define EIGEN_USE_CUSTOM_THREAD_POOL

#include <iostream>
#include "third_party/eigen3/unsupported/Eigen/CXX11/Tensor"
#include "tensorflow/compiler/aot/tests/test_graph_tfmatmul.h" // generated

int main(int argc, char** argv) {
 Eigen::ThreadPool tp(2); // Size the thread pool as appropriate.
 Eigen::ThreadPoolDevice device(&tp, tp.NumThreads());


 foo::bar::MatMulComp matmul;
 matmul.set_thread_pool(&device);

 // Set up args and run the computation.
 const float args[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
 std::copy(args + 0, args + 6, matmul.arg0_data());
 std::copy(args + 6, args + 12, matmul.arg1_data());
 matmul.Run();

 // Check result
 if (matmul.result0(0, 0) == 58) {
 std::cout << "Success" << std::endl;
 } else {
 std::cout << "Failed. Expected value 58 at 0,0. Got:"
 << matmul.result0(0, 0) << std::endl;
 }

 return 0;
}
"""
