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
