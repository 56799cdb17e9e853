"""What `prepare` shows at its end: Beam's counters, lengths, vocabularies, speed."""

import rich.console
import rich.markup
import rich.table

from pipeline.prepare.milestones import SAMPLING, TRAINING, WRITING
from pipeline.prepare.reasons import DESCRIPTIONS


def show_summary(
    console: rich.console.Console,
    manifest: dict,
    counters: dict[str, int],
    seconds: dict[str, float],
    total_seconds: float,
) -> None:
    """Print the tables.

    Args:
        console: Where.
        manifest: Of the run.
        counters: Beam's, by `<split> <what>`.
        seconds: By stage.
        total_seconds: From first to last.
    """
    console.print(pairs_table(manifest, counters))
    console.print(pieces_table(manifest))
    console.print(vocabularies_table(manifest))
    if any("pictures" in described for described in manifest["inputs"]):
        console.print(pictures_table(manifest))
    console.print(speed_line(counters, seconds, total_seconds), soft_wrap=True)


def pairs_table(manifest: dict, counters: dict[str, int]) -> rich.table.Table:
    """Pairs in, dropped by reason with their first lines, and written, by split."""
    table = rich.table.Table("split", "pairs", title="Pairs")
    table.add_column("number", justify="right")
    table.add_column("first lines")
    for split in manifest["splits"]:
        table.add_section()
        table.add_row(split, "read", f"{counters.get(f'{split} in', 0):,}")
        for reason, meaning in DESCRIPTIONS.items():
            if number := counters.get(f"{split} {reason}", 0):
                where = _first_lines(manifest, split, reason)
                table.add_row("", f"dropped: {reason}, {meaning}", f"{number:,}", where)
        if number := counters.get(f"{split} truncated", 0):
            table.add_row("", "cut to the limit", f"{number:,}")
        table.add_row("", "written", f"{counters.get(f'{split} out', 0):,}", style="bold")
    return table


def _first_lines(manifest: dict, split: str, reason: str) -> str:
    places = []
    for described in manifest["inputs"]:
        dropped = described["splits"].get(split, {"dropped": {}})["dropped"]
        if reason in dropped:
            lines = ", ".join(map(str, dropped[reason]["first_lines"]))
            places.append(rich.markup.escape(f"{described['name']}: {lines}"))
    return "\n".join(places)


def pieces_table(manifest: dict) -> rich.table.Table:
    """Lengths and unknown pieces, by split and side."""
    table = rich.table.Table("split", "side", title="Pieces")
    for heading in ("pieces", "mean length", "longest", "unknown"):
        table.add_column(heading, justify="right")
    for split, described in manifest["splits"].items():
        for side in manifest["sides"]:
            of_side = described[side]
            table.add_row(
                split,
                side,
                f"{of_side['pieces']:,}",
                f"{of_side['mean_length']:.1f}",
                f"{of_side['longest']:,}",
                f"{of_side['unknown_rate']:.3%}",
            )
    return table


def vocabularies_table(manifest: dict) -> rich.table.Table:
    """Sizes asked for and reached."""
    table = rich.table.Table("vocabulary", title="Vocabularies")
    for heading in ("pieces", "asked for", "sentences sampled"):
        table.add_column(heading, justify="right")
    for name, described in manifest["vocabularies"].items():
        numbers = (described[key] for key in ("size", "size_asked", "sampled_sentences"))
        table.add_row(name, *("all" if number is None else f"{number:,}" for number in numbers))
    return table


def pictures_table(manifest: dict) -> rich.table.Table:
    """Pictures read, and dropped by reason with the first names, by input."""
    table = rich.table.Table("input", "pictures", title="Pictures")
    table.add_column("number", justify="right")
    table.add_column("first of them", overflow="fold")
    for described in manifest["inputs"]:
        pictures = described.get("pictures", {"read": 0, "dropped": {}})
        table.add_section()
        table.add_row(rich.markup.escape(described["name"]), "read", f"{pictures['read']:,}")
        for reason, dropped in pictures["dropped"].items():
            names = rich.markup.escape(", ".join(dropped["first"]))
            table.add_row("", f"dropped: {reason}", f"{dropped['pictures']:,}", names)
    return table


def speed_line(counters: dict[str, int], seconds: dict[str, float], total_seconds: float) -> str:
    """Pairs a second over all and of writing records alone, and where the time went."""
    pairs = sum(number for name, number in counters.items() if name.endswith(" in"))
    writing = max(seconds[WRITING], 1e-9)
    return (
        f"{pairs:,} pairs in {total_seconds:.1f} s: {pairs / total_seconds:,.0f} pairs/s; sample "
        f"{seconds[SAMPLING]:.1f} s, vocabularies {seconds[TRAINING]:.1f} s, records "
        f"{writing:.1f} s ({pairs / writing:,.0f} pairs/s)"
    )
