// Plays the cases of a job on the accelerator, as fast as Verilator can.
//
//     accelerator JOB PARENT FOLDER
//
// JOB is a job file (job.h), PARENT the process that started this one: with it this one ends. Each
// case gives one line of JSON on the standard output (record.h): what each of its runs showed at the
// ports. Its writes, where asked for, are in FOLDER/writes-NUMBER; a program that was built with
// coverage leaves what was covered in FOLDER/coverage. Whether all that is right is judged elsewhere;
// this side judges what holds whatever is played: an offered word is neither withdrawn nor changed, the
// register file answers as it must, nothing starts unasked.

#include <chrono>
#include <deque>

#include "parent.h"
#include "record.h"
#include "streams.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

namespace {

using namespace registers;
constexpr int BEGIN_CYCLES = 20;      // from a write of `start` to a fallen interrupt
constexpr uint64_t POLL_CYCLES = 16;  // between reads of `status`
constexpr uint64_t NOISY_READ = 127;  // of so many cycles and one a register is read, whatever runs
constexpr uint64_t WRITE_TO_BUSY = 2;  // the write of `start` is taken; then the pulse; then `busy`
constexpr uint64_t NEVER = ~uint64_t(0);
constexpr size_t MOST_LOGITS = 1000;  // that are told of a run of an odd client

class Player : public StreamMachine {
  public:
    Player(const Job& job, const std::string& folder)
        : StreamMachine(job.lanes), job_(job), folder_(folder), account_(job.fixed) {
        choose_mutant(top, job.mutant, 0);
        registers.judge(account_);
        reset(4);
        cycle();
        if (const uint32_t has = read(LANES); has != lanes)
            throw std::runtime_error("the design has " + std::to_string(has) + " lanes, the job is for "
                                     + std::to_string(lanes));
        if (job.odd) coins = &noise_, registers.be_odd(noise_);
    }
    // False when the accelerator cannot go on.
    bool play(const Case& one);
    void cycle() override;

  private:
    const Job& job_;
    const std::string folder_;
    Account account_;
    Random noise_{0};
    bool waits_ = false;      // for the end of an inference
    bool under_way_ = false;  // one was, in the cycle before
    bool moved_ = false, idle_ = true;
    bool begun_ = false;  // HURRY's `start` was taken
    bool fell_ = false;   // the interrupt was low since the latest `start`
    bool starting_ = false;  // `start` is written
    uint64_t busy_from_ = NEVER;
    std::vector<Event> events_;      // of the run, and in which cycle each is due
    std::vector<uint64_t> due_;
    std::array<uint64_t, Event::AFTERS> passed_{};  // words of this run
    uint64_t first_token_ = 0, last_logit_ = 0;
    bool stands_ = false;  // a run has not come to its end
    Record* record_ = nullptr;
    Writes* writes_ = nullptr;

