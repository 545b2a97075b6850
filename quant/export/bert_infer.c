/* Integer inference of a BERT encoder; see bert_infer.h.

   int8_t and its relatives are two's complement wherever they exist, which this file asks for. It
   relies on nothing else that C99 leaves open: negative numbers are shifted by floor_shift, and no
   arithmetic needs an int of more than 16 bits. */
#include <stddef.h>
#include <string.h>

#include "bert_infer.h"

#define LIMIT8 INT32_C(128)
#define LIMIT16 INT32_C(32768)
#define PROJECTION_SHIFT 15
#define ROTARY_SHIFT 21

/* A row of int8 codes is cut into parts of PART; each is a string, followed by its 0. The last of
   several parts is filled with 0 up to the length of the others. Compilers take strings many times
   faster than numbers, and C99 asks them for 4095 characters in one. */
#define PART 1024

typedef struct {
    int32_t rows, columns;
    const signed char *weight; /* rows of parts */
    const int32_t *bias;
    const uint16_t *m; /* m and s: NULL for the logits */
    const uint8_t *s;
    const signed char *table, *table_low; /* 256 codes and their low halves, or NULL */
} linear_layer;

typedef struct {
    const int16_t *gamma;
    const int32_t *beta;
    const uint8_t *operand_shifts; /* of a channel's x to its x8, NULL for 8 in every channel */
    int32_t shift, wide, rms;      /* wide: the operand has 16 bits; rms: the mean is taken as 0 */
    int64_t epsilon;
} norm_layer;

typedef struct {
    const linear_layer *q, *k, *v, *o, *gate, *up, *down; /* gate: with the table, or NULL */
    const norm_layer *norm1, *norm2;                      /* norm1 may be NULL */
    const int16_t *cosine, *sine; /* BERT_TOKENS rows of BERT_HEAD_SIZE / 2, or NULL */
    int32_t score_m, score_s, context_m, context_s, attention_shift, gate_shift, ffn_shift;
    int32_t before, after; /* keys about its own that a query sees, BERT_TOKENS for all */
} encoder_layer;

/* What a model may lack is NULL; names are those of docs/numerics.md of bert2rtl. */
typedef struct {
    const signed char *token, *position; /* BERT_POSITIONS rows for each type, at least one type */
    const signed char *token_low, *position_low; /* the low parts of values of 16 bits */
    const int16_t *position_bias;                /* BERT_HEADS rows of 2 BERT_TOKENS - 1 */
    const norm_layer *norm_embedding, *norm_final, *norm_head; /* the last before the logits */
    const linear_layer *projection;                            /* of a factorised embedding */
    int32_t token_factor, position_factor, mean_m, mean_s;     /* m and s of mean pooling */
} encoder;

/* model, layers, head_layers; T, R and Q: exp2_table, reciprocal_table, rsqrt_table */
#include "bert_model.h"

/* floor(x / 2^s) */
static int64_t floor_shift(int64_t x, int32_t s)
{
    return x >= 0 ? x >> s : -1 - ((-1 - x) >> s);
}

/* x / 2^s to the nearest integer, ties towards plus infinity */
static int64_t round_shift(int64_t x, int32_t s)
{
    return s == 0 ? x : floor_shift(x + (INT64_C(1) << (s - 1)), s);
}

static int32_t saturate(int64_t x, int32_t limit)
{
    return x < -limit ? -limit : x > limit - 1 ? limit - 1 : (int32_t)x;
}

static int32_t requantize(int32_t acc, int32_t m, int32_t s, int32_t limit)
{
    return saturate(round_shift((int64_t)acc * m, s), limit);
}

