// The gradient of the gated delta rule over whole sequences, some of which may share a beginning, to the last bit of
// crates/compute/kernels/src/delta_rule/backward.rs in f32. With storage in bf16 the gradients of rows are rounded once; all else is
// f32. No atomics.
#include "ahead.h"
#include "delta_rule.h"

#define THREADS 128
// Threads that sum over the columns of rows of a matrix; a warp is left for two other sums.
#define SUMMING 96

// Through norm(o) * silu(z): the gradients of o, `d_o`, and of z in `d_mixed`. For the gradient of the norm's weights also the gradient
// of their product with the normed output, `d_normed`, and 1 / rms(o), `scales: [rows, value heads]`. z begins at `first`. Grid: x 8
// heads of a row a block, y runs in `order`. Reads and writes three numbers, f32 but for dy, z and its gradient.
template <typename T>
DEVICE void delta_output_backward(const float* o, const T* mixed, const T* norm, const T* dy, const Run* runs, const u32* order,
                                  float* d_o, float* d_normed, float* scales, T* d_mixed, u32 value_heads, u32 value_dim, u32 first,
                                  u32 stride, u32 dy_stride, u32 d_stride, float eps) {
  const Run run = runs[order[block_y()]];
  const u64 pair = (u64)block_x() * (THREADS / LANES) + thread_index() / LANES;
  const bool exists = pair < (u64)run.len * value_heads;
  const u32 head = (u32)(pair % value_heads), mine = exists ? value_dim : 0, lane = thread_index() % LANES;
  const u64 row = run.row + (exists ? pair / value_heads : 0), at = (row * value_heads + head) * value_dim;
  const u32 in_row = head * value_dim;
  const float inverse = inverse_rms(o + at, mine, eps);
  if (exists && lane == 0) scales[row * value_heads + head] = inverse;
  float along = 0.0f;
  for (u32 c = lane; c < mine; c += LANES) {
    const float z = load(mixed + row * stride + first + in_row + c), d = load(dy + row * dy_stride + in_row + c);
    const float w = load(norm + c), unit = o[at + c] * inverse;
    const float of_normed = d * (z * sigmoid(z));
    store(d_mixed + row * d_stride + first + in_row + c, d * (unit * w) * silu_slope(z));
    d_normed[at + c] = of_normed;
    const float of_unit = of_normed * w;
    d_o[at + c] = of_unit;
    along = mul_add(of_unit, unit, along);
  }
  const float mean = divide(sum_lanes(along), (float)value_dim);
  for (u32 c = lane; c < mine; c += LANES) d_o[at + c] = inverse * (d_o[at + c] - o[at + c] * inverse * mean);
}
#define DELTA_OUTPUT_BACKWARD(name, T)                                                                                              \
  KERNEL(name, THREADS)(const float* o, const T* mixed, const T* norm, const T* dy, const Run* runs, const u32* order, float* d_o,  \
                        float* d_normed, float* scales, T* d_mixed, u32 value_heads, u32 value_dim, u32 first, u32 stride,          \
                        u32 dy_stride, u32 d_stride, float eps) {                                                                   \
    delta_output_backward(o, mixed, norm, dy, runs, order, d_o, d_normed, scales, d_mixed, value_heads, value_dim, first, stride,   \
                          dy_stride, d_stride, eps);                                                                                \
  }                                                                                                                                 \
  EXPORT(name)
DELTA_OUTPUT_BACKWARD(delta_output_backward_f32, float)
DELTA_OUTPUT_BACKWARD(delta_output_backward_bf16, bf16)

