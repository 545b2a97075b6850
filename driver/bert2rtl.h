/* Driver of the bert2rtl accelerator (docs/architecture.md, "Interfaces"). C99, no allocation, no
   operating system, no state but what the caller holds. One caller at a time for a device;
   b2rtl_acknowledge alone may be called from an interrupt handler meanwhile.

   With DMA (rtl.generate accelerator --dma), the image (rtl.compile --image) lies in memory that the
   accelerator reaches. Call b2rtl_open, b2rtl_read_image and b2rtl_use_image; then for each inference
   b2rtl_send_tokens, b2rtl_start, b2rtl_wait and b2rtl_read_logits.

   Without DMA, whoever moves the streams has the tokens, the command stream and a place for the
   logits ready before b2rtl_start, or soon after it.

   Memory access is by two macros, which may be defined before or on the command line:

       B2RTL_READ32(address)          the 32-bit register at `address`, a uintptr_t
       B2RTL_WRITE32(address, value)

   By default they are volatile accesses: the registers must be mapped as device memory. */
#ifndef BERT2RTL_DRIVER_H
#define BERT2RTL_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifndef B2RTL_READ32
#define B2RTL_READ32(address) (*(volatile const uint32_t *)(address))
#endif
#ifndef B2RTL_WRITE32
#define B2RTL_WRITE32(address, value) (*(volatile uint32_t *)(address) = (value))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Registers: offsets in bytes from the base address. */
enum {
    B2RTL_ID = 0x00,
    B2RTL_VERSION = 0x04,
    B2RTL_LANES = 0x08,
    B2RTL_TOKENS = 0x0C,
    B2RTL_HIDDEN = 0x10,
    B2RTL_FFN = 0x14,
    B2RTL_LABELS = 0x18,
    B2RTL_CONTROL = 0x1C,
    B2RTL_STATUS = 0x20,
    B2RTL_CYCLES = 0x24,
    B2RTL_ACTIVE = 0x28,
    B2RTL_STALL_IDLE = 0x2C,
    B2RTL_STALL_WEIGHTS = 0x30,
    B2RTL_STALL_NORM = 0x34,
    B2RTL_STALL_SOFTMAX = 0x38,
    B2RTL_STALL_DRAIN = 0x3C,
    B2RTL_INTERRUPT_ENABLE = 0x40,
    B2RTL_INTERRUPT_PENDING = 0x44,
    B2RTL_FAILED_SEQUENCE = 0x48,
    B2RTL_COLUMNS = 0x4C,

    /* With DMA. */
    B2RTL_MODEL_ADDRESS = 0x80,
    B2RTL_MODEL_ADDRESS_HIGH = 0x84,
    B2RTL_MODEL_BYTES = 0x88,
    B2RTL_ROWS_ADDRESS = 0x8C,
    B2RTL_ROWS_ADDRESS_HIGH = 0x90,
    B2RTL_ROW_BYTES = 0x94,
    B2RTL_TOKEN_WORD = 0x98,
    B2RTL_TOKEN_LAST = 0x9C,
    B2RTL_TOKEN_ROOM = 0xA0,
    B2RTL_LOGIT = 0xA4,
    B2RTL_LOGITS_WAITING = 0xA8,
    B2RTL_BUS_BYTES = 0xAC
};

/* What they hold. */
enum {
    B2RTL_ID_VALUE = 0x54523242, /* the bytes "B2RT" */
    B2RTL_VERSION_VALUE = 7,     /* of the registers and of the command stream */
    B2RTL_CONTROL_START = 1,
    B2RTL_CONTROL_ABORT = 2,
    B2RTL_STATUS_BUSY = 1,
    B2RTL_STATUS_DONE = 2, /* since the last start */
    B2RTL_STATUS_ERROR_SHIFT = 8,
    B2RTL_STATUS_ERROR_MASK = 0xF00,
    B2RTL_INTERRUPT_ENABLE_BIT = 1,
    B2RTL_INTERRUPT_PENDING_BIT = 1,
    B2RTL_FAILED_SEQUENCE_FAILED_SHIFT = 0,
    B2RTL_FAILED_SEQUENCE_FAILED_MASK = 0xFFFF
};

/* What the functions return: 0; how an inference ended, as the accelerator says it (1 to 13); or why
   the driver did nothing or waits no longer (negative). b2rtl_text gives a sentence for each. */
enum {
    B2RTL_OK = 0,

