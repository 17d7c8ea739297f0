/* The passes over a block, for one instruction set. */

/* Sums of one chunk, in lanes; they are added to the block's afterwards, which keeps more digits than one long sum. */
static TARGET void NAMED(add_chunk)(
    struct pair_lanes *lanes, double *x, double *y, double *d, ptrdiff_t n, int relative, struct ahead next_x, struct ahead next_y) {
    struct pair_lanes part = no_sums;
    V sx[REGISTERS], sy[REGISTERS], xx[REGISTERS], yy[REGISTERS], xy[REGISTERS], dd[REGISTERS], ad[REGISTERS];
    EACH(k) sx[k] = sy[k] = xx[k] = yy[k] = xy[k] = dd[k] = ad[k] = NAMED(all)(0.0);
    pad(x, n, 0.0);
    pad(y, n, 0.0);
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        fetch(&next_x);
        EACH(k) {
            V a = NAMED(load)(x + i + k * WIDTH), b = NAMED(load)(y + i + k * WIDTH);
            V off = NAMED(magnitude)(a - b);
            NAMED(store)(d + i + k * WIDTH, off);
            sx[k] += a;
            sy[k] += b;
            xx[k] += a * a;
            yy[k] += b * b;
            xy[k] += a * b;
            dd[k] += off * off;
            ad[k] += off;
        }
    }
    EACH(k) {
        NAMED(store)(part.x + k * WIDTH, sx[k]);
        NAMED(store)(part.y + k * WIDTH, sy[k]);
        NAMED(store)(part.xx + k * WIDTH, xx[k]);
        NAMED(store)(part.yy + k * WIDTH, yy[k]);
        NAMED(store)(part.xy + k * WIDTH, xy[k]);
        NAMED(store)(part.dd + k * WIDTH, dd[k]);
        NAMED(store)(part.ad + k * WIDTH, ad[k]);
    }
    const V least_golden = NAMED(all)(RELATIVE_FLOOR);
    V x_low[REGISTERS], x_high[REGISTERS], y_low[REGISTERS], y_high[REGISTERS], max_ad[REGISTERS], rel[REGISTERS], max_rel[REGISTERS];
    EACH(k) {
        x_low[k] = NAMED(load)(lanes->x_low + k * WIDTH);
        x_high[k] = NAMED(load)(lanes->x_high + k * WIDTH);
        y_low[k] = NAMED(load)(lanes->y_low + k * WIDTH);
        y_high[k] = NAMED(load)(lanes->y_high + k * WIDTH);
        max_ad[k] = NAMED(load)(lanes->max_ad + k * WIDTH);
        max_rel[k] = NAMED(load)(lanes->max_rel + k * WIDTH);
        rel[k] = NAMED(all)(0.0);
    }
    /* What is padding must not be the smallest or the largest. */
    pad(x, n, x[0]);
    pad(y, n, y[0]);
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        fetch(&next_y);
        EACH(k) {
            V a = NAMED(load)(x + i + k * WIDTH), b = NAMED(load)(y + i + k * WIDTH), off = NAMED(load)(d + i + k * WIDTH);
            x_low[k] = NAMED(least)(x_low[k], a);
            x_high[k] = NAMED(most)(x_high[k], a);
            y_low[k] = NAMED(least)(y_low[k], b);
            y_high[k] = NAMED(most)(y_high[k], b);
            max_ad[k] = NAMED(most)(max_ad[k], off);
            if (relative) {
                V size = NAMED(magnitude)(b);
                V share = (V)((U)(size > least_golden) & (U)off) / NAMED(most)(size, least_golden);
                rel[k] += share;
                max_rel[k] = NAMED(most)(max_rel[k], share);
            }
        }
    }
    EACH(k) {
        NAMED(store)(lanes->x_low + k * WIDTH, x_low[k]);
        NAMED(store)(lanes->x_high + k * WIDTH, x_high[k]);
        NAMED(store)(lanes->y_low + k * WIDTH, y_low[k]);
        NAMED(store)(lanes->y_high + k * WIDTH, y_high[k]);
        NAMED(store)(lanes->max_ad + k * WIDTH, max_ad[k]);
        NAMED(store)(lanes->max_rel + k * WIDTH, max_rel[k]);
        NAMED(store)(part.rel + k * WIDTH, rel[k]);
    }
    add_sums(lanes, &part);
}

