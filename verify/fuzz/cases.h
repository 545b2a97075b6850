// The job file of the fuzzer, written by verify/fuzz/job.py: cases, and the runs of each. All numbers
// are little-endian words of 32 bits, in the order of the reads below.

#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../sim/harness/job.h"  // Table

struct Packets {  // words of a stream; some of them carry `last`
    std::vector<uint8_t> bytes, last;
};

struct Event {  // happens `cycle` cycles after `count` words of a stream, or after `start`, were taken
    enum Action : uint32_t { WRITE, READ, RESET };
    enum After : uint32_t { START, MODEL, TOKENS, REQUEST, ROWS, LOGITS, AFTERS };
    uint32_t after = START, count = 0;
    uint32_t cycle = 0, action = WRITE;
    uint32_t address = 0, strobe = 0, data = 0;  // RESET: `data` cycles long
};

struct Run {  // one inference, good or bad
    enum Flag : uint32_t {
        KEEP = 1,    // the client cannot withdraw: words that were not taken stay offered
        REST = 2,    // runs only if words are left; they come before its own, again until none is
        RESCUE = 4,  // the case stands still by itself: `abort` is written then
        HURRY = 8,   // `start` is written again and again from the first event on
        KNOCK = 16,  // `start` and `abort` are written at once after the end: nothing may begin
        POLL = 32,   // the end is seen in `status`, not at the interrupt, which is then tried
    };
    uint32_t flags = 0, seed = 0;  // seed 0: no stream ever rests
    uint32_t table = 0;            // which of CaseFile::tables
    uint32_t row_latency = 1;      // cycles from a request to its row's first word
    uint32_t row_words = 0;        // words that the memory answers with
    uint32_t row_silence = 0;      // the memory says nothing before this cycle
    uint32_t idle = 0;             // cycles before `start` is written
    uint32_t model_delay = 0, tokens_delay = 0;  // 0: offered before `start`
    std::vector<Event> events;
    Packets model, tokens;
};

struct Case {
    uint32_t number = 0;
    std::vector<Run> runs;
};

struct CaseFile {
    uint32_t lanes = 0;
    uint32_t patience = 0;  // cycles without progress that count as standing still
    std::map<uint32_t, uint32_t> fixed;  // registers that always read the same, by address
    std::vector<Table> tables;
    std::vector<Case> cases;

    explicit CaseFile(const std::string& path) {
        file_ = std::fopen(path.c_str(), "rb");
        if (!file_) throw std::runtime_error("cannot open " + path);
        if (word() != MAGIC) throw std::runtime_error(path + " is no job file of the fuzzer");
        lanes = word();
        patience = word();
        for (uint32_t left = word(); left; left--) {
            const uint32_t address = word();
            fixed[address] = word();
        }
        tables.resize(word());
        for (auto& table : tables) {
            table.row_bytes = word();
            read(table.bytes);
        }
        cases.resize(word());
        for (auto& one : cases) {
            one.number = word();
            one.runs.resize(word());
            for (auto& run : one.runs) {
                for (uint32_t* field :
                     {&run.flags, &run.seed, &run.table, &run.row_latency, &run.row_words,
                      &run.row_silence, &run.idle, &run.model_delay, &run.tokens_delay})
                    *field = word();
                run.events.resize(word());
                for (auto& event : run.events)
                    for (uint32_t* field : {&event.after, &event.count, &event.cycle, &event.action,
                                            &event.address, &event.strobe, &event.data})
                        *field = word();
                for (Packets* stream : {&run.model, &run.tokens}) {
                    read(stream->bytes);
                    read(stream->last);
                }
            }
        }
        std::fclose(file_);
    }

  private:
    static constexpr uint32_t MAGIC = 0x46523242;  // "B2RF"
    std::FILE* file_ = nullptr;

    void bytes(void* to, size_t count) {
        if (count && std::fread(to, 1, count, file_) != count)
            throw std::runtime_error("the job file is cut short");
    }
    void read(std::vector<uint8_t>& to) {
        to.resize(word());
        bytes(to.data(), to.size());
    }
    uint32_t word() {
        uint32_t value;
        bytes(&value, sizeof value);
        return value;
    }
};
