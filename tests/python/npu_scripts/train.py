"""A training loop with a fixed input under torch.compile; the backend is the argument."""

import sys

import torch
import torch.nn as nn


class SimpleMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(128, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


torch.npu.manual_seed(0)
model = SimpleMLP().npu()
options = {"mode": "reduce-overhead"} if sys.argv[1] == "inductor" else {}
compiled = torch.compile(model, backend=sys.argv[1], **options)
optimizer = torch.optim.Adam(compiled.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
x = torch.randn(32, 128).npu()
y = torch.randint(0, 10, (32,)).npu()
losses = []
for _ in range(30):
    loss = criterion(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach().cpu())
print("fell", bool(losses[-1] < losses[0] / 2))
