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


def naive_tree_order(records, budget, batch_ms, expected_load, expected_keys):
    """Algorithm 1 on (key, timestamp_ms, load): keys by falling load as last updated."""
    state, total = {}, 0.0
    for key, now, load in records:
        total += load
        if key not in state:
            if not state:
                end = now + batch_ms
            state[key] = {
                "seen": load,
                "placed_by": load,
                "left": budget,
                "load_step": max(1.0, expected_load / (expected_keys * budget)),
                "time_step": max(1.0, (end - now) / budget),
                "updated": now,
            }
            continue
        of = state[key]
        of["seen"] += load
        if of["left"] == 0:
            continue
        by_load = of["seen"] - of["placed_by"] >= of["load_step"]
        if by_load or now - of["updated"] >= of["time_step"]:
            of["placed_by"] = of["seen"]
            of["left"] -= 1
            of["updated"] = now
            if by_load:
                expected = max(expected_load, total)
                of["load_step"] = max(1.0, expected / budget * of["seen"] / total)
            elif of["left"] > 0:
                of["time_step"] = max(1.0, (end - now) / of["left"])
    keys = list(state)
    return sorted(keys, key=lambda key: (-state[key]["placed_by"], keys.index(key)))


def naive_fragments(counts, order, num_blocks, equal_blocks=True, smallest_first=True):
    """Algorithm 2 on whole records: key -> list of [block, size], in the order they are filled."""
    total = sum(counts.values())
    free = [total // num_blocks + (block < total % num_blocks) for block in range(num_blocks)]
    cut = max(1, min(total // num_blocks, total // len(counts)))
    fragments, rests = {}, {}
    large = [key for key in order if counts[key] > cut]
    for turn, key in enumerate(large):
        fragments[key] = [[turn % num_blocks, cut]]
        rests[key] = counts[key] - cut
    first_pass = len(large) // num_blocks
    for turn, key in enumerate((key for key in order if counts[key] <= cut), len(large)):
        block = turn % num_blocks
        if (turn // num_blocks - first_pass) % 2 == 1:
            block = num_blocks - 1 - block
        fragments[key] = [[block, counts[key]]]
    for [[block, size]] in fragments.values():
        free[block] -= size
    if equal_blocks:
        for block in range(num_blocks):
            if free[block] < 0:
                here = [key for key in counts if fragments[key][0][0] == block]
                heaviest = max(here, key=lambda key: fragments[key][0][1])
                rests[heaviest] = rests.get(heaviest, 0) - free[block]
                fragments[heaviest][0][1] += free[block]
                free[block] = 0
    for key in reversed(list(rests)) if smallest_first else list(rests):
        rest, own = rests[key], fragments[key][0][0]
        here = min(rest, max(0, free[own]))
        fragments[key][0][1] += here
        free[own] -= here
        rest -= here
        while rest > 0:
            fitting = [block for block in range(num_blocks) if free[block] >= rest]
            if fitting:
                block = min(fitting, key=lambda block: free[block])
            else:
                block = max(range(num_blocks), key=lambda block: free[block])
            part = min(rest, free[block])
            fragments[key].append([block, part])
            free[block] -= part
            rest -= part
    return fragments


def naive_prompt(keys, num_blocks, order=None, equal_blocks=True, smallest_first=True):
    """The block of each record: its key's fragments, filled as the records come."""
    counts = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    if order is None:
        order = sorted(counts, key=lambda key: -counts[key])
    fragments = naive_fragments(counts, order, num_blocks, equal_blocks, smallest_first)
    places = {
        key: iter([block for block, size in parts for _ in range(size)])
        for key, parts in fragments.items()
    }
    return [next(places[key]) for key in keys]
