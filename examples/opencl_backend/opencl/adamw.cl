// One step of AdamW in float32, as in torch.optim.AdamW.
typedef struct {
  uint count;
  float rate, beta1, beta2, decay, eps;
  int maximize, amsgrad;
} Settings;

__kernel void adamw(Settings s, __global float* parameter, __global const float* gradient,
                    __global float* average, __global float* square, __global float* largest,
                    __global const float* step) {
  const uint i = get_global_id(0);
  if (i >= s.count) return;
  const float g = s.maximize ? -gradient[i] : gradient[i];
  const float correction1 = 1.0f - pow(s.beta1, step[0]);
  const float correction2 = 1.0f - pow(s.beta2, step[0]);
  const float m = average[i] = average[i] + (g - average[i]) * (1.0f - s.beta1);
  float v = square[i] = square[i] * s.beta2 + (1.0f - s.beta2) * g * g;
  if (s.amsgrad) v = largest[i] = fmax(largest[i], v);
  const float decayed = parameter[i] * (1.0f - s.rate * s.decay);
  parameter[i] = decayed - s.rate / correction1 * m / (sqrt(v / correction2) + s.eps);
}
