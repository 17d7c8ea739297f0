/* How two arrays of one shape are walked through together, and how the elements of a device layout are brought into the golden's order. */

/* One array. */
struct side {
    int type;
    const char *data;
    ptrdiff_t strides[MOST_AXES];
};

/* In C order, a chunk after another along the innermost axis. ``tiled``: a chunk is a tile of the two innermost axes, because on one side the
   elements of the one axis, on the other side those of the other lie side by side: each cache line is then read once. */
struct walk {
    int axes, tiled, done;
    ptrdiff_t shape[MOST_AXES], index[MOST_AXES];
    ptrdiff_t at;       /* along the innermost axis */
    ptrdiff_t position; /* of the current run or plane in the block's C order */
    struct side x, y;
};

/* Where a chunk's elements lie in the block's C order: so many rows, whose places differ by the length of the innermost axis. */
struct place {
    ptrdiff_t first, rows;
};

static void choose_order(struct walk *walk) {
    int inner = walk->axes - 1;
    walk->tiled = 0;
    if (inner < 1 || walk->shape[inner - 1] > MOST_ROWS || walk->shape[inner] < LANES)
        return;
    for (int number = 0; number < 2; number++) {
        const struct side *side = number ? &walk->y : &walk->x;
        if (side->strides[inner] != type_sizes[side->type] && side->strides[inner - 1] == type_sizes[side->type])
            walk->tiled = 1;
    }
}

/* Move on by so many elements along the innermost axis. */
static void advance(struct walk *walk, ptrdiff_t n) {
    int axis = walk->axes - 1 - walk->tiled;
    ptrdiff_t inner = walk->shape[walk->axes - 1];
    walk->at += n;
    if (walk->at < inner)
        return;
    walk->at = 0;
    walk->position += walk->tiled ? inner * walk->shape[axis] : inner;
    while (--axis >= 0) {
        walk->x.data += walk->x.strides[axis];
        walk->y.data += walk->y.strides[axis];
        if (++walk->index[axis] < walk->shape[axis])
            return;
        walk->x.data -= walk->shape[axis] * walk->x.strides[axis];
        walk->y.data -= walk->shape[axis] * walk->y.strides[axis];
        walk->index[axis] = 0;
    }
    walk->done = 1;
}

/* Where a side's next chunk lies, for the processor to fetch it while this one is computed: a place for each LANES elements, ``step`` bytes
   apart, and behind ``length`` of them ``skip`` more, to the tile's next row. */
struct ahead {
    const char *at;
    ptrdiff_t step, left, length, skip;
};

/* Only where the next chunk is a full one; else one place is named all the time. A place that is nobody's does no harm. */
static struct ahead ahead_of(const struct walk *walk, const struct side *side) {
    int inner = walk->axes - 1;
    ptrdiff_t rows = walk->tiled ? walk->shape[inner - 1] : 1, stride = side->strides[inner];
    struct ahead next = {side->data + walk->at * stride, 0, CHUNK, CHUNK, 0};
    if (walk->done || walk->shape[inner] - walk->at < CHUNK / rows)
        return next;
    next.step = stride * LANES;
    if (walk->tiled && stride != type_sizes[side->type]) {
        /* Read as it lies there: all rows' elements at once. */
        next.step /= rows;
    } else if (walk->tiled) {
        next.left = next.length = CHUNK / rows / LANES;
        next.skip = side->strides[inner - 1] - next.length * next.step;
    }
    return next;
}

static inline void fetch(struct ahead *next) {
    __builtin_prefetch(next->at);
    next->at += next->step;
    if (--next->left == 0) {
        next->at += next->skip;
        next->left = next->length;
    }
}

typedef uint16_t eight_halves __attribute__((vector_size(16), aligned(1), may_alias));

#if defined(__clang__) || __GNUC__ >= 12
#define WOVEN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define WOVEN(a, b, ...) __builtin_shuffle(a, b, (eight_halves){__VA_ARGS__})
#endif

/* Eight rows of eight 16-bit elements become columns: each of three steps weaves rows that are four apart. */
static inline void transpose_halves(const char *from, ptrdiff_t from_stride, char *to, ptrdiff_t to_stride) {
    eight_halves a[8], b[8];
    for (int row = 0; row < 8; row++)
        a[row] = *(const eight_halves *)(from + row * from_stride);
    for (int step = 0; step < 3; step++) {
        for (int row = 0; row < 4; row++) {
            b[2 * row] = WOVEN(a[row], a[row + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            b[2 * row + 1] = WOVEN(a[row], a[row + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(a, b, sizeof a);
    }
    for (int row = 0; row < 8; row++)
        *(eight_halves *)(to + row * to_stride) = a[row];
}

/* Rows of ``length`` elements that lie ``stride`` bytes apart, the first elements of all rows side by side: row after row. */
static void transpose(const char *from, ptrdiff_t stride, ptrdiff_t rows, ptrdiff_t length, int size, char *to) {
    ptrdiff_t whole_rows = size == 2 ? rows & ~(ptrdiff_t)7 : 0, whole_length = length & ~(ptrdiff_t)7;
    for (ptrdiff_t row = 0; row < whole_rows; row += 8)
        for (ptrdiff_t i = 0; i < whole_length; i += 8)
            transpose_halves(from + i * stride + row * 2, stride, to + (row * length + i) * 2, length * 2);
    for (ptrdiff_t row = 0; row < rows; row++)
        for (ptrdiff_t i = row < whole_rows ? whole_length : 0; i < length; i++)
            memcpy(to + (row * length + i) * size, from + i * stride + row * size, (size_t)size);
}
