"""Finding random keys that are used twice.

`curta.debug_key_reuse(True)` looks at all that runs; `check_key_reuse` at a function.
"""

from curta.core.key_use import (
    Forward as Forward,
    KeyReuseSignature as KeyReuseSignature,
    Sink as Sink,
    Source as Source,
)
from curta.experimental.key_reuse._core import (
    assert_consumed as assert_consumed,
    assert_unconsumed as assert_unconsumed,
    check_key_reuse as check_key_reuse,
    consume as consume,
    function_type_signature as function_type_signature,
)
