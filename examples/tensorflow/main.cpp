// quadrant X Y: the quadrant in which a point lies, as the network sees it.
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "quadrant/Quadrant.hpp"

int main(int count, char **words) {
  if (count != 3) {
    std::cerr << "usage: quadrant X Y\n";
    return 2;
  }
  Quadrant network;
  network.arg_x(0, 0) = std::strtof(words[1], nullptr);
  network.arg_x(0, 1) = std::strtof(words[2], nullptr);
  if (!network.Run()) {
    std::cerr << network.error_msg() << "\n";
    return 1;
  }
  const float *scores = network.result_scores_data();
  std::cout << "quadrant " << std::max_element(scores, scores + 4) - scores + 1 << "\n";
}
