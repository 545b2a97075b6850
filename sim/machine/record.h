// What the runs of a case showed, and the line of JSON that result.py reads.

#pragma once

#include <cinttypes>
#include <string>
#include <vector>

#include "trace.h"

struct Record {  // of a run
    const char* end = "";
    bool model_rest = false, tokens_rest = false;  // words that the run before has left
    int64_t status = -1;                           // -1: the next run has begun before it was read
    uint64_t sequence = 0;                         // that has failed
    uint64_t took = 0;                             // cycles from the answer of `start` to the end
    size_t model_from = 0, model_taken = 0, tokens_from = 0, tokens_taken = 0, rows_pending = 0;
    int64_t beyond = -1;                     // the first row that was asked for and is not there
    uint32_t stall = 0;                      // why there was no operand in the last cycle
    int64_t progress = 0;                    // the last cycle in which something moved
    int64_t first_token = 0, last_logit = 0;  // cycles in which they passed
    std::vector<int32_t> logits;
    std::vector<size_t> lasts;
    std::vector<uint32_t> counters;  // as the registers count: cycles, active, each cause of a stall
    Operations operations;
};

template <typename T> void print_list(const char* name, const T& values, size_t most = ~size_t(0)) {
    std::printf(", \"%s\": [", name);
    for (size_t i = 0; i < values.size() && i < most; i++)
        std::printf("%s%lld", i ? ", " : "", static_cast<long long>(values[i]));
    std::printf("]");
}

inline void print_run(const Record& one, size_t most_logits) {
    std::printf("{\"end\": \"%s\"", one.end);
    const std::pair<const char*, int64_t> numbers[] = {
        {"model_rest", one.model_rest},   {"tokens_rest", one.tokens_rest}, {"status", one.status},
        {"sequence", one.sequence},       {"took", one.took},               {"model_from", one.model_from},
        {"model_taken", one.model_taken}, {"tokens_from", one.tokens_from}, {"tokens_taken", one.tokens_taken},
        {"rows_pending", one.rows_pending}, {"beyond", one.beyond},         {"stall", one.stall},
        {"progress", one.progress},       {"first_token", one.first_token}, {"last_logit", one.last_logit},
    };
    for (const auto& [name, number] : numbers) std::printf(", \"%s\": %" PRId64, name, number);
    print_list("logits", one.logits, most_logits);
    print_list("lasts", one.lasts);
    print_list("counters", one.counters);
    std::printf(", \"operations\": [");
    const char* comma = "";
    for (const Operation& operation : one.operations.all()) {
        std::printf("%s[%u, %" PRIu64 ", %" PRIu64 ", %" PRIu64, comma, operation.number, operation.first,
                    operation.last, operation.active);
        for (int cause = 1; cause < CAUSES; cause++) std::printf(", %" PRIu64, operation.stalls[cause]);
        std::printf("]");
        comma = ", ";
    }
    std::printf("]}");
}

// wrong: what was complained of; simulated, seconds: what it took.
template <typename Runs>
void print_case(uint32_t number, const Runs& runs, const std::vector<std::string>& wrong, uint64_t simulated,
                double seconds, size_t most_logits) {
    std::printf("{\"number\": %u, \"runs\": [", number);
    for (size_t i = 0; i < runs.size(); i++) {
        if (i) std::printf(", ");
        print_run(runs[i], most_logits);
    }
    std::printf("], \"wrong\": [");
    for (size_t i = 0; i < wrong.size(); i++) std::printf("%s\"%s\"", i ? ", " : "", wrong[i].c_str());
    std::printf("], \"simulated\": %" PRIu64 ", \"seconds\": %.6f}\n", simulated, seconds);
    std::fflush(stdout);
}
