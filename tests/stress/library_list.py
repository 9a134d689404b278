"""The libraries of `tests.stress.libraries`, and where their test suites are."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Library:
    """A library and its suite; `distribution` and `package` are its names.

    The suite is `of_source` in the source distribution, `of_ours` in
    tests/stress/suites, or `tests` in the GitHub repository at the tag; without these,
    it is in the wheel.
    """

    distribution: str  # by its name on PyPI
    package: str
    of_source: str = ""
    of_ours: str = ""
    repository: str = ""  # owner/name, for suites that are not on PyPI
    tag: str = "v{version}"
    tests: str = "tests"
    # Test files that need what is not installed (data sets, accelerators, TensorFlow).
    left_out: tuple[str, ...] = field(default=())
    label: str = ""
    part: int = 1  # every `part`-th test is run, if no other part is asked for

    @property
    def name(self) -> str:
        """The library's name in the table and in the options."""
        return self.label or self.distribution


# The most used ones first. Parts make a run of all take some hours.
LIBRARIES = (
    Library("optax", "optax", part=2),
    Library("flax", "flax", of_source="tests", left_out=("tests/nnx",), part=4),
    Library("flax", "flax", of_source="tests/nnx", label="flax-nnx", part=4),
    Library("equinox", "equinox", repository="patrick-kidger/equinox"),
    Library(
        "jaxtyping", "jaxtyping", repository="patrick-kidger/jaxtyping", tests="test"
    ),
    Library("chex", "chex", part=2),
    Library("orbax-checkpoint", "orbax", of_ours="orbax"),  # it ships no tests
    Library("numpyro", "numpyro", of_source="test", part=20),
    Library(
        "diffrax", "diffrax", repository="patrick-kidger/diffrax", tests="test", part=8
    ),
    Library("lineax", "lineax", repository="patrick-kidger/lineax", part=30),
    Library(
        "optimistix", "optimistix", repository="patrick-kidger/optimistix", part=12
    ),
    Library("distrax", "distrax", part=20),
    Library("dm-haiku", "haiku", part=4),
    Library("rlax", "rlax"),
    Library("jraph", "jraph", left_out=("ogb_examples",)),
    Library("e3nn-jax", "e3nn_jax", repository="e3nn/e3nn-jax", tag="{version}"),
    Library("ott-jax", "ott", repository="ott-jax/ott", tag="{version}", part=8),
    Library("jax-md", "jax_md", repository="jax-md/jax-md", tag="jax-md-v{version}"),
    Library("dm-pix", "dm_pix"),
    Library("mctx", "mctx"),
    Library("brax", "brax", left_out=("training/agents",)),
    Library("mujoco-mjx", "mujoco.mjx", left_out=("/warp/",), part=2),
    Library(
        "jaxopt", "jaxopt", repository="google/jaxopt", tag="jaxopt-v{version}", part=4
    ),
    Library("tinygp", "tinygp", repository="dfm/tinygp"),
    Library("sbijax", "sbijax", part=2),
    Library("penzai", "penzai", of_source="tests"),
    Library("qwix", "qwix", repository="google/qwix", tag="{version}", part=2),
    Library("google-tunix", "tunix", repository="google/tunix"),
    Library(
        "kauldron", "kauldron", repository="google-research/kauldron", tests="kauldron"
    ),
    Library("tokamax", "tokamax", part=8),
)
