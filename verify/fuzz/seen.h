// What the runs of a case showed, and the line of JSON that verify/fuzz/judge.py reads.

#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "names.h"  // made by sim/harness/names.py

struct Seen {  // of a run
    const char* end = "";
    bool model_rest = false, tokens_rest = false;  // words that the run before has left
    int64_t status = -1;                           // -1: the next run has begun before it was read
    uint32_t sequence = 0;  // that has failed
    uint64_t cycles = 0;
    size_t model_from = 0, model_taken = 0, tokens_from = 0, tokens_taken = 0, rows_pending = 0;
    std::vector<int32_t> logits;
    std::vector<size_t> lasts;
    std::array<uint32_t, CAUSES - 1> stalls{};  // as the registers count them
};

constexpr size_t MOST_LOGITS = 1000;  // that are told of a run

inline void print_run(const Seen& seen) {
    std::printf("{\"end\": \"%s\", \"model_rest\": %d, \"tokens_rest\": %d, \"status\": %lld, \"cycles\": %llu",
                seen.end, seen.model_rest, seen.tokens_rest, static_cast<long long>(seen.status),
                static_cast<unsigned long long>(seen.cycles));
    std::printf(", \"sequence\": %u", seen.sequence);
    std::printf(", \"model_from\": %zu, \"model_taken\": %zu, \"tokens_from\": %zu"
                ", \"tokens_taken\": %zu, \"rows_pending\": %zu, \"logits\": [",
                seen.model_from, seen.model_taken, seen.tokens_from, seen.tokens_taken,
                seen.rows_pending);
    for (size_t i = 0; i < seen.logits.size() && i < MOST_LOGITS; i++)
        std::printf("%s%d", i ? ", " : "", seen.logits[i]);
    std::printf("], \"lasts\": [");
    for (size_t i = 0; i < seen.lasts.size(); i++) std::printf("%s%zu", i ? ", " : "", seen.lasts[i]);
    std::printf("], \"stalls\": [");
    for (int i = 0; i < CAUSES - 1; i++) std::printf("%s%u", i ? ", " : "", seen.stalls[i]);
    std::printf("]}");
}

// wrong: what was complained of.
inline void print_case(uint32_t number, const std::deque<Seen>& runs, const std::vector<std::string>& wrong) {
    std::printf("{\"case\": %u, \"runs\": [", number);
    for (size_t i = 0; i < runs.size(); i++) {
        if (i) std::printf(", ");
        print_run(runs[i]);
    }
    std::printf("], \"wrong\": [");
    for (size_t i = 0; i < wrong.size(); i++) std::printf("%s\"%s\"", i ? ", " : "", wrong[i].c_str());
    std::printf("]}\n");
    std::fflush(stdout);
}