// Goes back through runs, whose numbers are in `order`, from the gradient of the matrices behind them, `d_behind`, at their places
// (without runs that continue them, from zeros) to that of the matrices before them, `d_before: [runs, value heads]`. A block keeps
// the gradient of a head's matrix in shared memory; a thread has a column of it, or a half warp a row. It computes a segment's matrices
// again from a kept one, into `states: [runs, value heads, SEGMENT]`, and u into `missing`. Replaces `pre` of values by its gradient;
// writes `d_gates: [rows, 3, value heads]`, derivatives by b, a and a_log, and the terms of the gradients of queries and keys,
// `terms: [rows, value heads, 3, key_dim]`: by the query, and by the key as it is written and as it is read. Grid: x runs, y value
// heads. Dynamic shared memory: the matrix, rows of value_dim + 16; a query and a key; five rows of value_dim. Reads three matrices and
// writes one for each token and head, which L2 has, if not memory.
template <u32 KEYS>
DEVICE void delta_rule_backward(const float* vectors, float* pre, const float* gates, const float* d_o, const Run* runs,
                                const u32* order, const float* kept, float* states, float* missing, const float* d_behind,
                                float* d_before, float* terms, float* d_gates, u32 key_heads, u32 value_heads, u32 key_dim,
                                u32 value_dim) {
  DYNAMIC_SHARED(memory);
  const Run run = runs[order[block_x()]];
  const u32 head = block_y(), key_head = head / (value_heads / key_heads), column = thread_index(), lane = column % LANES;
  const u32 matrix = key_dim * value_dim, channels = 2 * key_heads * key_dim + value_heads * value_dim;
  const u32 of_value = 2 * key_heads * key_dim + head * value_dim + column;
  // Half warps that read neighbouring rows meet no bank of shared memory twice.
  const u32 width = value_dim + LANES;
  float* const d_matrix = (float*)memory;
  float* const query = d_matrix + key_dim * width;
  float* const key = query + key_dim;
  float* const d_out = key + key_dim;
  float* const d_u = d_out + value_dim;
  float* const d_written = d_u + value_dim;
  float* const written = d_written + value_dim;
  float* const u_of = written + value_dim;
  const bool is_mine = column < value_dim;
  const u64 block = (u64)block_x() * value_heads + head;
  states += block * SEGMENT * matrix;
  missing += block * SEGMENT * value_dim;
  d_behind += ((u64)run.state * value_heads + head) * matrix;
  d_before += block * matrix;
  if (is_mine) {
    for (u32 j = 0; j < key_dim; j++) d_matrix[j * width + column] = run.followers > 0 ? d_behind[j * value_dim + column] : 0.0f;
  }
  const auto load_vectors = [&](u64 row) {
    for (u32 j = column; j < key_dim; j += THREADS) {
      query[j] = vectors[row * channels + key_head * key_dim + j];
      key[j] = vectors[row * channels + (key_heads + key_head) * key_dim + j];
    }
  };

  for (u32 segment = (run.len + SEGMENT - 1) / SEGMENT; segment-- > 0;) {
    const u32 first = segment * SEGMENT, count = run.len - first < SEGMENT ? run.len - first : SEGMENT;
    const float* const start = kept + ((u64)(run.segment + segment) * value_heads + head) * matrix;
    {
      float s[KEYS];
      load_column(s, is_mine ? start + column : 0, key_dim, value_dim);
      for (u32 i = 0; i < count; i++) {
        const u64 row = run.row + first + i;
        sync();
        load_vectors(row);
        sync();
        const float* const gate = gates + (row * value_heads + head) * GATES;
        float u;
        advance(s, query, key, is_mine ? vectors[row * channels + of_value] : 0.0f, gate[0], gate[1], key_dim, u);
        if (is_mine) {
          store_column(s, states + i * matrix + column, key_dim, value_dim);
          missing[i * value_dim + column] = u;
        }
      }
    }
    for (u32 i = count; i-- > 0;) {
      const u64 row = run.row + first + i;
      const float* const gate = gates + (row * value_heads + head) * GATES;
      const float beta = gate[0], decay = gate[1];
      const float* const later = states + i * matrix;
      const float* const earlier = i == 0 ? start : later - matrix;
      sync();
      load_vectors(row);
      if (is_mine) {
        const float u = missing[i * value_dim + column];
        u_of[column] = u;
        written[column] = beta * u;
        d_out[column] = d_o[(row * value_heads + head) * value_dim + column];
      }
      sync();
      // Through o = S^T q and S = S' + k written^T, then u = v - S'^T k.
      if (is_mine) {
        float sum = 0.0f;
        for (u32 j = 0; j < key_dim; j++) {
          const float d = mul_add(query[j], d_out[column], d_matrix[j * width + column]);
          d_matrix[j * width + column] = d;
          sum = mul_add(key[j], d, sum);
        }
        const float of_u = beta * sum;
        d_written[column] = sum;
        d_u[column] = 0.0f - of_u;
        float* const of_pre = pre + row * channels + of_value;
        *of_pre = of_u * silu_slope(*of_pre);
      }
      sync();
      float* const to = terms + (row * value_heads + head) * 3 * key_dim;
      if (column < SUMMING) {
        for (u32 rest = 0; rest < key_dim; rest += SUMMING / LANES) {
          const u32 j = rest + column / LANES, at = j < key_dim ? j : key_dim - 1;
          float by_query = 0.0f, by_written = 0.0f, by_read = 0.0f;
          for (u32 c = lane; c < value_dim; c += LANES) {
            by_query = mul_add(later[at * value_dim + c], d_out[c], by_query);
            by_written = mul_add(d_matrix[at * width + c], written[c], by_written);
            by_read = mul_add(decay * earlier[at * value_dim + c], d_u[c], by_read);
          }
          by_query = sum_lanes(by_query);
          by_written = sum_lanes(by_written);
          by_read = sum_lanes(by_read);
          if (j < key_dim && lane == 0) {
            to[j] = by_query;
            to[key_dim + j] = by_written;
            to[2 * key_dim + j] = by_read;
          }
        }
      } else {
        // Two sums for which the chains are long, beside those of the other warps.
        float by_beta = 0.0f, by_decay = 0.0f;
        for (u32 c = lane; c < value_dim; c += LANES) by_beta = mul_add(d_written[c], u_of[c], by_beta);
        for (u32 j = 0; j < key_dim; j++) {
          for (u32 c = lane; c < value_dim; c += LANES) {
            by_decay = mul_add(mul_add(key[j], d_u[c], d_matrix[j * width + c]), earlier[j * value_dim + c], by_decay);
          }
        }
        by_beta = sum_lanes(by_beta);
        const float by_log_decay = sum_lanes(by_decay) * decay;
        if (column == SUMMING) {
          float* const of_gates = d_gates + row * 3 * value_heads + head;
          of_gates[0] = by_beta * (beta * (1.0f - beta));
          of_gates[value_heads] = by_log_decay * gate[3];
          of_gates[2 * value_heads] = by_log_decay * gate[2];
        }
      }
      sync();
      // Through S' = decay S.
      if (is_mine) {
        for (u32 j = 0; j < key_dim; j++) {
          float* const d = d_matrix + j * width + column;
          *d = decay * mul_add(key[j], d_u[column], *d);
        }
      }
    }
  }
  if (is_mine && run.position > 0) {
    for (u32 j = 0; j < key_dim; j++) d_before[j * value_dim + column] = d_matrix[j * width + column];
  }
}
#define DELTA_RULE_BACKWARD(name, KEYS)                                                                                             \
  KERNEL(name, THREADS)(const float* vectors, float* pre, const float* gates, const float* d_o, const Run* runs, const u32* order,  \
                        const float* kept, float* states, float* missing, const float* d_behind, float* d_before, float* terms,     \
                        float* d_gates, u32 key_heads, u32 value_heads, u32 key_dim, u32 value_dim) {                               \
    delta_rule_backward<KEYS>(vectors, pre, gates, d_o, runs, order, kept, states, missing, d_behind, d_before, terms, d_gates,     \
                              key_heads, value_heads, key_dim, value_dim);                                                          \
  }                                                                                                                                 \
  EXPORT(name)
