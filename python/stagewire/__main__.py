"""python -m stagewire doctor | bench"""

import argparse
import json
import sys

import stagewire


def doctor(arguments):
    """Prints what this machine can do; the exit status is 1 when pipelines on it cannot run."""
    report = stagewire.machine_report()
    if arguments.format == "json":
        print(json.dumps({"version": stagewire.__version__, **report}, indent=2))
        return 0 if report["one_host"] else 1
    print(f"stagewire {stagewire.__version__}, Python {sys.version.split()[0]}")
    topic = None
    for finding in report["findings"]:
        if finding["topic"] != topic:
            topic = finding["topic"]
            print(f"\n{topic}")
        print(f"  {finding['state']:<8} {finding['name']:<20} {finding['value']}")
        for line in (finding["advice"], finding["command"] and f"$ {finding['command']}"):
            if line:
                print(f"{'':<31} {line}")
    print(f"\npipelines whose stages are all on this host {'can' if report['one_host'] else 'cannot'} run")
    return 0 if report["one_host"] else 1


def bench(arguments):
    from stagewire import bench as program
    return program.main(arguments)


def main():
    parser = argparse.ArgumentParser(prog="python -m stagewire", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="doctor | bench")
    command = commands.add_parser("doctor", help="what this machine can do")
    command.add_argument("--format", choices=("text", "json"), default="text")
    command.set_defaults(run=doctor)
    command = commands.add_parser("bench", help="put and get, beside msgspec over shared memory")
    command.add_argument("--sizes", default="4K,64K,1M,16M,256M",
                         help="payloads, K and M of 1024 (default: %(default)s)")
    command.add_argument("--rounds", type=int, default=0, help="of each size; 0 = by its size (default)")
    command.add_argument("--json", metavar="FILE", help="write the figures there, too; - is the output")
    command.set_defaults(run=bench)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
