// What to play, as job.py writes it: little-endian words of 32 bits, in the order of the reads below.

#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Table {  // embedding rows, one after another
    uint32_t row_bytes = 0;
    std::vector<uint8_t> bytes;
};

struct Packets {  // words of a stream, and which of them carry `last`
    std::vector<uint8_t> bytes;
    std::vector<uint32_t> lasts;
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
        STALL = 64,  // every stream rests at random, by `seed`
        TRACE = 128, // every write of a named intermediate is recorded
    };
    uint32_t flags = 0;
    uint64_t seed = 0;
    uint32_t model = 0, tokens = 0, table = 0;  // which of Job::streams, of Job::tables
    uint32_t row_latency = 1;  // cycles from a request to its row's first word
    uint32_t row_words = 0;    // words that the memory answers with
    uint32_t row_silence = 0;  // the memory says nothing before this cycle
    uint32_t idle = 0;         // cycles before `start` is written
    uint32_t model_delay = 0, tokens_delay = 0;  // 0: offered before `start`
    std::vector<Event> events;
};

struct Case {
    uint32_t number = 0;
    std::vector<Run> runs;
};

struct Job {
    uint32_t lanes = 0;
    uint32_t mutant = 0;    // of a design that holds several; 0: the sound one
    uint32_t odd = 0;       // the client is odd (registers.h), and reads every register at the end
    uint32_t reset = 0;     // cycles of it before each case; 0: the accelerator goes on
    uint32_t quiet = 0;     // cycles after an end in which nothing may move
    uint32_t patience = 0;  // cycles without progress that count as standing still
    uint32_t longest = 0;   // cycles of an inference that do, with progress; 0: any number is right
    uint32_t interval = 1;  // cycles from one word of the command stream to the next
    uint32_t ahead = 1;     // words of it that are there before they are taken
    std::map<uint32_t, uint32_t> fixed;  // registers that always read the same, by address
    std::vector<Packets> streams;
    std::vector<Table> tables;
    std::vector<Case> cases;

    explicit Job(const std::string& path) {
        file_ = std::fopen(path.c_str(), "rb");
        if (!file_) throw std::runtime_error("cannot open " + path);
        if (word() != MAGIC) throw std::runtime_error(path + " is no job file");
        for (uint32_t* field : {&lanes, &mutant, &odd, &reset, &quiet, &patience, &longest, &interval, &ahead})
            *field = word();
        for (uint32_t left = word(); left; left--) {
            const uint32_t address = word();
            fixed[address] = word();
        }
        streams.resize(word());
        for (auto& stream : streams) {
            read(stream.bytes);
            read(stream.lasts);
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
                run.seed = word();
                run.seed |= uint64_t(word()) << 32;
                for (uint32_t* field : {&run.flags, &run.model, &run.tokens, &run.table, &run.row_latency,
                                        &run.row_words, &run.row_silence, &run.idle, &run.model_delay,
                                        &run.tokens_delay})
                    *field = word();
                run.events.resize(word());
                for (auto& event : run.events)
                    for (uint32_t* field : {&event.after, &event.count, &event.cycle, &event.action,
                                            &event.address, &event.strobe, &event.data})
                        *field = word();
            }
        }
        std::fclose(file_);
    }

  private:
    static constexpr uint32_t MAGIC = 0x4A523242;  // "B2RJ"
    std::FILE* file_ = nullptr;

    void bytes(void* to, size_t count) {
        if (count && std::fread(to, 1, count, file_) != count)
            throw std::runtime_error("the job file is cut short");
    }
    template <typename T> void read(std::vector<T>& to) {
        to.resize(word());
        bytes(to.data(), to.size() * sizeof(T));
    }
    uint32_t word() {
        uint32_t value;
        bytes(&value, sizeof value);
        return value;
    }
};
