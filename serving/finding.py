"""What a rule of the linter reports."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """One reason not to publish an export.

    Attributes:
        rule: Name of the rule.
        place: `signature NAME`, `function NAME`, the main graph, or a file.
        node: Name of the node or tensor; empty when the place says it all.
        op: Operation of the node; empty when there is none.
        remedy: What to change.
    """

    rule: str
    place: str
    node: str
    op: str
    remedy: str

    def __str__(self) -> str:
        """One line: where, which rule, and what to do."""
        where = ", ".join(part for part in (self.place, self.node) if part)
        operation = f" ({self.op})" if self.op else ""
        return f"[{self.rule}] {where}{operation}: {self.remedy}"
