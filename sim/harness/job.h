// The job file: what to run, written by inference.py. Little-endian, in the order of the reads below.

#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

struct Table {  // embedding rows, one after another
    uint32_t row_bytes = 0;
    uint32_t rows = 0;
    std::vector<uint8_t> bytes;
};

struct Inference {
    uint32_t index = 0;   // echoed with the result
    uint32_t stream = 0;  // which of JobFile::streams
    uint32_t table = 0;   // which of JobFile::tables
    bool trace = false;
    int64_t abort = -1;   // cycle in which `abort` is written; -1: never
    std::vector<uint32_t> tokens;
};

struct JobFile {
    uint32_t lanes = 0;
    uint32_t interval = 1;     // cycles from one word of the command stream to the next
    uint32_t ahead = 1;        // words of it that are there before they are taken
    uint32_t row_latency = 0;  // cycles from a request to its row's first word
    uint32_t patience = 0;     // cycles without progress that count as a hang
    uint32_t longest = 0;      // cycles of an inference that do, with progress; 0: any number is right
    bool stalls = false;
    uint64_t seed = 0;
    std::vector<std::vector<uint8_t>> streams;
    std::vector<Table> tables;
    std::vector<Inference> inferences;

    explicit JobFile(const std::string& path) {
        file_ = std::fopen(path.c_str(), "rb");
        if (!file_) throw std::runtime_error("cannot open " + path);
        if (word() != MAGIC) throw std::runtime_error(path + " is no job file");
        lanes = word();
        interval = word();
        ahead = word();
        row_latency = word();
        patience = word();
        longest = word();
        stalls = word();
        seed = word();
        seed |= uint64_t(word()) << 32;
        streams.resize(word());
        for (auto& stream : streams) {
            stream.resize(word());
            read(stream.data(), stream.size());
        }
        tables.resize(word());
        for (auto& table : tables) {
            table.row_bytes = word();
            table.rows = word();
            table.bytes.resize(size_t(table.row_bytes) * table.rows);
            read(table.bytes.data(), table.bytes.size());
        }
        inferences.resize(word());
        for (auto& one : inferences) {
            one.index = word();
            one.stream = word();
            one.table = word();
            one.trace = word();
            one.abort = int32_t(word());
            one.tokens.resize(word());
            read(one.tokens.data(), one.tokens.size() * 4);
        }
        std::fclose(file_);
    }

  private:
    static constexpr uint32_t MAGIC = 0x4A523242;  // "B2RJ"
    std::FILE* file_ = nullptr;

    void read(void* to, size_t bytes) {
        if (bytes && std::fread(to, 1, bytes, file_) != bytes)
            throw std::runtime_error("the job file is cut short");
    }
    uint32_t word() {
        uint32_t value;
        read(&value, sizeof value);
        return value;
    }
};
