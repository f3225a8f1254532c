"""How busy this rank's GPU is, as NVML tells `nvidia-smi` too."""

from __future__ import annotations

import torch


def gpu_utilisation(device: int | None) -> float | str:
    """Percent of the last moments in which a kernel ran on a CUDA device of this process; or why that isn't known.

    Args:
        device: its number among those that the process sees; None before the loop has used one.
    """
    if not torch.cuda.is_available():
        return "no CUDA device"
    if device is None:
        return "the loop has not used a CUDA device yet"
    try:
        return float(torch.cuda.utilization(device))
    except ModuleNotFoundError:
        return "needs nvidia-ml-py: pip install 'tokenyard[monitor]'"
    except Exception as e:  # noqa: BLE001  # NVML's own errors, whose module may be missing; a run must not end by them
        return f"NVML doesn't tell: {e}"
