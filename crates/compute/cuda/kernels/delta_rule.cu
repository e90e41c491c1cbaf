// The gated delta rule behind a short convolution, to the last bit of crates/compute/kernels/src/delta_rule in f32. Storage f32 or bf16
// of rows and weights; all else is f32, and an output is rounded once. What depends on a row alone comes before and after; between
// them a warp goes through a run, token by token, for 32 columns of a head's matrix, which it keeps in registers.
#include "delta_rule.h"

#define THREADS 128
// Numbers of a lane: heads have at most 128 features.
#define MOST 8

// Queries, keys and values behind the convolution and SiLU, `vectors: [rows, channels]`, queries and keys as unit vectors; and the
// gates, [rows, value heads, GATES]. For the way back also what is before SiLU, `pre`, and 1 / norm of queries and keys,
// [rows, 2 key heads]. Rows of `states` begin with the rows before a run. Grid: 8 heads, or the gates of a row, a block. Reads each
// number of the channels `taps` times, mostly from the cache, and writes it in f32.
template <typename T>
DEVICE void delta_inputs(const T* mixed, const T* conv, const T* a_log, const T* dt_bias, const Run* runs, const u32* run_of,
                         const float* states, float* vectors, float* pre, float* inverses, float* gates, u32 rows, u32 key_heads,
                         u32 value_heads, u32 key_dim, u32 value_dim, u32 taps, u32 stride, u32 conv_stride, float query_scale) {
  const u32 keys = 2 * key_heads, units = keys + value_heads + 1, lane = thread_index() % LANES;
  const u32 channels = keys * key_dim + value_heads * value_dim;
  const u64 i = (u64)block_x() * (THREADS / LANES) + thread_index() / LANES;
  const u64 row = i / units;
  const u32 unit = (u32)(i % units), number = row < rows ? run_of[row] : NONE;
  const bool exists = number != NONE;
  const Run run = runs[exists ? number : 0];
  const T* const own = mixed + (exists ? row : 0) * stride;

  if (exists && unit == units - 1) {
    for (u32 head = lane; head < value_heads; head += LANES) {
      const u32 b = channels + value_heads * value_dim + head;
      const float x = load(own + b + value_heads) + load(dt_bias + head);
      const float softplus = (x > 0.0f ? x : 0.0f) + logarithm_1p(exponential(x < 0.0f ? x : 0.0f - x));
      const float rate = -exponential(load(a_log + head));
      float* const to = gates + (row * value_heads + head) * GATES;
      to[0] = sigmoid(load(own + b));
      to[1] = exponential(rate * softplus);
      to[2] = rate * softplus;
      to[3] = rate * sigmoid(x);
    }
  }

  const u32 dim = !exists || unit == units - 1 ? 0 : unit < keys ? key_dim : value_dim;
  const u32 first = unit < keys ? unit * key_dim : keys * key_dim + (unit - keys) * value_dim;
  const u64 state_len = (u64)(taps - 1) * channels + (u64)value_heads * key_dim * value_dim;
  float active[MOST], squares = 0.0f;
  UNROLL for (u32 k = 0; k < MOST; k++) {
    const u32 n = lane + k * LANES, channel = first + n;
    active[k] = 0.0f;
    if (n < dim) {
      float sum = 0.0f;
      for (u32 tap = 0; tap < taps; tap++) {
        const u32 distance = taps - 1 - tap, in_run = (u32)row - run.row, seen = seen_row(run, in_run, distance);
        float x = 0.0f;
        if (seen != NONE) {
          x = load(mixed + (u64)seen * stride + channel);
        } else if (states && run.position > 0) {
          x = states[run.state * state_len + (u64)(tap + in_run) * channels + channel];
        }
        sum = mul_add(load(conv + weight_at(channel, tap, taps, channels, conv_stride)), x, sum);
      }
      if (pre) pre[row * channels + channel] = sum;
      active[k] = sum * sigmoid(sum);
      squares = mul_add(active[k], active[k], squares);
    }
  }
  const float inverse = divide(1.0f, square_root(sum_lanes(squares) + 1e-6f));
  if (inverses && dim > 0 && unit < keys && lane == 0) inverses[row * keys + unit] = inverse;
  UNROLL for (u32 k = 0; k < MOST; k++) {
    const u32 n = lane + k * LANES;
    float v = active[k];
    if (unit < keys) v = v * inverse;
    if (unit < key_heads) v = v * query_scale;
    if (n < dim) vectors[row * channels + first + n] = v;
  }
}
#define DELTA_INPUTS(name, T)                                                                                                       \
  KERNEL(name, THREADS)(const T* mixed, const T* conv, const T* a_log, const T* dt_bias, const Run* runs, const u32* run_of,        \
                        const float* states, float* vectors, float* pre, float* inverses, float* gates, u32 rows, u32 key_heads,    \
                        u32 value_heads, u32 key_dim, u32 value_dim, u32 taps, u32 stride, u32 conv_stride, float query_scale) {    \
    delta_inputs(mixed, conv, a_log, dt_bias, runs, run_of, states, vectors, pre, inverses, gates, rows, key_heads, value_heads,    \
                 key_dim, value_dim, taps, stride, conv_stride, query_scale);                                                       \
  }                                                                                                                                 \
  EXPORT(name)
