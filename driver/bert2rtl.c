#include "bert2rtl.h"

/* Bytes of a command stream's first descriptor, HEADER. */
enum {
    HEADER = 1,
    HEADER_BYTES = 32,
    OPCODE_AT = 0,
    WAYS_AT = 1, /* the binary logarithm of columns a lane, and flags */
    HEADER_FLAGS = 240,
    MAGIC_AT = 2,
    VERSION_AT = 6,
    LANES_AT = 7,
    TOKENS_AT = 8,
    HIDDEN_AT = 10,
    FFN_AT = 12,
    LABELS_AT = 14,
    ROWS_AT = 16
};

/* Of an image. */
enum {
    IMAGE_FORMAT = 2,
    IMAGE_MODEL_AT = 88
};

static uint32_t get(const b2rtl_device *device, uintptr_t offset)
{
    return B2RTL_READ32(device->base + offset);
}

static void set(const b2rtl_device *device, uintptr_t offset, uint32_t value)
{
    B2RTL_WRITE32(device->base + offset, value);
}

int b2rtl_open(b2rtl_device *device, uintptr_t base)
{
    static const b2rtl_device none = {0};

    *device = none;
    device->base = base;
    if (get(device, B2RTL_ID) != (uint32_t)B2RTL_ID_VALUE)
        return B2RTL_NO_DEVICE;
    device->version = get(device, B2RTL_VERSION);
    if (device->version != (uint32_t)B2RTL_VERSION_VALUE)
        return B2RTL_OTHER_VERSION;
    device->lanes = get(device, B2RTL_LANES);
    device->columns = get(device, B2RTL_COLUMNS);
    device->tokens = get(device, B2RTL_TOKENS);
    device->hidden = get(device, B2RTL_HIDDEN);
    device->ffn = get(device, B2RTL_FFN);
    device->labels = get(device, B2RTL_LABELS);
    device->open = 1;
    return B2RTL_OK;
}

/* Little-endian numbers. */
static uint32_t number16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t number32(const uint8_t *at)
{
    return number16(at) | number16(at + 2) << 16;
}

static uint64_t number64(const uint8_t *at)
{
    return number32(at) | (uint64_t)number32(at + 4) << 32;
}

/* Whether 1 <= needed <= limit. */
static int within(uint32_t needed, uint32_t limit)
{
    return needed >= 1 && needed <= limit;
}

static int is_stream(const uint8_t *header, size_t bytes)
{
    return bytes >= HEADER_BYTES && header[OPCODE_AT] == HEADER &&
           number32(header + MAGIC_AT) == (uint32_t)B2RTL_ID_VALUE;
}

int b2rtl_check(const b2rtl_device *device, const void *stream, size_t bytes, uint32_t *tokens)
{
    const uint8_t *header = stream;
    uint32_t longest, ways;

    if (tokens)
        *tokens = 0;
    if (!device->open)
        return B2RTL_NOT_OPEN;
    if (!is_stream(header, bytes))
        return B2RTL_NO_STREAM;
    if (header[VERSION_AT] != device->version)
        return B2RTL_STREAM_VERSION;
    ways = header[WAYS_AT] & ~(uint32_t)HEADER_FLAGS;
    if (header[LANES_AT] != device->lanes || ways > 7 ||
        (uint32_t)header[LANES_AT] << ways != device->columns)
        return B2RTL_STREAM_LANES;
    longest = number16(header + TOKENS_AT);
    if (longest == 0)
        return B2RTL_STREAM_TOKENS;
    if (!within(number16(header + HIDDEN_AT), device->hidden))
        return B2RTL_STREAM_HIDDEN;
    if (!within(number16(header + FFN_AT), device->ffn))
        return B2RTL_STREAM_FFN;
    if (!within(number16(header + LABELS_AT), device->labels))
        return B2RTL_STREAM_LABELS;
    if (tokens)
        *tokens = longest < device->tokens ? longest : device->tokens;
    return B2RTL_OK;
}

uint32_t b2rtl_crc(uint32_t crc, const void *bytes, size_t size)
{
    /* Of each half of a byte. */
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u,
        0x4DB26158u, 0x5005713Cu, 0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu,
        0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
    const uint8_t *at = bytes;

    crc = ~crc;
    while (size-- > 0) {
        crc ^= *at++;
        crc = crc >> 4 ^ table[crc & 15u];
        crc = crc >> 4 ^ table[crc & 15u];
    }
    return ~crc;
}

