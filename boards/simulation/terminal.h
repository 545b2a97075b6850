// A pseudo-terminal under a name that stays the same when it is closed and opened again.

#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <string>

class Terminal {
  public:
    explicit Terminal(const std::string& link) : link(link) {}
    ~Terminal() { unplug(); }

    // False where the system gives none.
    bool plug() {
        master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return false;
        name = ptsname(master);
        // Held open, so that a program that goes does not end it.
        slave = open(name.c_str(), O_RDWR | O_NOCTTY);
        termios settings;
        if (slave < 0 || tcgetattr(slave, &settings) != 0) return false;
        cfmakeraw(&settings);
        if (tcsetattr(slave, TCSANOW, &settings) != 0) return false;
        const std::string fresh = link + ".new";
        ::unlink(fresh.c_str());
        return symlink(name.c_str(), fresh.c_str()) == 0 && rename(fresh.c_str(), link.c_str()) == 0;
    }

    void unplug() {
        if (master < 0) return;
        ::unlink(link.c_str());
        close(slave);
        close(master);
        master = slave = -1;
    }

    // Bytes from the computer, not more than `most`; what cannot be given to it is lost.
    void exchange(std::deque<uint8_t>& in, std::deque<uint8_t>& out, size_t most) {
        if (master < 0) {
            out.clear();
            return;
        }
        uint8_t bytes[256];
        if (in.size() < most) {
            const ssize_t got = read(master, bytes, sizeof bytes);
            if (got > 0) in.insert(in.end(), bytes, bytes + got);
        }
        while (!out.empty()) {
            const uint8_t byte = out.front();
            out.pop_front();
            if (write(master, &byte, 1) != 1) break;
        }
    }

    int descriptor() const { return master; }
    const std::string& device() const { return name; }

  private:
    const std::string link;
    std::string name;
    int master = -1, slave = -1;
};
