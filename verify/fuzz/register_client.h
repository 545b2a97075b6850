// A client of the register file beside which everything else goes on: a queue of transfers, noise on
// all that is not offered, and a judgement of every answer.
//
// The master of ../harness/registers.h makes one access at a time and waits for its end; this one is
// driven and seen once in each cycle. Address and data of a write may come apart, the address of the
// next write before the data of this one, an answer may be taken late. What is wrong goes to
// `complain`: an answer that nobody asked for, that the account (register_account.h) does not have,
// that is withdrawn or changed, or that depends on an input of the same cycle.

#pragma once

#include <array>
#include <deque>
#include <functional>
#include <string>

#include "../../sim/harness/registers.h"  // idle_registers, OKAY, SLVERR
#include "Vtop.h"
#include "clients.h"
#include "names.h"  // made by sim/harness/names.py
#include "register_account.h"

constexpr uint32_t START = 1, ABORT = 2;   // bits of CONTROL
constexpr uint32_t DONE = 2;               // of STATUS
constexpr uint32_t REGISTER_BYTES = 0x80;  // of the address space, unused ones included

struct Transfer {
    bool write;
    uint32_t address, strobe, data;
    bool noise = false;  // a read that nobody asked for
};

class RegisterClient {
  public:
    using Complain = std::function<void(const std::string&)>;

    // fixed: registers that always read the same, by address; coins: drawn from in every cycle.
    RegisterClient(Vtop& top, const std::map<uint32_t, uint32_t>& fixed, Random& coins, Complain complain)
        : top_(top), account_(fixed), coins_(coins), complain_(complain) {}

    void reset() {  // with the accelerator
        drop();
        answered_ = false;
        enabled_ = true;
        account_.reset();
        write_watch_.reset();
        read_watch_.reset();
    }
    // When answers are taken, from now on.
    void pace(Stalls stalls) { answer_stalls_ = stalls; }

    void queue(const Transfer& one) { transfers_.push_back(one); }
    void queue_write(uint32_t address, uint32_t data) { queue({true, address, 15, data}); }
    void queue_read(uint32_t address) { queue({false, address, 0, 0}); }
    bool idle() const { return transfers_.empty(); }
    void drop() {
        transfers_.clear();
        in_transfer_ = next_offered_ = next_taken_ = false;
    }

    // The inputs of a cycle.
    void drive();
    // Its outputs, once they have settled. under_way: an inference was, in the cycle before.
    void see(bool under_way);

    // What the latest read gave that somebody asked for; and the latest of STATUS, 0 once forgotten.
    uint32_t data() const { return data_; }
    uint32_t status() const { return status_; }
    void forget_status() { status_ = 0; }
    // Starts that were accepted so far.
    uint32_t starts() const { return starts_; }
    // Whether the interrupt is.
    bool enabled() const { return enabled_; }
    // What `failed_sequence` said after the end: it stays.
    void failed(uint32_t sequence) { account_.failed(sequence); }

  private:
    Vtop& top_;
    RegisterAccount account_;
    Random& coins_;
    Complain complain_;
    Stalls answer_stalls_{false, 0};
    Watch write_watch_, read_watch_;
    std::deque<Transfer> transfers_;
    bool in_transfer_ = false, address_taken_ = false, data_taken_ = false;
    bool ahead_ = false, next_offered_ = false, next_taken_ = false;  // address of the next write
    uint32_t address_wait_ = 0, data_wait_ = 0;
    bool answered_ = false;                                // the write in hand
    std::optional<uint32_t> expected_, expected_status_;  // of the read in hand
    uint32_t data_ = 0, status_ = 0, starts_ = 0;
    bool enabled_ = true;

    void check_paths();
    void see_transfer(bool under_way);
    void see_write(const Transfer& write, uint32_t response, bool under_way);
    void see_read(const Transfer& read, uint32_t response, uint32_t data);
};

inline void RegisterClient::drive() {
    Vtop& t = top_;
    if (!in_transfer_ && !transfers_.empty()) {
        in_transfer_ = true;
        address_taken_ = next_taken_;
        data_taken_ = false;
        const uint32_t skew = uint32_t(coins_.next() & 15);
        address_wait_ = skew == 1 && !next_offered_ ? 2 : 0;
        data_wait_ = skew == 2 || skew == 3 ? 2 : 0;
        ahead_ = skew & 1;
        next_offered_ = next_taken_ = false;
    }
    t.s_axi_awvalid = t.s_axi_wvalid = t.s_axi_arvalid = 0;
    const uint64_t noise = coins_.next();  // on all that is not offered
    t.s_axi_awaddr = coins_.next() & 1 ? registers::CONTROL : noise & (REGISTER_BYTES - 1);
    t.s_axi_araddr = noise >> 8 & (REGISTER_BYTES - 1);
    t.s_axi_wstrb = noise >> 16 & 15;
    t.s_axi_wdata = noise >> 20;
    if (in_transfer_) {
        const Transfer& one = transfers_.front();
        if (one.write) {
            t.s_axi_awvalid = !address_taken_ && !address_wait_;
            t.s_axi_wvalid = !data_taken_ && !data_wait_;
            if (t.s_axi_awvalid) t.s_axi_awaddr = one.address;
            if (t.s_axi_wvalid) {
                t.s_axi_wdata = one.data;
                t.s_axi_wstrb = one.strobe;
            }
            if (address_taken_ && ahead_ && transfers_.size() > 1 && transfers_[1].write) next_offered_ = true;
            if (next_offered_ && !next_taken_) {
                t.s_axi_awvalid = 1;
                t.s_axi_awaddr = transfers_[1].address;
            }
        } else {
            t.s_axi_arvalid = !address_taken_;
            if (t.s_axi_arvalid) t.s_axi_araddr = one.address;
        }
        if (address_wait_) address_wait_--;
        if (data_wait_) data_wait_--;
    }
    t.s_axi_bready = t.s_axi_rready = !answer_stalls_.rest();
}

