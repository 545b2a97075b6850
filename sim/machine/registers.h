// A client of the register file beside which everything else goes on: a queue of transfers, each of
// them to its end.
//
// It is driven and seen once in each cycle. An odd client drives noise while it offers nothing; it may
// send the address of a write before the data or after it, even the address of the next write before
// the data of this one, and take an answer late. What is wrong goes to `complain`: an answer that
// nobody asked for, that the account (account.h) does not have, that is withdrawn or changed, or that
// depends on an input of the same cycle.

#pragma once

#include <deque>
#include <functional>
#include <tuple>

#include "Vtop.h"
#include "account.h"
#include "stalls.h"

constexpr uint32_t REGISTER_BYTES = 0x80;  // of the address space, unused ones included

class RegisterClient {
  public:
    using Complain = std::function<void(const std::string&)>;

    RegisterClient(Vtop& top, Complain complain) : top_(top), complain_(complain) {}
    void be_odd(Random& coins) { coins_ = &coins; }
    void judge(Account& account) { account_ = &account; }
    // When answers are taken, from now on.
    void pace(Stalls stalls) { answer_stalls_ = stalls; }

    void reset() {  // with the accelerator
        drop();
        top_.s_axi_awvalid = top_.s_axi_wvalid = top_.s_axi_arvalid = 0;
        top_.s_axi_bready = top_.s_axi_rready = 0;
        answered_ = false;
        if (account_) account_->reset();
        write_watch_.reset();
        read_watch_.reset();
    }
    void queue(const Transfer& one) { transfers_.push_back(one); }
    void queue_write(uint32_t address, uint32_t data) { queue({true, address, 15, data}); }
    void queue_read(uint32_t address) { queue({false, address, 0, 0}); }
    bool idle() const { return transfers_.empty(); }
    void drop() {
        transfers_.clear();
        in_transfer_ = next_offered_ = next_taken_ = false;
    }
    void drive();
    void see(uint64_t now);

    // Of the latest transfer that somebody asked for; of the latest read of STATUS, 0 once forgotten.
    uint32_t response() const { return response_; }
    uint32_t data() const { return data_; }
    uint32_t status() const { return status_; }
    void forget_status() { status_ = 0; }
    // The cycle in which the latest write was taken: it acts in the next one.
    uint64_t taken_at() const { return taken_at_; }

  private:
    Vtop& top_;
    Complain complain_;
    Random* coins_ = nullptr;
    Account* account_ = nullptr;
    Stalls answer_stalls_;
    Watch write_watch_, read_watch_;
    std::deque<Transfer> transfers_;
    bool in_transfer_ = false, address_taken_ = false, data_taken_ = false;
    bool ahead_ = false, next_offered_ = false, next_taken_ = false;  // address of the next write
    uint32_t address_wait_ = 0, data_wait_ = 0;
    bool answered_ = false;  // the write in hand
    uint32_t response_ = OKAY, data_ = 0, status_ = 0;
    uint64_t taken_at_ = ~uint64_t(0);

    void begin();
    void check_paths();
    void complain(const std::string& text) {
        if (!text.empty()) complain_(text);
    }
    void see_transfer(uint64_t now);
};

inline void RegisterClient::begin() {
    in_transfer_ = true;
    address_taken_ = next_taken_;
    data_taken_ = ahead_ = false;
    address_wait_ = data_wait_ = 0;
    if (coins_) {
        const uint32_t skew = uint32_t(coins_->next() & 15);
        address_wait_ = skew == 1 && !next_offered_ ? 2 : 0;
        data_wait_ = skew == 2 || skew == 3 ? 2 : 0;
        ahead_ = skew & 1;
    }
    next_offered_ = next_taken_ = false;
}