int b2rtl_check_rows(const void *stream, size_t bytes, uint32_t rows_crc)
{
    const uint8_t *header = stream;

    if (!is_stream(header, bytes))
        return B2RTL_NO_STREAM;
    return number32(header + ROWS_AT) == rows_crc ? B2RTL_OK : B2RTL_OTHER_ROWS;
}

void b2rtl_write_row(uint8_t *row, uint32_t lanes, const int16_t *values, uint32_t channels)
{
    uint32_t first, i;
    int32_t x, high;

    for (first = 0; first < channels; first += lanes, row += 2 * lanes) {
        for (i = 0; i < lanes; i++) {
            x = first + i < channels ? values[first + i] : 0;
            x = x > 32512 ? 32512 : x < -32512 ? -32512 : x;
            high = (x + (x < 0 ? -127 : 127)) / 255;
            row[i] = (uint8_t)(uint32_t)high;
            row[lanes + i] = (uint8_t)(uint32_t)(x - 255 * high);
        }
    }
}

/* CRC-32 of the header, its bytes 12..15 as zeros. */
static uint32_t header_crc(const uint8_t *bytes)
{
    static const uint8_t zeros[4] = {0};
    const uint32_t crc = b2rtl_crc(b2rtl_crc(0, bytes, 12), zeros, sizeof zeros);

    return b2rtl_crc(crc, bytes + 16, B2RTL_IMAGE_HEADER_BYTES - 16);
}

int b2rtl_read_image(const b2rtl_device *device, const uint8_t *bytes, uint64_t size,
                     uint64_t address, b2rtl_image *image)
{
    static const uint8_t magic[8] = {'B', '2', 'R', 'T', 'I', 'M', 'G', 0};
    uint64_t stream, rows, stream_bytes, rows_bytes;
    uint32_t rows_crc, tokens;
    int code;

    if (!device->open)
        return B2RTL_NOT_OPEN;
    if (size < B2RTL_IMAGE_HEADER_BYTES)
        return B2RTL_NO_IMAGE;
    for (size_t i = 0; i < sizeof magic; i++)
        if (bytes[i] != magic[i])
            return B2RTL_NO_IMAGE;
    if (number32(bytes + 12) != header_crc(bytes))
        return B2RTL_IMAGE_DAMAGED;
    if (number16(bytes + 8) != IMAGE_FORMAT)
        return B2RTL_NO_IMAGE;
    if (number64(bytes + 16) != size)
        return B2RTL_IMAGE_DAMAGED;
    if (address % B2RTL_IMAGE_ALIGNMENT != 0)
        return B2RTL_IMAGE_ADDRESS;
    stream = number64(bytes + 24);
    stream_bytes = number64(bytes + 32);
    rows = number64(bytes + 40);
    rows_bytes = number64(bytes + 48);
    rows_crc = number32(bytes + 68);
    if (stream != B2RTL_IMAGE_HEADER_BYTES || rows < stream || rows > size ||
        stream_bytes > rows - stream || rows_bytes != size - rows || stream_bytes > 0xFFFFFFFFu)
        return B2RTL_IMAGE_DAMAGED;
    if (number32(bytes + 64) != b2rtl_crc(0, bytes + stream, (size_t)(rows - stream)) ||
        rows_crc != b2rtl_crc(0, bytes + rows, (size_t)rows_bytes))
        return B2RTL_IMAGE_DAMAGED;
    code = b2rtl_check(device, bytes + stream, (size_t)stream_bytes, &tokens);
    if (code == B2RTL_OK)
        code = b2rtl_check_rows(bytes + stream, (size_t)stream_bytes, rows_crc);
    if (code != B2RTL_OK)
        return code;
    for (size_t i = 0; i < B2RTL_HASH_BYTES; i++)
        if (bytes[stream + B2RTL_HASH_AT + i] != bytes[IMAGE_MODEL_AT + i])
            return B2RTL_OTHER_ROWS;
    image->stream = address + stream;
    image->rows = address + rows;
    image->stream_bytes = (uint32_t)stream_bytes;
    image->row_bytes = number32(bytes + 56);
    image->row_count = number32(bytes + 60);
    image->tokens = tokens;
    for (size_t i = 0; i < B2RTL_HASH_BYTES; i++)
        image->model[i] = bytes[IMAGE_MODEL_AT + i];
    return B2RTL_OK;
}