    B2RTL_FORMAT = 1,
    B2RTL_CRC = 2,
    B2RTL_LIMIT = 3,
    B2RTL_TRUNCATED = 4,
    B2RTL_OVERRUN = 5,
    B2RTL_LENGTH = 6,
    B2RTL_TOKEN = 7,
    B2RTL_NO_KEY = 8,
    B2RTL_ABORTED = 9,
    B2RTL_TIMEOUT = 10,
    B2RTL_ROW = 11,
    B2RTL_BUS = 12,     /* with DMA */
    B2RTL_ADDRESS = 13, /* with DMA */

    B2RTL_NO_DEVICE = -1,     /* another id than B2RTL_ID_VALUE */
    B2RTL_OTHER_VERSION = -2, /* an accelerator of another version than this driver */
    B2RTL_NOT_OPEN = -3,      /* b2rtl_open has not found the device good */
    B2RTL_BUSY = -4,          /* an inference is under way */
    B2RTL_IDLE = -5,          /* none has been since the reset */
    B2RTL_STILL_BUSY = -6,    /* the bound of a wait is reached, and the inference goes on */
    B2RTL_NO_STREAM = -7,     /* what should be a command stream is none */
    B2RTL_STREAM_VERSION = -8,
    B2RTL_STREAM_LANES = -9, /* or columns */
    B2RTL_STREAM_TOKENS = -10,
    B2RTL_STREAM_HIDDEN = -11,
    B2RTL_STREAM_FFN = -12,
    B2RTL_STREAM_LABELS = -13,

    B2RTL_NO_IMAGE = -14, /* with DMA, as those up to B2RTL_NO_ROOM */
    B2RTL_IMAGE_DAMAGED = -15,
    B2RTL_IMAGE_ADDRESS = -16,
    B2RTL_NO_TOKENS = -17,
    B2RTL_NO_ROOM = -18,

    B2RTL_OTHER_ROWS = -19 /* the rows are not those that the command stream names */
};

/* Where the first descriptor of a command stream says which model it is: these bytes, in their order,
   are the hash that rtl.compile prints. Whoever makes tokens and names logits compares. */
enum {
    B2RTL_HASH_AT = 20,
    B2RTL_HASH_BYTES = 8
};

enum {
    B2RTL_IMAGE_HEADER_BYTES = 128,
    B2RTL_IMAGE_ALIGNMENT = 64 /* of its address: right for every bus and every number of lanes */
};

/* An accelerator. b2rtl_open fills it; the limits are for the caller to read. */
typedef struct {
    uintptr_t base;
    int open;
    uint32_t version;
    uint32_t lanes;   /* N: rows of the array, bytes of a word of the rows */
    uint32_t columns; /* M: columns of the array, which has N x M multipliers */
    uint32_t tokens;  /* longest sequence */
    uint32_t hidden;  /* widest hidden state */
    uint32_t ffn;     /* widest feed-forward layer */
    uint32_t labels;  /* most logits */
} b2rtl_device;

/* Clock cycles of the latest inference, and those of them without an operand, by cause. */
typedef struct {
    uint32_t cycles, active;
    uint32_t idle, weights, norm, softmax, drain;
} b2rtl_counters;

/* Where the parts of an image lie, as the accelerator sees memory. */
typedef struct {
    uint64_t stream, rows;
    uint32_t stream_bytes, row_bytes, row_count;
    uint32_t tokens; /* longest sequence of the model on this accelerator */
    uint8_t model[B2RTL_HASH_BYTES]; /* which model it is, as rtl.compile prints it */
} b2rtl_image;

/* Look for an accelerator at `base` and read its version and limits. Again after its reset or after
   another bit stream was loaded. B2RTL_NO_DEVICE, B2RTL_OTHER_VERSION: then every other function
   answers B2RTL_NOT_OPEN, and nothing is ever written to that address. */
int b2rtl_open(b2rtl_device *device, uintptr_t base);

/* Whether the accelerator can run the model of a command stream (what rtl.compile writes), from the
   first 32 of its `bytes`; no register is touched. `tokens` (or NULL): the longest sequence that both
   take, 0 where the stream is refused. B2RTL_NO_STREAM, B2RTL_STREAM_*; the rest of the stream is
   checked by the accelerator as it runs. */
int b2rtl_check(const b2rtl_device *device, const void *stream, size_t bytes, uint32_t *tokens);

/* CRC-32 (zlib's) of bytes, which may come in pieces: `crc` is 0, then that of the pieces before. */
uint32_t b2rtl_crc(uint32_t crc, const void *bytes, size_t size);

