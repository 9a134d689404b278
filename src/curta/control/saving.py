"""What a policy of `checkpoint` may answer about a result."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from curta._base.lazy_dataclass import dataclass


class RecomputeType:
    """Compute it again."""

    def __repr__(self) -> str:
        return "Recompute"


class SaveableType:
    """Keep it."""

    def __repr__(self) -> str:
        return "Saveable"


class Offloadable(NamedTuple):
    """Keep it in another memory. There is one memory here: it is kept as it is.

    >>> import curta
    >>> from curta import checkpoint_policies as policies
    >>> policy = policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    >>> curta.grad(curta.checkpoint(lambda x: x * x, policy=policy))(3.0)
    Array(6., dtype=float32, weak_type=True)
    """

    src: Any
    dst: Any


@dataclass(frozen=True)
class FitIn:
    """The policy that `fit_in` gives: the compiler says what is computed again."""

    limit: int

    def __call__(self, *args: Any, **params: Any) -> bool:
        return True


Recompute: Final = RecomputeType()
Saveable: Final = SaveableType()


def is_kept(answer: Any) -> bool:
    """Whether a result is kept, by a policy's answer; TypeError if it is none."""
    if isinstance(answer, bool):
        return answer
    if isinstance(answer, (SaveableType, Offloadable)):
        return True
    if isinstance(answer, RecomputeType):
        return False
    raise TypeError(
        "Value returned by a remat policy should be a bool or"
        " `ad_checkpoint.Recompute`, `ad_checkpoint.Saveable` or"
        " `ad_checkpoint.Offloadable(...)`. Got"
        f" {answer} of type {type(answer)}."
    )
