// A Kalman filter at 10 kHz: prints the estimate and the longest time of a call.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>
#include "kalman.h"

int main(int argc, char **argv) {
    using clock = std::chrono::steady_clock;
    const bool waits = argc < 2;  // an argument: as fast as it goes
    (void)argv;
    float mean[KALMAN_START_OUT_MEAN_SIZE], covariance[KALMAN_START_OUT_COVARIANCE_SIZE];
    kalman_start_in first{0.0f};
    kalman_start_out state{};
    state.mean = mean, state.covariance = covariance;
    if (kalman_start_run(&first, &state, nullptr, 0)) return 1;

    double worst = 0, total = 0;
    const int steps = 20000;
    auto next = clock::now();
    for (int i = 1; i <= steps; i++) {
        const float t = i * 1e-4f, noise = 0.05f * std::sin(9e4f * t);
        kalman_update_in in{};
        in.state.mean = mean, in.state.covariance = covariance;
        in.position = 3.0f * t + noise;
        kalman_update_out out{};  // set to the arrays of `in`
        const auto before = clock::now();
        if (const int code = kalman_update_run(&in, &out, nullptr, 0)) {
            std::fprintf(stderr, "%s\n", kalman_update_error(code));
            return 1;
        }
        const std::chrono::duration<double, std::micro> took = clock::now() - before;
        worst = std::max(worst, took.count()), total += took.count();
        next += std::chrono::microseconds(100);
        if (waits) std::this_thread::sleep_until(next);
    }
    std::printf("position %.3f, velocity %.3f after 2 s\n", mean[0], mean[1]);
    std::printf("mean time %.3f us, longest %.3f us\n", total / steps, worst);
}
