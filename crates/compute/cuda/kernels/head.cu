// Statistics of rows of logits, and the logits' gradient: crates/compute/kernels/src/head.rs. Here the results of the parts of rows
// (parts.cu) are combined: the sums of blocks of 512 tokens, in f64, in order.
#include "parts.h"

#define THREADS 256
#define HALF_WARPS (THREADS / LANES)

// Adds the terms of a row's tokens, `term(token)`: in f32 for each 512 tokens, and these sums in f64, in order. All threads come,
// and the first gets the sum. `sums`: a float for each 512 tokens.
template <typename Term>
DEVICE double sum_of_row(float* sums, u32 vocabulary, const Term& term) {
  const u32 blocks = how_many(vocabulary, SUM_BLOCK);
  for (u32 turn = 0; turn < (blocks + HALF_WARPS - 1) / HALF_WARPS; turn++) {
    const u32 block = turn * HALF_WARPS + thread_index() / LANES;
    const u32 begin = block * SUM_BLOCK, end = begin + SUM_BLOCK < vocabulary ? begin + SUM_BLOCK : vocabulary;
    float sum = 0.0f;
    for (u32 i = begin + thread_index() % LANES; block < blocks && i < end; i += LANES) sum += term(i);
    sum = sum_lanes(sum);
    if (block < blocks && thread_index() % LANES == 0) sums[block] = sum;
  }
  sync();
  return thread_index() > 0 ? 0.0 : sum_in_order(sums, blocks);
}

// The numbers of each row, `[5, rows]`: largest logit / temperature, ln of the sum of exponentials, entropy, log-prob of the
// target, log-mass of the tokens that the mask keeps.
#define MAX 0
#define LOG_SUM 1
#define ENTROPY 2
#define LOGPROB 3
#define LOG_MASS 4

// Statistics of each row, from the maxima of its parts and the sums of its blocks. Without `kept` no log-mass is computed. Grid: a
// block of one warp for each row. Dynamic shared memory: two floats for each 512 tokens. Reads 8 bytes for each 512 tokens, and
// adds them one after another. One thread adds the mask's tokens, to keep their order: masks of thousands of tokens are slow.
KERNEL(head_rows, 32)(const float* logits, const float* maxima, const float* sums, float temperature, const u32* targets,
                      const u32* kept, const u32* kept_starts, float* statistics, u32 vocabulary, u32 first_row, u32 all_rows) {
  DYNAMIC_SHARED(memory);
  const float* x = logits + (u64)block_x() * vocabulary;
  maxima += (u64)block_x() * how_many(vocabulary, PART);
  sums += (u64)block_x() * 2 * how_many(vocabulary, SUM_BLOCK);
  const Distribution of_row = distribution_of(maxima, sums, temperature, vocabulary, (float*)memory);
  if (thread_index() > 0) return;
  const u32 row = first_row + block_x();
  const float max = of_row.max, log_sum = of_row.log_sum;
  statistics[(u64)MAX * all_rows + row] = max;
  statistics[(u64)LOG_SUM * all_rows + row] = log_sum;
  statistics[(u64)ENTROPY * all_rows + row] = of_row.entropy;
  statistics[(u64)LOGPROB * all_rows + row] = (divide(x[targets[row]], temperature) - max) - log_sum;
  if (!kept) return;
  const u32 begin = kept_starts[row], end = kept_starts[row + 1];
  float log_mass = 0.0f;
  if (begin < end) {
    float of_kept = -infinity();
    for (u32 i = begin; i < end; i++) of_kept = maximum(of_kept, x[kept[i]]);
    of_kept = divide(of_kept, temperature);
    double mass = 0.0;
    for (u32 i = begin; i < end; i++) mass += (double)exponential(divide(x[kept[i]], temperature) - of_kept);
    // Finite, even if logits are so far apart that their difference is not.
    log_mass = (maximum(of_kept - max, float_of(0xff7fffff)) + logarithm((float)mass)) - log_sum;
  }
  statistics[(u64)LOG_MASS * all_rows + row] = log_mass;
}
EXPORT(head_rows)

// In a teacher's statistics the reverse KL, sum of p (ln p - ln q), has the place of the log-mass.
#define DIVERGENCE LOG_MASS

