// An inference, and what it showed, as inference.py and result.py lay them out: pointers and numbers
// of 64 bits, in one order.

#pragma once

#include <cstdint>
#include <vector>

struct Packets {  // words of a stream, and which of them carry `last`
    std::vector<uint8_t> bytes;
    std::vector<uint32_t> lasts;
};

struct PacketsView {
    const uint8_t* bytes;
    uint64_t size;
    const uint32_t* lasts;
    uint64_t packets;
    Packets copy() const { return {{bytes, bytes + size}, {lasts, lasts + packets}}; }
};

struct Table {  // embedding rows, one after another
    const uint8_t* bytes = nullptr;
    uint64_t size = 0, row_bytes = 1;
};

struct Event {  // happens `cycle` cycles after `count` words of a stream, or after `start`, were taken
    enum Action : uint32_t { WRITE, READ, RESET };
    enum After : uint32_t { START, MODEL, TOKENS, REQUEST, ROWS, LOGITS, AFTERS };
    uint32_t after = START, count = 0;
    uint32_t cycle = 0, action = WRITE;
    uint32_t address = 0, strobe = 0, data = 0;  // RESET: `data` cycles long
};

struct Inference {
    enum Flag : uint64_t {
        KEEP = 1,    // the client cannot withdraw: words that were not taken stay offered
        REST = 2,    // words that are left come before its own
        RESCUE = 4,  // the case stands still by itself: `abort` is written then
        HURRY = 8,   // `start` is written again and again from the first event on
        KNOCK = 16,  // `start` and `abort` are written at once after the end: nothing may begin
        POLL = 32,   // the end is seen in `status`, not at the interrupt, which is then tried
        STALL = 64,  // every stream rests at random, by `seed`
        TRACE = 128, // every write of a named intermediate is recorded
    };
    const char* name;
    PacketsView model, tokens;
    Table table;  // which stays until the next inference
    const Event* events;
    uint64_t event_count;
    uint64_t flags, seed;
    uint64_t interval, ahead;  // cycles between words of the command stream; words that wait
    uint64_t row_words;      // that the memory answers with
    uint64_t row_latency;    // cycles from a request to its row's first word
    uint64_t row_silence;    // the memory says nothing before this cycle
    uint64_t idle;           // cycles before `start` is written
    uint64_t model_delay, tokens_delay;  // 0: offered before `start`
    uint64_t patience;  // cycles without progress that count as standing still
    uint64_t longest;   // cycles that do, with progress; 0: any number is right
};

struct Writes {  // of one trace port
    uint64_t count, bytes;  // bytes of a value, as Verilator holds the port
    const uint32_t *cycles, *addresses;
    const uint8_t* values;
};

struct Record {  // its pointers hold until the next inference
    const char* end;
    const char* wrong;  // what nobody may do, a line each
    int64_t model_rest, tokens_rest;  // words that the run before has left
    int64_t left;                     // words that stay offered
    int64_t status;                   // -1: the next run has begun before it was read
    int64_t sequence;                 // that has failed
    int64_t took;                     // cycles from the answer of `start` to the end
    int64_t model_from, model_taken, tokens_from, tokens_taken, rows_pending;
    int64_t beyond;                   // the first row that was asked for and is not there
    int64_t stall;                    // why there was no operand in the last cycle
    int64_t progress;                 // the last cycle in which something moved
    int64_t first_token, last_logit;  // cycles in which they passed
    int64_t simulated;                // cycles, register accesses included
    uint64_t logit_count, last_count, counter_count, operation_count, port_count;
    const int32_t* logits;
    const uint64_t* lasts;
    const uint32_t* counters;    // as the registers count: cycles, active, each cause of a stall
    const uint64_t* operations;  // number, first, last, active and each cause of a stall
    const Writes* writes;        // of each port; none where nothing was recorded
};
