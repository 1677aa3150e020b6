"""The process that runs SimGrid: a job as JSON on stdin, the times of its nodes as JSON on stdout.

SimGrid's Debian package belongs to Debian's own Python, so this file imports nothing of hespas, and
runs on Python 3.9. One actor starts all messages, as soon as what they wait for has ended.

Devices obey the rules of the embedded simulator: one compute node, one collective or SEND, one node
of the CPU and one collective between slices at a time, lowest node first, and any number of RECVs.
"""

import heapq
import json
import sys

import simgrid

NS = 1e-9


class Loop:
    """Events at times, and messages of SimGrid, until none is left."""

    def __init__(self, routes):
        self.routes = routes
        self.timers = []
        self.count = 0
        self.comms, self.calls = [], []

    @property
    def now(self):
        return simgrid.Engine.clock

    def call_after(self, delay_s, call, *arguments):
        self.count += 1
        heapq.heappush(self.timers, (self.now + delay_s, self.count, call, arguments))

    def send(self, way, size, delay_s, leave, arrive, argument):
        """Send a message in ``delay_s``; tell when it has left its links, and when it arrives.

        If the links of SimGrid have no latency, that of the way follows what passes the links, so
        that the next message of a sender can pass them meanwhile.
        """
        hosts, latency_s = self.routes[way]
        self.call_after(delay_s, self._start, hosts, size, (latency_s, leave, arrive, argument))

    def _start(self, hosts, size, ends):
        comm = simgrid.Comm.sendto_init(*hosts)
        comm.set_payload_size(max(1, round(size)))
        comm.start()
        self.comms.append(comm)
        self.calls.append(ends)

    def run(self):
        while self.timers or self.comms:
            while self.timers and self.timers[0][0] <= self.now + 1e-15:
                _, _, call, arguments = heapq.heappop(self.timers)
                call(*arguments)
            if self.comms:
                timeout = self.timers[0][0] - self.now if self.timers else -1
                self._finish(simgrid.Comm.wait_any_for(self.comms, timeout))
                while self.comms and self._finish(simgrid.Comm.test_any(self.comms)):
                    pass
            elif self.timers:
                simgrid.this_actor.sleep_until(self.timers[0][0])

    def _finish(self, number):
        if number < 0:
            return False
        self.comms.pop(number)
        latency_s, leave, arrive, argument = self.calls.pop(number)
        leave(argument)
        self.call_after(latency_s, arrive, argument)
        return True


class Collective:
    """A collective on a communicator; a device starts its messages when it has joined."""

    def __init__(self, loop, template, devices):
        self.loop, self.template, self.devices = loop, template, devices
        self.positions = {device: at for at, device in enumerate(devices)}
        self.waits = list(template["deps"])
        self.left = list(template["left"])  # messages that a position sends or receives
        self.joined = {}
        self.held = [[] for _ in devices]

    def join(self, device, finish):
        at = self.positions[device]
        self.joined[at] = finish
        for message in self.template["first"][at]:
            self.start(message)
        for message in self.held[at]:
            self.start(message)
        if not self.left[at]:
            self.end(at)

    def start(self, message):
        t = self.template
        source, target = t["source"][message], t["target"][message]
        if source not in self.joined:
            self.held[source].append(message)
            return
        way = self.devices[source], self.devices[target], t["variant"][message]
        size, delay_s = t["bytes"][message], t["delay"][message] * NS
        self.loop.send(way, size, delay_s, self.leave, self.arrive, message)

    def leave(self, message):
        self.release(message, self.template["source"][message])

    def arrive(self, message):
        self.release(message, self.template["target"][message])

    def release(self, message, at):
        """Go on at one end of a message: with the messages that this end sends after it."""
        t = self.template
        for child in t["children"][message]:
            if t["source"][child] == at:
                self.waits[child] -= 1
                if not self.waits[child]:
                    self.start(child)
        self.left[at] -= 1
        if not self.left[at] and at in self.joined:
            self.end(at)

    def end(self, at):
        self.loop.call_after(self.template["end_delay"][at] * NS, self.joined[at])


class Mailboxes:
    """Matches the n-th SEND of a key with the n-th RECV."""

    def __init__(self):
        self.arrived, self.waiting = {}, {}

    def arrive(self, key):
        waiting = self.waiting.get(key)
        if waiting:
            waiting.pop(0)()
        else:
            self.arrived[key] = self.arrived.get(key, 0) + 1

    def receive(self, key, call):
        if self.arrived.get(key):
            self.arrived[key] -= 1
            call()
        else:
            self.waiting.setdefault(key, []).append(call)


