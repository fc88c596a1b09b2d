"""Plans: what is shipped loads, what is wrong is named exactly, what is dumped reads back the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.faultreference import fault_reference
from harness.plan import ClientPlan, Plan, TargetPlan
from harness.planfile import Override, PlanError, all_paths, dump, load, loads, parse_override, plan_names
from harness.planreference import plan_reference
from harness.planrules import BOUNDS

ROOT = Path(__file__).parents[2]
CHARACTERS = st.characters(codec="utf-8")
SET_BOOTSTRAP = Override("target.bootstrap", "localhost:9092", "--bootstrap localhost:9092")


@pytest.mark.parametrize("name", plan_names())
def test_every_shipped_plan_loads_and_bears_its_name(name: str) -> None:
    overrides = [SET_BOOTSTRAP] if name == "existing" else []
    assert load(name, overrides).name == name


def test_shipped_plans_are_the_promised_ones() -> None:
    assert set(plan_names()) == {"default", "smoke", "acks-one", "unclean", "existing"}
    assert load("default").time_limit_s == 90
    assert all(load(each).target.kind == "shipped" for each in plan_names() if each != "existing")
    assert load("smoke").exercise.min_acknowledged == 2000
    assert load("acks-one").clients.acks == "1"
    assert load("unclean").topic.unclean_leader_election
    assert load("unclean").faults.at_once == 2


def test_existing_needs_bootstrap_servers() -> None:
    with pytest.raises(PlanError, match=r"target\.bootstrap: an existing cluster needs its bootstrap servers"):
        load("existing")


def message(text: str, *overrides: str) -> str:
    with pytest.raises(PlanError) as caught:
        loads(text, "my.toml", [parse_override(each) for each in overrides])
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[clients]\nack = 1", "my.toml:2: unknown field 'clients.ack'; did you mean 'clients.acks'?"),
        ("[client]\nacks = 1", "my.toml:1: unknown field 'client'; did you mean 'clients'?"),
        ("acks = 1", "my.toml:1: unknown field 'acks'; did you mean 'clients.acks'?"),
        ("clients.acks = 2", "my.toml:1: clients.acks: expected one of all, 1, 0, not 2"),
        ("[clients]\nacks = 'al'", "expected one of all, 1, 0, not 'al'; did you mean 'all'?"),
        ("time_limit_s = 'long'", "time_limit_s: expected a number from 1 to 604800, not 'long'"),
        ("time_limit_s = inf", "time_limit_s: expected a number from 1 to 604800, not inf"),
        ("seed = true", "seed: expected a whole number from 0 to 9223372036854775807, not true"),
        (
            "[topic]\npartitions = 0",
            "my.toml:2: topic.partitions: expected a whole number from 1 to 10000, not 0",
        ),
        ("[clients]\npayload_bytes = 39", "clients.payload_bytes: expected a whole number from 40 to"),
        ("[clients]\nworkers = 1.5", "clients.workers: expected a whole number from 1 to 256, not 1.5"),
        ("[topic]\nunclean_leader_election = 'no'", "expected true or false, not 'no'"),
        ("clients = 3", "my.toml:1: clients: expected a table of fields, not 3"),
        ("[faults]\nkinds = ['kil']", "not 'kil'; did you mean 'kill'?"),
        ("[faults]\nkinds = [1]", "faults.kinds: expected a list of names, not [1]"),
        ("[faults]\nkinds = ['kill', 'kill']", "faults.kinds: 'kill' is given twice"),
        ("[faults]\nroles = ['leaders']", "not 'leaders'; did you mean 'leader'?"),
        ("[exercise]\nexpect = ['lost-writes']", "not 'lost-writes'; did you mean 'lost-write'?"),
        ("[exercise]\nexpect = ['G1c']", "exercise.expect: expected names out of lost-write"),
        ("[topic]\nmin_insync_replicas = 4", "my.toml:2: topic.min_insync_replicas: 4 is more than"),
        (
            "[topic]\nreplication_factor = 5",
            "my.toml:2: topic.replication_factor: 5 replicas need as many brokers",
        ),
        ("[clients]\nacks = 1", "clients.idempotence: idempotence needs acks=all"),
        ("[clients]\nmax_in_flight = 6", "at most 5 requests in flight, not 6"),
        ("[clients]\nretries = 0", "clients.retries: an idempotent producer needs retries"),
        ("[clients]\ndelivery_timeout_ms = 10", "10 is less than linger_ms + request_timeout_ms = 3001"),
        (
            "[target]\nkind = 'existing'\nbootstrap = 'a:1'",
            "faults.kinds: an existing cluster is not ours to break",
        ),
        ("[faults]\nat_once = 4", "faults.at_once: 4 faults at once need as many brokers"),
        ("[faults]\nroles = []", "faults.roles: faults need someone to hit"),
        ("a = [", "my.toml: not TOML: "),
    ],
)
def test_a_wrong_plan_is_named_exactly(text: str, expected: str) -> None:
    assert expected in message(text)


def test_everything_wrong_is_said_at_once() -> None:
    assert message("sed = 1\n[topic]\npartitions = -1").count("\n") == 1


def test_an_override_is_checked_like_a_line_of_the_file() -> None:
    assert (
        message("", "clients.ack=1") == "--set clients.ack=1: unknown field 'clients.ack'; did you mean 'clients.acks'?"
    )
    assert message("", "topic.partitions=no").startswith("--set topic.partitions=no: topic.partitions: expected")
    assert message("seed = 3", "seed.x=1") == "--set seed.x=1: unknown field 'seed.x'"


@pytest.mark.parametrize("text", ["clients.acks", "=1", "  = 1"])
def test_an_override_needs_a_field_and_a_value(text: str) -> None:
    with pytest.raises(PlanError, match="expected FIELD=VALUE"):
        parse_override(text)


def test_override_values_are_toml_or_else_text() -> None:
    assert parse_override("a.b=1").value == 1
    assert parse_override("a.b=['x']").value == ["x"]
    assert parse_override("a.b=all").value == "all"
    assert parse_override("a.b=1\nc = 2").value == "1\nc = 2"


def test_overrides_win_and_lists_may_be_typed_with_commas() -> None:
    typed = ["clients.acks=1", "clients.idempotence=false", "faults.kinds=kill,pause"]
    plan = load("smoke", [parse_override(each) for each in typed])
    assert plan.clients.acks == "1"
    assert plan.faults.kinds == ("kill", "pause")


def test_kafka_settings_keep_their_dotted_names() -> None:
    text = "[target.settings]\nlog.retention.ms = 5\n'num.io.threads' = 2\nauto.create.topics.enable = false"
    plan = loads(text, "my.toml", [parse_override("target.settings.log.roll.ms=7")])
    assert plan.target.settings == {
        "log.retention.ms": "5",
        "num.io.threads": "2",
        "auto.create.topics.enable": "false",
        "log.roll.ms": "7",
    }


def test_unknown_plan_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="did you mean 'smoke'"):
        load("smok")
    with pytest.raises(PlanError, match="neither a file nor a plan"):
        load(tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="not UTF-8 text"):
        load(path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("time_limit_s=1e300", "time_limit_s: expected a number from 1 to 604800"),
        ("faults.interval_s=0", "faults.interval_s: expected a number from 0.1"),
        ("faults.hold_s=0", "faults.hold_s: expected a number from 0.1"),
        ("clients.rate=99999999999999999999", "clients.rate: expected a whole number from 0 to"),
        ("clients.delivery_timeout_ms=9999999999", "clients.delivery_timeout_ms: expected a whole number from"),
        ("topic.name=", "topic.name: '' is no name of a topic"),
        ("topic.name=a/b c", "topic.name: 'a/b c' is no name of a topic"),
        ("target.settings.broker.id=7", "target.settings.broker.id: the harness sets this itself"),
        ("target.settings.listeners=x", "target.settings.listeners: the harness sets this itself"),
        ('target.settings.x="a\\nlog.dirs=/"', "target.settings.x: .* is no line of a properties file"),
    ],
)
def test_values_that_could_not_be_run_are_refused(override: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        load("smoke", [parse_override(override)])


@pytest.mark.parametrize(("kind", "stranger"), [("kafka", "broker-0"), ("shipped", "broker-3")])
def test_brokers_are_numbered_as_their_target_does(kind: str, stranger: str) -> None:
    for number in range(4):
        overrides = [
            parse_override(f"target.kind={kind}"),
            parse_override(f"faults.roles=broker-{number}"),
        ]
        if f"broker-{number}" != stranger:
            load("smoke", overrides)
            continue
        with pytest.raises(PlanError, match=f"'{stranger}' does not exist; brokers are broker-"):
            load("smoke", overrides)


@pytest.mark.parametrize("kind", ["kafka", "shipped"])
def test_replicas_need_brokers_of_any_managed_target(kind: str) -> None:
    overrides = [parse_override(f"target.kind={kind}"), parse_override("topic.replication_factor=5")]
    with pytest.raises(PlanError, match="5 replicas need as many brokers, not 3"):
        load("smoke", overrides)


@pytest.mark.parametrize("servers", ["nonsense", "h:0", "h:99999", "h:1,,g:2", "http://h:1", "h:x", " ", "h:1 g:2"])
def test_bootstrap_servers_are_host_and_port(servers: str) -> None:
    with pytest.raises(PlanError, match=r"target\.bootstrap: expected HOST:PORT,HOST:PORT"):
        load("existing", [Override("target.bootstrap", servers, f"--bootstrap {servers}")])


@pytest.mark.parametrize("servers", ["h:1", "h.example.org:9092, g:9093", "127.0.0.1:9092", "[::1]:9092"])
def test_bootstrap_servers_in_all_their_forms(servers: str) -> None:
    assert load("existing", [Override("target.bootstrap", servers, "")]).target.bootstrap == servers


def test_a_plan_from_a_file_is_named_after_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("seed = 7")
    assert load(path) == replace(Plan(), name="mine", seed=7)


def test_every_number_has_bounds() -> None:
    plan = load("default")
    for path in all_paths():
        value: object = plan
        for name in path.split("."):
            value = getattr(value, name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert path in BOUNDS


@pytest.mark.parametrize("name", plan_names())
def test_dump_reads_back_the_same(name: str) -> None:
    plan = load(name, [SET_BOOTSTRAP] if name == "existing" else [])
    assert loads(dump(plan), "dump") == plan


@given(
    name=st.text(CHARACTERS),
    seed=st.integers(0, 2**63 - 1),
    limit=st.floats(1, 604_800),
    settings=st.dictionaries(st.text("aä.'\"\\", min_size=1), st.text("a'\"\\ =ü")),
    retries=st.integers(1, 2**31 - 1),
)
def test_any_plan_survives_its_dump(name: str, seed: int, limit: float, settings: dict[str, str], retries: int) -> None:
    plan = Plan(
        name=name,
        seed=seed,
        time_limit_s=limit,
        target=TargetPlan(settings=settings),
        clients=ClientPlan(retries=retries),
    )
    assert loads(dump(plan), "dump") == plan


def test_the_reference_of_faults_is_up_to_date() -> None:
    page = ROOT / "docs" / "reference" / "faults.md"
    assert page.read_text() == fault_reference(), "run: python -m harness.faultreference > docs/reference/faults.md"


def test_the_reference_is_up_to_date() -> None:
    page = ROOT / "docs" / "reference" / "plan.md"
    assert page.read_text() == plan_reference(), "run: python -m harness.planreference > docs/reference/plan.md"


def test_the_reference_documents_every_field() -> None:
    rows = plan_reference()
    for path in all_paths():
        assert f"| `{path.rpartition('.')[2]}` |" in rows