/* Sum of squares of a few neighbours. */
static TARGET double NAMED(squares)(const double *v, ptrdiff_t n) {
    double lanes[LANES] = {0}, sum = 0.0;
    ptrdiff_t whole = n & ~(ptrdiff_t)(LANES - 1);
    if (whole) {
        V sums[REGISTERS];
        EACH(k) sums[k] = NAMED(all)(0.0);
        for (ptrdiff_t i = 0; i < whole; i += LANES)
            EACH(k) {
                V a = NAMED(load)(v + i + k * WIDTH);
                sums[k] += a * a;
            }
        EACH(k) NAMED(store)(lanes + k * WIDTH, sums[k]);
        sum = total_of(lanes);
    }
    for (ptrdiff_t i = whole; i < n; i++)
        sum += v[i] * v[i];
    return sum;
}

/* Add the squares of neighbours to the sums of their rows and of their columns. */
static TARGET void NAMED(add_table)(ptrdiff_t length, double *rows, double *columns, const double *v, ptrdiff_t first, ptrdiff_t n) {
    ptrdiff_t row = first / length, column = first % length;
    for (ptrdiff_t at = 0; at < n;) {
        ptrdiff_t size = length - column < n - at ? length - column : n - at;
        if (rows)
            rows[row] += NAMED(squares)(v + at, size);
        if (columns) {
            double *into = columns + column;
            for (ptrdiff_t i = 0; i < size; i++)
                into[i] += v[at + i] * v[at + i];
        }
        at += size;
        column = 0;
        row++;
    }
}

/* What is wanted of a chunk's elements by their places. */
static TARGET void NAMED(add_places)(
    const struct wanted *wanted, const double *y, const double *d, const struct place *place, ptrdiff_t step, ptrdiff_t n) {
    const struct table *table = &wanted->table;
    ptrdiff_t length = n / place->rows;
    for (ptrdiff_t row = 0; row < place->rows; row++) {
        ptrdiff_t first = place->first + row * step;
        if (table->rows_y || table->columns_y) {
            NAMED(add_table)(table->length, table->rows_y, table->columns_y, y + row * length, first, length);
            NAMED(add_table)(table->length, table->rows_d, table->columns_d, d + row * length, first, length);
        }
        if (wanted->keep_y)
            memcpy(wanted->keep_y + first, y + row * length, (size_t)length * sizeof(double));
        if (wanted->keep_d)
            memcpy(wanted->keep_d + first, d + row * length, (size_t)length * sizeof(double));
    }
}

/* Sums of v - base and of its square, of one side. */
static TARGET void NAMED(around)(const struct walk *block, int second, double base, double *first_power, double *second_power) {
    double v[CHUNK], sums[LANES] = {0}, squares[LANES] = {0};
    struct walk walk = *block;
    struct place place;
    for (ptrdiff_t n; (n = NAMED(next_chunk)(&walk, second ? NULL : v, second ? v : NULL, &place)) > 0;) {
        V part[REGISTERS], part_squares[REGISTERS];
        EACH(k) part[k] = part_squares[k] = NAMED(all)(0.0);
        pad(v, n, base);
        for (ptrdiff_t i = 0; i < n; i += LANES)
            EACH(k) {
                V off = NAMED(load)(v + i + k * WIDTH) - NAMED(all)(base);
                part[k] += off;
                part_squares[k] += off * off;
            }
        EACH(k) {
            NAMED(store)(sums + k * WIDTH, NAMED(load)(sums + k * WIDTH) + part[k]);
            NAMED(store)(squares + k * WIDTH, NAMED(load)(squares + k * WIDTH) + part_squares[k]);
        }
    }
    *first_power = total_of(sums);
    *second_power = total_of(squares);
}

