"""Calls of the source's, written in the target's framework, in the place of one of the target's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from .changes import Change
from .tape import Record, Tape
from .translating import Operand, are_equal, operands_of, writings


class Substitutes:
    """Writes calls of the source's with what a call of the target's takes.

    Args:
        source: the source's calls.
        target: the target's.
        end: when to stop, by the clock of the process.
    """

    def __init__(self, source: Tape, target: Tape, end: float) -> None:
        self._source, self._target, self._end = source, target, end
        self._taken: dict[int, list[Operand]] = {}

    def of(self, record: Record, mine: Sequence[int], *, deep: bool) -> Iterator[tuple[Change, int]]:
        """(the target's call as one of the source's, the source's).

        Args:
            record: the target's call.
            mine: the source's calls that may stand for it.
            deep: whether what its operands are computed of counts as operands.
        """
        theirs = self._operands(self._target, record)
        for ref in record.refs() if deep else ():
            theirs += self._operands(self._target, self._target.records[ref.record])
        for each in mine:
            other = self._source.records[each]
            own = self._operands(self._source, other)
            if not self._are_taken(record, own, theirs):
                continue
            for writing in writings(other, own, theirs, (self._source.host, self._target.host)):
                if time.process_time() > self._end:
                    return
                if not writing.is_layer or record.kind == "layer":
                    said = writing.text
                    if said == record.site.whole:  # it stands there already, so that nothing is to be written
                        continue
                    if not writing.is_layer:
                        said = f"`{said}` in place of `{record.site.whole}`"
                    change = Change(
                        tuple(writing.values.values()),
                        {},
                        writing,
                        "call",
                        f"`{other.site.whole}`",
                        f"`{record.site.whole}`",
                        said,
                        layer=writing.is_layer,
                    )
                    yield change, each

    def _are_taken(self, record: Record, own: list[Operand], theirs: list[Operand]) -> bool:
        """Whether a call of the target's takes what one of the source's does, as far as any other does."""
        missing = [o for o in own if not any(are_equal(o.array, t.array) for t in theirs)]
        if len(missing) == len(own):
            return not own and not theirs
        taken = (t for r in self._target.records if missing and r is not record for t in self._of_target(r))
        return not any(are_equal(o.array, t.array) for t in taken for o in missing)

    def _of_target(self, record: Record) -> list[Operand]:
        return self._operands(self._target, record)

    def _operands(self, tape: Tape, record: Record) -> list[Operand]:
        """The tensors that enter a call."""
        if id(record) not in self._taken:
            arrays = {ref: tape.value(ref) for ref in record.refs()}
            self._taken[id(record)] = operands_of(record, arrays, tape.host)
        return list(self._taken[id(record)])
