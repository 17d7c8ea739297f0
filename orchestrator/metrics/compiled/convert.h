/* Runs of stored elements to doubles; included once for each instruction set, so that the compiler uses its vectors. */

#define CONVERT(name, type)                                                                                                                \
    static TARGET void NAMED(from_##name)(const void *from, double *to, ptrdiff_t n) {                                                     \
        const type *v = (const type *)from;                                                                                                \
        for (ptrdiff_t i = 0; i < n; i++)                                                                                                  \
            to[i] = (double)v[i];                                                                                                          \
    }

CONVERT(int8, int8_t)
CONVERT(uint8, uint8_t)
CONVERT(int16, any_int16)
CONVERT(uint16, any_uint16)
CONVERT(int32, any_int32)
CONVERT(uint32, any_uint32)
CONVERT(int64, any_int64)
CONVERT(uint64, any_uint64)
CONVERT(float32, any_float)
CONVERT(float64, any_double)
#if defined(__aarch64__)
CONVERT(float16, any_half)
#endif
#undef CONVERT

/* A half's exponent and fraction, moved to where a float has them. Below the normal range the float is made a normal one that is too large
   by 2**-14, which is taken off: no operation sees a subnormal number, which processors are slow with. Where the processor converts halves
   itself, it does. */
#if !defined(__aarch64__)
static TARGET void NAMED(from_float16)(const void *from, double *to, ptrdiff_t n) {
    const any_uint16 *v = (const any_uint16 *)from;
    ptrdiff_t i = 0;
#if defined(__x86_64__) && WIDTH == 8
    for (; i + 16 <= n; i += 16) {
        __m512 sixteen = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(v + i)));
        _mm512_storeu_pd(to + i, _mm512_cvtps_pd(_mm512_castps512_ps256(sixteen)));
        _mm512_storeu_pd(to + i + 8, _mm512_cvtps_pd(_mm512_extractf32x8_ps(sixteen, 1)));
    }
#elif defined(__x86_64__) && WIDTH == 4
    for (; i + 8 <= n; i += 8) {
        __m256 eight = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(v + i)));
        _mm256_storeu_pd(to + i, _mm256_cvtps_pd(_mm256_castps256_ps128(eight)));
        _mm256_storeu_pd(to + i + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1)));
    }
#endif
    for (; i < n; i++) {
        uint32_t code = v[i];
        uint32_t bits = (code & 0x7fffu) << 13;
        uint32_t exponent = bits & 0x0f800000u;
        union float_bits whole, below;
        below.bits = bits + 0x38800000u;
        below.value -= 6.103515625e-05f;
        whole.bits = bits + (exponent == 0x0f800000u ? 0x70000000u : 0x38000000u);
        whole.bits = (exponent == 0 ? below.bits : whole.bits) | (code & 0x8000u) << 16;
        to[i] = (double)whole.value;
    }
}
#endif

/* The upper half of a float. */
static TARGET void NAMED(from_bfloat16)(const void *from, double *to, ptrdiff_t n) {
    const any_uint16 *v = (const any_uint16 *)from;
    ptrdiff_t i = 0;
#if defined(__x86_64__) && WIDTH == 8
    for (; i + 16 <= n; i += 16) {
        __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(v + i))), 16);
        __m512 sixteen = _mm512_castsi512_ps(bits);
        _mm512_storeu_pd(to + i, _mm512_cvtps_pd(_mm512_castps512_ps256(sixteen)));
        _mm512_storeu_pd(to + i + 8, _mm512_cvtps_pd(_mm512_extractf32x8_ps(sixteen, 1)));
    }
#elif defined(__x86_64__) && WIDTH == 4
    for (; i + 8 <= n; i += 8) {
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(v + i))), 16);
        __m256 eight = _mm256_castsi256_ps(bits);
        _mm256_storeu_pd(to + i, _mm256_cvtps_pd(_mm256_castps256_ps128(eight)));
        _mm256_storeu_pd(to + i + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1)));
    }