    void start_over(uint32_t cycles) {
        reset(cycles);
        waits_ = under_way_ = false;
        busy_from_ = NEVER;
    }
    bool wait_for_end(bool with_events, uint32_t flags);
    void try_interrupt();
    void read_counters(Record& record);
    bool run(const Run& run, Record& record);
};

void Player::cycle() {
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
        record_->operations.cycle(now - busy_from_, top.trace_active, top.trace_operation, top.trace_stall);
        if (writes_) writes_->record(top, uint32_t(now - busy_from_));
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
bool Player::wait_for_end(bool with_events, uint32_t flags) {
    const bool hurry = flags & Run::HURRY, poll = flags & Run::POLL;
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
                record_->end = "reset";
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
        const bool too_long = job_.longest && now - origin > job_.longest;
        if (now - progress > job_.patience || too_long) {
            record_->end = too_long ? "too long" : "hang";
            record_->stall = top.trace_stall;
            record_->progress = int64_t(progress - busy_from_);
            return false;
        }
    }
    waits_ = false;
    return true;
}

// Between inferences: the level is what the two registers say, and an acknowledgement lasts.
void Player::try_interrupt() {
    if (read(INTERRUPT_ENABLE) != account_.enabled()) complain("interrupt_enable is not what was written");
    for (uint32_t enable : {1u, 0u}) {
        write(INTERRUPT_ENABLE, enable);
        if (interrupt() != (enable && read(INTERRUPT_PENDING)))
            complain("the interrupt is not pending and enabled");
    }
    write(INTERRUPT_PENDING, 1);
    write(INTERRUPT_ENABLE, 1);
    for (uint32_t i = 0; i < job_.quiet; i++) cycle();
    if (interrupt() || read(INTERRUPT_PENDING)) complain("the interrupt stays after its acknowledgement");
}

// An odd client reads every register, mapped or not. No cycle of a good inference is left unexplained.
void Player::read_counters(Record& record) {
    std::map<uint32_t, uint32_t> shown;
    if (job_.odd)
        for (uint32_t address = 0; address < REGISTER_BYTES; address += 4) shown[address] = read(address);
    else
        for (uint32_t address : COUNTERS) shown[address] = read(address);
    for (uint32_t address : COUNTERS) record.counters.push_back(shown[address]);
    uint64_t explained = shown[ACTIVE];
    for (int i = 2; i < 1 + CAUSES; i++) explained += record.counters[i];
    if ((record.status >> 8 & 15) == 0 && record.status & DONE && explained != shown[CYCLES])
        complain("active and stalled cycles are " + std::to_string(explained) + " of " +
                 std::to_string(shown[CYCLES]));
}

// One run; false when another one must take what is left.
bool Player::run(const Run& one, Record& record) {
    record_ = &record;
    events_ = one.events;
    due_.assign(events_.size(), NEVER);
    passed_.fill(0);
    logits.clear();
    lasts.clear();
    Random seeds(one.seed);
    auto stalls = [&] { return Stalls(one.flags & Run::STALL, seeds.next()); };
    record.model_rest = one.flags & Run::REST && model.left();
    record.tokens_rest = one.flags & Run::REST && tokens.left();
    if (!record.model_rest) model.load(job_.streams.at(one.model));
    if (!record.tokens_rest) tokens.load(job_.streams.at(one.tokens));
    record.model_from = model.taken();
    record.tokens_from = tokens.taken();
    model.pace(one.model_delay ? now + one.idle + one.model_delay : 0, stalls(), job_.interval, job_.ahead);
    tokens.pace(one.tokens_delay ? now + one.idle + one.tokens_delay : 0, stalls());
    rows.serve(job_.tables.at(one.table), one.row_words, one.row_latency, stalls());
    rows.silent_until(now + one.row_silence);
    request_stalls = stalls();
    logits_stalls = stalls();
    if (job_.odd) registers.pace(stalls());
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
        record.end = "not started";
    } else {
        record.end = "done";
        ended = wait_for_end(true, one.flags);
        if (!ended && job_.reset) {
            if (one.flags & Run::RESCUE) record.end = "rescued";
            finish_transfers();
            registers.queue_write(CONTROL, ABORT);
            rows.silent_until(0);
            ended = wait_for_end(false, one.flags & Run::POLL);
            if (!ended) record.end = "abort does not end";
        }
    }
    record.took = now - origin;
    record.model_taken = model.taken();
    record.tokens_taken = tokens.taken();
    record.rows_pending = rows.pending();
    record.beyond = rows.beyond;
    record.first_token = int64_t(first_token_ - busy_from_);
    record.last_logit = int64_t(last_logit_ - busy_from_);
    if (!ended || std::strcmp(record.end, "not started") == 0) {
        start_over(4);
        return true;
    }
    if (std::strcmp(record.end, "reset") == 0) {
        idle_ = true;
        return true;
    }
    const bool hurry = one.flags & Run::HURRY, poll = one.flags & Run::POLL;
    idle_ = !hurry;
    if (!(one.flags & (Run::KEEP | Run::REST))) {
        model.clear();
        tokens.clear();
    }
    if (one.flags & Run::KNOCK) registers.queue_write(CONTROL, START | ABORT);
    finish_transfers();
    for (uint32_t i = 0; i < job_.quiet; i++) cycle();
    // An event may have written `start` in the very last cycle, so that it acts behind the end.
    begun_ = (hurry || account_.starts() != starts) && !interrupt();
    idle_ = !begun_;
    busy_from_ = NEVER;
    if (!begun_) {
        if (!poll && !interrupt()) complain("an inference has begun unasked");
        record.status = read(STATUS);
        record.sequence = read(FAILED_SEQUENCE);
        account_.failed(record.sequence);
        if (poll) try_interrupt();
        if (!job_.odd) record.status = read(STATUS);
        read_counters(record);
    }
    return !(one.flags & (Run::KEEP | Run::REST)) || (!model.left() && !tokens.left());
}

bool Player::play(const Case& one) {
    const auto began = std::chrono::steady_clock::now();
    wrong.clear();
    if (job_.reset) {
        now = 0;
        noise_ = Random(one.number);
        idle_ = true;
        begun_ = false;
        start_over(job_.reset);
    }
    const uint64_t before = now;
    std::deque<Record> all;
    Writes writes;
    for (const auto& run_of : one.runs) {
        if (run_of.flags & Run::REST && !model.left() && !tokens.left()) {
            all.emplace_back();
            all.back().end = "skipped";
            continue;
        }
        writes_ = run_of.flags & Run::TRACE ? &writes : nullptr;
        for (int again = 0; again < 4; again++) {
            Record& record = all.emplace_back();
            const bool whole = run(run_of, record);
            record.logits = logits;
            record.lasts = lasts;
            stands_ |= std::strcmp(record.end, "done") != 0;
            if (whole || !(run_of.flags & Run::REST)) break;
        }
        if (writes_) writes.save(folder_ + "/writes-" + std::to_string(one.number));
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    print_case(one.number, all, wrong, now - before, seconds.count(), job_.odd ? MOST_LOGITS : ~size_t(0));
    return job_.reset || !stands_;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s JOB PARENT FOLDER\n", argv[0]);
        return 2;
    }
    end_with(std::atoi(argv[2]));
    try {
        const Job job(argv[1]);
        Player player(job, argv[3]);
        for (const auto& one : job.cases)
            if (!player.play(one)) break;
#if VM_COVERAGE
        player.context.coveragep()->write((std::string(argv[3]) + "/coverage").c_str());
#endif
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
