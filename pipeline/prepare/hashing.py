"""Hashes that decide order, samples and splits: the same on every machine and run."""

import hashlib

DIGEST_BYTES = 16
_WHOLE = 1 << 64


class SeededHash:
    """A hash of bytes, one for each pair of seed and purpose.

    Different purposes give unrelated hashes, so that for instance the sentences sampled
    for a vocabulary say nothing about the shard a pair goes to.

    Args:
        seed: The experiment's seed.
        purpose: At most 16 ASCII characters.
    """

    def __init__(self, seed: int, purpose: str):
        self._seed = seed
        self._purpose = purpose
        self._start = hashlib.blake2b(
            digest_size=DIGEST_BYTES,
            key=str(seed).encode(),
            person=purpose.encode("ascii"),
        )

    def __reduce__(self):
        """Travel to workers as seed and purpose: the state itself cannot be pickled."""
        return SeededHash, (self._seed, self._purpose)

    def digest(self, value: bytes) -> bytes:
        """Digest of `DIGEST_BYTES` bytes."""
        state = self._start.copy()
        state.update(value)
        return state.digest()

    def fraction(self, value: bytes) -> float:
        """The digest as a number spread evenly over [0, 1)."""
        return int.from_bytes(self.digest(value)[:8], "big") / _WHOLE


def bucket(digest: bytes, buckets: int) -> int:
    """Which of `buckets` a digest falls into.

    It reads the digest's last bytes, so that within a bucket the order of the digests,
    which their first bytes decide, is still even.
    """
    return int.from_bytes(digest[-8:], "big") % buckets
