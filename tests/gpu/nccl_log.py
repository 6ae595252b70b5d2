"""Reads from NCCL's log which plugins a process uses, and what NCCL chooses. The lines are those of NCCL 2.26 to
2.30, with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,NET,TUNING,BOOTSTRAP."""

import re

# What each line begins with up to its message: host, process and thread, device.
MESSAGE = re.compile(r"NCCL INFO (.*)$", re.MULTILINE)

# The line by which NCCL says that it uses a plugin of a kind, with the plugin's name.
USED = {
    "net": re.compile(r"(?:Initialized NET plugin|Using network) (\S+)$"),
    "tuner": re.compile(r"TUNER/Plugin: Using (?:tuner plugin )?(\S+?)(?: \(v\d+\))?$"),
    "profiler": re.compile(r"PROFILER/Plugin: [Ll]oaded (\S+?)(?: \(v\d+\))?$"),
    "env": re.compile(r"ENV/Plugin: Using (\S+?)(?: \(v\d+\))?$"),
}
# The version of the interface, where the line has one.
LOADED_NET = re.compile(r"NET/Plugin: Loaded net plugin \S+ \((v\d+)\)$")
VERSION = re.compile(r"\((v\d+)\)$")
CHANNEL = re.compile(r"Channel \d+/\d+ : \d+\[\w+\] -> \d+\[\w+\] \[(?:send|receive)\] via (\w+)/(\w+)")
CHOICE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}$")
BOOTSTRAP = re.compile(r"Bootstrap: Using ([^\s:]+):")
RELEASE = re.compile(r"NCCL version (\S+)")


def messages(text):
    """The informative messages, without what stands before them."""
    return [match.group(1).rstrip() for match in MESSAGE.finditer(text)]


def used(text, kind):
    """The names of the plugins of this kind that NCCL says it uses, each once, the first one first."""
    found = (USED[kind].search(message) for message in messages(text))
    return list(dict.fromkeys(match.group(1) for match in found if match))


def interface(text, kind):
    """The version of the interface of this kind's plugin: "v5"; "" where NCCL does not say it."""
    pattern, needed = (LOADED_NET, True) if kind == "net" else (VERSION, False)
    for message in messages(text):
        match = pattern.search(message)
        if match and (needed or USED[kind].search(message)):
            return match.group(1)
    return ""


def channels(text):
    """How many ends of channels go by each transport and network: {"NET/Harmonaize": 4}."""
    counts = {}
    for message in messages(text):
        match = CHANNEL.match(message)
        if match:
            way = "/".join(match.groups())
            counts[way] = counts.get(way, 0) + 1
    return counts


def choices(text):
    """What NCCL has chosen, by function and bytes: {("AllReduce", 1024): ("RING", "LL", 1)}, with the number of
    channels. Rank 0 alone tells of it."""
    chosen = {}
    for message in messages(text):
        match = CHOICE.match(message)
        if match:
            function, size, algorithm, protocol, first, last = match.groups()
            chosen[function, int(size)] = (algorithm, protocol, int(last) - int(first) + 1)
    return chosen


def bootstrap_interface(text):
    """The network interface on which the processes meet; "" where the log does not say it."""
    for message in messages(text):
        match = BOOTSTRAP.match(message)
        if match:
            return match.group(1)
    return ""


def release(text):
    """NCCL's version: "2.28.9+cuda13.0"; "" where the log does not say it."""
    match = RELEASE.search(text)
    return match.group(1) if match else ""
