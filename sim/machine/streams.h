// The accelerator with its streams: sources that keep a word until it is taken, a memory of embedding
// rows, sinks, and a watch over every word that is offered to a sink.
//
// Without stalls everything is exact, as sim/cycles/sources.py says. With stalls every word of a source
// may come any number of cycles later, and a sink is not ready in some cycles. A word that was offered
// stays until it is taken, as AXI demands.

#pragma once

#include <cstring>
#include <deque>

#include "inference.h"
#include "machine.h"

class Source {  // of words in packets; asked once a cycle whether it offers one, told when that was taken
  public:
    explicit Source(size_t word_bytes) : word_bytes(word_bytes) {}
    const size_t word_bytes;
    // From now on these words, which the caller keeps; what is left of others is forgotten.
    void load(const Packets& packets) {
        packets_ = &packets;
        words_ = packets.bytes.size() / word_bytes;
        taken_ = last_ = 0;
        held_.clear();
        offered_ = false;
    }
    void clear() { load(NONE); }
    void pace(uint64_t from, Stalls stalls, uint32_t interval = 1, uint32_t ahead = 1) {
        from_ = from;
        stalls_ = stalls;
        interval_ = interval;
        ahead_ = ahead;
    }
    bool offers(uint64_t cycle) {
        if (!offered_) offered_ = taken_ < words_ && cycle >= from_ && !stalls_.rest();
        return offered_;
    }
    const uint8_t* word() const { return packets_->bytes.data() + taken_ * word_bytes; }
    bool last() const { return last_ < packets_->lasts.size() && packets_->lasts[last_] == taken_; }
    void take(uint64_t cycle) {
        last_ += last();
        if (!taken_++) from_ = cycle;
        held_.push_back(cycle);
        if (held_.size() >= ahead_) {  // the next word finds room where this one lay
            if (from_ < held_.front()) from_ = held_.front();
            held_.pop_front();
        }
        from_ += interval_;
        offered_ = false;
    }
    size_t taken() const { return taken_; }
    size_t left() const { return words_ - taken_; }

  private:
    inline static const Packets NONE{};
    const Packets* packets_ = &NONE;
    size_t words_ = 0, taken_ = 0, last_ = 0;
    uint64_t from_ = 0;  // the next word is there from this cycle on
    uint32_t interval_ = 1, ahead_ = 1;
    std::deque<uint64_t> held_;  // when the last words were taken, fewer than `ahead`
    Stalls stalls_;
    bool offered_ = false;
};

// Answers every request in order, whatever becomes of the inference that asked, as a real memory does;
// only a reset makes it forget one.
class RowMemory {
  public:
    explicit RowMemory(size_t word_bytes) : word_bytes(word_bytes), word_(word_bytes) {}
    const size_t word_bytes;
    // Rows of this table, whose bytes the caller keeps, `words` each; 0: requests are not answered.
    void serve(const Table& table, uint32_t words, uint32_t latency, Stalls stalls) {
        table_ = table;
        words_ = words;
        latency_ = latency;
        stalls_ = stalls;
        beyond = -1;
    }
    void silent_until(uint64_t cycle) { silent_until_ = cycle; }
    int64_t beyond = -1;  // the first row that was asked for and is not in the table
    void ask(uint32_t row, uint64_t cycle) {
        if (!words_) return;
        if (beyond < 0 && size_t(row) * table_.row_bytes >= table_.bytes.count) beyond = row;
        asked_.push_back({row, words_, cycle + latency_});
    }
    bool offers(uint64_t cycle) {
        if (!offered_)
            offered_ = !asked_.empty() && cycle >= asked_.front().from && cycle >= silent_until_
                       && !stalls_.rest();
        return offered_;
    }
    // Rows and words beyond the table are noise.
    const uint8_t* word() {
        const size_t begin = size_t(asked_.front().row) * table_.row_bytes + at_ * word_bytes;
        const bool inside = (at_ + 1) * word_bytes <= table_.row_bytes
                            && begin + word_bytes <= table_.bytes.count;
        if (inside) return table_.bytes.data + begin;
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
    Table table_;
    size_t at_ = 0;
    std::vector<uint8_t> word_;
    uint32_t words_ = 0, latency_ = 1;
    uint64_t silent_until_ = 0;
    Stalls stalls_;
    std::deque<Asked> asked_;
    bool offered_ = false;
};

class StreamMachine : public Machine {
  public:
    // Verilator gives a port of 4 bytes or more a type of as many.
    explicit StreamMachine(uint32_t lanes)
        : lanes(lanes), model(sizeof top.s_axis_model_tdata), rows(lanes) {}