/* The index of the highest set bit; x >= 1. */
static int32_t leading_one(int64_t x)
{
    int32_t e = 0;
    while (x >>= 1) {
        e++;
    }
    return e;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* 1 / sum = r * 2^-(16 + e) */
static int64_t reciprocal(int64_t sum, int32_t *e)
{
    int64_t u, y0, newton;
    *e = leading_one(sum);
    u = (sum << 19) >> *e;
    y0 = reciprocal_table[(u >> 12) & 127];
    newton = floor_shift((INT64_C(1) << 31) - u * y0, 6);
    return smaller(floor_shift((y0 << 25) + y0 * newton + (INT64_C(1) << 20), 21), 65535);
}

/* 1 / sqrt(v) = r * 2^-(16 + e) */
static int64_t rsqrt(int64_t v, int32_t *e)
{
    int64_t u, y0, newton;
    *e = leading_one(v) / 2;
    u = *e < 8 ? v << (16 - 2 * *e) : v >> (2 * *e - 16);
    y0 = rsqrt_table[u < INT64_C(1) << 17 ? (u >> 9) & 127 : 128 + ((u >> 10) & 127)];
    newton = floor_shift((INT64_C(1) << 40) - u * y0 * y0, 16);
    return smaller(floor_shift((y0 << 25) + y0 * newton + (INT64_C(1) << 20), 21), 65535);
}

/* The multiplier of a row that divides by the sum of its p: m * 2^-s / sum */
static void row_scale(int32_t sum, int32_t m, int32_t s, int32_t *row_m, int32_t *row_s)
{
    int32_t e, adjust;
    int64_t product = reciprocal(sum, &e) * m, rounded;
    adjust = product >= INT64_C(1) << 31 ? 16 : 15;
    rounded = round_shift(product, adjust);
    if (rounded == INT64_C(1) << 16) {
        rounded = INT64_C(1) << 15;
        adjust++;
    }
    *row_m = (int32_t)rounded;
    *row_s = s + 16 + e - adjust;
}

/* Where a row of a table of int8 codes begins; see PART. */
static const signed char *row_of(const signed char *rows, int32_t columns, size_t row)
{
    int32_t parts = (columns + PART - 1) / PART;
    return rows + row * (size_t)parts * (size_t)(smaller(columns, PART) + 1);
}

/* sum_k x[k] * weight[row][k] */
static int32_t product(const linear_layer *layer, int32_t row, const int8_t *x)
{
    const signed char *w = row_of(layer->weight, layer->columns, (size_t)row);
    int32_t acc = 0, first, i, end;
    for (first = 0; first < layer->columns; first += PART) {
        end = (int32_t)smaller(layer->columns, first + PART);
        for (i = first; i < end; i++) {
            acc += (int32_t)w[i] * x[i];
        }
        w++; /* the 0 behind each part */
    }
    return acc;
}

/* An operand: int8 codes, and where it has 16 bits their low halves, otherwise NULL, which it is
   throughout a model that has no room for them. */
typedef struct {
    int8_t *codes, *low;
} operand;

static operand operand_of(int8_t *codes, int8_t *low, int32_t wide)
{
    operand x;
    x.codes = codes;
    x.low = BERT_PRECISE && wide ? low : NULL;
    return x;
}

/* x . weight[row] + bias[row]; low halves first, whose sum counts 2^-8 */
static int32_t accumulate(const linear_layer *layer, int32_t row, operand x)
{
    int32_t acc = x.low ? (int32_t)floor_shift(product(layer, row, x.low), 8) : 0;
    return acc + product(layer, row, x.codes) + layer->bias[row];
}

static void linear(const linear_layer *layer, operand x, operand y)
{
    int32_t row, code;
    for (row = 0; row < layer->rows; row++) {
        code = requantize(accumulate(layer, row, x), layer->m[row], layer->s[row], LIMIT8);
        y.codes[row] = (int8_t)(layer->table ? layer->table[(uint8_t)code] : code);
        if (y.low) {
            y.low[row] = layer->table_low[(uint8_t)code];
        }
    }
}

static int32_t linear16(const linear_layer *layer, int32_t row, operand x)
{
    return requantize(accumulate(layer, row, x), layer->m[row], layer->s[row], LIMIT16);
}

/* Q or K of token t, its pairs of channels turned by the angles of its position */
static void turned(const encoder_layer *layer, const linear_layer *part, operand x, int32_t t,
                   int8_t *y)
{
    size_t first = (size_t)t * (BERT_HEAD_SIZE / 2), angle;
    int32_t row;
    int64_t a, b, cosine, sine;
    if (!layer->cosine) {
        linear(part, x, operand_of(y, NULL, 0));
        return;
    }
    for (row = 0; row < part->rows; row += 2) {
        angle = first + (size_t)(row % BERT_HEAD_SIZE / 2);
        cosine = layer->cosine[angle];
        sine = layer->sine[angle];
        a = linear16(part, row, x);
        b = linear16(part, row + 1, x);
        y[row] = (int8_t)saturate(round_shift(a * cosine - b * sine, ROTARY_SHIFT), LIMIT8);
        y[row + 1] = (int8_t)saturate(round_shift(b * cosine + a * sine, ROTARY_SHIFT), LIMIT8);
    }
}

/* y *= up(x): y is table(gate(x)), and of 16 bits where it has low halves */
static void gated(const encoder_layer *layer, operand x, operand y)
{
    int32_t row, gate, product;
    for (row = 0; row < layer->up->rows; row++) {
        gate = y.low ? y.codes[row] * INT32_C(256) + y.low[row] : y.codes[row];
        product = saturate(
            round_shift((int64_t)gate * linear16(layer->up, row, x), layer->gate_shift), LIMIT16);
        y.codes[row] = (int8_t)saturate(y.low ? round_shift(product, 8) : product, LIMIT8);
        if (y.low) {
            y.low[row] = (int8_t)saturate(product - y.codes[row] * INT32_C(256), LIMIT8);
        }
    }
}

/* x += linear(x8), in the int16 of the residual stream */
static void residual(const linear_layer *layer, int32_t shift, operand x8, int16_t *x)
{
    int32_t row;
    for (row = 0; row < layer->rows; row++) {
        x[row] = (int16_t)saturate(round_shift(x[row], shift) + linear16(layer, row, x8), LIMIT16);
    }
}

/* LayerNorm and the operand made of it; x may be z, and is NULL where only that is wanted. */
static void normalize(const norm_layer *norm, const int16_t *z, int16_t *x, operand x8)
{
    int64_t s1 = 0, s2 = 0, r, n;
    int32_t c, e, y, shift;
    for (c = 0; c < BERT_HIDDEN; c++) {
        s1 += z[c];
        s2 += (int32_t)z[c] * z[c];
    }
    s1 = norm->rms ? 0 : s1;
    r = rsqrt(BERT_HIDDEN * s2 - s1 * s1 + norm->epsilon, &e);
    for (c = 0; c < BERT_HIDDEN; c++) {
        n = round_shift((BERT_HIDDEN * (int64_t)z[c] - s1) * r, e + 4);
        y = saturate(round_shift(n * norm->gamma[c] + norm->beta[c], norm->shift), LIMIT16);
        if (x) {
            x[c] = (int16_t)y;
        }
        shift = norm->operand_shifts ? norm->operand_shifts[c] : 8;
        x8.codes[c] = (int8_t)saturate(round_shift(y, shift), LIMIT8);
        if (x8.low && norm->wide) {
            x8.low[c] = (int8_t)saturate(y - x8.codes[c] * INT32_C(256), LIMIT8);
        }
    }
}

/* p of one query and one head over the keys of its window, and their sum */
static int32_t softmax(bert_workspace *w, int32_t begin, int32_t end)
{
    int32_t t, d, highest = -LIMIT16, sum = 0;
    for (t = begin; t < end; t++) {
        highest = w->score[t] > highest ? w->score[t] : highest;
    }
    for (t = begin; t < end; t++) {
        d = highest - w->score[t]; /* from 9 * 256 on, T * 2^-9 rounds to 0 */
        w->p[t] = (uint8_t)(d < 9 * 256 ? round_shift(exp2_table[d & 255], (d >> 8) + 8) : 0);
        sum += w->p[t];
    }
    return sum;
}

/* The context of one query and one head takes the place of its q, which nothing reads again. */
static void context(bert_workspace *w, const encoder_layer *layer, int32_t tokens, int32_t query,
                    int32_t head)
{
    const int16_t *bias = model.position_bias;
    int32_t t, i, acc, row_m, row_s, first = head * BERT_HEAD_SIZE;
    int32_t begin = query > layer->before ? query - layer->before : 0;
    int32_t end = tokens - query > layer->after ? query + layer->after + 1 : tokens;
    int8_t *q = w->q[query] + first;
    if (bias) { /* from key 0 on */
        bias += (size_t)head * (2 * BERT_TOKENS - 1) + (size_t)(BERT_TOKENS - 1 - query);
    }
    first = head % BERT_KV_HEADS * BERT_HEAD_SIZE; /* of its K and V */
    for (t = begin; t < end; t++) {
        acc = 0;
        for (i = 0; i < BERT_HEAD_SIZE; i++) {
            acc += (int32_t)q[i] * w->k[t][first + i];
        }
        acc = requantize(acc, layer->score_m, layer->score_s, LIMIT16);
        w->score[t] = (int16_t)saturate(bias ? acc + bias[t] : acc, LIMIT16);
    }
    row_scale(softmax(w, begin, end), layer->context_m, layer->context_s, &row_m, &row_s);
    for (i = 0; i < BERT_HEAD_SIZE; i++) {
        acc = 0;
        for (t = begin; t < end; t++) {
            acc += (int32_t)w->p[t] * w->v[t][first + i];
        }
        q[i] = (int8_t)requantize(acc, row_m, row_s, LIMIT8);
    }
}

/* x8 of a token, which a norm makes, or with whose width (1: 16 bits) it is read */
static operand x8_of(bert_workspace *w, int32_t t, int32_t wide)
{
    return operand_of(w->x8[t], w->x8_low[BERT_PRECISE ? t : 0], wide);
}

/* wide: of the x8 that a layer without a norm in front reads */
static void encode(bert_workspace *w, const encoder_layer *layer, int32_t tokens, int32_t wide)
{
    const norm_layer *before_ffn = BERT_PRE_NORM ? layer->norm2 : layer->norm1;
    const linear_layer *activated = layer->gate ? layer->gate : layer->up;
    operand x, hidden = operand_of(w->ffn, w->ffn_low, activated->table_low != NULL);
    int32_t t, head;
    for (t = 0; t < tokens; t++) {
        if (BERT_PRE_NORM && layer->norm1) {
            normalize(layer->norm1, w->x[t], NULL, x8_of(w, t, 1));
            wide = layer->norm1->wide;
        }
        x = x8_of(w, t, wide);
        turned(layer, layer->q, x, t, w->q[t]);
        turned(layer, layer->k, x, t, w->k[t]);
        linear(layer->v, x, operand_of(w->v[t], NULL, 0));
    }
    for (t = 0; t < tokens; t++) {
        for (head = 0; head < BERT_HEADS; head++) {
            context(w, layer, tokens, t, head);
        }
        residual(layer->o, layer->attention_shift, operand_of(w->q[t], NULL, 0), w->x[t]);
        normalize(before_ffn, w->x[t], BERT_PRE_NORM ? NULL : w->x[t], x8_of(w, t, 1));
        x = x8_of(w, t, before_ffn->wide);
        linear(activated, x, hidden);
        if (layer->gate) {
            gated(layer, x, hidden);
        }
        residual(layer->down, layer->ffn_shift, hidden, w->x[t]);
        if (!BERT_PRE_NORM) {
            normalize(layer->norm2, w->x[t], w->x[t], x8_of(w, t, 1));
        }
    }
}

/* The operand of the head: that of a token, or the mean over all, attention with equal p. */
static void pool(bert_workspace *w, int32_t tokens, int32_t token, operand y)
{
    operand x = x8_of(w, token, 1);
    int32_t c, t, acc, row_m, row_s;
    row_scale(INT32_C(255) * tokens, model.mean_m, model.mean_s, &row_m, &row_s);
    for (c = 0; c < BERT_HIDDEN; c++) {
        acc = 0;
        for (t = 0; BERT_MEAN && t < tokens; t++) {
            acc += INT32_C(255) * w->x8[t][c];
        }
        y.codes[c] = (int8_t)(BERT_MEAN ? requantize(acc, row_m, row_s, LIMIT8) : x.codes[c]);
        if (x.low && y.low) {
            y.low[c] = x.low[c];
        }
    }
}

/* From the rows of the stream in w->x on. */
static void infer(bert_workspace *w, int32_t tokens, int32_t *logits)
{
    const norm_layer *norm = model.norm_embedding; /* the latest, of which x8 is */
    operand x, y;
    int32_t t, i, row;

    for (t = 0; t < tokens; t++) {
        if (norm) {
            normalize(norm, w->x[t], w->x[t], x8_of(w, t, 1));
        }
        if (model.projection) {
            residual(model.projection, PROJECTION_SHIFT, x8_of(w, t, 0), w->x[t]);
        }
    }
    for (i = 0; i < BERT_LAYERS; i++) {
        encode(w, &layers[i], tokens, norm && norm->wide);
        norm = layers[i].norm2;
    }
    for (t = 0; t < tokens && model.norm_final; t++) {
        norm = model.norm_final; /* what is behind a head with a norm takes the sum */
        normalize(norm, w->x[t], model.norm_head ? NULL : w->x[t], x8_of(w, t, 1));
    }
    for (t = 0; t < (BERT_EVERY ? tokens : 1); t++) {
        x = operand_of(w->head[0], w->head_low, norm->wide && !BERT_MEAN);
        pool(w, tokens, t, x);
        for (i = 0; i < BERT_HEAD - 1; i++) {
            y = operand_of(w->head[(i + 1) % 2], NULL, 0);
            linear(head_layers[i], x, y);
            x = y;
        }
        for (i = 0; model.norm_head && i < BERT_HIDDEN; i++) {
            int64_t z = round_shift(w->x[t][i], PROJECTION_SHIFT) + 128 * x.codes[i];
            w->x[t][i] = (int16_t)saturate(z, LIMIT16);
        }
        if (model.norm_head) {
            normalize(model.norm_head, w->x[t], NULL, x8_of(w, t, 1));
            x = x8_of(w, t, model.norm_head->wide);
        }
        for (row = 0; row < BERT_LABELS; row++) {
            *logits++ = accumulate(head_layers[BERT_HEAD - 1], row, x);
        }
    }
}

#if BERT_GIVEN
int bert_infer(bert_workspace *workspace, const int16_t *rows, int32_t *logits)
{
    if (!workspace || !rows || !logits) {
        return BERT_BAD_POINTER;
    }
    memcpy(workspace->x, rows, sizeof workspace->x);
    infer(workspace, BERT_TOKENS, logits);
    return BERT_OK;
}
#else
static void embed(uint32_t id, int32_t type, int32_t place, int16_t *x)
{
    size_t row = (size_t)type * BERT_POSITIONS + BERT_OFFSET + (size_t)place;
    const signed char *token = row_of(model.token, BERT_HIDDEN, id);
    const signed char *position = row_of(model.position, BERT_HIDDEN, row);
    int32_t c;
    for (c = 0; c < BERT_HIDDEN; c++) {
        x[c] = (int16_t)(model.token_factor * token[c] + model.position_factor * position[c]);
    }
    if (model.token_low) {
        token = row_of(model.token_low, BERT_HIDDEN, id);
        position = row_of(model.position_low, BERT_HIDDEN, row);
        for (c = 0; c < BERT_HIDDEN; c++) {
            x[c] = (int16_t)(x[c] + token[c] + position[c]);
        }
    }
}

int bert_infer(bert_workspace *workspace, const uint32_t *ids, const uint8_t *types, int tokens,
               int32_t *logits)
{
    int32_t t;
    if (!workspace || !ids || !logits) {
        return BERT_BAD_POINTER;
    }
    if (tokens < 1 || tokens > BERT_TOKENS) {
        return BERT_BAD_TOKENS;
    }
    for (t = 0; t < tokens; t++) {
        if (ids[t] >= BERT_VOCABULARY) {
            return BERT_BAD_ID;
        }
        if (types && types[t] >= BERT_TYPES) {
            return BERT_BAD_TYPE;
        }
        embed(ids[t], types ? types[t] : 0, t, workspace->x[t]);
    }
    infer(workspace, tokens, logits);
    return BERT_OK;
}
#endif

const char *bert_message(int code)
{
    static const char *const messages[] = {
        "done",
        BERT_GIVEN ? "workspace, rows or logits is NULL" : "workspace, ids or logits is NULL",
        "the number of tokens is out of range",
        "a token id is not in the vocabulary",
        "a type (segment id) is out of range",
    };
    return code >= BERT_OK && code <= BERT_BAD_TYPE ? messages[code] : "unknown code";
}