class Device:
    """Runs the nodes of one device."""

    def __init__(self, job, number):
        self.job, self.number = job, number
        data = job.data["devices"][number]
        self.nodes = data["nodes"]
        self.waits = [node["waits"] for node in self.nodes]
        self.ready = {}
        self.busy = set()
        self.starts, self.ends = [-1] * len(self.nodes), [-1] * len(self.nodes)
        self.order, self.counts = [], {}
        self.is_issuing = False
        for at, count in enumerate(self.waits):
            if not count:
                self.enqueue(at)

    def enqueue(self, at):
        heapq.heappush(self.ready.setdefault(self.nodes[at]["resource"], []), at)

    def issue(self):
        """Issue the ready nodes whose resources are free, lowest first."""
        if self.is_issuing:
            return
        self.is_issuing = True
        again = True
        while again:
            chosen = []
            for resource, ready in self.ready.items():
                while ready and (resource == "recv" or resource not in self.busy):
                    chosen.append(heapq.heappop(ready))
                    if resource != "recv":
                        self.busy.add(resource)
            for at in sorted(chosen):
                self.start(at)
            again = bool(chosen)
        self.is_issuing = False

    def start(self, at):
        node, loop = self.nodes[at], self.job.loop
        self.starts[at] = loop.now
        self.order.append(at)
        kind = node["kind"]
        if "ns" in node:  # compute, and a broadcast without a size
            loop.call_after(node["ns"] * NS, self.finish, at)
        elif kind == "send":
            way = self.number, node["peer"], 0
            loop.send(way, node["size"], 0.0, lambda _: None, self.deliver, at)
        elif kind == "recv":
            key = (node["tag"], node["peer"], self.number, node["size"])
            self.job.mailboxes.receive(key, lambda: self.finish(at))
        else:
            group = node["group"]
            count = self.counts[group] = self.counts.get(group, 0) + 1
            self.job.find_collective(node, count).join(self.number, lambda: self.finish(at))

    def deliver(self, at):
        node = self.nodes[at]
        self.finish(at)
        self.job.mailboxes.arrive((node["tag"], self.number, node["peer"], node["size"]))

    def finish(self, at):
        node = self.nodes[at]
        self.ends[at] = self.job.loop.now
        self.busy.discard(node["resource"])
        for child in node["children"]:
            self.waits[child] -= 1
            if not self.waits[child]:
                self.enqueue(child)
        self.job.loop.call_after(0.0, self.issue)  # after all that ends at this time


class Job:
    """All devices on one network."""

    def __init__(self, data):
        self.data = data
        self.mailboxes = Mailboxes()
        self.collectives = {}
        self.loop = Loop(self.build_network())
        self.devices = [Device(self, number) for number in range(len(data["devices"]))]

    def build_network(self):
        zone = simgrid.NetZone.create_full_zone("network")
        links = []
        for number, (rate, latency_s) in enumerate(self.data["links"]):
            links.append(zone.create_link(f"link{number}", rate).set_latency(latency_s).seal())
        hosts, routes = {}, {}
        for source, target, variant, way, latency_ns in self.data["routes"]:
            ends = []
            for device in (source, target):
                name = f"{device}.{variant}"
                if name not in hosts:
                    hosts[name] = zone.create_host(name, 1e9).seal()
                ends.append(hosts[name])
            crossed = [simgrid.LinkInRoute(links[link]) for link in way]
            zone.add_route(ends[0].netpoint, ends[1].netpoint, None, None, crossed, False)
            routes[source, target, variant] = (ends, latency_ns * NS)
        self.first = next(iter(hosts.values()), None) or zone.create_host("0.0", 1e9).seal()
        zone.seal()
        return routes

    def find_collective(self, node, count):
        key = (node["group"], count)
        if key not in self.collectives:
            template = self.data["templates"][node["template"]]
            devices = self.data["groups"][node["members"]]
            self.collectives[key] = Collective(self.loop, template, devices)
        return self.collectives[key]

    def run(self):
        for device in self.devices:
            device.issue()
        self.loop.run()


def main():
    data = json.load(sys.stdin)
    engine = simgrid.Engine(["hespas", *(f"--cfg={item}" for item in data["config"])])
    job = Job(data)
    simgrid.Actor.create("hespas", job.first, job.run)
    engine.run()
    times = [[device.starts, device.ends, device.order] for device in job.devices]
    json.dump({"version": str(simgrid.simgrid_version), "devices": times}, sys.stdout)


if __name__ == "__main__":
    main()
