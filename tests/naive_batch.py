"""Key groups and Prompt once more, as slow plain loops: what the compiled ones must equal."""

from __future__ import annotations

MASK = (1 << 64) - 1


def mix64(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def first_range(key_hash: int, seed: int, size: int) -> int:
    word = mix64(((key_hash ^ mix64(seed & MASK)) + 0x9E3779B97F4A7C15) & MASK)
    return (word >> 32) * size >> 32


class NaiveKeyGroups:
    def __init__(
        self, num_partitions, num_groups, pane_ms, tolerance, max_rounds, suitable="best", seed=0
    ):
        self.num_partitions, self.num_groups, self.pane_ms = num_partitions, num_groups, pane_ms
        self.tolerance, self.max_rounds, self.suitable = tolerance, max_rounds, suitable
        self.seed = seed
        self.owners = [group % num_partitions for group in range(num_groups)]
        self.loads = [0.0] * num_groups
        self.pane = None

    def partition(self, key_hash, timestamp_ms, weight=1.0):
        pane = timestamp_ms // self.pane_ms
        if self.pane is None or pane > self.pane:
            self.pane = pane
            self.migrate()
            self.loads = [0.0] * self.num_groups
        group = first_range(key_hash, self.seed, self.num_groups)
        self.loads[group] += weight
        return self.owners[group]

    def migrate(self):
        load_of = [0.0] * self.num_partitions
        for group, owner in enumerate(self.owners):
            load_of[owner] += self.loads[group]
        least_gap = self.tolerance * sum(load_of) / self.num_partitions
        for _ in range(self.max_rounds):
            order = sorted(range(self.num_partitions), key=lambda p: -load_of[p])
            moved = False
            while len(order) > 1:
                most, least = order[0], order[-1]
                gap = load_of[most] - load_of[least]
                if gap <= least_gap:
                    break
                order.pop(0)
                group = self.suitable_group(most, gap)
                if group is not None:
                    order.pop()
                    self.owners[group] = least
                    load_of[most] -= self.loads[group]
                    load_of[least] += self.loads[group]
                    moved = True
            if not moved:
                break

    def suitable_group(self, most, gap):
        suitable = [
            group
            for group in range(self.num_groups)
            if self.owners[group] == most and 0.0 < self.loads[group] < gap
        ]
        if not suitable:
            return None
        if self.suitable == "biggest":
            return max(suitable, key=lambda group: (self.loads[group], -group))
        return min(suitable, key=lambda group: (abs(gap - 2 * self.loads[group]), group))
