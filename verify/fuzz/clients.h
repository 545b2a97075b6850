// What stands around the accelerator: sources that keep a word until it is taken, a row memory that
// lives on from inference to inference, and a watch over every word that is offered to a sink.

#pragma once

#include <cstring>
#include <deque>
#include <optional>

#include "../../sim/harness/streams.h"
#include "cases.h"

class PacketSource {  // the command stream, or the tokens
  public:
    explicit PacketSource(size_t word_bytes) : word_bytes_(word_bytes) {}
    // Forget what is left, unless the client keeps it.
    void load(const Packets& packets) {
        bytes_ = packets.bytes;
        last_ = packets.last;
        taken_ = 0;
        offered_ = false;
    }
    void clear() { load(Packets{}); }
    void pace(uint64_t from, Stalls stalls) {
        from_ = from;
        stalls_ = stalls;
    }
    bool offers(uint64_t cycle) {
        if (!offered_) offered_ = left() && cycle >= from_ && !stalls_.rest();
        return offered_;
    }
    const uint8_t* word() const { return bytes_.data() + taken_ * word_bytes_; }
    bool last() const { return last_[taken_]; }
    void take() {
        taken_++;
        offered_ = false;
    }
    void withdraw() { offered_ = false; }
    size_t taken() const { return taken_; }
    size_t left() const { return last_.size() - taken_; }

  private:
    size_t word_bytes_, taken_ = 0;
    std::vector<uint8_t> bytes_, last_;
    uint64_t from_ = 0;
    Stalls stalls_{false, 0};
    bool offered_ = false;
};

class RowMemory {  // answers every request in order; only a reset makes it forget one
  public:
    explicit RowMemory(size_t word_bytes) : word_bytes_(word_bytes), word_(word_bytes) {}
    void behave(const Table& table, const Run& run, Stalls stalls) {
        table_ = &table;
        words_ = run.row_words;
        latency_ = run.row_latency;
        stalls_ = stalls;
    }
    void silent_until(uint64_t cycle) { silent_until_ = cycle; }
    void ask(uint32_t row, uint64_t cycle) {
        if (words_) asked_.push_back({row, words_, cycle + latency_});
    }
    bool offers(uint64_t cycle) {
        if (!offered_)
            offered_ = !asked_.empty() && cycle >= asked_.front().from && cycle >= silent_until_
                       && !stalls_.rest();
        return offered_;
    }
    // The word `at` of the row; rows and words beyond the table are noise.
    const uint8_t* word() {
        const size_t begin = size_t(asked_.front().row) * table_->row_bytes + at_ * word_bytes_;
        const bool inside = (at_ + 1) * word_bytes_ <= table_->row_bytes
                            && begin + word_bytes_ <= table_->bytes.size();
        if (inside) return table_->bytes.data() + begin;
        Random noise(begin);
        for (auto& byte : word_) byte = uint8_t(noise.next());
        return word_.data();
    }
    bool last() const { return at_ + 1 == asked_.front().words; }
    void take() {
        offered_ = false;
        const bool row_end = last();
        at_ = row_end ? 0 : at_ + 1;
        if (row_end) asked_.pop_front();
    }
    size_t pending() const { return asked_.size(); }
    void reset() {
        asked_.clear();
        at_ = 0;
        offered_ = false;
    }

  private:
    struct Asked {
        uint32_t row, words;
        uint64_t from;
    };
    const Table* table_ = nullptr;
    size_t word_bytes_, at_ = 0;
    std::vector<uint8_t> word_;
    uint32_t words_ = 0, latency_ = 1;
    uint64_t silent_until_ = 0;
    Stalls stalls_{false, 0};
    std::deque<Asked> asked_;
    bool offered_ = false;
};

class Watch {  // a word that was offered stays, unchanged, until it is taken
  public:
    // What is wrong in this cycle, "" for nothing.
    const char* cycle(bool valid, bool ready, uint64_t word) {
        const char* wrong = "";
        if (held_ && !valid) wrong = "withdrawn";
        if (held_ && valid && *held_ != word) wrong = "changed";
        held_.reset();
        if (valid && !ready) held_ = word;
        return wrong;
    }
    void reset() { held_.reset(); }

  private:
    std::optional<uint64_t> held_;
};
