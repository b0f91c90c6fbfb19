"""Scenarios between hosts: tools/netlab and tools/slurmlab, on one machine."""

import os
import signal
import subprocess
import time

import faults
from job import HANG, ROOT, Skipped, check, same_bits, wait_for
from processes import marked, rank_of, send

CANNOT_RUN_HERE = 4
HOSTS = 3
TIMEOUT = 6


class Lab:
    """One of the two, up while a scenario runs."""
    subnet = "10.231.77.0/24"  # netlab's, unless told

    def __init__(self, tool, *options):
        self.tool, self.name, self.options = str(ROOT / "tools" / tool), f"soak-{os.getpid()}", options

    def __enter__(self):
        made = subprocess.run([self.tool, "up", "--name", self.name, *self.options], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=HANG)
        if made.returncode == CANNOT_RUN_HERE:
            raise Skipped(made.stderr.strip())
        check(made.returncode == 0, f"{self.tool} up: {made.stderr}")
        return self

    def __exit__(self, *_):
        subprocess.run([self.tool, "down", "--name", self.name], stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=HANG)

    def job(self, scenario, *run, **how):
        """A run that the lab starts, not the program, and the run that its bits are known from."""
        return scenario.bits_job(HOSTS, "--timeout", TIMEOUT, least=HOSTS, engine=(), **how,
                                 command=(self.tool, "run", "--name", self.name, "-n", HOSTS, *run, "--"))


class Link:
    """That of one host of a netlab."""

    def __init__(self, lab, host):
        self.head, self.port = f"{lab.name}-head", f"port{host + 1}"

    def set(self, state):
        done = subprocess.run(["ip", "-n", self.head, "link", "set", self.port, state], capture_output=True, text=True)
        check(done.returncode == 0, done.stderr)


def ranks_are_gone(job):
    return not any(map(is_rank, marked(job.mark())))


def netlab():
    return Lab("netlab", "--hosts", str(HOSTS), "--rate", "10mbit", "--no-check")


def link(scenario):
    """The link of a host is down for a while, or until all ranks have given up."""
    chance = scenario.chance
    with netlab() as lab:
        # The network is slow by itself.
        job, reference = lab.job(scenario, "--grace", 1, net=("--log-every", 2))
        job.start()
        faults.at_random(job, chance, starts=False, soon=1)
        rank = chance.randrange(HOSTS)
        seconds = chance.choice((chance.uniform(0.1, 2), HANG))
        scenario.say(f"link of rank {rank} down for {'good' if seconds == HANG else f'{seconds:.1f} s'}")
        start = time.monotonic()
        Link(lab, rank).set("down")
        if seconds < HANG:
            faults.sleep(job, seconds)
        else:
            wait_for(lambda: job.ended() or ranks_are_gone(job), "ranks without a network")
        taken = time.monotonic() - start
        # Without it mpirun itself, which is not ours here, waits for the daemon on that host.
        Link(lab, rank).set("up")
        status, _ = job.wait()
        if seconds < HANG:
            check(status == 0, f"a short break must not matter: {job.errors()}")
        elif status != 0:
            check(f"rank {rank} " in job.errors(), f"rank {rank} must be named: {job.errors()}")
            scenario.measured("link down, ranks ended", taken)
        job.all_gone()
        if status != 0:
            job.finish()
        same_bits(job, reference)


def hosts(scenario):
    """The program itself starts ranks on other hosts, which are left alone, told to stop, or lose one of them."""
    chance = scenario.chance
    with netlab() as lab:
        names = scenario.folder / "hosts"
        names.write_text("".join(f"{lab.name}-h{i + 1} slots=1\n" for i in range(HOSTS)))
        state = f"/run/sluice-netlab/{lab.name}"
        env = {"OMPI_MCA_plm_rsh_agent": f"{state}/agent", "OMPI_MCA_plm_rsh_no_tree_spawn": "1", "OMPI_MCA_pml": "ob1",
               "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": lab.subnet,
               "OMPI_MCA_oob_tcp_if_include": lab.subnet}
        job, reference = scenario.bits_job(HOSTS, "--timeout", TIMEOUT, "--hostfile", names, least=HOSTS, env=env,
                                           net=("--log-every", 2), command=(f"{state}/enter", f"{lab.name}-head"))
        how = chance.choice(("alone", "alone", "stop", "stop", "cut"))
        if how == "stop":
            job.start()
            faults.at_random(job, chance, starts=False)
            number = chance.choice((signal.SIGTERM, signal.SIGINT))
            scenario.say(f"{number.name} to the launcher")
            send(job.run.pid, number)
            status, seconds = job.wait()
            check(status == 0, f"a stop is no failure, status {status}: {job.errors()}")
            scenario.measured("stop of ranks on other hosts", seconds)
            job.all_gone()
        if how == "cut":
            job.start()
            faults.at_random(job, chance, starts=False)
            rank = chance.randrange(HOSTS)
            scenario.say(f"host of rank {rank} is cut off")
            Link(lab, rank).set("down")
            status, seconds = job.wait()
            check(status != 0, "ranks without one of them must fail")
            scenario.measured("host cut off, launcher ended", seconds)
            Link(lab, rank).set("up")
            job.all_gone()
        job.finish()
        job.all_gone()
        same_bits(job, reference)


def slurm(scenario):
    """A job of srun is told to stop, cancelled, or loses a rank."""
    chance = scenario.chance
    with Lab("slurmlab") as lab:
        job, reference = lab.job(scenario)
        job.start()
        faults.at_random(job, chance, starts=False)
        how = chance.choice(("--signal=TERM", "", "kill"))
        scenario.say(f"scancel {how}" if how != "kill" else "kill of a rank")
        start = time.monotonic()
        if how == "kill":
            ranks = [pid for pid in marked(job.mark()) if is_rank(pid)]
            if ranks and send(chance.choice(sorted(ranks)), signal.SIGKILL):
                scenario.kills += 1
        else:
            env = {**os.environ, "SLURM_CONF": f"/run/sluice-slurmlab/{lab.name}/slurm.conf"}
            subprocess.run(["scancel", *filter(None, [how]), "--partition=lab"], env=env, timeout=60)
        status, _ = job.wait()
        scenario.measured({"--signal=TERM": "scancel --signal=TERM", "": "scancel"}.get(how, "rank of srun killed"),
                          time.monotonic() - start)
        if how == "--signal=TERM":
            check(status == 0, f"a stop is no failure, status {status}: {job.errors()}")
        job.all_gone()
        job.finish()
        same_bits(job, reference)


def is_rank(pid):
    try:
        return rank_of(pid) is not None
    except (FileNotFoundError, ProcessLookupError):
        return False