int b2rtl_use_image(const b2rtl_device *device, const b2rtl_image *image)
{
    if (!device->open)
        return B2RTL_NOT_OPEN;
    if (get(device, B2RTL_STATUS) & B2RTL_STATUS_BUSY)
        return B2RTL_BUSY;
    set(device, B2RTL_MODEL_ADDRESS, (uint32_t)image->stream);
    set(device, B2RTL_MODEL_ADDRESS_HIGH, (uint32_t)(image->stream >> 32));
    set(device, B2RTL_MODEL_BYTES, image->stream_bytes);
    set(device, B2RTL_ROWS_ADDRESS, (uint32_t)image->rows);
    set(device, B2RTL_ROWS_ADDRESS_HIGH, (uint32_t)(image->rows >> 32));
    set(device, B2RTL_ROW_BYTES, image->row_bytes);
    return B2RTL_OK;
}

int b2rtl_result(const b2rtl_device *device)
{
    uint32_t status;

    if (!device->open)
        return B2RTL_NOT_OPEN;
    status = get(device, B2RTL_STATUS);
    if (status & B2RTL_STATUS_BUSY)
        return B2RTL_BUSY;
    if (!(status & B2RTL_STATUS_DONE))
        return B2RTL_IDLE;
    return (int)((status & B2RTL_STATUS_ERROR_MASK) >> B2RTL_STATUS_ERROR_SHIFT);
}

int b2rtl_start(const b2rtl_device *device)
{
    const int before = b2rtl_result(device);

    /* A start while busy would be answered with an error of the bus. */
    if (before == B2RTL_NOT_OPEN || before == B2RTL_BUSY)
        return before;
    set(device, B2RTL_CONTROL, B2RTL_CONTROL_START);
    return B2RTL_OK;
}

int b2rtl_wait(const b2rtl_device *device, uint32_t polls)
{
    int result;

    do
        result = b2rtl_result(device);
    while (result == B2RTL_BUSY && polls-- > 1);
    return result == B2RTL_BUSY ? B2RTL_STILL_BUSY : result;
}

int b2rtl_wait_interrupt(const b2rtl_device *device, void (*sleep)(void *), void *context,
                         uint32_t sleeps)
{
    int result;

    while ((result = b2rtl_result(device)) == B2RTL_BUSY) {
        if (sleeps-- == 0)
            return B2RTL_STILL_BUSY;
        sleep(context);
    }
    if (result >= 0)
        b2rtl_acknowledge(device);
    return result;
}

int b2rtl_abort(const b2rtl_device *device, uint32_t polls)
{
    const int before = b2rtl_result(device);

    if (before != B2RTL_BUSY)
        return before;
    set(device, B2RTL_CONTROL, B2RTL_CONTROL_ABORT);
    return b2rtl_wait(device, polls);
}

int b2rtl_failed_sequence(const b2rtl_device *device)
{
    const int result = b2rtl_result(device);

    if (result == B2RTL_NOT_OPEN || result == B2RTL_BUSY)
        return result;
    return (int)((get(device, B2RTL_FAILED_SEQUENCE) & B2RTL_FAILED_SEQUENCE_FAILED_MASK) >>
                 B2RTL_FAILED_SEQUENCE_FAILED_SHIFT);
}

int b2rtl_send_tokens(const b2rtl_device *device, const uint32_t *words, uint32_t count)
{
    if (!device->open)
        return B2RTL_NOT_OPEN;
    if (count == 0)
        return B2RTL_NO_TOKENS;
    if (count > get(device, B2RTL_TOKEN_ROOM))
        return B2RTL_NO_ROOM;
    for (uint32_t i = 0; i < count; i++)
        set(device, i + 1 == count ? B2RTL_TOKEN_LAST : B2RTL_TOKEN_WORD, words[i]);
    return B2RTL_OK;
}

int b2rtl_read_logits(const b2rtl_device *device, int32_t *logits, uint32_t most, uint32_t *count)
{
    if (!device->open)
        return B2RTL_NOT_OPEN;
    *count = get(device, B2RTL_LOGITS_WAITING);
    for (uint32_t i = 0; i < *count && i < most; i++)
        logits[i] = (int32_t)get(device, B2RTL_LOGIT);
    return B2RTL_OK;
}

int b2rtl_read_counters(const b2rtl_device *device, b2rtl_counters *counters)
{
    const int state = b2rtl_result(device);

    if (state == B2RTL_NOT_OPEN || state == B2RTL_BUSY)
        return state;
    counters->cycles = get(device, B2RTL_CYCLES);
    counters->active = get(device, B2RTL_ACTIVE);
    counters->idle = get(device, B2RTL_STALL_IDLE);
    counters->weights = get(device, B2RTL_STALL_WEIGHTS);
    counters->norm = get(device, B2RTL_STALL_NORM);
    counters->softmax = get(device, B2RTL_STALL_SOFTMAX);
    counters->drain = get(device, B2RTL_STALL_DRAIN);
    return B2RTL_OK;
}