DELTA_INPUTS(delta_inputs_f32, float)
DELTA_INPUTS(delta_inputs_bf16, bf16)

// Goes through runs, whose numbers are in `order`, from the matrices at their places, and writes `o: [rows, value features]`. For
// the way back also keeps the matrices before every 32nd token. Grid: x runs, y value heads, z 32 columns a block. Reads a query, a
// key and a value in f32 for each token, and writes an output; the matrix is read and written once.
template <u32 KEYS>
DEVICE void delta_rule(const float* vectors, const float* gates, const Run* runs, const u32* order, float* states, float* kept,
                       float* o, u32 key_heads, u32 value_heads, u32 key_dim, u32 value_dim, u64 state_stride) {
  SHARED(float, query, [KEYS]);
  SHARED(float, key, [KEYS]);
  const Run run = runs[order[block_x()]];
  if (run.len == 0) return;
  const u32 lane = lane_index(), head = block_y(), column = block_z() * 32 + lane;
  const u32 key_head = head / (value_heads / key_heads), matrix = key_dim * value_dim;
  const u32 channels = 2 * key_heads * key_dim + value_heads * value_dim;
  const bool is_mine = column < value_dim;
  const u64 in_state = (u64)head * matrix + column;
  float* const state = states + run.state * state_stride + in_state;
  float s[KEYS];
  load_column(s, is_mine && run.position > 0 ? state : 0, key_dim, value_dim);
  for (u32 i = 0; i < run.len; i++) {
    const u64 row = run.row + i;
    const float* const from = vectors + row * channels;
    sync_warp();
    for (u32 j = lane; j < key_dim; j += 32) {
      query[j] = from[key_head * key_dim + j];
      key[j] = from[(key_heads + key_head) * key_dim + j];
    }
    sync_warp();
    if (kept && is_mine && i % SEGMENT == 0) {
      store_column(s, kept + (u64)(run.segment + i / SEGMENT) * value_heads * matrix + in_state, key_dim, value_dim);
    }
    const float* const gate = gates + (row * value_heads + head) * GATES;
    const float value = is_mine ? from[2 * key_heads * key_dim + head * value_dim + column] : 0.0f;
    float u;
    const float out = advance(s, query, key, value, gate[0], gate[1], key_dim, u);
    if (is_mine) o[(row * value_heads + head) * value_dim + column] = out;
  }
  if (is_mine && run.leaves) store_column(s, state, key_dim, value_dim);
}
#define DELTA_RULE(name, KEYS)                                                                                                      \
  KERNEL(name, 32)(const float* vectors, const float* gates, const Run* runs, const u32* order, float* states, float* kept,         \
                   float* o, u32 key_heads, u32 value_heads, u32 key_dim, u32 value_dim, u64 state_stride) {                        \
    delta_rule<KEYS>(vectors, gates, runs, order, states, kept, o, key_heads, value_heads, key_dim, value_dim, state_stride);       \
  }                                                                                                                                 \
  EXPORT(name)