DELTA_RULE_BACKWARD(delta_rule_backward_16, 16)
DELTA_RULE_BACKWARD(delta_rule_backward_32, 32)
DELTA_RULE_BACKWARD(delta_rule_backward_64, 64)
DELTA_RULE_BACKWARD(delta_rule_backward_128, 128)

// Replaces `pre` of queries and keys by its gradient, from the sums of `terms` over the value heads of a key head. Grid: 8 queries or
// keys a block. Reads the terms once or twice, a vector twice and `pre` once; writes one.
KERNEL(delta_vectors_backward, THREADS)(const float* vectors, const float* inverses, const float* terms, float* pre, u32 rows,
                                        u32 key_heads, u32 value_heads, u32 key_dim, u32 value_dim, float query_scale) {
  const u32 keys = 2 * key_heads, group = value_heads / key_heads, lane = thread_index() % LANES;
  const u64 i = (u64)block_x() * (THREADS / LANES) + thread_index() / LANES, row = i / keys;
  const u32 unit = (u32)(i % keys), mine = row < rows ? key_dim : 0;
  const bool is_query = unit < key_heads;
  const u64 at = (mine ? row : 0) * (keys * key_dim + value_heads * value_dim) + unit * key_dim;
  const float* const from = terms + ((mine ? row : 0) * value_heads + unit % key_heads * group) * 3 * key_dim;
  const float scale = is_query ? query_scale : 1.0f, inverse = mine ? inverses[i] : 0.0f;
  const auto gradient = [&](u32 j) {
    float sum = 0.0f;
    for (u32 head = 0; head < group; head++) {
      const float* const of_head = from + head * 3 * key_dim + j;
      if (is_query) {
        sum += of_head[0];
      } else {
        sum += of_head[key_dim];
        sum += of_head[2 * key_dim];
      }
    }
    return sum;
  };
  float along = 0.0f;
  for (u32 j = lane; j < mine; j += LANES) along = mul_add(vectors[at + j], gradient(j), along);
  along = sum_lanes(along);
  for (u32 j = lane; j < mine; j += LANES) {
    const float unit_vector = vectors[at + j] * divide(1.0f, scale);
    const float tangent = scale * gradient(j) - unit_vector * along;
    pre[at + j] = inverse * tangent * silu_slope(pre[at + j]);
  }
}
EXPORT(delta_vectors_backward)

// A step of a weight's chain. Where a tap sees no row, its product is -0, which changes no sum.
struct alignas(8) Seen {
  float d, x;
};