static TARGET void NAMED(spread)(const struct walk *block, int second, ptrdiff_t n, double total, double squares, struct moments *found) {
    double m2 = squares - total * total / (double)n;
    found->base = 0.0;
    found->mean = total / (double)n;
    found->m2 = m2;
    /* A second look is one around the mean. */
    if (!(m2 > CANCELLED * squares) && squares < SAFE_BIG) {
        double sum, square_sum;
        found->base = total / (double)n;
        NAMED(around)(block, second, found->base, &sum, &square_sum);
        found->mean = sum / (double)n;
        m2 = square_sum - sum * found->mean;
        found->m2 = m2 > 0.0 ? m2 : 0.0;
    }
}

static TARGET void NAMED(first_pass)(const struct walk *block, const struct wanted *wanted, struct pair_sums *found) {
    double x[CHUNK], y[CHUNK], d[CHUNK];
    struct pair_lanes lanes = no_sums;
    struct walk walk = *block;
    struct place place;
    ptrdiff_t done = 0;
    for (ptrdiff_t n; (n = NAMED(next_chunk)(&walk, x, y, &place)) > 0; done += n) {
        NAMED(add_chunk)(&lanes, x, y, d, n, wanted->relative, ahead_of(&walk, &walk.x), ahead_of(&walk, &walk.y));
        NAMED(add_places)(wanted, y, d, &place, walk.shape[walk.axes - 1], n);
    }
    merge_lanes(&lanes, found);
    if (wanted->spread) {
        NAMED(spread)(block, 0, done, found->x, found->xx, &found->x_moments);
        NAMED(spread)(block, 1, done, found->y, found->yy, &found->y_moments);
    }
}

/* The natural logarithm of positive normal numbers, to the last digit but one; coefficients as in fdlibm's e_log.c (Sun Microsystems). */
INLINE V NAMED(logarithm)(V v) {
    const U root_half = NAMED(all_bits)(0x3fe6a09e667f3bcdu), bias = NAMED(all_bits)((uint64_t)1024 << 52);
    U power = (((U)v - root_half) + bias) >> 52;
    V k = (V)(power | NAMED(all_bits)(0x4330000000000000u)) - NAMED(all)(4503599627371520.0);
    V f = (V)((U)v - ((power - NAMED(all_bits)(1024)) << 52)) - NAMED(all)(1.0);
    V s = f / (NAMED(all)(2.0) + f), z = s * s, r = NAMED(all)(1.479819860511658591e-01);
    r = r * z + NAMED(all)(1.531383769920937332e-01);
    r = r * z + NAMED(all)(1.818357216161805012e-01);
    r = r * z + NAMED(all)(2.222219843214978396e-01);
    r = r * z + NAMED(all)(2.857142874366239149e-01);
    r = r * z + NAMED(all)(3.999999999940941908e-01);
    r = r * z + NAMED(all)(6.666666666666735130e-01);
    V half_square = NAMED(all)(0.5) * f * f;
    V correction = s * (half_square + r * z) + k * NAMED(all)(1.90821492927058770002e-10);
    return k * NAMED(all)(6.93147180369123816490e-01) - ((half_square - correction) - f);
}

/* (1 + u) ln(1 + u) - u for small u: the sum over k >= 2 of (-u)**k / (k (k - 1)), even and odd powers side by side. */
INLINE V NAMED(series)(V u) {
    V square = u * u, even = NAMED(all)(SERIES[10]), odd = NAMED(all)(SERIES[11]);
    for (int k = 8; k >= 0; k -= 2) {
        even = even * square + NAMED(all)(SERIES[k]);
        odd = odd * square + NAMED(all)(SERIES[k + 1]);
    }
    return (even + odd * u) * square;
}

/* Sums of p, q, p - q, q ((1 + u) ln(1 + u) - u) with u = p / q - 1, and p ln(p / q). Where p and q are far apart the logarithm's product is what
   is summed, elsewhere the series: each of the last two sums has its digits, whichever of P and Q is the larger. */
