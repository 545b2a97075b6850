// Ends this process when its parent is gone: a simulation that nobody reads must not go on.

#pragma once

#include <chrono>
#include <cstdlib>
#include <thread>
#include <unistd.h>

// `parent` is the process that started this one, as it calls itself: had it died before this was
// called, getppid() would name another.
inline void end_with(pid_t parent) {
    std::thread([parent] {
        while (getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        std::_Exit(3);
    }).detach();
}
