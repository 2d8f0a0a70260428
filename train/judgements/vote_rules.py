"""From raw votes to distributions: what counts, and what is dropped (sections 3.1 and 3.2, Appendix A)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from train.agreement import two_afc_votes

__all__ = [
    "AMBIGUOUS",
    "CANNOT_TELL",
    "FAILED_SENTINEL",
    "MAX_CANNOT_TELL",
    "NO_SENTINEL",
    "NO_VOTES",
    "ONE_SIDED",
    "TIE",
    "Vote",
    "counted_votes",
    "one_sided",
    "vote_shares",
]

# Three or more of five "can't tell" votes drop an aspect (section 3.1).
MAX_CANNOT_TELL = 2

# The rules, as reports name them.
CANNOT_TELL = 'vote "can\'t tell"'
AMBIGUOUS = f'aspect with more than {MAX_CANNOT_TELL} votes "can\'t tell"'
NO_VOTES = "aspect without a vote left"
TIE = "2AFC aspect with a tie"
ONE_SIDED = "2AFC item of edited pictures with the same majority in every aspect"
FAILED_SENTINEL = "vote of a session that failed a sentinel"
NO_SENTINEL = "vote of a session without a sentinel"


@dataclass(frozen=True, slots=True)
class Vote:
    """What one session answered about one item under one aspect.

    Attributes:
        session: One annotator's sitting.
        item: The item's id.
        aspect: The aspect's slug.
        choice: The member that was chosen, or None for "can't tell".
    """

    session: str
    item: str
    aspect: str
    choice: int | None


def vote_shares(choices: Sequence[int | None], members: int) -> tuple[float, ...] | str:
    """Return the distribution that one item's votes under one aspect make, or the rule that drops the aspect.

    Args:
        choices: One entry a rater: the member chosen, or None for "can't tell".
        members: Three for odd-one-out, two for 2AFC.

    Returns:
        Shares of the votes for each member, "can't tell" left out. A rule instead (text) if too many could not tell,
        no vote is left, or both candidates of a 2AFC item have as many.

    Examples:
        Five annotators see a triplet; one cannot tell, three call the last member the odd one:

        >>> vote_shares([2, 2, None, 0, 2], members=3)
        (0.25, 0.0, 0.75)

        Section 3.2: y ∈ [0, 1] is the mean over the annotators who chose x₁ as closer to the reference. Four of five
        do, so y = 0.8; a tie is of no use for evaluation:

        >>> vote_shares([1, 1, 0, 1, 1], members=2) == (1 - 0.8, 0.8)
        True
        >>> vote_shares([1, 0, 1, 0, None], members=2)
        '2AFC aspect with a tie'
    """
    valid = [choice for choice in choices if choice is not None]
    if len(choices) - len(valid) > MAX_CANNOT_TELL:
        return AMBIGUOUS
    if not valid:
        return NO_VOTES
    counts = Counter(valid)
    if members == 2:
        if counts[0] == counts[1]:
            return TIE
        return tuple(two_afc_votes([counts[1] / len(valid)])[0].tolist())
    return tuple(counts[member] / len(valid) for member in range(members))


def one_sided(shares: Sequence[Sequence[float]]) -> bool:
    """Tell whether the majority is for the same member under every aspect of an item.

    Of edited pictures such items are dropped: mostly, one of the two editing methods has barely modified the input, and
    so is closer to it in every sense (Appendix A.2, "Image editing"). The paper's items have some six aspects; of an
    item that has only one, its single majority says nothing about the method, and this is False.

    Args:
        shares: One distribution an aspect, as ``vote_shares`` gives it; of a tie, the first member counts.

    Examples:
        >>> one_sided([(0.2, 0.8), (0.4, 0.6)]), one_sided([(0.2, 0.8), (0.6, 0.4)]), one_sided([(0.2, 0.8)])
        (True, False, False)
    """
    majorities = [max(range(len(one)), key=one.__getitem__) for one in shares]
    return len(majorities) > 1 and len(set(majorities)) == 1


def counted_votes(
    votes: Sequence[Vote], sentinels: Mapping[str, int]
) -> tuple[dict[tuple[str, str], list[int | None]], Counter[str]]:
    """Take out the sentinels and every vote of a session that did not pass its own (Appendix A).

    A sentinel is a triplet with one picture twice, so that the odd one is plain. A session passes if it answers all
    of its sentinels rightly under every aspect; "can't tell" is wrong there. Where a set has sentinels at all, a
    session that saw none has passed none.

    Args:
        votes: All answers, those to sentinels among them.
        sentinels: Sentinel item → the member that is the right answer.

    Returns:
        (item, aspect's slug) → choices of the sessions that count, in the order of the votes; and how many votes each
        rule has dropped.
    """
    passed: dict[str, bool] = {}
    for vote in votes:
        if vote.item in sentinels:
            passed[vote.session] = passed.get(vote.session, True) and vote.choice == sentinels[vote.item]
    counted: dict[tuple[str, str], list[int | None]] = {}
    dropped: Counter[str] = Counter()
    for vote in votes:
        if vote.item in sentinels:
            continue
        if sentinels and not passed.get(vote.session, False):
            dropped[FAILED_SENTINEL if vote.session in passed else NO_SENTINEL] += 1
            continue
        counted.setdefault((vote.item, vote.aspect), []).append(vote.choice)
    return counted, dropped