// Adds to the gradient of the convolution, from that of its sums, `d_sums: [rows, channels]`, over the rows in order. Grid: x 32
// channels a block, y taps. Reads each number of both once for each tap.
template <typename T>
DEVICE void delta_conv_gradient(const float* d_sums, const T* mixed, const Run* runs, const u32* run_of, float* dw, u32 rows,
                                u32 channels, u32 taps, u32 stride, u32 conv_stride) {
  const u32 channel = block_x() * 32 + lane_index(), mine = channel < channels ? channel : channels - 1, tap = block_y();
  u32 next = first_step();
  const auto bring = [&]() -> Seen {
    const u32 row = next < rows ? next : rows - 1;
    next += BRINGING;
    const Run run = runs[run_of[row]];
    const u32 seen = seen_row(run, row - run.row, taps - 1 - tap);
    const Seen none = {0.0f, -0.0f};
    if (seen == NONE) return none;
    const Seen of_row = {d_sums[(u64)row * channels + mine], load(mixed + (u64)seen * stride + mine)};
    return of_row;
  };
  float* const to = dw + weight_at(mine, tap, taps, channels, conv_stride);
  const float sum = chain<Seen>(*to, rows, bring, [](float sum, Seen of_row) { return mul_add(of_row.d, of_row.x, sum); });
  if (warp_index() == 0 && channel < channels) *to = sum;
}
KERNEL(delta_conv_gradient_f32, CHAIN_THREADS)(const float* d_sums, const float* mixed, const Run* runs, const u32* run_of, float* dw,
                                               u32 rows, u32 channels, u32 taps, u32 stride, u32 conv_stride) {
  delta_conv_gradient(d_sums, mixed, runs, run_of, dw, rows, channels, taps, stride, conv_stride);
}
KERNEL(delta_conv_gradient_bf16, CHAIN_THREADS)(const float* d_sums, const bf16* mixed, const Run* runs, const u32* run_of, float* dw,
                                                u32 rows, u32 channels, u32 taps, u32 stride, u32 conv_stride) {
  delta_conv_gradient(d_sums, mixed, runs, run_of, dw, rows, channels, taps, stride, conv_stride);
}
EXPORT(delta_conv_gradient_f32)
EXPORT(delta_conv_gradient_bf16)

// The gradients of the convolution's inputs: for each row a chain over the rows that see it, of its own run, then of the runs that
// continue it, in order; and those of b and a. z stands between them. Grid: x rows, y 128 numbers of a row a block. Reads a gradient of
// sums `taps` times, mostly from the cache; writes each number.
template <typename T>
DEVICE void delta_conv_backward(const float* d_sums, const float* d_gates, const T* conv, const Run* runs, const u32* run_of,
                                T* d_mixed, u32 channels, u32 value_heads, u32 value_features, u32 taps, u32 d_stride,
                                u32 conv_stride) {
  const u32 row = block_x(), at = block_y() * THREADS + thread_index();
  T* const to = d_mixed + (u64)row * d_stride;
  if (at >= channels) {
    const u32 gate = at - channels;
    if (gate < 2 * value_heads) store(to + channels + value_features + gate, d_gates[(u64)row * 3 * value_heads + gate]);
    return;
  }
  const u32 number = run_of[row];
  const Run run = runs[number];
  const u32 left = run.row + run.len - row;
  float sum = 0.0f;
  const auto add = [&](u32 seeing, u32 distance) {
    const float w = load(conv + weight_at(at, taps - 1 - distance, taps, channels, conv_stride));
    sum = mul_add(w, d_sums[(u64)seeing * channels + at], sum);
  };
  for (u32 distance = 0; distance < taps && distance < left; distance++) add(row + distance, distance);
  if (left < taps) {
    for (u32 follower = 1; follower <= run.followers; follower++) {
      const Run other = runs[number + follower];
      for (u32 distance = left; distance < taps && distance < left + other.len; distance++) {
        add(other.row + distance - left, distance);
      }
    }
  }
  store(to + at, sum);
}
#define DELTA_CONV_BACKWARD(name, T)                                                                                                \
  KERNEL(name, THREADS)(const float* d_sums, const float* d_gates, const T* conv, const Run* runs, const u32* run_of, T* d_mixed,   \
                        u32 channels, u32 value_heads, u32 value_features, u32 taps, u32 d_stride, u32 conv_stride) {               \
    delta_conv_backward(d_sums, d_gates, conv, runs, run_of, d_mixed, channels, value_heads, value_features, taps, d_stride,        \
                        conv_stride);                                                                                               \
  }                                                                                                                                 \
  EXPORT(name)
DELTA_CONV_BACKWARD(delta_conv_backward_f32, float)
DELTA_CONV_BACKWARD(delta_conv_backward_bf16, bf16)
