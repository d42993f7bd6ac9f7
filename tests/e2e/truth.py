"""truth.py - what the simulated server really did (sim/server/truth.h)"""
import bisect


class Step:
    def __init__(self, w):
        self.start, self.end = int(w[2]), int(w[3])
        self.phase = 0 if w[4] == "decode" else 1
        self.tokens, self.padded, self.graph = map(int, w[5:8])
        self.layers, self.classes = {}, {}


class Layer:
    def __init__(self, w):
        (self.rows, self.active, self.single, self.block_ns, self.expert_ns,
         self.before_ns, self.read_bytes) = map(int, w[3:10])


class Truth:
    def __init__(self, path):
        steps = {}
        with open(path) as f:
            for line in f:
                if not line.endswith("\n"):
                    break  # it is being written
                w = line.rstrip("\n").split("\t")
                if w[0] == "S" and len(w) >= 8:
                    steps[w[1]] = Step(w)
                elif w[0] == "L" and len(w) >= 10 and w[1] in steps:
                    steps[w[1]].layers[int(w[2])] = Layer(w)
                elif w[0] == "C" and len(w) >= 6 and w[1] in steps:
                    steps[w[1]].classes[w[2]] = tuple(map(int, w[3:6]))
        self.steps = sorted(steps.values(), key=lambda s: s.start)
        self.starts = [s.start for s in self.steps]

    def near(self, start_ns, within_ns):
        """The step that starts at start_ns, give or take."""
        i = bisect.bisect_left(self.starts, start_ns)
        best = min((s for s in self.steps[max(0, i - 1):i + 1]),
                   key=lambda s: abs(s.start - start_ns), default=None)
        if best is None or abs(best.start - start_ns) > within_ns:
            return None
        return best

    def inside(self, start_ns, end_ns, phase):
        """Steps between two times."""
        return [s for s in self.steps
                if s.start >= start_ns and s.end <= end_ns
                and s.phase == phase]

    def crossing(self, start_ns, end_ns, phase=0):
        """Steps of which any part lies between two times."""
        return [s for s in self.steps if s.end >= start_ns
                and s.start <= end_ns and s.phase == phase]


class Flight:
    """The server's own count of requests: all, and those that have got a part
    of their answer."""

    def __init__(self, path):
        self.times, self.all, self.streaming = [0], [0], [0]
        with open(path) as f:
            for line in f:
                w = line.rstrip("\n").split("\t")
                if w[0] == "F" and len(w) >= 4:
                    self.times.append(int(w[1]))
                    self.all.append(int(w[2]))
                    self.streaming.append(int(w[2]) - int(w[3]))

    def between(self, counts, start_ns, end_ns):
        """The values that one of them had in a span of time."""
        first = bisect.bisect_right(self.times, start_ns) - 1
        last = bisect.bisect_right(self.times, end_ns)
        return counts[first:last]
