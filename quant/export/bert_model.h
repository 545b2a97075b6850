/* How bert_model.c holds the model. The names are those of docs/numerics.md of bert2rtl. */
#ifndef BERT_MODEL_H
#define BERT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "bert_shape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row of int8 codes is cut into parts of BERT_PART; each is a string, followed by its 0. The
   last of several parts is filled with 0 up to the length of the others. Compilers take strings
   many times faster than numbers, and C99 asks them for 4095 characters in one. */
#define BERT_PART 1024

typedef struct {
    int32_t rows, columns;
    const signed char *weight; /* rows of parts */
    const int32_t *bias;
    const uint16_t *m; /* m and s: NULL for the logits */
    const uint8_t *s;
    const signed char *table; /* 256 codes, NULL without an activation */
    const signed char *table_low; /* their low halves where the result has 16 bits, or NULL */
} bert_linear;

typedef struct {
    const int16_t *gamma;
    const int32_t *beta;
    int32_t shift;
    int64_t epsilon;
    const uint8_t *operand_shifts; /* of a channel's x to its x8, NULL for 8 in every channel */
    int32_t wide;                  /* 1: the operand has 16 bits, its low halves apart */
#if BERT_RMS
    int32_t rms; /* 1: the mean is taken as 0 */
#endif
} bert_norm;

typedef struct {
    bert_linear q, k, v, o;
    int32_t score_m, score_s, context_m, context_s, attention_shift;
    int32_t before, after; /* keys about its own that a query sees, BERT_TOKENS for all */
#if BERT_ROTARY
    const int16_t *cosine, *sine; /* BERT_TOKENS rows of BERT_HEAD_SIZE / 2, or NULL */
#endif
#if BERT_GATED
    bert_linear gate;   /* has the table; empty without a gate */
    int32_t gate_shift; /* 0 without a gate */
#endif
    bert_linear up, down;
    int32_t ffn_shift;
    bert_norm norm1, norm2;
} bert_layer;

typedef struct {
    const signed char *token;    /* BERT_VOCABULARY rows of BERT_HIDDEN */
    const signed char *position; /* BERT_POSITIONS rows for each type, at least one type */
    const signed char *token_low, *position_low; /* the low parts of values of 16 bits, or NULL */
    int32_t token_factor, position_factor;
    const bert_norm *norm_embedding; /* NULL without one */
    const bert_linear *projection;   /* of a factorised embedding, or NULL */
    const int16_t *position_bias;    /* BERT_HEADS rows of 2 BERT_TOKENS - 1, or NULL */
    const bert_layer *layers;        /* BERT_LAYERS of them */
    const bert_norm *norm_final;     /* NULL without one */
    int32_t mean_m, mean_s;              /* of mean pooling */
    const bert_linear *head;         /* BERT_HEAD of them, the last gives the logits */
#if BERT_HEAD_NORM
    const bert_norm *norm_head; /* before the last of them */
#endif
    const uint16_t *exp2;                /* T of docs/numerics.md, 256 entries */
    const uint16_t *reciprocal;          /* R, 128 entries */
    const uint16_t *rsqrt;               /* Q, 256 entries */
} bert_encoder;

extern const bert_encoder bert_model;

#ifdef __cplusplus
}
#endif

#endif
