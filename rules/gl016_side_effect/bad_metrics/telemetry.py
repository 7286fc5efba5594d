class Telemetry:
    """Latest value and number of updates of each metric."""

    def __init__(self):
        self.latest = {}
        self.updates = {}

    def track(self, name, value):
        self.latest[name] = value
        self.updates[name] = self.updates.get(name, 0) + 1  # expect: side-effect

    def summary(self):
        return {name: (float(value), self.updates[name]) for name, value in self.latest.items()}
