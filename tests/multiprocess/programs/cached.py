"""A program in the cache of each process: its name and its bytes."""

import hashlib
import sys
from pathlib import Path

import numpy as np
from tests.multiprocess.programs.saying import say

import curta
import curta.numpy as jnp
from curta._settings.tuning import Tuning
from curta.config import tuning
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P


@curta.jit
def program(x):
    """Collectives whole, begun, in a loop and in a branch; halos at borders."""
    y = jnp.cumsum(x, 0)
    z = jnp.roll(x, 1, 0) - x[::-1]
    w = curta.lax.fori_loop(0, 3, lambda i, c: c + jnp.sort(y, 0)[i], x)
    v = curta.lax.cond(y[0, 0] > 9, lambda x: x.sum(0), lambda x: x.max(0), x)
    return y, z, w, v, x.T @ x


def main(folder: str) -> None:
    curta.distributed.initialize()
    own = Path(folder) / str(curta.process_index())
    curta.config.update("jax_compilation_cache_dir", str(own))
    count = curta.device_count()
    mesh = curta.make_mesh((count,), ("x",), axis_types=(AxisType.Auto,))
    data = np.arange(24.0 * 2, dtype=np.float32).reshape(24, 2)
    x = curta.device_put(data, NamedSharding(mesh, P("x")))
    wanted = program(data)
    for limit in (1, 1 << 60):  # collectives that are begun early, and that are not
        with tuning(Tuning(overlapped_bytes=limit)):
            found = program(x)
        for out, want in zip(found, wanted, strict=True):
            for shard in out.addressable_shards:
                np.testing.assert_allclose(shard.data, want[shard.index], rtol=1e-6)
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in own.iterdir()}
    digest = hashlib.sha256(str(sorted(files.items())).encode()).hexdigest()
    say(f"{len(files)} files {digest}")


if __name__ == "__main__":
    main(sys.argv[1])
