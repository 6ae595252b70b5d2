"""The machine: what it is, for who reads the results later, and whether others were using it."""

import glob
import os
import platform
import subprocess


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def _chosen(text):
    """What a kernel setting says in brackets: "madvise" of "always [madvise] never"."""
    return text.split("[")[1].split("]")[0] if "[" in text else text


def _field(text, name):
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _count(list_text):
    """How many processors a list such as "0-3,8" names."""
    count = 0
    for part in filter(None, list_text.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _caches():
    caches = []
    for folder in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        kind = {"Data": "d", "Instruction": "i"}.get(_read(f"{folder}/type"), "")
        shared = _count(_read(f"{folder}/shared_cpu_list"))
        size = _read(f"{folder}/size").replace("K", " K").replace("M", " M")
        caches.append(f"L{_read(f'{folder}/level')}{kind} {size}iB"
                      + (f" for {shared} processors" if shared > 1 else ""))
    return caches


def _cores():
    cores = set()
    for folder in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/topology"):
        cores.add((_read(f"{folder}/physical_package_id"), _read(f"{folder}/core_id")))
    return len(cores)


def describe():
    """What bears on the results; nothing that says where or whose the machine is."""
    processor = _read("/proc/cpuinfo")
    memory = _read("/proc/meminfo")
    pages = "/sys/kernel/mm/transparent_hugepage"
    return {
        "processor": _field(processor, "model name") or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "cores": _cores(),
        "caches": _caches(),
        "memory_gib": round(int(_field(memory, "MemTotal").split()[0]) / (1 << 20), 1),
        "virtual": "hypervisor" in _field(processor, "flags").split(),
        "kernel": f"{platform.system()} {platform.release()}",
        "huge_pages": {
            "transparent": _chosen(_read(f"{pages}/enabled")),
            "transparent_defrag": _chosen(_read(f"{pages}/defrag")),
            "transparent_shared_memory": _chosen(_read(f"{pages}/shmem_enabled")),
            "reserved": int(_field(memory, "HugePages_Total") or 0),
            "reserved_size": _field(memory, "Hugepagesize"),
        },
        "frequency_governor":
            _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not told",
    }


def _first_line(command):
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line.strip() for line in output.stdout.splitlines() if line.strip()]
    # MPICH's launcher puts a heading before it.
    versions = [line for line in lines if line.startswith("Version:")]
    return (versions or lines or [""])[0].removeprefix("Version:").strip()


def versions(places):
    """Of what can tell: {library: version}."""
    found = {"harmonaize": _first_line([places.path("harmonaize"), "--version"]),
             "openmpi": _first_line(["mpirun.openmpi", "--version"]),
             "mpich": _first_line(["mpiexec.mpich", "--version"]),
             "ucc": _first_line([places.path("compare_ucc"), "--version"]),
             "gloo": _first_line([places.path("compare_gloo"), "--version"])}
    found = {name: version.rpartition(" ")[2] for name, version in found.items()}
    commit = _first_line(["git", "-C", places.programs, "describe", "--always", "--dirty",
                          "--exclude", "*"])
    if commit and found["harmonaize"]:
        found["harmonaize"] += f", commit {commit}"
    return {name: version for name, version in found.items() if version}


def _all_processes():
    """{process: (parent, ticks used, those of its ended children included)}"""
    processes = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        text = _read(path)
        if not text:
            continue  # it has ended
        # The program's name stands in parentheses and may hold anything.
        fields = text.rpartition(")")[2].split()
        ticks = sum(int(field) for field in fields[11:15])
        processes[int(text.split(" ", 1)[0])] = (int(fields[1]), ticks)
    return processes


def family(root, processes):
    """`root` and all that it started, and what those started: process numbers."""
    children = {}
    for process, (parent, _) in processes.items():
        children.setdefault(parent, []).append(process)
    members, left = [], [root]
    while left:
        members.append(left.pop())
        left += children.get(members[-1], [])
    return members


def children(root):
    """What `root` started, or adopted, and that is still there: process numbers."""
    return [process for process, (parent, _) in _all_processes().items() if parent == root]


def descendants(root):
    """All that `root` started and that is still there: process numbers."""
    return family(root, _all_processes())[1:]


class Load:
    """Who uses the processors while something is measured. Our own are this process and all that it
    started: launchers put their ranks into sessions of their own."""

    def __init__(self):
        self._before = self._ticks()

    def _ticks(self):
        fields = [int(field) for field in _read("/proc/stat").splitlines()[0].split()[1:]]
        user, nice, system, idle, iowait, irq, softirq, steal = fields[:8]
        # Interrupts are left out: the kernel does not say for whom they came.
        busy = user + nice + system
        total = busy + idle + iowait + irq + softirq + steal
        processes = _all_processes()
        own = sum(processes[process][1] for process in family(os.getpid(), processes)
                  if process in processes)
        return {"busy": busy, "steal": steal, "total": total, "own": own}

    def since_last(self):
        """{"others": share, "steal": share} of all processors since the last call; a share is
        between 0 and 1. `others` counts processes that are not ours, `steal` the hypervisor."""
        before, self._before = self._before, self._ticks()
        change = {name: self._before[name] - before[name] for name in before}
        return shares(change)


def shares(change):
    """The shares that a change of ticks means."""
    total = max(1, change["total"])
    others = change["busy"] - change["own"]
    return {"others": max(0.0, min(1.0, others / total)), "steal": change["steal"] / total}