// The inputs of a cycle.
inline void RegisterClient::drive() {
    Vtop& t = top_;
    if (!in_transfer_ && !transfers_.empty()) begin();
    t.s_axi_awvalid = t.s_axi_wvalid = t.s_axi_arvalid = 0;
    if (coins_) {
        const uint64_t noise = coins_->next();
        t.s_axi_awaddr = coins_->next() & 1 ? registers::CONTROL : noise & (REGISTER_BYTES - 1);
        t.s_axi_araddr = noise >> 8 & (REGISTER_BYTES - 1);
        t.s_axi_wstrb = noise >> 16 & 15;
        t.s_axi_wdata = noise >> 20;
    }
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

// Its outputs, once they have settled.
inline void RegisterClient::see(uint64_t now) {
    const Vtop& t = top_;
    if (coins_ && (coins_->next() & 63) == 0) check_paths();
    if (const char* wrong = write_watch_.cycle(t.s_axi_bvalid, t.s_axi_bready, t.s_axi_bresp); *wrong)
        complain(std::string("s_axi_b is ") + wrong);
    const uint64_t answer = uint64_t(t.s_axi_rresp) << 32 | t.s_axi_rdata;
    if (const char* wrong = read_watch_.cycle(t.s_axi_rvalid, t.s_axi_rready, answer); *wrong)
        complain(std::string("s_axi_r is ") + wrong);
    if (in_transfer_)
        see_transfer(now);
    else if (t.s_axi_bvalid || t.s_axi_rvalid)
        complain("the register file answers unasked");
}

inline void RegisterClient::see_transfer(uint64_t now) {
    const Vtop& t = top_;
    const Transfer& one = transfers_.front();
    if (one.write) {
        const bool waited = !address_taken_ || !data_taken_;
        if (t.s_axi_awvalid && t.s_axi_awready) (address_taken_ ? next_taken_ : address_taken_) = true;
        if (t.s_axi_wvalid && t.s_axi_wready) data_taken_ = true;
        if (waited && address_taken_ && data_taken_) taken_at_ = now;
        if (t.s_axi_bvalid && !answered_ && account_) complain(account_->written(one, t.s_axi_bresp));
        answered_ = t.s_axi_bvalid;
        if (!(t.s_axi_bvalid && t.s_axi_bready)) return;
        answered_ = false;
        response_ = t.s_axi_bresp;
    } else {
        if (t.s_axi_arvalid && t.s_axi_arready) {
            address_taken_ = true;
            if (account_) account_->asked(one);
        }
        if (!(t.s_axi_rvalid && t.s_axi_rready)) return;
        if (account_) complain(account_->answered(one, t.s_axi_rresp, t.s_axi_rdata));
        if (!one.noise) {
            response_ = t.s_axi_rresp;
            data_ = t.s_axi_rdata;
            if ((one.address & ~3u) == registers::STATUS) status_ = data_;
        }
    }
    in_transfer_ = false;
    transfers_.pop_front();
}

// Other inputs change no output of the same cycle.
inline void RegisterClient::check_paths() {
    Vtop& t = top_;
    static const char* const names[] = {"awready", "wready", "bvalid", "bresp",
                                        "arready", "rvalid", "rresp", "rdata"};
    auto answers = [&] {
        return std::array<uint32_t, 8>{t.s_axi_awready, t.s_axi_wready, t.s_axi_bvalid, t.s_axi_bresp,
                                       t.s_axi_arready, t.s_axi_rvalid, t.s_axi_rresp, t.s_axi_rdata};
    };
    auto inputs = std::tie(t.s_axi_awvalid, t.s_axi_wvalid, t.s_axi_bready, t.s_axi_arvalid, t.s_axi_rready,
                           t.s_axi_awaddr, t.s_axi_araddr, t.s_axi_wdata);
    const auto given = std::apply([](auto... each) { return std::make_tuple(each...); }, inputs);
    const auto before = answers();
    const uint64_t coins = coins_->next();
    inputs = std::make_tuple(coins & 1, coins >> 1 & 1, coins >> 2 & 1, coins >> 3 & 1, coins >> 4 & 1,
                             coins >> 8 & 0x7C, coins >> 16 & 0x7C, coins >> 32);
    t.eval();
    const auto after = answers();
    inputs = given;
    t.eval();
    for (size_t i = 0; i < before.size(); i++)
        if (before[i] != after[i])
            complain(std::string("s_axi_") + names[i] + " depends on an input of the same cycle");
}
