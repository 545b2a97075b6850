// Plays inferences on the accelerator with streams, as fast as Verilator can, and records what each
// showed at the ports. Whether that is right is judged elsewhere; this side judges what holds whatever
// is played: an offered word is neither withdrawn nor changed, the register file answers as it must,
// nothing starts unasked.

#pragma once

#include <stdexcept>

#include "streams.h"
#include "trace.h"

using namespace registers;
constexpr int BEGIN_CYCLES = 20;      // from a write of `start` to a fallen interrupt
constexpr uint64_t POLL_CYCLES = 16;  // between reads of `status`
constexpr uint64_t NOISY_READ = 127;  // of so many cycles and one a register is read, whatever runs
constexpr uint64_t WRITE_TO_BUSY = 2;  // the write of `start` is taken; then the pulse; then `busy`
constexpr uint64_t NEVER = ~uint64_t(0);

class Player : public StreamMachine {
  public:
    // odd: the client is odd (registers.h), reads every register at the end, and aborts what hangs.
    // fixed: registers that always read the same, by address.
    Player(uint32_t lanes, uint32_t mutant, bool odd, const std::map<uint32_t, uint32_t>& fixed)
        : StreamMachine(lanes), odd_(odd), quiet_(odd ? 8 : 1), fixed_(fixed), account_(fixed_) {
        choose_mutant(top, mutant, 0);
        registers.judge(account_);
        reset(4);
        cycle();
        if (const uint32_t has = read(LANES); has != lanes)
            throw std::runtime_error("the design has " + std::to_string(has) + " lanes, not "
                                     + std::to_string(lanes));
        if (odd_) coins = &noise_, registers.be_odd(noise_);
    }
    // As after power-up but for so many cycles of reset; the odd client's noise is of this seed.
    void restart(uint32_t cycles, uint64_t seed) {
        wrong.clear();
        now = 0;
        noise_ = Random(seed);
        idle_ = true;
        begun_ = false;
        start_over(cycles);
    }
    // What it showed; its pointers hold until the next one.
    Record play(const Inference& one);
    void cycle() override;

  private:
    const bool odd_;
    const uint32_t quiet_;  // cycles after an end in which nothing may move
    const std::map<uint32_t, uint32_t> fixed_;
    Account account_;
    Random noise_{0};
    Packets model_packets_, tokens_packets_;
    bool waits_ = false;      // for the end of an inference
    bool under_way_ = false;  // one was, in the cycle before
    bool moved_ = false, idle_ = true;
    bool begun_ = false;  // HURRY's `start` was taken
    bool fell_ = false;   // the interrupt was low since the latest `start`
    bool starting_ = false;  // `start` is written
    uint64_t busy_from_ = NEVER;
    std::vector<Event> events_;      // of the inference, and in which cycle each is due
    std::vector<uint64_t> due_;
    std::array<uint64_t, Event::AFTERS> passed_{};  // words of this inference
    uint64_t first_token_ = 0, last_logit_ = 0;
    Record record_{};
    bool traces_ = false;
    Trace trace_;
    Operations operations_;
    std::vector<uint32_t> counters_;
    std::vector<Writes> writes_;
    std::string complaints_;

    void start_over(uint32_t cycles) {
        reset(cycles);
        waits_ = under_way_ = false;
        busy_from_ = NEVER;
    }
    bool wait_for_end(const Inference& one, bool with_events);
    void try_interrupt();
    void read_counters();
    void run(const Inference& one);
};

inline void Player::cycle() {
    account_.see(interrupt(), under_way_);
    settle();
    account_.count(top.trace_active, top.trace_stall);
    moved_ = top.trace_active;
    for (uint32_t stream = Event::MODEL; stream < Event::AFTERS; stream++) {
        if (!passes[stream]) continue;
        moved_ = true;
        for (size_t i = 0; i < events_.size(); i++)
            if (events_[i].after == stream && events_[i].count == passed_[stream])
                due_[i] = now + events_[i].cycle;
        if (stream == Event::TOKENS && !passed_[stream]) first_token_ = now;
        if (stream == Event::LOGITS) last_logit_ = now;
        passed_[stream]++;
    }
    if (starting_ && registers.taken_at() == now) {
        starting_ = false;
        busy_from_ = now + WRITE_TO_BUSY;
    }
    if (now >= busy_from_) {
        operations_.cycle(now - busy_from_, top.trace_active, top.trace_operation, top.trace_stall);
        if (traces_) trace_.record(top, uint32_t(now - busy_from_));
    }
    if (interrupt() && !account_.enabled()) complain("there is an interrupt, although it is disabled");
    if (idle_ && top.m_axis_request_tvalid) complain("m_axis_request asks between inferences");
    if (idle_ && top.m_axis_logits_tvalid) complain("m_axis_logits speaks between inferences");
    if (idle_ && (passes[Event::MODEL] || passes[Event::TOKENS])) complain("a word is taken between inferences");
    fell_ |= !interrupt();
    under_way_ = waits_ && !interrupt();
    edge();
}