    const uint32_t lanes;
    Source model, tokens{4};
    RowMemory rows;
    Stalls request_stalls, logits_stalls;
    std::vector<int32_t> logits;
    std::vector<uint64_t> lasts;  // places of those with `last`

    void reset(uint32_t cycles) override {
        top.s_axis_model_tvalid = top.s_axis_tokens_tvalid = top.s_axis_rows_tvalid = 0;
        top.m_axis_request_tready = top.m_axis_logits_tready = 0;
        Machine::reset(cycles);
        for (Source* source : {&model, &tokens}) source->clear();
        rows.reset();
        request_watch_.reset();
        logits_watch_.reset();
    }

  protected:
    std::array<bool, Event::AFTERS> passes{};  // whether a word of a stream passes in this cycle

    void drive() override {
        Vtop& t = top;
        offer(model.offers(now), model, t.s_axis_model_tvalid, t.s_axis_model_tdata, t.s_axis_model_tlast);
        offer(tokens.offers(now), tokens, t.s_axis_tokens_tvalid, t.s_axis_tokens_tdata, t.s_axis_tokens_tlast);
        offer(rows.offers(now), rows, t.s_axis_rows_tvalid, t.s_axis_rows_tdata, t.s_axis_rows_tlast);
        t.m_axis_request_tready = !request_stalls.rest();
        t.m_axis_logits_tready = !logits_stalls.rest();
    }
    void see() override {
        Vtop& t = top;
        passes[Event::MODEL] = t.s_axis_model_tvalid && t.s_axis_model_tready;
        passes[Event::TOKENS] = t.s_axis_tokens_tvalid && t.s_axis_tokens_tready;
        passes[Event::ROWS] = t.s_axis_rows_tvalid && t.s_axis_rows_tready;
        passes[Event::REQUEST] = t.m_axis_request_tvalid && t.m_axis_request_tready;
        passes[Event::LOGITS] = t.m_axis_logits_tvalid && t.m_axis_logits_tready;
        if (passes[Event::MODEL]) model.take(now);
        if (passes[Event::TOKENS]) tokens.take(now);
        if (passes[Event::ROWS]) rows.take();
        watch(request_watch_, "m_axis_request", t.m_axis_request_tvalid, t.m_axis_request_tready,
              t.m_axis_request_tdata);
        watch(logits_watch_, "m_axis_logits", t.m_axis_logits_tvalid, t.m_axis_logits_tready,
              uint64_t(t.m_axis_logits_tlast) << 32 | t.m_axis_logits_tdata);
        if (passes[Event::REQUEST]) rows.ask(t.m_axis_request_tdata, now);
        if (passes[Event::LOGITS]) {
            if (t.m_axis_logits_tlast) lasts.push_back(logits.size());
            logits.push_back(int32_t(t.m_axis_logits_tdata));
        }
    }

  private:
    Watch request_watch_, logits_watch_;

    template <typename From, typename Data>
    void offer(bool offers, From& from, CData& valid, Data& data, CData& last) {
        valid = offers;
        if (coins) last = coins->next() & 1;  // noise while nothing is offered
        if (!offers) return;
        std::memcpy(&data, from.word(), from.word_bytes);
        last = from.last();
    }
};
