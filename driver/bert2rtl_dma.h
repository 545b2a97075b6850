/* The registers that an accelerator with DMA (rtl.generate accelerator --dma) has beside the others.

   The image (rtl.compile --image) lies in memory that the accelerator reaches. Order of calls:
   b2rtl_open, b2rtl_read_image, b2rtl_use_image; then for each inference b2rtl_send_tokens,
   b2rtl_start, b2rtl_wait, b2rtl_read_logits. All return what bert2rtl.h says. */

#ifndef BERT2RTL_DMA_H
#define BERT2RTL_DMA_H

#include "bert2rtl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Registers, by their byte offset. */
enum {
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

enum {
    B2RTL_CORE_BYTES = 0x100, /* from the registers of one core to those of the next */
    B2RTL_IMAGE_HEADER_BYTES = 128,
    B2RTL_IMAGE_ALIGNMENT = 64 /* of its address: right for every bus and every number of lanes */
};

/* Where the parts of an image lie, as the accelerator sees memory. */
typedef struct {
    uint64_t stream, rows;
    uint32_t stream_bytes, row_bytes, row_count;
    uint32_t tokens; /* longest sequence of the model on this accelerator */
    uint8_t model[B2RTL_HASH_BYTES]; /* which model it is, as rtl.compile prints it */
} b2rtl_image;

/* Check an image and the first descriptor of its stream, and say where its parts lie when its first
   byte is at `address`. `bytes` are the image's `size` bytes, as this program sees them; each is read
   once, for the three CRCs of the header. Later damage of the stream is found by the accelerator in
   every inference, that of the rows is not: read the image again where memory may be written.
   B2RTL_OTHER_ROWS: stream and rows of two models. `*image` is written where all is sound, alone. */
int b2rtl_read_image(const b2rtl_device *device, const uint8_t *bytes, uint64_t size,
                     uint64_t address, b2rtl_image *image);

/* Point the accelerator at an image. */
int b2rtl_use_image(const b2rtl_device *device, const b2rtl_image *image);

/* Write a sequence, or a batch of them: id[23:0], type[24], attend[25], ends[26] a word, `ends` with the
   last of each sequence. Nothing where it does not fit. */
int b2rtl_send_tokens(const b2rtl_device *device, const uint32_t *words, uint32_t count);

/* Take the logits that wait, sequence by sequence, `most` of them at most; *count says how many there
   were. */
int b2rtl_read_logits(const b2rtl_device *device, int32_t *logits, uint32_t most, uint32_t *count);

#ifdef __cplusplus
}
#endif

#endif