/* Whether the rows of the embedding table (model.rows.bin) are whole and belong to a command stream;
   `rows_crc` is b2rtl_crc of them all. The accelerator cannot tell: whoever puts rows where it reads
   them asks this. B2RTL_NO_STREAM, B2RTL_OTHER_ROWS. */
int b2rtl_check_rows(const void *stream, size_t bytes, uint32_t rows_crc);

/* A row that a host computed, of a model of images, as it stands in the table of rows: `channels`
   values of embedding.sum (docs/numerics.md of bert2rtl), each limited to -32512..32512, in words of
   `lanes` bytes, high halves and low halves in turn. `row` has the bytes of a row. */
void b2rtl_write_row(uint8_t *row, uint32_t lanes, const int16_t *values, uint32_t channels);

/* Check an image and the first descriptor of its stream, and say where its parts lie when its first
   byte is at `address`. `bytes` are the image's `size` bytes, as this program sees them; each is read
   once, for the three CRCs of the header. Later damage of the stream is found by the accelerator in
   every inference, that of the rows is not: read the image again where memory may be written.
   B2RTL_OTHER_ROWS: stream and rows of two models. `*image` is written where all is sound, alone. */
int b2rtl_read_image(const b2rtl_device *device, const uint8_t *bytes, uint64_t size,
                     uint64_t address, b2rtl_image *image);

/* Point the accelerator at an image. */
int b2rtl_use_image(const b2rtl_device *device, const b2rtl_image *image);

/* Start an inference. B2RTL_BUSY while one is under way: nothing is written then. An interrupt of
   the inference before that is still pending is acknowledged by it. */
int b2rtl_start(const b2rtl_device *device);

/* How the latest inference ended, 0 or 1 to 13; B2RTL_BUSY while it is under way, B2RTL_IDLE before
   the first one. A single read. */
int b2rtl_result(const b2rtl_device *device);

/* The result, read up to `polls` times (at least once). B2RTL_STILL_BUSY after that: wait again, or
   abort. */
int b2rtl_wait(const b2rtl_device *device, uint32_t polls);

/* The result, with a call of `sleep` before each further look, `sleeps` of them at most; then
   B2RTL_STILL_BUSY. `sleep` returns after an interrupt of the device or when it has waited long
   enough (WFI with interrupts masked, a semaphore that the handler gives ...). Returning early or for
   another reason does no harm. The interrupt is acknowledged when the inference has ended. */
int b2rtl_wait_interrupt(const b2rtl_device *device, void (*sleep)(void *), void *context,
                         uint32_t sleeps);

/* End the inference under way, then as b2rtl_wait: B2RTL_ABORTED, or what came first; B2RTL_OK when
   the logits were leaving already, which come whole then. Without one under way, as b2rtl_result.
   B2RTL_STILL_BUSY: a row of the embedding table or the taking of the logits is still awaited.
   Streams begin anew with the next start: withdraw or finish what was being sent. */
int b2rtl_abort(const b2rtl_device *device, uint32_t polls);

/* The sequence of the batch that failed, from 0, with B2RTL_LENGTH, B2RTL_TOKEN, B2RTL_NO_KEY and B2RTL_ROW;
   another error of the latest inference is of none, and gives 0. B2RTL_NOT_OPEN, B2RTL_BUSY. */
int b2rtl_failed_sequence(const b2rtl_device *device);

/* Write a sequence, or a batch of them: id[23:0], type[24], attend[25], ends[26] a word, `ends` with the
   last of each sequence. Nothing where it does not fit. */
int b2rtl_send_tokens(const b2rtl_device *device, const uint32_t *words, uint32_t count);

/* Take the logits that wait, sequence by sequence, `most` of them at most; *count says how many there
   were. */
int b2rtl_read_logits(const b2rtl_device *device, int32_t *logits, uint32_t most, uint32_t *count);

/* The counters of the latest inference. B2RTL_BUSY while one is under way; `counters` is as it was. */
int b2rtl_read_counters(const b2rtl_device *device, b2rtl_counters *counters);

/* Let the end of an inference raise the interrupt line, or not. It does after a reset. */
int b2rtl_enable_interrupt(const b2rtl_device *device, int enable);

/* For the handler of an interrupt: clear it. 1 when it was the device's, else 0. */
int b2rtl_acknowledge(const b2rtl_device *device);

/* A sentence for what a function has returned, or for any other number. */
const char *b2rtl_text(int code);

#ifdef __cplusplus
}
#endif

#endif