// The log-prob that a teacher gives to a token with this logit: finite, so that a token that is impossible under both adds nothing.
DEVICE float of_teacher(float logit, float temperature, float max, float log_sum) {
  return larger(-1e30f, divide(logit, temperature) - max - log_sum);
}

// The reverse KL from each row's distribution to a teacher's, whose other statistics are there. Grid: a block for each row. Dynamic
// shared memory: a float for each 512 tokens. Reads each logit once.
KERNEL(head_divergences, THREADS)(const float* logits, const float* taught, float temperature, const float* statistics,
                                  float* teacher, u32 vocabulary, u32 first_row, u32 all_rows) {
  DYNAMIC_SHARED(memory);
  const u32 row = first_row + block_x();
  const float* x = logits + (u64)block_x() * vocabulary;
  const float* y = taught + (u64)block_x() * vocabulary;
  const float max = statistics[(u64)MAX * all_rows + row], log_sum = statistics[(u64)LOG_SUM * all_rows + row];
  const float its_max = teacher[(u64)MAX * all_rows + row], its_log_sum = teacher[(u64)LOG_SUM * all_rows + row];
  const double sum = sum_of_row((float*)memory, vocabulary, [&](u32 i) {
    const float logp = larger(EXP_ZERO, divide(x[i], temperature) - max - log_sum);
    return exponential(logp) * (logp - of_teacher(y[i], temperature, its_max, its_log_sum));
  });
  if (thread_index() > 0) return;
  teacher[(u64)DIVERGENCE * all_rows + row] = (float)sum;
}
EXPORT(head_divergences)

// p (ln p + H) of a token with this log-prob.
DEVICE double pull(float logprob, float entropy) {
  logprob = maximum(logprob, EXP_ZERO);
  return (double)exponential(logprob) * ((double)logprob + (double)entropy);
}

// The slope of each row's entropy along the gradient of its target's log-prob. Grid: a block for each row. Dynamic shared memory: a
// float for each 512 tokens. Reads each logit once.
KERNEL(head_slopes, THREADS)(const float* logits, float temperature, const u32* targets, const u32* kept, const u32* kept_starts,
                             const float* statistics, float* slopes, u32 vocabulary, u32 first_row, u32 all_rows) {
  DYNAMIC_SHARED(memory);
  const u32 row = first_row + block_x();
  const float* x = logits + (u64)block_x() * vocabulary;
  const float max = statistics[(u64)MAX * all_rows + row], log_sum = statistics[(u64)LOG_SUM * all_rows + row];
  const float entropy = statistics[(u64)ENTROPY * all_rows + row], logprob = statistics[(u64)LOGPROB * all_rows + row];
  double expected = sum_of_row((float*)memory, vocabulary, [&](u32 i) {
    const float logp = larger(EXP_ZERO, divide(x[i], temperature) - max - log_sum);
    const float p = exponential(logp);
    return p * p * (logp + entropy);
  });
  if (thread_index() > 0) return;
  const u32 begin = kept ? kept_starts[row] : 0, end = kept ? kept_starts[row + 1] : 0;
  if (begin < end) {
    const float log_mass = statistics[(u64)LOG_MASS * all_rows + row];
    expected = -0.0;
    for (u32 i = begin; i < end; i++) {
      const float of_kept = maximum(divide(x[kept[i]], temperature) - max - log_sum, float_of(0xff7fffff));
      expected += (double)exponential(of_kept - log_mass) * pull(of_kept, entropy);
    }
  }
  slopes[row] = (float)(expected - pull(logprob, entropy));
}
EXPORT(head_slopes)

// A teacher's logits beside the policy's, and its statistics.
struct Teacher {
  const float *logits, *statistics;
};

