"""A spawned child of multiprocessing needs torch.npu like its parent."""

import torch
import torch.multiprocessing as mp
import torch_npu  # noqa: F401


def work(rank, queue):
    queue.put((rank, torch.ones(2).npu().sum().item(), torch.npu.is_available()))


if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(queue,), nprocs=1)
    print(queue.get())
