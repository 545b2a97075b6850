// The far ends of the accelerator's streams: when a word is offered and when one is taken.
//
// Without stalls everything is exact, so that a cycle model can mirror it:
//   command stream  from the first word that is taken on, a word comes every `interval` cycles into
//                   a buffer of `ahead` words, none while that is full; with `ahead` 1, word k+1 is
//                   offered `interval` cycles after word k was taken;
//   tokens          a word a cycle;
//   rows            the row asked for in cycle t is there from cycle t + row_latency on, its words
//                   one a cycle after those of the rows asked for before it;
//   request, logits always ready.
// With stalls every word of a source may come any number of cycles later, and a sink is not ready
// in some cycles. A word that was offered stays until it is taken, as AXI demands.

#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>

#include "job.h"

class Random {  // splitmix64, Steele, Lea and Flood, 2014
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

  private:
    uint64_t state_;
};

class Stalls {  // whether a stream's end rests in a cycle; how often is drawn once an inference
  public:
    Stalls(bool on, uint64_t seed) : random_(seed) {
        static const uint32_t sixteenths[] = {0, 4, 8, 14};
        chance_ = on ? sixteenths[random_.next() & 3] : 0;
    }
    bool rest() { return chance_ && (random_.next() & 15) < chance_; }

  private:
    Random random_;
    uint32_t chance_;
};

// A source is asked once a cycle whether it offers a word, and told when that word was taken.

class WordSource {  // the command stream, or the tokens: words from one block, `interval` apart
  public:
    WordSource(const uint8_t* bytes, size_t words, size_t word_bytes, uint32_t interval,
               uint32_t ahead, Stalls stalls)
        : bytes_(bytes), words_(words), word_bytes_(word_bytes), interval_(interval), ahead_(ahead),
          stalls_(stalls) {}
    bool offers(uint64_t cycle) {
        if (!offered_) offered_ = taken_ < words_ && cycle >= from_ && !stalls_.rest();
        return offered_;
    }
    const uint8_t* word() const { return bytes_ + taken_ * word_bytes_; }
    bool last() const { return taken_ + 1 == words_; }
    void take(uint64_t cycle) {
        if (!taken_++) from_ = cycle;
        held_.push_back(cycle);
        if (held_.size() == ahead_) {  // the next word finds room where this one lay
            if (from_ < held_.front()) from_ = held_.front();
            held_.pop_front();
        }
        from_ += interval_;
        offered_ = false;
    }
    size_t taken() const { return taken_; }
    size_t words() const { return words_; }

  private:
    const uint8_t* bytes_;
    size_t words_, word_bytes_, taken_ = 0;
    uint64_t from_ = 0;  // the next word is there from this cycle on
    uint32_t interval_, ahead_;
    std::deque<uint64_t> held_;  // when the last words were taken, fewer than `ahead`
    Stalls stalls_;
    bool offered_ = false;
};

// The embedding memory. It lives as long as the accelerator, as a real one does: rows that were asked
// for come, whatever becomes of the inference that asked for them.
class RowSource {
  public:
    RowSource(size_t word_bytes, uint32_t latency) : word_bytes_(word_bytes), latency_(latency) {}
    // Rows asked for from now on are those of this table, and rest like this.
    void serve(const Table& table, Stalls stalls) {
        table_ = &table;
        stalls_ = stalls;
    }
    void ask(uint32_t row, uint64_t cycle) {
        if (!table_ || row >= table_->rows)
            throw std::runtime_error("row " + std::to_string(row) + " was asked for, the table has "
                                     + std::to_string(table_ ? table_->rows : 0));
        asked_.push_back({table_, row, cycle + latency_});
    }
    bool offers(uint64_t cycle) {
        if (!offered_) offered_ = !asked_.empty() && cycle >= asked_.front().from && !stalls_.rest();
        return offered_;
    }
    const uint8_t* word() const {
        const Asked& one = asked_.front();
        return one.table->bytes.data() + size_t(one.row) * one.table->row_bytes + at_;
    }
    bool last() const { return at_ + word_bytes_ == asked_.front().table->row_bytes; }
    void take() {
        offered_ = false;
        if (last()) {
            at_ = 0;
            asked_.pop_front();
        } else {
            at_ += word_bytes_;
        }
    }
    size_t pending() const { return asked_.size(); }

  private:
    struct Asked {
        const Table* table;
        uint32_t row;
        uint64_t from;
    };
    const Table* table_ = nullptr;
    size_t word_bytes_, at_ = 0;
    uint32_t latency_;
    Stalls stalls_{false, 0};
    std::deque<Asked> asked_;
    bool offered_ = false;
};

// What a sink sees: an offered word stays as it is until it is taken (AXI4-Stream, 2.2.1).
class Offer {
  public:
    explicit Offer(const char* name) : name_(name) {}
    // One cycle; whether a word passes.
    bool cycle(bool valid, bool ready, uint32_t data, bool last) {
        if (open_ && (!valid || data != data_ || last != last_))
            throw std::runtime_error(std::string(name_) + ": the word " + std::to_string(data_)
                                     + " was withdrawn or changed before it was taken");
        open_ = valid && !ready;
        data_ = data;
        last_ = last;
        return valid && ready;
    }

  private:
    const char* name_;
    bool open_ = false, last_ = false;
    uint32_t data_ = 0;
};