// Cycles until the inference has ended; false when nothing has moved for too long.
inline bool Player::wait_for_end(const Inference& one, bool with_events) {
    const bool hurry = with_events && one.flags & Inference::HURRY, poll = one.flags & Inference::POLL;
    const uint64_t origin = now;
    uint64_t progress = now;
    size_t next = 0;
    registers.forget_status();
    waits_ = true;
    while (poll ? !(registers.status() & DONE) : !interrupt()) {
        if (poll && registers.idle() && now % POLL_CYCLES == 0) registers.queue_read(STATUS);
        for (; with_events && next < events_.size() && now >= due_[next]; next++) {
            const Event& event = events_[next];
            if (event.action == Event::RESET) {
                record_.end = "reset";
                start_over(event.data);
                return true;
            }
            registers.queue({event.action == Event::WRITE, event.address, event.strobe, event.data});
        }
        if (hurry && next && registers.idle()) registers.queue_write(CONTROL, START);
        if (coins && registers.idle() && (coins->next() & NOISY_READ) == 0)
            registers.queue({false, uint32_t(coins->next() & (REGISTER_BYTES - 1)), 0, 0, true});
        cycle();
        if (moved_) progress = now;
        const bool too_long = one.longest && now - origin > one.longest;
        if (now - progress > one.patience || too_long) {
            record_.end = too_long ? "too long" : "hang";
            record_.stall = top.trace_stall;
            record_.progress = int64_t(progress - busy_from_);
            return false;
        }
    }
    waits_ = false;
    return true;
}

// Between inferences: the level is what the two registers say, and an acknowledgement lasts.
inline void Player::try_interrupt() {
    if (read(INTERRUPT_ENABLE) != account_.enabled()) complain("interrupt_enable is not what was written");
    for (uint32_t enable : {1u, 0u}) {
        write(INTERRUPT_ENABLE, enable);
        if (interrupt() != (enable && read(INTERRUPT_PENDING)))
            complain("the interrupt is not pending and enabled");
    }
    write(INTERRUPT_PENDING, 1);
    write(INTERRUPT_ENABLE, 1);
    for (uint32_t i = 0; i < quiet_; i++) cycle();
    if (interrupt() || read(INTERRUPT_PENDING)) complain("the interrupt stays after its acknowledgement");
}

// An odd client reads every register, mapped or not. No cycle of a good inference is left unexplained.
inline void Player::read_counters() {
    std::map<uint32_t, uint32_t> shown;
    if (odd_)
        for (uint32_t address = 0; address < REGISTER_BYTES; address += 4) shown[address] = read(address);
    else
        for (uint32_t address : COUNTERS) shown[address] = read(address);
    for (uint32_t address : COUNTERS) counters_.push_back(shown[address]);
    uint64_t explained = shown[ACTIVE];
    for (int i = 2; i < 1 + CAUSES; i++) explained += counters_[i];
    if ((record_.status >> 8 & 15) == 0 && record_.status & DONE && explained != shown[CYCLES])
        complain("active and stalled cycles are " + std::to_string(explained) + " of " +
                 std::to_string(shown[CYCLES]));
}

