// An inference, and what it showed, as inference.py and result.py lay them out and describe them:
// pointers and numbers of 64 bits, in one order.

#pragma once

#include <cstdint>
#include <vector>

template <typename T> struct Span {
    const T* data = nullptr;
    uint64_t count = 0;
    Span() = default;
    Span(const std::vector<T>& from) : data(from.data()), count(from.size()) {}
    std::vector<T> copy() const { return {data, data + count}; }
};

struct Packets {  // words of a stream, and which of them carry `last`
    std::vector<uint8_t> bytes;
    std::vector<uint32_t> lasts;
};

struct PacketsView {
    Span<uint8_t> bytes;
    Span<uint32_t> lasts;
    Packets copy() const { return {bytes.copy(), lasts.copy()}; }
};

struct Table {  // embedding rows, one after another
    Span<uint8_t> bytes;
    uint64_t row_bytes = 1;
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
    Span<Event> events;
    uint64_t flags, seed;
    uint64_t interval, ahead;  // cycles between words of the command stream; words that wait
    uint64_t row_words, row_latency, row_silence, idle, model_delay, tokens_delay, patience, longest;
};

struct Writes {  // of one trace port
    Span<uint32_t> cycles, addresses;
    Span<uint8_t> values;
    uint64_t bytes;  // of a value, as Verilator holds the port
};

struct Operation;
struct Record {  // see result.py; its pointers hold until the next inference
    const char* end;
    const char* wrong;  // what nobody may do, a line each
    int64_t model_rest, tokens_rest, left, status, sequence, took, model_from, model_taken, tokens_from;
    int64_t tokens_taken, rows_pending, beyond, stall, progress, first_token, last_logit, simulated;
    Span<int32_t> logits;
    Span<uint64_t> lasts;
    Span<uint32_t> counters;     // as the registers count: cycles, active, each cause of a stall
    Span<Operation> operations;  // number, first, last, active and each cause of a stall
    Span<Writes> writes;         // of each port; none where nothing was recorded
};