int b2rtl_enable_interrupt(const b2rtl_device *device, int enable)
{
    if (!device->open)
        return B2RTL_NOT_OPEN;
    set(device, B2RTL_INTERRUPT_ENABLE, enable ? B2RTL_INTERRUPT_ENABLE_BIT : 0);
    return B2RTL_OK;
}

int b2rtl_acknowledge(const b2rtl_device *device)
{
    if (!device->open || !(get(device, B2RTL_INTERRUPT_PENDING) & B2RTL_INTERRUPT_PENDING_BIT))
        return 0;
    set(device, B2RTL_INTERRUPT_PENDING, B2RTL_INTERRUPT_PENDING_BIT);
    return 1;
}

const char *b2rtl_text(int code)
{
    switch (code) {
    case B2RTL_OK: return "good: the logits are complete";
    case B2RTL_FORMAT:
        return "the command stream has a wrong magic, version or array, or an operation or "
               "flag that may not stand there: compile it for this accelerator";
    case B2RTL_CRC: return "the command stream was damaged on its way, or in memory";
    case B2RTL_LIMIT:
        return "the model, a field or a tensor of this batch exceeds the accelerator's limits";
    case B2RTL_TRUNCATED: return "the command stream ended before its END";
    case B2RTL_OVERRUN: return "the command stream went on after its END";
    case B2RTL_LENGTH:
        return "more tokens in a sequence, or in all, than the model or the accelerator takes";
    case B2RTL_TOKEN: return "a token id or a type is beyond its table";
    case B2RTL_NO_KEY: return "no token of a sequence has its attend bit set";
    case B2RTL_ABORTED: return "aborted";
    case B2RTL_TIMEOUT:
        return "nothing moved for long inside the accelerator, although nothing outside was awaited";
    case B2RTL_ROW:
        return "a row of the embedding table is shorter or longer than the model says: use the rows "
               "that belong to the command stream";
    case B2RTL_BUS:
        return "the memory answered a read with an error: the image does not lie where the registers "
               "say, or cannot be reached from the accelerator";
    case B2RTL_ADDRESS:
        return "an address or a size of the memory side is no whole number of words, beyond the bus or "
               "0: point it at an image first";
    case B2RTL_NO_DEVICE: return "no bert2rtl accelerator at this address: wrong id";
    case B2RTL_OTHER_VERSION: return "the accelerator has another version than this driver";
    case B2RTL_NOT_OPEN: return "the device is not open: b2rtl_open first";
    case B2RTL_BUSY: return "an inference is under way: wait for it or abort it";
    case B2RTL_IDLE: return "no inference has been started since the reset";
    case B2RTL_STILL_BUSY: return "the inference has not ended in time: wait longer or abort it";
    case B2RTL_NO_STREAM: return "this is no command stream: rtl.compile writes one";
    case B2RTL_STREAM_VERSION:
        return "the command stream has another version than the accelerator: compile it anew";
    case B2RTL_STREAM_LANES:
        return "the command stream is for another array, of other lanes or columns: compile it for "
               "this accelerator";
    case B2RTL_STREAM_TOKENS: return "the command stream allows no token: compile it anew";
    case B2RTL_STREAM_HIDDEN: return "the model's hidden state is wider than the accelerator's";
    case B2RTL_STREAM_FFN: return "the model's feed-forward layer is wider than the accelerator's";
    case B2RTL_STREAM_LABELS: return "the model has more logits than the accelerator";
    case B2RTL_NO_IMAGE:
        return "this is no image, or one of another format: rtl.compile --image writes one";
    case B2RTL_IMAGE_DAMAGED: return "the image is damaged or cut: write it again";
    case B2RTL_IMAGE_ADDRESS: return "the image does not lie at a multiple of 64 bytes";
    case B2RTL_NO_TOKENS: return "the sequence is empty: an inference needs at least one token";
    case B2RTL_NO_ROOM: return "there is no room for so many tokens: start, or send fewer";
    case B2RTL_OTHER_ROWS:
        return "the rows are damaged, or those of another model than the command stream: use the rows "
               "that were written with it";
    default: return "unknown code";
    }
}
