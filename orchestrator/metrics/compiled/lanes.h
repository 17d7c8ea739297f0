/* One instruction set's vectors: included once for each, with ISA, WIDTH (doubles in a register) and TARGET defined.

   All sums are kept in eight lanes, whatever the width: element i of a chunk goes into lane i % 8. So the order of additions, and with it
   every bit of the results, is the same on each processor. */

#define V NAMED(vector)
#define U NAMED(bits)
#define REGISTERS (LANES / WIDTH)
#define EACH(k) for (int k = 0; k < REGISTERS; k++)

typedef double V __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));
typedef uint64_t U __attribute__((vector_size(8 * WIDTH), aligned(8), may_alias));

#define INLINE static inline __attribute__((always_inline)) TARGET

INLINE V NAMED(load)(const double *from) { return *(const V *)from; }

INLINE void NAMED(store)(double *to, V v) { *(V *)to = v; }

/* The same in each place. */
INLINE V NAMED(all)(double v) { return v - (V){0}; }

INLINE U NAMED(all_bits)(uint64_t v) { return v | (U){0}; }

INLINE V NAMED(choose)(U mask, V yes, V no) { return (V)((mask & (U)yes) | (~mask & (U)no)); }

INLINE V NAMED(magnitude)(V v) { return (V)((U)v & NAMED(all_bits)(0x7fffffffffffffffu)); }

/* The larger and the smaller; anything where one is NaN, which the sums tell. */
#if defined(__x86_64__) && WIDTH == 8
INLINE V NAMED(most)(V a, V b) { return (V)_mm512_max_pd((__m512d)a, (__m512d)b); }
INLINE V NAMED(least)(V a, V b) { return (V)_mm512_min_pd((__m512d)a, (__m512d)b); }
#elif defined(__x86_64__) && WIDTH == 4
INLINE V NAMED(most)(V a, V b) { return (V)_mm256_max_pd((__m256d)a, (__m256d)b); }
INLINE V NAMED(least)(V a, V b) { return (V)_mm256_min_pd((__m256d)a, (__m256d)b); }
#elif defined(__x86_64__)
INLINE V NAMED(most)(V a, V b) { return (V)_mm_max_pd((__m128d)a, (__m128d)b); }
INLINE V NAMED(least)(V a, V b) { return (V)_mm_min_pd((__m128d)a, (__m128d)b); }
#else
INLINE V NAMED(most)(V a, V b) { return NAMED(choose)((U)(a > b), a, b); }
INLINE V NAMED(least)(V a, V b) { return NAMED(choose)((U)(a < b), a, b); }
#endif

/* Whether a mask has any place. */
INLINE int NAMED(any)(U mask) {
#if defined(__x86_64__) && WIDTH == 8
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__x86_64__) && WIDTH == 4
    return _mm256_movemask_pd((__m256d)mask) != 0;
#elif defined(__x86_64__)
    return _mm_movemask_pd((__m128d)mask) != 0;
#else
    uint64_t bits = 0;
    for (int i = 0; i < WIDTH; i++)
        bits |= mask[i];
    return bits != 0;
#endif
}
