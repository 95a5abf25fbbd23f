"""``hot_fill`` and ``dagreedy`` once more, slow and obvious: what the compiled ones must equal."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction

from naive import MASK, candidates

GOLDEN = 0x9E3779B97F4A7C15


class Entry:
    """A slot of the table of heavy keys."""

    def __init__(self):
        self.key, self.count, self.error, self.planned, self.homes = None, 0.0, 0.0, 0.0, []


class HotFill:
    def __init__(self, config, n):
        self.config, self.n = config, n
        tolerance = config.tolerance
        self.tolerance = min(0.1, 0.0075 * (math.sqrt(n) - 1.0)) if tolerance is None else tolerance
        self.pane_ms = config.slide_ms or (
            config.window_ms // 10 if config.window_ms % 10 == 0 else config.window_ms
        )
        num_slots = 1
        while num_slots < 16 * n:
            num_slots *= 2
        self.buckets = [[Entry() for _ in range(8)] for _ in range(num_slots // 8)]
        self.window, self.now = deque(), []  # (pane, partition, load)
        self.recent = [0.0] * n
        self.loads, self.mean = [0.0] * n, 0.0
        self.width = None  # before the first plan, and without overflow
        self.pane = None
        self.planned_pane = None
        self.first, self.fresh = [0.0] * n, [0.0] * n
        self.guests, self.valves = [0.0] * n, [0.0] * n
        self.total = self.fresh_total = self.fresh_squares = 0.0
        self.trail = [0.0] * n
        self.trail_total = self.trail_squares = 0.0
        self.period = self.age = 0
        self.due_at = self.check_at = n
        self.misses = self.looked_at = 0
        self.surprise = 0.0
        self.miss_share = None  # of the last full period; None: not known, or too much
        self.num_drifts = 0

    def ranked(self, key, count):
        return candidates(key, min(count, self.n), self.n, self.config.seed, True)

    def entry_of(self, key):
        bucket = self.buckets[(((key * GOLDEN) & MASK) >> 32) % len(self.buckets)]
        for entry in bucket:
            if entry.key == key and entry.count > 0:
                return entry
        entry = min(bucket, key=lambda other: other.count)
        entry.key, entry.homes = key, []
        entry.error = entry.planned = entry.count
        return entry

    def enter(self, timestamp_ms):
        pane = timestamp_ms // self.pane_ms
        if self.pane is not None and pane <= self.pane:
            return
        panes = self.config.window_ms // self.pane_ms
        opened = panes if self.pane is None else min(pane - self.pane, panes)
        keep = 1.0
        for _ in range(opened):
            keep *= math.exp(-3.0 * self.pane_ms / self.config.window_ms)
        for p in range(self.n):
            self.recent[p] += sum(load for _, q, load in self.now if q == p)
            self.recent[p] *= keep
        self.window.extend(self.now)
        self.now, self.pane, self.mean = [], pane, 0.0
        while self.window and self.window[0][0] <= pane - panes:
            self.window.popleft()
        window = [0.0] * self.n
        for _, p, load in self.window:
            window[p] += load
        self.loads = [
            max(in_window - sum(window) / self.n, recent - sum(self.recent) / self.n)
            for in_window, recent in zip(window, self.recent, strict=True)
        ]

    def partition(self, key, timestamp_ms, weight):
        self.enter(timestamp_ms)
        first, second = (self.ranked(key, 2) * 2)[:2]
        entry = self.entry_of(key)
        missed = not entry.homes
        if entry.homes:
            best = min(entry.homes, key=lambda home: self.loads[home])
        else:
            place = (((key * 0xD6E8FEB86659FD93) & MASK) >> 40) / (1 << 24)
            best = first if place >= self.valves[first] else second
            if best == second and second != first:
                self.guests[second] += weight
            elif self.overflows(first, second):
                best = second
        entry.count += weight
        self.fresh[first] += weight
        self.fresh_total += weight
        self.fresh_squares += weight * weight
        self.loads[best] += weight
        self.now.append((self.pane, best, weight))
        self.mean += weight / self.n
        self.period += 1
        if missed and self.hot_keys_are_gone():
            self.forget()
        elif self.period >= self.check_at:
            self.check()
        return best

    def overflows(self, home, second):
        if self.width is None:
            return False
        over = self.loads[home] - self.width
        return over > self.mean and over > self.loads[second]

    def hot_keys_are_gone(self):
        self.misses += 1
        if self.miss_share is None:
            return False
        share = self.miss_share
        gone = share + 0.9 * (1.0 - share)
        hits = self.period - self.looked_at - 1
        self.looked_at = self.period
        self.surprise -= hits * math.log((1.0 - share) / (1.0 - gone))
        self.surprise = max(self.surprise, 0.0) + math.log(gone / share)
        return self.surprise > 1.25 * self.config.drift_sigmas

    def learn_misses(self, drifted):
        full = self.period >= 16 * self.n
        most = self.misses + 1.0 + 3.0 * math.sqrt(self.misses + 1.0)
        share = min(most / (self.period + 2.0), 1.0)
        if drifted or (full and share > 0.8) or self.config.drift_sigmas == 0:
            self.miss_share, self.surprise = None, 0.0
        elif full:
            self.miss_share = share
        self.misses = self.looked_at = 0

    def first_plan_at(self):
        return max(self.n // 4, 1) if self.num_drifts else self.n

    def forget(self):
        for bucket in self.buckets:
            for entry in bucket:
                entry.key, entry.homes = None, []
                entry.count = entry.error = entry.planned = 0.0
        self.first, self.fresh = [0.0] * self.n, [0.0] * self.n
        self.guests, self.valves = [0.0] * self.n, [0.0] * self.n
        self.trail = [0.0] * self.n
        self.total = self.fresh_total = self.fresh_squares = 0.0
        self.trail_total = self.trail_squares = 0.0
        self.learn_misses(drifted=True)
        self.num_drifts += 1
        self.age = self.period = 0
        self.planned_pane = self.pane
        self.due_at = self.check_at = self.first_plan_at()

    def check(self):
        due = self.period >= self.due_at
        if self.fresh_total > 0:
            unit = self.fresh_squares / self.fresh_total
            drifted = self.has_drifted(unit)
            if due or drifted:
                self.plan(unit, drifted)
                return
        self.check_at = self.period + self.n
        if not due:
            self.check_at = min(self.check_at, self.due_at)

    def has_drifted(self, unit):
        n, total, fresh = self.n, self.total, self.fresh_total
        if self.config.drift_sigmas == 0 or n == 1 or total <= fresh:
            return False
        trail, squares = self.trail_total + fresh, self.trail_squares + fresh
        now = before = rare = 0.0
        for p in range(n):
            share = (self.first[p] + unit) / (total + n * unit)
            off = self.fresh[p] - fresh * share
            now += off * off / (fresh * share * (1.0 + fresh / total)) / unit
            off = self.trail[p] + self.fresh[p] - trail * share
            before += off * off / (squares * share * (1.0 + squares / total)) / unit
            rare += unit / share

        def limit(count):
            return n + self.config.drift_sigmas * math.sqrt(2.0 * n + rare / count)

        return now > limit(fresh) or (before > limit(squares) and trail < total)

    def fade(self, drifted):
        keep = self.fresh_total / self.total if drifted else 1.0
        elapsed = 0 if self.planned_pane is None else self.pane - self.planned_pane
        memory_ms = self.config.memory_windows * self.config.window_ms
        fading = 1.0 / (1.0 + elapsed * self.pane_ms / memory_ms)
        weaken = 0.0 if drifted else 0.75
        self.trail_total = weaken * (self.trail_total + self.fresh_total)
        self.trail_squares = weaken * weaken * (self.trail_squares + self.fresh_total)
        for p in range(self.n):
            self.trail[p] = weaken * (self.trail[p] + self.fresh[p])
            self.first[p] = (self.first[p] * keep + self.fresh[p]) * fading
            self.guests[p] *= keep * fading
        for bucket in self.buckets:
            for entry in bucket:
                since = entry.count - entry.planned
                entry.count = entry.planned = (entry.planned * keep + since) * fading
                entry.error *= keep * fading
        self.total = 0.0
        for load in self.first:
            self.total += load
        self.fresh = [0.0] * self.n
        self.fresh_total = self.fresh_squares = 0.0
        if drifted:
            self.age = self.period
            self.num_drifts += 1
        self.learn_misses(drifted)
        self.age += self.period
        self.period = 0
        self.planned_pane = self.pane
        self.due_at = min(16 * self.n, max(self.first_plan_at(), self.age // 4))
        self.check_at = min(self.due_at, 2 * self.n)

    def hot_entries(self, mean, unit):
        hot = []
        for bucket in self.buckets:
            for entry in bucket:
                limit = self.config.hot_fraction * mean * (0.5 if entry.homes else 1.0)
                sure = entry.count - entry.error
                if sure > 0 and sure >= limit and sure >= (4 if self.num_drifts else 8) * unit:
                    hot.append(entry)
                else:
                    entry.homes = []
        return sorted(hot, key=lambda entry: entry.count)

    def plan(self, unit, drifted):
        self.fade(drifted)
        mean = self.total / self.n
        noise = math.sqrt(mean * unit)
        young = self.age < 16 * self.n
        room = self.tolerance * mean
        level = mean + min(room, 0.25 * noise) + (2.0 * noise if young else 0.0)
        limit = mean + max(room - 0.5 * noise, min(room, 0.02 * mean))
        if young and not self.num_drifts:
            limit += 2.0 * noise
        self.width = self.config.overflow_sigmas * noise or None
        hot = self.hot_entries(mean, unit)
        levels = list(self.first)
        for entry in hot:
            levels[self.ranked(entry.key, 1)[0]] -= entry.count
        for p in range(self.n):
            own, valve = max(levels[p], 0.0), self.valves[p]
            over = own + self.guests[p] > level + (0.0 if valve else 2.0 * noise)
            wanted = 0.0
            if self.config.valve and own > 0 and over:
                wanted = min(1.0, max(0.0, 1.0 - (level - self.guests[p]) / own))
            valve += 0.1 * (wanted - valve)
            self.valves[p] = valve = 0.0 if valve < 0.002 else valve
            levels[p] = own * (1.0 - valve) + self.guests[p]
        for entry in hot:
            home = self.ranked(entry.key, 1)[0]
            if levels[home] + entry.count <= limit:
                levels[home] += entry.count
                entry.homes = [home]
            else:
                fraction = 0.8 if mean >= 500 * unit else 0.32
                self.spread(entry, levels, limit, mean, fraction)

    def spread(self, entry, levels, limit, mean, fraction):
        rest, homes = entry.count, []
        while rest > 0 and fraction >= 0.02:
            for p in self.ranked(entry.key, self.n):
                room = limit - levels[p]
                least = fraction * mean * (0.5 if p in entry.homes else 1.0)
                if rest > 0 and room > 0 and room >= min(rest, least):
                    share = min(room, rest)
                    levels[p] = limit if room <= rest else levels[p] + share
                    rest -= share
                    homes.append(p)
            fraction *= 0.5
        entry.homes = homes or self.ranked(entry.key, 1)
        if rest > 0:
            for p in entry.homes:
                levels[p] += rest / len(entry.homes)


def hot_fill(config, n, key_hashes, times, weights):
    twin = HotFill(config, n)
    weights = weights or [1.0] * len(times)
    return [twin.partition(*record) for record in zip(key_hashes, times, weights, strict=True)]


class Key:
    """A key that ``dagreedy`` counts: its load in an interval, and its partitions while hot."""

    def __init__(self, key_hash, interval):
        self.key_hash, self.interval, self.count = key_hash, interval, 0
        self.has_row, self.hot_until, self.last_pane = False, -math.inf, {}

    def is_hot(self, interval):
        return self.has_row and self.hot_until >= interval


class DAGreedy:
    def __init__(self, config, n):
        self.config, self.n = config, n
        num_slots = 1
        while num_slots < 256 * n:
            num_slots *= 2
        self.buckets = [[None] * 8 for _ in range(num_slots // 8)]
        self.free_rows, self.swept = 128 * n, None
        self.window = deque()
        self.loads = [Fraction(0)] * n
        self.pane = self.interval = None
        self.threshold, self.interval_load = math.inf, 0

    def enter(self, timestamp_ms):
        pane = timestamp_ms // self.config.slide_ms
        self.pane = pane if self.pane is None else max(self.pane, pane)
        self.oldest = self.pane - self.config.window_ms // self.config.slide_ms + 1
        while self.window and self.window[0][0] < self.oldest:
            _, partition, load = self.window.popleft()
            self.loads[partition] -= load
        interval = timestamp_ms // (self.config.interval_ms or self.config.slide_ms)
        if self.interval is None or interval > self.interval:
            self.interval = interval
            if self.interval_load:
                self.threshold = self.interval_load * self.config.hot_fraction / self.n
            self.interval_load = 0

    def key_of(self, key_hash):
        bucket = self.buckets[(((key_hash * GOLDEN) & MASK) >> 32) % len(self.buckets)]
        for key in bucket:
            if key and key.key_hash == key_hash:
                return key
        for place, key in enumerate(bucket):
            if key is None or (key.interval < self.interval and not key.is_hot(self.interval)):
                self.free_rows += key is not None and key.has_row
                bucket[place] = Key(key_hash, self.interval)
                return bucket[place]
        return None

    def sweep(self):
        if self.swept == self.interval:
            return
        self.swept = self.interval
        for bucket in self.buckets:
            for key in bucket:
                if key and key.has_row and not key.is_hot(self.interval):
                    key.has_row = False
                    self.free_rows += 1

    def hot_key(self, key_hash, home, weight):
        self.interval_load += weight
        key = self.key_of(key_hash)
        if key is None:
            return None
        if key.interval != self.interval:
            key.interval, key.count = self.interval, 0
        key.count += weight
        if key.count > self.threshold:
            if not key.is_hot(self.interval):
                if not key.has_row:
                    if not self.free_rows:
                        self.sweep()
                    if not self.free_rows:
                        return None
                    self.free_rows -= 1
                    key.has_row = True
                key.last_pane = {home: self.pane}
            key.hot_until = self.interval + 1
        return key if key.is_hot(self.interval) else None

    def score(self, key, partition, average):
        """The published score, in fractions."""
        weight = Fraction(self.config.balance_weight)
        on_it = key.last_pane.get(partition, -math.inf) >= self.oldest
        off = (self.loads[partition] - average) / average if average else 0
        return (1 - weight) * on_it - weight * off

    def partition(self, key_hash, timestamp_ms, weight):
        self.enter(timestamp_ms)
        best = candidates(key_hash, 1, self.n, self.config.seed, True)[0]
        key = self.hot_key(key_hash, best, weight)
        if key:
            average = sum(self.loads) / self.n
            scores = [self.score(key, partition, average) for partition in range(self.n)]
            best = scores.index(max(scores))
            key.last_pane[best] = self.pane
        self.loads[best] += Fraction(weight)
        self.window.append((self.pane, best, Fraction(weight)))
        return best


def dagreedy(config, n, key_hashes, times, weights):
    twin = DAGreedy(config, n)
    weights = weights or [1.0] * len(times)
    return [twin.partition(*record) for record in zip(key_hashes, times, weights, strict=True)]
