"""Prints adamw_torch.txt: five steps of torch.optim.AdamW in f64 on f32 values, 17 digits a number.

    python adamw_torch.py > adamw_torch.txt
"""

import numpy
import torch

f32 = lambda x: float(numpy.float32(x))  # noqa: E731
line = lambda xs: print(*(f"{float(x):.17g}" for x in xs))  # noqa: E731

rate, beta1, beta2, eps, decay = settings = [f32(x) for x in (3e-3, 0.9, 0.999, 1e-8, 0.1)]
random = numpy.random.default_rng(7)
weights = torch.tensor(random.uniform(-1, 1, 37).astype("float32"), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.AdamW([weights], lr=rate, betas=(beta1, beta2), eps=eps, weight_decay=decay)
line(settings)
line(weights.detach())
for step in range(5):
    scale = 10.0 ** random.integers(-4, 2, 37)  # gradients of very different sizes, one of them always 0
    scale[5] = 0
    weights.grad = torch.tensor((random.normal(size=37) * scale).astype("float32"), dtype=torch.float64)
    optimizer.step()
    state = optimizer.state[weights]
    for x in (weights.grad, weights.detach(), state["exp_avg"], state["exp_avg_sq"]):
        line(x)
