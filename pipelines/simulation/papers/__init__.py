"""The papers whose experiments can be run, by name."""

from __future__ import annotations

from partitioners.errors import InputError, nearest
from pipelines.simulation.papers import dalton_group, enorm, holistic, pkg_cluster, prompt
from pipelines.simulation.papers.base import Experiment, Lab, Paper

PAPERS: dict[str, Paper] = {
    module.PAPER.name: module.PAPER
    for module in (pkg_cluster, holistic, dalton_group, prompt, enorm)
}
ALL = "all"


def papers_of(names: list[str]) -> list[Paper]:
    """Find papers by name.

    Args:
        names: Of ``PAPERS``, or ``all``.

    Returns:
        The papers, each once.

    Raises:
        InputError: There is no such paper.
    """
    for name in names:
        if name != ALL and name not in PAPERS:
            raise InputError(f'no paper is called "{name}"; {nearest(name, [*PAPERS, ALL])}')
    chosen = PAPERS if ALL in names else dict.fromkeys(names)
    return [PAPERS[name] for name in chosen]


__all__ = ["ALL", "PAPERS", "Experiment", "Lab", "Paper", "papers_of"]