static TARGET void NAMED(divergence)(const struct walk *block, const struct scaling *sides, double *sums) {
    enum { P, Q, NEAR_OFF, NEAR_G, FAR_OFF, FAR_LOG, SUMS };
    double x[CHUNK], y[CHUNK], lanes[SUMS][LANES] = {{0}}, found[SUMS];
    struct walk walk = *block;
    struct place place;
    const V x_low = NAMED(all)(sides[0].low), x_factor = NAMED(all)(sides[0].factor), x_floor = NAMED(all)(sides[0].floor);
    const V y_low = NAMED(all)(sides[1].low), y_factor = NAMED(all)(sides[1].factor), y_floor = NAMED(all)(sides[1].floor);
    const V near = NAMED(all)(0.0625), one = NAMED(all)(1.0);
    for (ptrdiff_t n; (n = NAMED(next_chunk)(&walk, x, y, &place)) > 0;) {
        V part[SUMS][REGISTERS];
        struct ahead next_x = ahead_of(&walk, &walk.x), next_y = ahead_of(&walk, &walk.y);
        for (int sum = 0; sum < SUMS; sum++)
            EACH(k) part[sum][k] = NAMED(all)(0.0);
        pad(x, n, x[0]);
        pad(y, n, y[0]);
        for (ptrdiff_t i = 0; i < n; i += LANES) {
            V p[REGISTERS], q[REGISTERS], off[REGISTERS], u[REGISTERS], g[REGISTERS];
            U far = NAMED(all_bits)(0);
            fetch(&next_x);
            fetch(&next_y);
            EACH(k) {
                p[k] = NAMED(most)((NAMED(load)(x + i + k * WIDTH) - x_low) * x_factor, x_floor);
                q[k] = NAMED(most)((NAMED(load)(y + i + k * WIDTH) - y_low) * y_factor, y_floor);
                off[k] = p[k] - q[k];
                u[k] = off[k] / q[k];
                g[k] = NAMED(series)(u[k]);
                far |= (U)(NAMED(magnitude)(u[k]) > near);
            }
            if (i + LANES > n)
                EACH(k) {
                    U inside = *(const U *)(ONES_THEN_ZEROS + LANES - (n - i) + k * WIDTH);
                    p[k] = (V)((U)p[k] & inside);
                    q[k] = (V)((U)q[k] & inside);
                    off[k] = (V)((U)off[k] & inside);
                }
            if (NAMED(any)(far))
                EACH(k) {
                    U apart = (U)(NAMED(magnitude)(u[k]) > near);
                    /* p / q, but for digits that the 1 in it has cost; p - t q gives the logarithm what they would. */
                    V t = one + u[k];
                    V product = p[k] * NAMED(logarithm)(t) + (p[k] - t * q[k]);
                    part[FAR_OFF][k] += (V)((U)off[k] & apart);
                    part[FAR_LOG][k] += (V)((U)product & apart);
                    off[k] = (V)((U)off[k] & ~apart);
                    g[k] = (V)((U)g[k] & ~apart);
                }
            EACH(k) {
                part[P][k] += p[k];
                part[Q][k] += q[k];
                part[NEAR_OFF][k] += off[k];
                part[NEAR_G][k] += q[k] * g[k];
            }
        }
        for (int sum = 0; sum < SUMS; sum++) {
            double values[LANES];
            EACH(k) NAMED(store)(values + k * WIDTH, part[sum][k]);
            for (int lane = 0; lane < LANES; lane++)
                lanes[sum][lane] += values[lane];
        }
    }
    for (int sum = 0; sum < SUMS; sum++)
        found[sum] = total_of(lanes[sum]);
    sums[0] = found[P];
    sums[1] = found[Q];
    sums[2] = found[NEAR_OFF] + found[FAR_OFF];
    sums[3] = found[NEAR_G] + (found[FAR_LOG] - found[FAR_OFF]);
    sums[4] = found[NEAR_OFF] + found[NEAR_G] + found[FAR_LOG];
}