inline void Player::run(const Inference& one) {
    events_ = one.events.copy();
    due_.assign(events_.size(), NEVER);
    passed_.fill(0);
    logits.clear();
    lasts.clear();
    Random seeds(one.seed);
    auto stalls = [&] { return Stalls(one.flags & Inference::STALL, seeds.next()); };
    record_.model_rest = one.flags & Inference::REST && model.left();
    record_.tokens_rest = one.flags & Inference::REST && tokens.left();
    if (!record_.model_rest) model.load(model_packets_ = one.model.copy());
    if (!record_.tokens_rest) tokens.load(tokens_packets_ = one.tokens.copy());
    record_.model_from = int64_t(model.taken());
    record_.tokens_from = int64_t(tokens.taken());
    model.pace(one.model_delay ? now + one.idle + one.model_delay : 0, stalls(), uint32_t(one.interval),
               uint32_t(one.ahead));
    tokens.pace(one.tokens_delay ? now + one.idle + one.tokens_delay : 0, stalls());
    rows.serve(one.table, uint32_t(one.row_words), uint32_t(one.row_latency), stalls());
    rows.silent_until(now + one.row_silence);
    request_stalls = stalls();
    logits_stalls = stalls();
    if (odd_) registers.pace(stalls());
    for (uint32_t i = 0; i < one.idle; i++) cycle();

    idle_ = false;
    fell_ = begun_;
    if (!begun_) {
        starting_ = true;
        write(CONTROL, START);
        starting_ = false;
    }
    begun_ = false;
    const uint64_t origin = now;
    for (size_t i = 0; i < events_.size(); i++)
        if (events_[i].after == Event::START) due_[i] = origin + events_[i].cycle;
    bool ended = true;
    const uint32_t starts = account_.starts();
    // It may have ended again before the answer to the write was taken.
    for (int i = 0; i < BEGIN_CYCLES && !fell_; i++) cycle();
    if (!fell_) {
        record_.end = "not started";
    } else {
        record_.end = "done";
        ended = wait_for_end(one, true);
        if (!ended && odd_) {
            if (one.flags & Inference::RESCUE) record_.end = "rescued";
            finish_transfers();
            registers.queue_write(CONTROL, ABORT);
            rows.silent_until(0);
            ended = wait_for_end(one, false);
            if (!ended) record_.end = "abort does not end";
        }
    }
    record_.took = int64_t(now - origin);
    record_.model_taken = int64_t(model.taken());
    record_.tokens_taken = int64_t(tokens.taken());
    record_.rows_pending = int64_t(rows.pending());
    record_.beyond = rows.beyond;
    record_.first_token = int64_t(first_token_ - busy_from_);
    record_.last_logit = int64_t(last_logit_ - busy_from_);
    if (!ended || !fell_) {
        start_over(4);
        return;
    }
    if (std::strcmp(record_.end, "reset") == 0) {
        idle_ = true;
        return;
    }
    const bool hurry = one.flags & Inference::HURRY, poll = one.flags & Inference::POLL;
    idle_ = !hurry;
    if (!(one.flags & (Inference::KEEP | Inference::REST))) {
        model.clear();
        tokens.clear();
    }
    if (one.flags & Inference::KNOCK) registers.queue_write(CONTROL, START | ABORT);
    finish_transfers();
    for (uint32_t i = 0; i < quiet_; i++) cycle();
    // An event may have written `start` in the very last cycle, so that it acts behind the end.
    begun_ = (hurry || account_.starts() != starts) && !interrupt();
    idle_ = !begun_;
    busy_from_ = NEVER;
    if (begun_) return;
    if (!poll && !interrupt()) complain("an inference has begun unasked");
    record_.status = read(STATUS);
    record_.sequence = read(FAILED_SEQUENCE);
    account_.failed(uint32_t(record_.sequence));
    if (poll) try_interrupt();
    if (!odd_) record_.status = read(STATUS);
    read_counters();
}

inline Record Player::play(const Inference& one) {
    const uint64_t before = now;
    record_ = {};
    record_.status = -1;
    operations_ = {};
    counters_.clear();
    traces_ = one.flags & Inference::TRACE;
    trace_ = {};
    run(one);
    complaints_.clear();
    for (const auto& text : wrong) complaints_ += text + "\n";
    wrong.clear();
    record_.wrong = complaints_.c_str();
    record_.left = int64_t(model.left() + tokens.left());
    record_.simulated = int64_t(now - before);
    record_.logits = logits;
    record_.lasts = lasts;
    record_.counters = counters_;
    record_.operations = operations_.all();
    static_assert(sizeof(Operation) == (4 + CAUSES) * sizeof(uint64_t));
    writes_.clear();
    for (const Port& port : trace_.ports)
        if (traces_) writes_.push_back({port.cycles, port.addresses, port.values, port.bytes});
    record_.writes = writes_;
    return record_;
}