DELTA_RULE(delta_rule_16, 16)
DELTA_RULE(delta_rule_32, 32)
DELTA_RULE(delta_rule_64, 64)
DELTA_RULE(delta_rule_128, 128)

// y = o / rms(o) * w * silu(z), z in `mixed` from `first` on. Grid: 8 heads of a row a block. Reads each number of o twice, the second
// time from the cache, and of z; writes one of y.
template <typename T>
DEVICE void delta_output(const float* o, const T* mixed, const T* norm, const u32* run_of, T* y, u32 rows, u32 value_heads,
                         u32 value_dim, u32 first, u32 stride, u32 y_stride, float eps) {
  const u64 i = (u64)block_x() * (THREADS / LANES) + thread_index() / LANES;
  const u64 row = i / value_heads;
  const u32 head = (u32)(i % value_heads), mine = row < rows && run_of[row] != NONE ? value_dim : 0;
  const float* const from = o + (mine ? i : 0) * value_dim;
  const float inverse = inverse_rms(from, mine, eps);
  for (u32 c = thread_index() % LANES; c < mine; c += LANES) {
    const u32 at = head * value_dim + c;
    const float z = load(mixed + row * stride + first + at);
    store(y + row * y_stride + at, from[c] * inverse * load(norm + c) * (z * sigmoid(z)));
  }
}
#define DELTA_OUTPUT(name, T)                                                                                                       \
  KERNEL(name, THREADS)(const float* o, const T* mixed, const T* norm, const u32* run_of, T* y, u32 rows, u32 value_heads,          \
                        u32 value_dim, u32 first, u32 stride, u32 y_stride, float eps) {                                            \
    delta_output(o, mixed, norm, run_of, y, rows, value_heads, value_dim, first, stride, y_stride, eps);                            \
  }                                                                                                                                 \
  EXPORT(name)
DELTA_OUTPUT(delta_output_f32, float)
DELTA_OUTPUT(delta_output_bf16, bf16)

// Leaves the last `history` rows of each sequence in its state, zeros where it is shorter. Grid: x runs, y 128 channels a block. A
// row moves to a place that is not read again.
template <typename T>
DEVICE void delta_history(const T* mixed, const Run* runs, float* states, u32 channels, u32 history, u32 stride, u64 state_len) {
  const Run run = runs[block_x()];
  const u32 channel = block_y() * THREADS + thread_index();
  if (channel >= channels || run.len == 0) return;
  float* const state = states + run.state * state_len + channel;
  for (u32 i = 0; i < history; i++) {
    const u32 from = run.len + i;
    float x = 0.0f;
    if (from >= history) {
      x = load(mixed + (u64)(run.row + from - history) * stride + channel);
    } else if (run.position > 0) {
      x = state[from * channels];
    }
    state[i * channels] = x;
  }
}
KERNEL(delta_history_f32, THREADS)(const float* mixed, const Run* runs, float* states, u32 channels, u32 history, u32 stride,
                                   u64 state_len) {
  delta_history(mixed, runs, states, channels, history, stride, state_len);
}
KERNEL(delta_history_bf16, THREADS)(const bf16* mixed, const Run* runs, float* states, u32 channels, u32 history, u32 stride,
                                    u64 state_len) {
  delta_history(mixed, runs, states, channels, history, stride, state_len);
}
EXPORT(delta_history_f32)
EXPORT(delta_history_bf16)
