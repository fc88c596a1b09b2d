"""``tidemark topics | configs | elect | reassign | dump-log | failpoints``: a cluster administered by hand.

The first four work on any cluster that speaks Kafka's protocol: ``--bootstrap HOST:PORT``, or the cluster of ``--dir``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands.cluster import DEFAULT_FOLDER, ENVIRONMENT, folder_of
from harness.exits import UsageError

if TYPE_CHECKING:
    from harness.cluster.admin import Admin


def add(commands: Any) -> None:
    _add_topics(commands)
    _add_configs(commands)
    elect = commands.add_parser("elect", help="elect leaders: the preferred replicas, or any (unclean)")
    _where(elect, _elect)
    elect.add_argument("--type", choices=("preferred", "unclean"), default="preferred", help="default: preferred")
    elect.add_argument("partitions", nargs="*", metavar="TOPIC-PARTITION", help="default: every partition")
    reassign = commands.add_parser("reassign", help="move replicas to other brokers, or list what is under way")
    _where(reassign, _reassign)
    what = reassign.add_mutually_exclusive_group(required=True)
    what.add_argument("--execute", metavar="FILE", type=Path, help="a reassignment in Kafka's JSON")
    what.add_argument("--cancel", metavar="FILE", type=Path, help="cancel what this reassignment began")
    what.add_argument("--list", action="store_true", help="what is under way")
    dump = commands.add_parser("dump-log", help="print segments and indexes as Kafka's DumpLogSegments does")
    dump.add_argument("files", nargs="+", metavar="FILE", help=".log, .index, .timeindex, leader-epoch-checkpoint")
    dump.add_argument("--print-data-log", action="store_true", help="records with their keys and values")
    dump.add_argument("--deep-iteration", action="store_true", help="records without what they hold")
    dump.set_defaults(execute=_dump)
    points = commands.add_parser("failpoints", help="list the named points at which a shipped broker can be disturbed")
    points.set_defaults(execute=_failpoints)


def _add_topics(commands: Any) -> None:
    topics = commands.add_parser("topics", help="create, list, describe, alter, delete topics")
    verbs = topics.add_subparsers(title="what to do", metavar="VERB", required=True)
    create = verbs.add_parser("create", help="make a topic")
    _where(create, _create_topic)
    create.add_argument("name", metavar="TOPIC")
    create.add_argument("--partitions", type=int, default=-1, metavar="N", help="default: the cluster's")
    create.add_argument("--replication-factor", type=int, default=-1, metavar="N", help="default: the cluster's")
    create.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="again for more")
    listing = verbs.add_parser("list", help="names of all topics")
    _where(listing, _list_topics)
    describe = verbs.add_parser("describe", help="leaders, replicas and ISRs")
    _where(describe, _describe_topics)
    describe.add_argument("names", nargs="*", metavar="TOPIC", help="default: all")
    alter = verbs.add_parser("alter", help="add partitions")
    _where(alter, _alter_topic)
    alter.add_argument("name", metavar="TOPIC")
    alter.add_argument("--partitions", type=int, required=True, metavar="N", help="how many there are to be")
    delete = verbs.add_parser("delete", help="delete a topic")
    _where(delete, _delete_topic)
    delete.add_argument("name", metavar="TOPIC")


def _add_configs(commands: Any) -> None:
    configs = commands.add_parser("configs", help="describe and change settings of topics and brokers")
    verbs = configs.add_subparsers(title="what to do", metavar="VERB", required=True)
    for name, text, execute in (
        ("describe", "what was set for this resource itself", _describe_configs),
        ("alter", "set or remove overrides", _alter_configs),
    ):
        verb = verbs.add_parser(name, help=text)
        _where(verb, execute)
        kind = verb.add_mutually_exclusive_group(required=True)
        kind.add_argument("--topic", metavar="TOPIC")
        kind.add_argument("--broker", metavar="ID", help="a broker's id; empty: all brokers")
        if name == "alter":
            verb.add_argument("--add", action="append", default=[], metavar="NAME=VALUE", help="again for more")
            verb.add_argument("--delete", action="append", default=[], metavar="NAME", help="again for more")


def _where(parser: argparse.ArgumentParser, execute: Any) -> None:
    parser.add_argument("--bootstrap", metavar="HOST:PORT,…", help="servers of the cluster")
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help=f"a cluster of 'tidemark cluster'; default: ${ENVIRONMENT}, else ./{DEFAULT_FOLDER}",
    )
    parser.set_defaults(execute=execute)


def _admin(options: argparse.Namespace) -> Admin:
    from harness.cluster.admin import Admin
    from harness.cluster.local import open_cluster

    return Admin(options.bootstrap or open_cluster(folder_of(options)).target.bootstrap)


def _pairs(flag: str, texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{flag} {text}: expected NAME=VALUE")
        found[name] = value
    return found


def _create_topic(options: argparse.Namespace) -> int:
    _admin(options).create_topic(
        options.name, options.partitions, options.replication_factor, _pairs("--config", options.config)
    )
    print(f"Created topic {options.name}.")
    return 0


def _list_topics(options: argparse.Namespace) -> int:
    for name in _admin(options).topics():
        print(name)
    return 0


def _describe_topics(options: argparse.Namespace) -> int:
    for line in _admin(options).describe_topics(options.names):
        print(line)
    return 0


def _alter_topic(options: argparse.Namespace) -> int:
    _admin(options).add_partitions(options.name, options.partitions)
    print(f"Topic {options.name} has {options.partitions} partitions now.")
    return 0


def _delete_topic(options: argparse.Namespace) -> int:
    _admin(options).delete_topic(options.name)
    print(f"Topic {options.name} is marked for deletion.")
    return 0


def _resource(options: argparse.Namespace) -> tuple[int, str]:
    from harness.cluster.admin import BROKER, TOPIC

    if options.topic is not None:
        return TOPIC, options.topic
    if options.broker and not options.broker.isdigit():
        raise UsageError(f"--broker {options.broker}: expected a broker's id, or '' for all brokers")
    return BROKER, options.broker


def _describe_configs(options: argparse.Namespace) -> int:
    kind, name = _resource(options)
    for setting, value in _admin(options).describe_configs(kind, name):
        print(f"{setting}={value}")
    return 0


def _alter_configs(options: argparse.Namespace) -> int:
    changes: dict[str, str | None] = {**_pairs("--add", options.add), **dict.fromkeys(options.delete)}
    if not changes:
        raise UsageError("nothing to change: give --add NAME=VALUE or --delete NAME")
    kind, name = _resource(options)
    _admin(options).alter_configs(kind, name, changes)
    whose = f"topic {name}" if options.topic is not None else f"broker {name}" if name else "all brokers"
    print(f"Completed updating config for {whose}.")
    return 0


def _elect(options: argparse.Namespace) -> int:
    wanted: dict[str, tuple[int, ...]] | None = None
    if options.partitions:
        wanted = {}
        for text in options.partitions:
            topic, dash, number = text.rpartition("-")
            if not dash or not number.isdigit():
                raise UsageError(f"expected TOPIC-PARTITION such as orders-0, got {text!r}")
            wanted[topic] = (*wanted.get(topic, ()), int(number))
    for line in _admin(options).elect(options.type, wanted):
        print(line)
    return 0


def _reassign(options: argparse.Namespace) -> int:
    from harness.cluster.admin import read_reassignment

    if options.list:
        for line in _admin(options).reassignments():
            print(line)
        return 0
    wanted = read_reassignment(options.execute or options.cancel)
    if options.cancel:
        wanted = {topic: dict.fromkeys(partitions) for topic, partitions in wanted.items()}
    _admin(options).reassign(wanted)
    count = sum(map(len, wanted.values()))
    print(f"Successfully {'cancelled' if options.cancel else 'started'} {count} partition reassignments.")
    return 0


def _dump(options: argparse.Namespace) -> int:
    from system_under_test.realworld.files import RealFiles
    from system_under_test.storage.dump import DumpOptions, dump

    for each in options.files:
        if not Path(each).is_file():
            raise UsageError(f"{each}: no such file")
    paths = [str(Path(each).absolute()) for each in options.files]
    for line in dump(RealFiles(), paths, DumpOptions(options.deep_iteration, options.print_data_log)):
        print(line)
    return 0


def _failpoints(_options: argparse.Namespace) -> int:
    from system_under_test.failpoints import POINTS

    for name, meaning in sorted(POINTS.items()):
        print(f"{name:<30} {meaning}")
    return 0