inline void RegisterClient::see(bool under_way) {
    const Vtop& t = top_;
    if ((coins_.next() & 63) == 0) check_paths();
    account_.see(t.__SYM__interrupt);
    if (const char* wrong = write_watch_.cycle(t.s_axi_bvalid, t.s_axi_bready, t.s_axi_bresp); *wrong)
        complain_(std::string("s_axi_b is ") + wrong);
    const uint64_t answer = uint64_t(t.s_axi_rresp) << 32 | t.s_axi_rdata;
    if (const char* wrong = read_watch_.cycle(t.s_axi_rvalid, t.s_axi_rready, answer); *wrong)
        complain_(std::string("s_axi_r is ") + wrong);
    if (in_transfer_)
        see_transfer(under_way);
    else if (t.s_axi_bvalid || t.s_axi_rvalid)
        complain_("the register file answers unasked");
    account_.count(t.trace_active, t.trace_stall);
}

inline void RegisterClient::see_transfer(bool under_way) {
    const Vtop& t = top_;
    const Transfer& one = transfers_.front();
    if (one.write) {
        if (t.s_axi_awvalid && t.s_axi_awready) (address_taken_ ? next_taken_ : address_taken_) = true;
        if (t.s_axi_wvalid && t.s_axi_wready) data_taken_ = true;
        if (t.s_axi_bvalid && !answered_) see_write(one, t.s_axi_bresp, under_way);
        answered_ = t.s_axi_bvalid;
        if (!(t.s_axi_bvalid && t.s_axi_bready)) return;
        answered_ = false;
    } else {
        if (t.s_axi_arvalid && t.s_axi_arready) {
            address_taken_ = true;
            expected_ = account_.expected(one.address);
            expected_status_ = (one.address & ~3u) == registers::STATUS ? account_.status() : std::nullopt;
        }
        if (!(t.s_axi_rvalid && t.s_axi_rready)) return;
        see_read(one, t.s_axi_rresp, t.s_axi_rdata);
    }
    in_transfer_ = false;
    transfers_.pop_front();
}

// The cycle before, it has acted.
inline void RegisterClient::see_write(const Transfer& write, uint32_t response, bool under_way) {
    const uint32_t address = write.address & ~3u;
    const bool control = address == registers::CONTROL;
    const bool start = control && (write.data & 3) == START;
    const bool acts = (control || address == registers::INTERRUPT_ENABLE ||
                       address == registers::INTERRUPT_PENDING) &&
                      (write.strobe & 1) && !(start && under_way);
    if (response != (acts ? OKAY : SLVERR))
        complain_("a write of the register at " + std::to_string(address) + " is answered with " +
                  std::to_string(response));
    if (address == registers::INTERRUPT_ENABLE && acts) enabled_ = write.data & 1;
    account_.enable(enabled_);
    if (start && acts) {
        account_.begin();
        starts_++;
    }
}

inline void RegisterClient::see_read(const Transfer& read, uint32_t response, uint32_t data) {
    auto named = [&] { return "the register at " + std::to_string(read.address) + " reads "; };
    if (response != OKAY) complain_(named() + "with an error");
    if (expected_ && data != *expected_)
        complain_(named() + std::to_string(data) + ", not " + std::to_string(*expected_));
    if (expected_status_ && (data & 3) != *expected_status_)
        complain_(named() + std::to_string(data) + ", its low bits are " + std::to_string(*expected_status_));
    if (read.noise) return;
    data_ = data;
    if ((read.address & ~3u) == registers::STATUS) status_ = data;
}

// Other inputs change no output of the same cycle.
inline void RegisterClient::check_paths() {
    Vtop& t = top_;
    auto answers = [&] {
        return std::array<uint32_t, 8>{t.s_axi_awready, t.s_axi_wready, t.s_axi_bvalid, t.s_axi_bresp,
                                       t.s_axi_arready, t.s_axi_rvalid, t.s_axi_rresp, t.s_axi_rdata};
    };
    static const char* const names[] = {"awready", "wready", "bvalid", "bresp",
                                        "arready", "rvalid", "rresp", "rdata"};
    const auto before = answers();
    const std::array<uint32_t, 8> inputs = {t.s_axi_awvalid, t.s_axi_wvalid, t.s_axi_bready,
                                            t.s_axi_arvalid, t.s_axi_rready, t.s_axi_awaddr,
                                            t.s_axi_araddr,  t.s_axi_wdata};
    auto drive = [&](const std::array<uint32_t, 8>& in) {
        t.s_axi_awvalid = in[0];
        t.s_axi_wvalid = in[1];
        t.s_axi_bready = in[2];
        t.s_axi_arvalid = in[3];
        t.s_axi_rready = in[4];
        t.s_axi_awaddr = in[5];
        t.s_axi_araddr = in[6];
        t.s_axi_wdata = in[7];
        t.eval();
    };
    const uint64_t coins = coins_.next();
    std::array<uint32_t, 8> other{};
    for (int i = 0; i < 5; i++) other[i] = coins >> i & 1;
    other[5] = coins >> 8 & 0x7C;
    other[6] = coins >> 16 & 0x7C;
    other[7] = coins >> 32;
    drive(other);
    const auto after = answers();
    drive(inputs);
    for (size_t i = 0; i < before.size(); i++)
        if (before[i] != after[i])
            complain_(std::string("s_axi_") + names[i] + " depends on an input of the same cycle");
}
