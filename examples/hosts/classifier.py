"""Learn to read digits in parallel: each host takes its share of every batch.

    python examples/hosts/classifier.py                                  alone
    python -m curta.run -n 4 examples/hosts/classifier.py --compare      four processes
    mpiexec -n 4 python examples/hosts/classifier.py                     four, by MPI
    CURTA_SIMULATE_HOSTS=4 python examples/hosts/classifier.py           four, simulated
    ... --folder learnt                  saved after each epoch, and gone on from there
    ... --width 1024 --batch 1024        a network that is worth sharing out

Model, optimizer and step are those of examples/digits.py, written for one host. The
parameters are replicated on all hosts, and the images of a batch are split. The
gradients of hosts are summed in one message. A step of this small network takes a few
tenths of a millisecond, too little to distribute. `--compare` shows the cost, and the
gain for a wide network and larger batches.
"""

from pathlib import Path

import common
import digits
import numpy as np

import curta as jax
from curta import state
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P


class Batches:
    """The images of an epoch, in a new order each time, in parts on the hosts."""

    def __init__(self, images, labels, size, split):
        self.images, self.labels = np.asarray(images), np.asarray(labels)
        self.size, self.split = size, split
        self.count = len(labels) // size

    def epoch(self, key):
        order = np.asarray(jax.random.permutation(key, len(self.labels)))
        for k in range(self.count):
            chosen = order[k * self.size : (k + 1) * self.size]
            yield self.part(self.images, chosen), self.part(self.labels, chosen)

    def part(self, values, chosen):
        """The chosen ones; each host reads only those that it has."""
        shape = (len(chosen), *values.shape[1:])
        return jax.make_array_from_callback(
            shape, self.split, lambda index: values[chosen[index[0]]]
        )


def train(
    key, epochs, batch, train_set, held_out, meter=iter, folder=None, sizes=digits.SIZES
):
    """The mean loss of each epoch, and the accuracy on unseen images after it.

    The state is saved in the folder after each epoch. If the folder has a state, from
    any number of processes, training resumes from it.
    """
    mesh = jax.make_mesh((jax.device_count(),), ("data",), (AxisType.Auto,))
    split, everywhere = (NamedSharding(mesh, spec) for spec in (P("data"), P()))
    images, labels = train_set
    batches = Batches(images, labels, batch, split)
    held_out = jax.device_put(held_out, everywhere)
    params = jax.device_put(digits.init_params(key, sizes), everywhere)
    adam = jax.device_put(digits.init_adam(params), everywhere)
    learnt = params, adam, np.zeros((2, epochs))
    (params, adam, curves), first = restored(folder, learnt)
    for epoch in meter(range(first, epochs)):
        order_key, noise_key = jax.random.split(jax.random.fold_in(key, epoch))
        losses = []
        for k, (images, labels) in enumerate(batches.epoch(order_key)):
            progress = (epoch + k / batches.count) / epochs
            step_key = jax.random.fold_in(noise_key, k)
            params, adam, loss = digits.train_step(
                params, adam, step_key, images, labels, progress
            )
            losses.append(loss)
        curves[0, epoch] = np.mean([float(loss) for loss in losses])
        curves[1, epoch] = digits.accuracy(params, *held_out)
        if folder is not None:
            state.save(folder, (params, adam, curves), step=epoch + 1)
    return curves


def restored(folder, learnt):
    """Return the saved state, and the number of its epochs."""
    if folder is None or not (folder / "index.json").exists():
        return learnt, 0
    return state.restore(folder, learnt), state.step(folder) or 0


def main(arguments=None):
    parser = common.parser(__doc__, epochs=20, batch=64)
    parser.add_argument("--folder", type=Path, help="save here, and go on from there")
    parser.add_argument("--width", type=int, help="of two hidden layers")
    options = parser.parse_args(arguments)
    alone = common.start(options, "digits")
    data_key, key = jax.random.split(jax.random.key(0))
    train_set, held_out = digits.load(data_key)
    meter = common.Meter(len(train_set[1]) // options.batch)
    sizes = digits.SIZES
    if options.width is not None:
        sizes = (sizes[0], options.width, options.width, sizes[-1])
    losses, accuracies = train(
        *(key, options.epochs, options.batch, train_set, held_out),
        *(meter, options.folder, sizes),
    )
    meter.report(options, "digits", alone)
    if common.is_first():
        digits.draw_curve(options.out / "hosts_digits.png", losses, accuracies)
        print(f"  accuracy on unseen images: {100 * accuracies[-1]:.2f} %")
        print(f"  picture: {options.out}/hosts_digits.png")


if __name__ == "__main__":
    main()
