#include "bert2rtl_dma.h"

#include <stddef.h>

enum { FORMAT = 2, MODEL_AT = 88 };

static const uint8_t magic[8] = {'B', '2', 'R', 'T', 'I', 'M', 'G', 0};

static uint32_t get(const b2rtl_device *device, uint32_t offset)
{
    return B2RTL_READ32(device->base + offset);
}

static void set(const b2rtl_device *device, uint32_t offset, uint32_t value)
{
    B2RTL_WRITE32(device->base + offset, value);
}

static uint64_t number(const uint8_t *bytes, int size)
{
    uint64_t value = 0;

    for (int i = size - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
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
    if (number(bytes + 12, 4) != header_crc(bytes))
        return B2RTL_IMAGE_DAMAGED;
    if (number(bytes + 8, 2) != FORMAT)
        return B2RTL_NO_IMAGE;
    if (number(bytes + 16, 8) != size)
        return B2RTL_IMAGE_DAMAGED;
    if (address % B2RTL_IMAGE_ALIGNMENT != 0)
        return B2RTL_IMAGE_ADDRESS;
    stream = number(bytes + 24, 8);
    stream_bytes = number(bytes + 32, 8);
    rows = number(bytes + 40, 8);
    rows_bytes = number(bytes + 48, 8);
    rows_crc = (uint32_t)number(bytes + 68, 4);
    if (stream != B2RTL_IMAGE_HEADER_BYTES || rows < stream || rows > size ||
        stream_bytes > rows - stream || rows_bytes != size - rows || stream_bytes > 0xFFFFFFFFu)
        return B2RTL_IMAGE_DAMAGED;
    if (number(bytes + 64, 4) != b2rtl_crc(0, bytes + stream, (size_t)(rows - stream)) ||
        rows_crc != b2rtl_crc(0, bytes + rows, (size_t)rows_bytes))
        return B2RTL_IMAGE_DAMAGED;
    code = b2rtl_check(device, bytes + stream, (size_t)stream_bytes, &tokens);
    if (code == B2RTL_OK)
        code = b2rtl_check_rows(bytes + stream, (size_t)stream_bytes, rows_crc);
    if (code != B2RTL_OK)
        return code;
    for (size_t i = 0; i < B2RTL_HASH_BYTES; i++)
        if (bytes[stream + B2RTL_HASH_AT + i] != bytes[MODEL_AT + i])
            return B2RTL_OTHER_ROWS;
    image->stream = address + stream;
    image->rows = address + rows;
    image->stream_bytes = (uint32_t)stream_bytes;
    image->row_bytes = (uint32_t)number(bytes + 56, 4);
    image->row_count = (uint32_t)number(bytes + 60, 4);
    image->tokens = tokens;
    for (size_t i = 0; i < B2RTL_HASH_BYTES; i++)
        image->model[i] = bytes[MODEL_AT + i];
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