// The gradient of a loss by the logits of the tokens first_token .. + columns: with coefficients a (log-prob), b (entropy) and c
// (log-mass), `[3, rows]`: dz = a (1[v = y] - p) - b p (ln p + H) + c (1[v in K] p / P - p), dlogit = dz / temperature; with a
// teacher and a fourth coefficient e (reverse KL), also e p (ln p - ln q - KL). Grid: a block for each row. Reads each logit once
// and writes its gradient; bisection finds whether a token is kept.
template <bool Taught, typename T>
DEVICE void logit_gradient(const float* logits, const Teacher& teacher, T* gradient, const float* statistics, const u32* targets,
                           const u32* kept, const u32* kept_starts, const float* coefficients, float temperature, u32 rows,
                           u32 first_token, u32 columns, u32 stride) {
  const u32 row = block_x();
  const float* x = logits + (u64)row * columns;
  const float max = statistics[(u64)MAX * rows + row], log_sum = statistics[(u64)LOG_SUM * rows + row];
  const float entropy = statistics[(u64)ENTROPY * rows + row], log_mass = kept ? statistics[(u64)LOG_MASS * rows + row] : 0.0f;
  const float a = coefficients[row], b = coefficients[rows + row];
  const u32 begin = kept ? kept_starts[row] : 0, end = kept ? kept_starts[row + 1] : 0;
  const float c = begin < end ? coefficients[2 * rows + row] : 0.0f;
  const float minus_a = -a - c, minus_b = -b;
  float e = 0.0f, its_max = 0.0f, its_log_sum = 0.0f, divergence = 0.0f;
  if (Taught) {
    e = coefficients[3 * rows + row];
    its_max = teacher.statistics[(u64)MAX * rows + row], its_log_sum = teacher.statistics[(u64)LOG_SUM * rows + row];
    divergence = teacher.statistics[(u64)DIVERGENCE * rows + row];
  }
  for (u32 i = thread_index(); i < columns; i += THREADS) {
    const float logit = x[i];
    const u32 token = first_token + i;
    const float logprob = divide(logit, temperature) - max - log_sum;
    const float logp = larger(EXP_ZERO, logprob);
    float factor = mul_add(minus_b, logp + entropy, minus_a);
    if (Taught) {
      const float its_logit = teacher.logits[(u64)row * columns + i];
      const float apart = logp - of_teacher(its_logit, temperature, its_max, its_log_sum);
      factor = mul_add(e, apart - divergence, factor);
    }
    float d = divide(exponential(logp) * factor, temperature);
    if (token == targets[row]) d = d + divide(a, temperature);
    if (c != 0.0f) {
      u32 low = begin, high = end;
      while (low < high) {
        const u32 middle = (low + high) / 2;
        if (kept[middle] < token) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      if (low < end && kept[low] == token) d = d + divide(c * exponential(logprob - log_mass), temperature);
    }
    store(gradient + (u64)row * stride + i, d);
  }
}
#define LOGIT_GRADIENT(name, T)                                                                                                 \
  KERNEL(name, THREADS)(const float* logits, T* gradient, const float* statistics, const u32* targets, const u32* kept,             \
                        const u32* kept_starts, const float* coefficients, float temperature, u32 rows, u32 first_token,            \
                        u32 columns, u32 stride) {                                                                                  \
    logit_gradient<false>(logits, {nullptr, nullptr}, gradient, statistics, targets, kept, kept_starts, coefficients,            \
                          temperature, rows, first_token, columns, stride);                                                     \
  }                                                                                                                               \
  EXPORT(name)
LOGIT_GRADIENT(logit_gradient_f32, float)
LOGIT_GRADIENT(logit_gradient_bf16, bf16)
#define TAUGHT_LOGIT_GRADIENT(name, T)                                                                                          \
  KERNEL(name, THREADS)(const float* logits, const float* taught, T* gradient, const float* statistics,                            \
                        const float* teacher, const u32* targets, const u32* kept, const u32* kept_starts,                          \
                        const float* coefficients, float temperature, u32 rows, u32 first_token, u32 columns, u32 stride) {         \
    logit_gradient<true>(logits, {taught, teacher}, gradient, statistics, targets, kept, kept_starts, coefficients,              \
                         temperature, rows, first_token, columns, stride);                                                      \
  }                                                                                                                               \
  EXPORT(name)
TAUGHT_LOGIT_GRADIENT(taught_logit_gradient_f32, float)
TAUGHT_LOGIT_GRADIENT(taught_logit_gradient_bf16, bf16)