#endif
    for (; i < n; i++) {
        union float_bits whole;
        whole.bits = (uint32_t)v[i] << 16;
        to[i] = (double)whole.value;
    }
}

static void (*const NAMED(converters)[TYPES])(const void *, double *, ptrdiff_t) = {
    NAMED(from_int8),  NAMED(from_uint8), NAMED(from_int16),  NAMED(from_uint16),  NAMED(from_int32),  NAMED(from_uint32),
    NAMED(from_int64), NAMED(from_uint64), NAMED(from_float16), NAMED(from_float32), NAMED(from_float64),
    NAMED(from_bfloat16),
};

/* One run of a side: its elements lie ``stride`` bytes apart. */
static TARGET void NAMED(convert)(int type, const char *from, ptrdiff_t stride, double *to, ptrdiff_t n) {
    uint64_t side_by_side[CHUNK];
    int size = type_sizes[type];
    if (stride == size) {
        NAMED(converters)[type](from, to, n);
        return;
    }
    if (size == 1)
        for (ptrdiff_t i = 0; i < n; i++)
            ((uint8_t *)side_by_side)[i] = *(const uint8_t *)(from + i * stride);
    else if (size == 2)
        for (ptrdiff_t i = 0; i < n; i++)
            ((any_uint16 *)side_by_side)[i] = *(const any_uint16 *)(from + i * stride);
    else if (size == 4)
        for (ptrdiff_t i = 0; i < n; i++)
            ((any_uint32 *)side_by_side)[i] = *(const any_uint32 *)(from + i * stride);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            ((any_uint64 *)side_by_side)[i] = *(const any_uint64 *)(from + i * stride);
    NAMED(converters)[type](side_by_side, to, n);
}

/* One side of a tile: rows of ``length`` elements. Where the rows' elements lie side by side in memory, they are read as they lie there. */
static TARGET void NAMED(convert_tile)(const struct side *side, const char *from, int inner, ptrdiff_t rows, ptrdiff_t length, double *to) {
    uint64_t side_by_side[CHUNK];
    int size = type_sizes[side->type];
    if (side->strides[inner] != size && side->strides[inner - 1] == size) {
        transpose(from, side->strides[inner], rows, length, size, (char *)side_by_side);
        NAMED(converters)[side->type](side_by_side, to, rows * length);
        return;
    }
    for (ptrdiff_t row = 0; row < rows; row++)
        NAMED(convert)(side->type, from + row * side->strides[inner - 1], side->strides[inner], to + row * length, length);
}

/* The next elements of both sides, at most CHUNK; 0 behind the last. */
static TARGET ptrdiff_t NAMED(next_chunk)(struct walk *walk, double *x, double *y, struct place *place) {
    int inner = walk->axes - 1;
    ptrdiff_t filled = 0, at = walk->at, n = walk->shape[inner] - at;
    if (walk->done)
        return 0;
    place->first = walk->position + at;
    place->rows = 1;
    if (walk->tiled) {
        ptrdiff_t rows = walk->shape[inner - 1];
        if (n > CHUNK / rows)
            n = CHUNK / rows;
        if (x)
            NAMED(convert_tile)(&walk->x, walk->x.data + at * walk->x.strides[inner], inner, rows, n, x);
        if (y)
            NAMED(convert_tile)(&walk->y, walk->y.data + at * walk->y.strides[inner], inner, rows, n, y);
        place->rows = rows;
        advance(walk, n);
        return rows * n;
    }
    while (filled < CHUNK && !walk->done) {
        at = walk->at;
        n = walk->shape[inner] - at;
        if (n > CHUNK - filled)
            n = CHUNK - filled;
        if (x)
            NAMED(convert)(walk->x.type, walk->x.data + at * walk->x.strides[inner], walk->x.strides[inner], x + filled, n);
        if (y)
            NAMED(convert)(walk->y.type, walk->y.data + at * walk->y.strides[inner], walk->y.strides[inner], y + filled, n);
        filled += n;
        advance(walk, n);
    }
    return filled;
}
